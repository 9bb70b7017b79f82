"""Privacy and method.

What was not counted, what a release costs, what is promised and what is not; the rule that shares
the budget, what is measured, and the words for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from sqlmadp.mechanism import MECHANISMS
from sqlmadp.show import MOST_NAMED
from sqlmadp.show.report.charts import budget_chart
from sqlmadp.show.report.content import Content
from sqlmadp.show.report.markup import (
    Cell,
    Markup,
    Row,
    element,
    listed,
    section,
    sentence,
    table,
)

EPSILON = (
    "Epsilon measures how much the answers may give away about one person: the smaller, the less."
)
EXACT = "that the answers are exact: each carries random noise, whose size is stated with it"
ONE_RECORD = (
    "full protection for a person with several records: this release protects one record at a time"
)
NOT_PROMISED = (
    "anything about how long the program runs or how much memory it takes",
    "that the questions, the declared values and this plan are secret: they are public",
    "anything, if the curator looked at the table to declare its values, changed the ledger, or "
    "charged the same people to two ledgers",
)


def not_counted(content: Content) -> Markup:
    """Return a box that says which records and statements answers do not include."""
    title = "What was not counted" if content.made else "What will not be counted"
    points = [sentence(words) for words in content.left_out]
    if content.undeclared:
        points.append(_undeclared(content))
    if content.certificate.skipped:
        refused = ", ".join(map(str, content.certificate.skipped))
        points.append(f"Statements that were refused and left out, charged to nobody: {refused}.")
    if not points:
        points.append("Nothing: every record is counted.")
    return element("aside", element("h3", title), listed(points), class_="box")


def _undeclared(content: Content) -> str:
    where = ""
    if any("promises" in words for words in content.left_out):  # Some columns are complete.
        where = " in another column"
    if len(content.undeclared) <= MOST_NAMED:
        where = f" in {', '.join(map(repr, content.undeclared))}"
    return (
        f"A value{where} that the schema does not declare is read as NULL: COUNT(*) counts the "
        "record, but conditions, groups, sums and averages that use the column do not."
    )


def privacy(content: Content) -> Markup:
    """Return the cost, the promise with its limits, and how to check them."""
    cost = "What it cost" if content.released else "What it would cost"
    parts = [
        element("h3", cost),
        element("p", f"{_charged(content)} {EPSILON}"),
        element(
            "figure",
            element("figcaption", f"The budget of {content.budget}"),
            budget_chart(content),
            _budget_key(content),
        ),
        *([_charges(content)] if content.charges and content.reader is None else []),
        element("h3", "What is promised to the people in the table"),
        element("p", _promise(content)),
        element("h3", "What is not promised"),
        listed(_not_promised(content)),
    ]
    if content.released is not None:
        parts += [element("h3", "How to check this"), _evidence(content)]
    return section("privacy", "Privacy", *parts)


def _budget_key(content: Content) -> Markup:
    this = content.released.epsilon if content.released else content.charge
    before = content.spent - (this if content.released else 0)
    words = [("spent", "spent before", before), ("this", "this release", this)]
    left = content.budget - before - this
    items = [element("span", element("i", class_=k), f"{w} {e}") for k, w, e in words if e]
    return element("p", *items, element("span", f"left {max(left, Fraction(0))}"), class_="key")


def _charged(content: Content) -> str:
    release = content.released
    if release is not None:
        return (
            f"The release of {moment(release.time)} spent epsilon {release.epsilon}. Of the whole "
            f"budget of {content.budget}, {content.spent} is spent and {content.left} is left; "
            "once the budget is used up, nothing more can be released about this table."
        )
    if content.charge > content.left:
        return (
            f"The release would spend epsilon {content.charge}, but only {content.left} of the "
            f"budget of {content.budget} is left, so it will be refused."
        )
    return (
        f"The release would spend epsilon {content.charge}. Of the whole budget of "
        f"{content.budget}, {content.spent} is spent so far, and {content.left - content.charge} "
        "would be left. Nothing has been spent for this preview, and no record was read."
    )


def _charges(content: Content) -> Markup:
    rows: list[Row] = [
        [
            Cell(charge.time, moment(charge.time)),
            Cell(charge.epsilon, str(charge.epsilon)),
            ", ".join(charge.analysts),
            "this one" if charge == content.released else "",
        ]
        for charge in content.charges
    ]
    headings = ("time", "epsilon", "analysts", "release")
    return table("Charges to the budget", headings, rows, file="charges")


def _promise(content: Content) -> str:
    return (
        "Noise is added to everything that is measured, so that whatever can be learnt from the "
        "answers could have been learnt almost as well without any one person's data. Exactly: "
        f"{content.protection} changes the probability of any outcome by at most the factor "
        f"{_factor(content.epsilon)} (that is e to the power epsilon), for all answers of this "
        "release together, even if all analysts put theirs side by side; over everything that the "
        f"budget can ever pay for, by at most {_factor(content.budget)}."
    )


def _not_promised(content: Content) -> Iterator[str]:
    yield EXACT
    if content.left_out:
        yield (
            f"that all records are counted: {'; '.join(content.left_out)}. So counts can be lower "
            "than in the table; ± does not include this"
        )
    if not content.units:
        yield ONE_RECORD
    yield from NOT_PROMISED


def _evidence(content: Content) -> Markup:
    return element(
        "p",
        "The release is ",
        element("code", content.release_id),
        ", a hash of everything that was asked. The ledger that it is charged to ends with ",
        element("code", content.head or ""),
        "; ",
        element("code", "sqlmadp ledger verify"),
        " checks the ledger and prints that line again.",
    )


def moment(time: str) -> str:
    """Return a time of the ledger for people."""
    return time.replace("T", " ")[:16] + " UTC"


def _factor(epsilon: Fraction) -> str:
    return f"{math.exp(float(epsilon)):.3g}" if epsilon < 700 else "e^" + str(epsilon)


WORDS = (
    ("Share", "an analyst's part of epsilon. Shares add up to 1."),
    ("±", "one standard error of the noise: about seven of ten answers are within it."),
    ("Mechanism", "the rule that decides what is measured for everybody, without any data."),
    (
        "Cell",
        "one combination of declared values of all columns, of which this table has {cells}. Every "
        "statement is made of sums over cells.",
    ),
)


def method(content: Content) -> Markup:
    """Return how the answers come about."""
    name = content.mechanism.replace("_", " ")
    asked = len(content.statements)
    who = "The analysts" if content.reader is None else content.reader
    verb = "ask" if content.reader is None else "asks"
    parts = [
        element(
            "p",
            f"{who} {verb} {_count(asked, 'statement')} in SQL. What is measured is not these "
            "statements themselves, but a set of counts and sums that answers all of them "
            "best. Noise is added once, to these, and every row is worked out from them. "
            f"Under {name}, {MECHANISMS[content.mechanism].rule}.",
        )
    ]
    if content.measured:
        parts.append(_measured(content))
    cells = f"{content.cells:,}"
    terms = [
        element("div", element("dt", term), element("dd", words.format(cells=cells)))
        for term, words in WORDS
    ]
    parts += [element("h3", "Words"), element("dl", *terms, class_="words")]
    return section("method", "How it works", *parts)


def _measured(content: Content) -> Markup:
    curator = content.reader is None
    headings = ["measured by", "numbers", "part of epsilon", *(["serves"] if curator else [])]
    rows: list[Row] = [
        [
            each.name,
            Cell(each.numbers, f"{each.numbers:,}"),
            Cell(each.part, f"{each.part:.1%}" if each.part >= 0.001 else "< 0.1%"),
            *([", ".join(each.serves) or "nobody's statements directly"] if curator else []),
        ]
        for each in content.measured
    ]
    name = "What is measured, by combination of columns"
    if not curator:
        name += ": those within your statements"
    return table(name, headings, rows, file="measured")


def _count(many: int, noun: str) -> str:
    return f"{many:,} {noun}{'s' * (many != 1)}"

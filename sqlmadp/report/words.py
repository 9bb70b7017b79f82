"""Words: the certificate of a release as text that a lawyer can read.

It says what was asked, what it costs, what is promised to the people in the table, who gets what,
why that is fair, and what is not promised.  Every number in it comes from the content.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from sqlmadp.answer.result import number
from sqlmadp.report.charts import WORSE
from sqlmadp.report.content import Content, Member
from sqlmadp.report.markup import Markup, element

RULES = {
    "waterfilling": (
        "each analyst's share is spent on the questions that this analyst would choose alone, and "
        "equal questions are measured once, with everybody's shares added up"
    ),
    "independent": "each analyst's share is spent for that analyst alone, and nothing is pooled",
    "identity": "every combination of declared values is counted, whatever was asked",
    "utilitarian": "the questions are chosen so that everybody's errors together are least",
    "weighted_utilitarian": (
        "the questions are chosen so that everybody's errors together are least, each counted in "
        "units of what the analyst would have alone"
    ),
    "pareto": (
        "of all choices that leave nobody worse off than pouring equal questions together would, "
        "the one with the least error of all is taken"
    ),
    "ratchet": (
        "the analysts join one after the other, and each time the least error of all is sought "
        "that leaves nobody worse off than before"
    ),
}
"""What each mechanism does, after 'Under this rule'."""

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


def certificate(content: Content) -> Iterator[Markup]:
    """Yield the sections of the certificate."""
    yield _section("What was asked", _asked(content))
    yield _section("What it costs" if content.released else "What it would cost", _cost(content))
    yield _section("What is promised to the people in the table", _promise(content))
    yield _section("Who gets what", *(_standing(content, member) for member in content.members))
    yield _section("Why that is fair", *_fairness(content))
    listed = element("ul", *(element("li", words) for words in _not_promised(content)))
    yield _section("What is not promised", element("div", listed))
    if content.released is not None:
        yield _section("How to check this", _evidence(content))


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


def _section(title: str, *paragraphs: str) -> Markup:
    made = (p if isinstance(p, Markup) else element("p", p) for p in paragraphs)
    return element("section", element("h3", title), *made)


def _asked(content: Content) -> str:
    questions = sum(len(member.questions) for member in content.members)
    if content.reader is not None:
        (member,) = content.members
        return (
            f"{member.name} asks {_count(questions, 'question')} about the table "
            f"“{content.table}”, written in SQL, and holds the share {member.share} of the budget. "
            f"{_count(content.analysts, 'analyst')} in all take part. {_declared(content)}"
        )
    shares = ", ".join(f"{member.name} ({member.share})" for member in content.members)
    return (
        f"{_count(content.analysts, 'analyst')} ask {_count(questions, 'question')} about the "
        f"table “{content.table}”, written in SQL. Each holds a share of one privacy budget: "
        f"{shares}. {_declared(content)}"
    )


def _declared(content: Content) -> str:
    return (
        "The values that the table may hold were declared beforehand; they can be combined in "
        f"{content.cells:,} ways, called cells."
    )


EPSILON = (
    "Epsilon measures how much the answers may give away about one person: the smaller, the less."
)


def _cost(content: Content) -> str:
    return f"{_charged(content)} {EPSILON}"


def _charged(content: Content) -> str:
    release = content.released
    if release is not None:
        return (
            f"The release of {_day(release.time)} spent epsilon {release.epsilon}. Of the whole "
            f"budget of {content.budget}, {content.spent} is spent and "
            f"{content.budget - content.spent} is left; once the budget is used up, nothing more "
            "can be released about this table."
        )
    left = content.budget - content.spent
    if content.charge > left:
        return (
            f"The release would spend epsilon {content.charge}, but only {left} of the budget of "
            f"{content.budget} is left, so it will be refused."
        )
    return (
        f"The release would spend epsilon {content.charge}. Of the whole budget of "
        f"{content.budget}, {content.spent} is spent so far, and {left - content.charge} would be "
        "left. Nothing has been spent for this preview, and no record was read."
    )


def _promise(content: Content) -> str:
    return (
        "Noise is added to everything that is measured, so that whatever can be learnt from the "
        "answers could have been learnt almost as well without any one person's data. Exactly: "
        f"{content.protection} changes the probability of any outcome by at most the factor "
        f"{_factor(content.epsilon)} (that is e to the power epsilon), for all answers of this "
        "release together, even if all analysts put theirs side by side; over everything that the "
        f"budget can ever pay for, by at most {_factor(content.budget)}."
    )


def _standing(content: Content, member: Member) -> str:
    found = member.standings[content.mechanism]
    verdict = "worse off" if found.ratio > WORSE else "better off"
    if math.isclose(found.ratio, 1, rel_tol=1e-9):
        verdict = "as well off"
    return (
        f"A typical answer to {member.name} is expected to be off by about "
        f"{number(found.together)}; with the share of {member.share} and nobody else, it would "
        f"be off by about {number(found.alone)}. {member.name} is {verdict} together with the "
        "others" + (" as alone." if verdict == "as well off" else " than alone.")
    )


def _fairness(content: Content) -> Iterator[str]:
    rule = content.mechanism.replace("_", " ")
    yield f"Under the rule (mechanism) “{rule}”, {RULES[content.mechanism]}."
    standings = {member.name: member.standings[content.mechanism] for member in content.members}
    nobody = "Nobody does" if content.reader is None else f"{content.reader} does not do"
    worse = [name for name, each in standings.items() if each.ratio > WORSE]
    largest = max(each.ratio for each in standings.values())
    if worse:
        yield f"Violated: {_listed(worse)} would do better alone with their share."
    else:
        yield (
            f"{nobody} worse than alone with their own share (sharing incentive): the largest "
            f"ratio of squared errors, together to alone, is {largest:.3f}, and 1 is allowed."
        )
    harmed = [name for name, each in standings.items() if each.interference > WORSE]
    most = max(each.interference for each in standings.values())
    if harmed:
        yield f"Violated: somebody's presence makes the answers to {_listed(harmed)} worse."
    elif content.analysts > 1:
        yield (
            f"{nobody} worse because somebody else joined (non-interference): the largest "
            f"ratio of squared errors, with to without the other, is {most:.3f}, and 1 is allowed."
        )
    yield f"What {content.promised}."


def _evidence(content: Content) -> Markup:
    return element(
        "p",
        "The release is ",
        element("code", content.release or ""),
        ", a hash of everything that was asked. The ledger that it is charged to ends with ",
        element("code", content.head or ""),
        "; ",
        element("code", "sqlmadp ledger verify"),
        " checks the ledger and prints that line again.",
    )


def _factor(epsilon: Fraction) -> str:
    return f"{math.exp(float(epsilon)):.3g}" if epsilon < 700 else "e^" + str(epsilon)


def _count(many: int, noun: str) -> str:
    words = {1: "One", 2: "Two", 3: "Three", 4: "Four", 5: "Five", 6: "Six"}
    shown = words.get(many, f"{many:,}") if noun == "analyst" else f"{many:,}"
    return f"{shown} {noun}{'s' * (many != 1)}"


def _day(time: str) -> str:
    return time.replace("T", " at ")[:19] + " UTC"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

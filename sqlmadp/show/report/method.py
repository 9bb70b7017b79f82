"""How it works: the rule that shares the budget, what is measured, and the words for it."""

from __future__ import annotations

from sqlmadp.mechanism import MECHANISMS
from sqlmadp.show.report.content import Content
from sqlmadp.show.report.markup import Markup, element, section
from sqlmadp.show.report.tables import Cell, Heading, table

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
            "statements as they stand, but a set of counts and sums that answers all of them "
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
    headings = [
        Heading("measured by"),
        Heading("numbers", right=True),
        Heading("part of epsilon", right=True),
        *([Heading("serves")] if curator else []),
    ]
    rows = []
    for each in content.measured:
        serves = ", ".join(each.serves) or "nobody's statements directly"
        rows.append(
            [
                Cell(each.name, each.name),
                Cell(each.numbers, f"{each.numbers:,}"),
                Cell(each.part, f"{each.part:.1%}" if each.part >= 0.001 else "< 0.1%"),
                *([Cell(serves, serves)] if curator else []),
            ]
        )
    name = "What is measured, by combination of columns"
    if not curator:
        name += ": those within your statements"
    return table(name, headings, rows, file="measured")


def _count(many: int, noun: str) -> str:
    return f"{many:,} {noun}{'s' * (many != 1)}"

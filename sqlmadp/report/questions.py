"""The questions by analyst: statement, expected error, and the rows once they are released."""

from __future__ import annotations

from sqlmadp.answer.result import number
from sqlmadp.report.content import Content, Member, Question
from sqlmadp.report.frames import section
from sqlmadp.report.markup import Markup, element
from sqlmadp.report.rows import shown_rows

KEY = (
    "A thin line on a bar, and the range below a number, are 95% intervals for the count of the "
    "records that were included."
)


def questions(content: Content) -> Markup:
    """Return everybody's questions, with a choice of the analyst if there are several."""
    many = len(content.members) > 1
    parts = [
        element(
            "article",
            element("h3", f"{member.name}"),
            *(_question(member, question) for question in member.questions),
            data_analyst=str(number_),
            class_="analyst",
        )
        for number_, member in enumerate(content.members)
    ]
    title = "Questions and answers" if content.released else "Questions"
    key = [element("p", f"{content.error_meaning} {KEY}")] if content.released else []
    return section("questions", title, *key, *([_filter(content)] if many else []), *parts)


def _filter(content: Content) -> Markup:
    """Return the choice of an analyst; the script shows it, since it does nothing without."""
    choices = [("all", "everybody"), *((str(n), m.name) for n, m in enumerate(content.members))]
    labels = (
        element(
            "label",
            element("input", type="radio", name="analyst", value=value, checked=value == "all"),
            element("span", name),
        )
        for value, name in choices
    )
    return element("fieldset", element("legend", "Show"), *labels, id="filter", hidden=True)


def _question(member: Member, question: Question) -> Markup:
    groups = f"{question.groups:,} group{'s' * (question.groups != 1)}"
    off = f"is expected to be off by {number(question.rmse)}"
    expected = f"{groups}; a typical count or sum that it is made of {off}"
    sql = element(
        "details",
        element("summary", "SQL"),
        element("pre", element("code", question.sql.strip())),
    )
    shown = [] if question.result is None else [shown_rows(question.name, question.result)]
    notes = [] if question.result is None else [*question.result.notes]
    if question.failure:
        notes.append(f"This statement has no rows: {question.failure}. Nothing is lost.")
    shown += [element("p", note, class_="note") for note in notes]
    return element(
        "section",
        element("h4", question.name),
        element("p", expected, class_="expected"),
        sql,
        *shown,
        class_="question",
    )

"""What epsilon is spent on: the measured questions, from whose share, and the budget over time."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmadp.report.buckets import pools
from sqlmadp.report.charts import buckets_chart, budget_chart, fills, pools_chart
from sqlmadp.report.content import Content
from sqlmadp.report.drawing import legend
from sqlmadp.report.frames import scrolling, section
from sqlmadp.report.markup import Markup, element

MOST_BUCKETS = 40
"""Measured questions up to which each is drawn as a bucket."""


def measured(content: Content) -> Iterator[Markup]:
    """Yield what is measured, if that can be drawn."""
    if not content.buckets:
        return
    kinds = fills(content)
    who = dict.fromkeys(name for bucket in content.buckets for name in bucket.parts)
    others = "other analysts" if content.reader is not None else "chosen for all"
    key = legend([(kinds[name], name or others) for name in who])
    figures = [
        element(
            "figure",
            element("figcaption", "Parts of epsilon, by the columns that questions are about"),
            pools_chart(pools(content.buckets), kinds),
        )
    ]
    if len(content.buckets) <= MOST_BUCKETS:
        figures.append(
            element(
                "figure",
                element("figcaption", "Every measured question as a bucket"),
                buckets_chart(content.buckets, kinds),
            )
        )
    words = (
        "What is measured is not the questions as they were asked, but questions that answer them "
        "best. Equal ones are poured into one bucket: it is measured once, with the parts of all "
        "who need it added up, and everybody reads it."
    )
    if None in who and content.reader is None:
        words = (
            "What is measured is not the questions as they were asked, but questions that answer "
            "them best. Under this rule most of them are chosen for all analysts together; where "
            "one is what an analyst would have measured alone, that analyst's fill shows it."
        )
    yield section(
        "measured",
        "What is measured, and from whose share",
        element("p", words),
        key,
        element("div", *figures, class_="charts"),
    )


def budget(content: Content) -> Markup:
    """Return the budget with every charge against it."""
    left = content.budget - content.spent
    words = (
        f"The ledger may spend {content.budget} in all. "
        f"It has spent {content.spent} and has {left} left."
    )
    figure = element(
        "figure",
        element("figcaption", "Every charge, from the start of the budget to its end"),
        budget_chart(content),
    )
    parts = [element("p", words), element("div", figure, class_="charts")]
    if content.charges and content.reader is None:
        parts.append(_charges(content))
    return section("budget", "Budget over time", *parts)


def _charges(content: Content) -> Markup:
    rows = [
        element(
            "tr",
            element("td", charge.time.replace("T", " ")),
            element("td", str(charge.epsilon), class_="right"),
            element("td", ", ".join(charge.analysts)),
            element("td", "this release" if charge.this else ""),
        )
        for charge in content.charges
    ]
    titles = (("time", None), ("epsilon", "right"), ("analysts", None), ("", None))
    head = (element("th", title, scope="col", class_=kind) for title, kind in titles)
    table = element(
        "table",
        element("caption", "Charges"),
        element("thead", element("tr", *head)),
        element("tbody", *rows),
    )
    return scrolling(table, "Charges")

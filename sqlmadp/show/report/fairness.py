"""Fairness: the verdict, what each analyst gets, and who helps or harms whom.

Ratios are of squared errors: together to alone, and with to without one other analyst.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from sqlmadp.answer.result import number
from sqlmadp.release.certificate import TINY
from sqlmadp.show.report.charts import gains_chart
from sqlmadp.show.report.content import Content
from sqlmadp.show.report.markup import Cell, Markup, Row, element, section, sentence, table

TERMS = {
    "sharing incentive": "nobody does worse than alone with their share",
    "non-interference": "nobody does worse because somebody else takes part",
}
"""What the fairness guarantees mean."""

Changes = Mapping[str, Mapping[str, float | None]]
"""[joining][other]: the ratio by which an analyst changes another's error."""


def verdict(content: Content) -> Markup:
    """Return the outcome in one sentence, to be seen at a glance."""
    found = content.certificate
    words = found.verdict if content.reader is None else _own_verdict(content, content.reader)
    parts = [element("p", sentence(words), class_="verdict")]
    parts += [element("p", sentence(words)) for words in found.one_by_one]
    return section("verdict", "Verdict", *parts)


def _own_verdict(content: Content, reader: str) -> str:
    """Say in one sentence what an analyst gains, in errors as they are stated."""
    ratio = content.certificate.analysts[reader].ratio
    alone = "alone with the same share"
    if ratio > 1 + TINY:
        return f"taking part makes the answers to {reader} less accurate than {alone}"
    times = f"{math.sqrt(1 / ratio):.2g}" if ratio else "1"
    if times == "1":
        return f"taking part leaves the answers to {reader} as accurate as {alone}"
    return f"taking part makes the answers to {reader} {times} times as accurate as {alone}"


def fairness(content: Content) -> Markup:
    """Return who gets what, and what that is compared with."""
    parts = [
        element("p", words)
        for words in (
            "Every analyst could have asked alone, with noise for their share of the budget. The "
            "ratio compares the expected squared error in this release with that: below 1 it is "
            "better to take part, above 1 it is a harm. Interference is the same ratio, with one "
            "other analyst to without: the largest is shown, once with the mechanism run again "
            "from scratch, and once with those who are left keeping to what everyone agreed on.",
            _guarantee(content),
        )
    ]
    found = content.certificate
    rerun, kept = _changes(content, "interference"), _changes(content, "within_agreement")
    if len(found.analysts) > 1:
        caption = element("figcaption", "Squared error together, in parts of that alone")
        parts.append(element("figure", caption, gains_chart(content)))
    parts.append(_standings(content))
    if len(found.analysts) > 1:
        parts += [
            element("h3", "Who helps and who harms whom"),
            element(
                "p",
                "Read a row: what that analyst's taking part does to everybody else's squared "
                "error. Below 1 the others gain, at 1 nothing changes, above 1 (marked !) they "
                "are harmed.",
            ),
            _matrix(rerun, "Squared error with the row's analyst to that without", "interference"),
        ]
        if kept != rerun:
            parts.append(_matrix(kept, "The same within the agreement", "within agreement"))
    if found.joins:
        parts += [element("h3", "Who joined when"), _joins(content)]
    if len(content.certificates) > 1 or content.unsupported:
        parts += [
            element("h3", "Other mechanisms"),
            element(
                "p",
                "What other rules for sharing the budget would give: everybody's squared error "
                "together, relative to this plan's, and each analyst's ratio to alone under that "
                "rule.",
            ),
            _comparison(content),
            *(element("p", f"{_plain(n)}: {why}") for n, why in content.unsupported.items()),
        ]
    return section("fairness", "Fairness", *parts)


def _guarantee(content: Content) -> str:
    words = content.certificate.promise
    for term, meaning in TERMS.items():
        words = words.replace(term, f"{meaning} ({term})", 1)
    return sentence(words)


def _standings(content: Content) -> Markup:
    headings = (
        "analyst",
        "share",
        "alone",
        "together",
        "ratio",
        "interference",
        "within agreement",
    )
    rows: list[Row] = [
        [
            name,
            Cell(each.share, str(each.share)),
            Cell(each.alone, number(each.alone)),
            Cell(each.now, number(each.now)),
            _ratio(each.ratio),
            _ratio(max(each.interference.values(), default=1.0)),
            _ratio(max(each.within_agreement.values(), default=1.0)),
        ]
        for name, each in content.certificate.analysts.items()
    ]
    unit = "; 1 is every statement asked one by one" if content.certificate.relative else ""
    name = f"Expected squared errors under {_plain(content.mechanism)}{unit}"
    return table(name, headings, rows, file="fairness")


def _changes(content: Content, kind: Literal["interference", "within_agreement"]) -> Changes:
    """Return by what ratio each analyst changes the errors of the others."""
    caused: dict[str, Mapping[str, float]] = {
        name: getattr(each, kind) for name, each in content.certificate.analysts.items()
    }
    return {joining: {name: by.get(joining) for name, by in caused.items()} for joining in caused}


def _matrix(changes: Changes, name: str, file: str) -> Markup:
    rows: list[Row] = [
        [joining, *map(_shaded, others.values())] for joining, others in changes.items()
    ]
    return table(name, ["joining", *changes], rows, file=file, kind="heat influence")


def _joins(content: Content) -> Markup:
    names = list(content.certificate.analysts)
    rows: list[Row] = []
    for join in content.certificate.joins:
        errors = (join.errors.get(name) for name in names)
        shown = (Cell(error, "" if error is None else number(error)) for error in errors)
        rows.append([", ".join(join.analysts), Cell(join.epsilon, str(join.epsilon)), *shown])
    headings = ["joining", "epsilon", *names]
    return table("Everybody's expected error after each join", headings, rows, file="joins")


def _comparison(content: Content) -> Markup:
    headings = ["mechanism", "all together", *content.certificate.analysts, "interference"]
    rows = []
    for mechanism, each in content.certificates.items():
        relative = each.total / content.certificate.total if each.total else 1.0
        mark = " (this plan)" if mechanism == content.mechanism else ""
        rows.append(
            [
                Cell(mechanism, _plain(mechanism) + mark),
                Cell(relative, f"{relative:.2f}"),
                *(_ratio(standing.ratio) for standing in each.analysts.values()),
                _ratio(each.worst_interference),
            ]
        )
    return table("Mechanisms compared", headings, rows, file="mechanisms")


def _ratio(ratio: float) -> Cell:
    harm = ratio > 1 + TINY
    return Cell(ratio, f"{ratio:.3f}{' !' if harm else ''}", "harm" if harm else None)


def _shaded(ratio: float | None) -> Cell:
    if ratio is None:
        return Cell(None, "·", "self")
    part = min(abs(ratio - 1) * 1.6, 1.0)
    cell = _ratio(ratio)
    return Cell(cell.value, cell.shown, cell.kind, shade=part)


def _plain(mechanism: str) -> str:
    return mechanism.replace("_", " ")

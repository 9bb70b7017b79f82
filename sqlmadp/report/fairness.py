"""Fairness: the verdict, what each analyst gets, and who helps or harms whom.

Ratios are of squared errors: together to alone, and with to without one other analyst.
"""

from __future__ import annotations

import math

from sqlmadp.answer.result import number
from sqlmadp.report.charts import WORSE, gains_chart
from sqlmadp.report.content import Content, Standing
from sqlmadp.report.markup import Markup, element, section
from sqlmadp.report.tables import Cell, Heading, table

TERMS = {
    "sharing incentive": "nobody does worse than alone with their share",
    "non-interference": "nobody does worse because somebody else takes part",
}
"""What the fairness guarantees mean."""

BEST = 1.005
"""Take an error of at most this many times the least known for that one."""


def verdict(content: Content) -> str:
    """Return the outcome in one sentence."""
    own = {member.name: member.standings[content.mechanism] for member in content.members}
    worse = [name for name, standing in own.items() if standing.ratio > WORSE]
    if worse:
        verb = "is" if len(worse) == 1 else "are"
        first = f"{_listed(worse)} {verb} worse off together than alone"
    elif content.reader is not None:
        first = f"{content.reader} is {_gain(own[content.reader])}"
    else:
        first = "Nobody is worse off than alone"
    if content.to_utilitarian is None:
        return f"{first}."
    if content.to_utilitarian <= BEST:
        return f"{first}; the expected error of the whole is the least known."
    best = "the best found without regard to fairness" if worse else "the best found without that"
    rest = best if worse else f"{best} guarantee"
    return f"{first}; the expected error of the whole is {content.to_utilitarian:.2g} times {rest}."


def verdict_section(content: Content) -> Markup:
    """Return the verdict, to be seen at a glance."""
    return section("verdict", "Verdict", element("p", verdict(content), class_="verdict"))


def fairness(content: Content) -> Markup:
    """Return who gets what, and what that is compared with."""
    parts = [
        element("p", words)
        for words in (
            "Every analyst could have asked alone, with noise for their share of the budget. The "
            "ratio compares the expected squared error in this release with that: below 1 it is "
            "better to take part, above 1 it is a harm.",
            _guarantee(content),
        )
    ]
    if len(content.members) > 1:
        caption = element("figcaption", "Squared error together, in parts of that alone")
        parts.append(element("figure", caption, gains_chart(content)))
    parts.append(_standings(content))
    if len(content.interference) > 1:
        parts += [
            element("h3", "Who helps and who harms whom"),
            element(
                "p",
                "Read a row: what taking part of that analyst does to everybody else's squared "
                "error. Below 1 the others gain, at 1 nothing changes, above 1 (marked !) they "
                "are harmed.",
            ),
            _interference(content),
        ]
    if len(content.totals) > 1 or content.unsupported:
        parts += [
            element("h3", "Other mechanisms"),
            element(
                "p",
                "What other rules for sharing the budget would give: everybody's squared error "
                "together, relative to this plan's, and each analyst's ratio to alone.",
            ),
            _comparison(content),
            *(element("p", f"{_plain(n)}: {why}") for n, why in content.unsupported.items()),
        ]
    return section("fairness", "Fairness", *parts)


def _guarantee(content: Content) -> str:
    words = content.promised.replace("holds always:", "guaranteed:")
    for term, meaning in TERMS.items():
        words = words.replace(term, f"{meaning} ({term})", 1)
    return f"{words[:1].upper()}{words[1:]}."


def _gain(standing: Standing) -> str:
    """Say how much better an analyst does together, in errors as they are stated."""
    if math.isclose(standing.ratio, 1, rel_tol=1e-3):
        return "as well off together with the others as alone"
    if standing.ratio == 0:
        return "better off together than alone"
    times = math.sqrt(1 / standing.ratio)
    return f"better off than alone: answers are {times:.2g} times as accurate"


def _standings(content: Content) -> Markup:
    titles = ("share", "alone", "together", "ratio", "largest interference")
    headings = [Heading("analyst"), *(Heading(title, right=True) for title in titles)]
    rows = []
    for member in content.members:
        found = member.standings[content.mechanism]
        rows.append(
            [
                Cell(member.name, member.name),
                Cell(member.share, str(member.share)),
                Cell(found.alone, number(found.alone)),
                Cell(found.together, number(found.together)),
                _ratio(found.ratio),
                _ratio(found.interference),
            ]
        )
    name = f"Expected squared errors under {_plain(content.mechanism)}"
    return table(name, headings, rows, file="fairness")


def _interference(content: Content) -> Markup:
    names = list(content.interference)
    headings = [Heading("joining"), *(Heading(name, right=True) for name in names)]
    rows = [
        [
            Cell(joining, joining),
            *(_shaded(content.interference[joining].get(other)) for other in names),
        ]
        for joining in names
    ]
    name = "Squared error with the row's analyst, divided by that without"
    return table(name, headings, rows, file="interference", kind="heat influence")


def _comparison(content: Content) -> Markup:
    names = [member.name for member in content.members]
    titles = ("all together", *names, "largest interference")
    headings = [Heading("mechanism"), *(Heading(title, right=True) for title in titles)]
    rows = []
    for mechanism, total in content.totals.items():
        relative = total / content.totals[content.mechanism] if total else 1.0
        own = [member.standings[mechanism] for member in content.members]
        mark = " (this plan)" if mechanism == content.mechanism else ""
        rows.append(
            [
                Cell(mechanism, _plain(mechanism) + mark),
                Cell(relative, f"{relative:.2f}"),
                *(_ratio(standing.ratio) for standing in own),
                _ratio(max(standing.interference for standing in own)),
            ]
        )
    return table("Mechanisms compared", headings, rows, file="mechanisms")


def _ratio(ratio: float) -> Cell:
    harm = ratio > WORSE
    return Cell(ratio, f"{ratio:.3f}{' !' if harm else ''}", "harm" if harm else None)


def _shaded(ratio: float | None) -> Cell:
    if ratio is None:
        return Cell(None, "·", "self")
    part = min(abs(ratio - 1) * 1.6, 1.0)
    cell = _ratio(ratio)
    return Cell(cell.value, cell.shown, cell.kind, shade=part)


def _plain(mechanism: str) -> str:
    return mechanism.replace("_", " ")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

"""Fairness: the verdict, what each analyst gets, and who helps or harms whom.

Ratios are of squared errors: together to alone, and with to without one other analyst.
"""

from __future__ import annotations

from sqlmadp.answer.result import number
from sqlmadp.report.charts import WORSE, gains_chart
from sqlmadp.report.content import Content, Interference
from sqlmadp.report.markup import Markup, element, section, sentence
from sqlmadp.report.tables import Cell, Heading, table

TERMS = {
    "sharing incentive": "nobody does worse than alone with their share",
    "non-interference": "nobody does worse because somebody else takes part",
}
"""What the fairness guarantees mean."""


def verdict(content: Content) -> Markup:
    """Return the outcome in one sentence, to be seen at a glance."""
    parts = [element("p", sentence(content.verdict), class_="verdict")]
    parts += [element("p", sentence(words)) for words in content.one_by_one]
    return section("verdict", "Verdict", *parts)


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
    if len(content.members) > 1:
        caption = element("figcaption", "Squared error together, in parts of that alone")
        parts.append(element("figure", caption, gains_chart(content)))
    parts.append(_standings(content))
    if len(content.interference) > 1:
        parts += [
            element("h3", "Who helps and who harms whom"),
            element(
                "p",
                "Read a row: what that analyst's taking part does to everybody else's squared "
                "error. Below 1 the others gain, at 1 nothing changes, above 1 (marked !) they "
                "are harmed.",
            ),
            _matrix(
                content.interference,
                "Squared error with the row's analyst to that without",
                "interference",
            ),
        ]
    if content.within_agreement != content.interference:
        name = "The same within the agreement"
        parts.append(_matrix(content.within_agreement, name, "within agreement"))
    if content.joins:
        parts += [element("h3", "Who joined when"), _joins(content)]
    if len(content.totals) > 1 or content.unsupported:
        parts += [
            element("h3", "Other mechanisms"),
            element(
                "p",
                "What other rules for sharing the budget would give: everybody's squared error "
                "together, relative to this plan's, and each analyst's ratio to alone under that rule.",
            ),
            _comparison(content),
            *(element("p", f"{_plain(n)}: {why}") for n, why in content.unsupported.items()),
        ]
    return section("fairness", "Fairness", *parts)


def _guarantee(content: Content) -> str:
    words = content.promised
    for term, meaning in TERMS.items():
        words = words.replace(term, f"{meaning} ({term})", 1)
    return sentence(words)


def _standings(content: Content) -> Markup:
    titles = ("share", "alone", "together", "ratio", "interference", "within agreement")
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
                _ratio(found.within_agreement),
            ]
        )
    unit = "; 1 is every statement asked one by one" if content.relative else ""
    name = f"Expected squared errors under {_plain(content.mechanism)}{unit}"
    return table(name, headings, rows, file="fairness")


def _matrix(ratios: Interference, name: str, file: str) -> Markup:
    names = list(ratios)
    headings = [Heading("joining"), *(Heading(name, right=True) for name in names)]
    rows = [
        [Cell(joining, joining), *(_shaded(ratios[joining].get(other)) for other in names)]
        for joining in names
    ]
    return table(name, headings, rows, file=file, kind="heat influence")


def _joins(content: Content) -> Markup:
    names = [member.name for member in content.members]
    headings = [Heading("joining"), *(Heading(each, right=True) for each in ("epsilon", *names))]
    rows = []
    for join in content.joins:
        joining = ", ".join(join.analysts)
        errors = (join.errors.get(name) for name in names)
        rows.append(
            [
                Cell(joining, joining),
                Cell(join.epsilon, str(join.epsilon)),
                *(Cell(error, "" if error is None else number(error)) for error in errors),
            ]
        )
    return table("Everybody's squared error after each join", headings, rows, file="joins")


def _comparison(content: Content) -> Markup:
    names = [member.name for member in content.members]
    titles = ("all together", *names, "interference")
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

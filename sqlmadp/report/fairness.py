"""Who gets what: error alone and in the collective, and who helps or harms whom."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmadp.answer.result import number
from sqlmadp.report.charts import WORSE, error_ends, standings_chart
from sqlmadp.report.content import Content
from sqlmadp.report.frames import scrolling, section
from sqlmadp.report.markup import Markup, element


def standings(content: Content) -> Iterator[Markup]:
    """Yield every analyst's errors, under every mechanism."""
    ends = error_ends(content.members)
    charts = [
        element(
            "figure",
            element("figcaption", f"{member.name}, share {member.share}"),
            standings_chart(member, content.mechanism, ends),
        )
        for member in content.members
    ]
    key = element(
        "p",
        "Each line goes from the error alone with their own share (hollow) to the error in the "
        "collective (filled). An exclamation mark says that the collective is worse. The rule of "
        "this plan is shaded; the others are what other rules would have given.",
    )
    together = f"All expected squared errors together are {number(content.total)}"
    if content.to_utilitarian is not None:
        together += (
            f", {content.to_utilitarian:.2f} times utilitarian's, which looks at nothing else"
        )
    ratios = (
        "The ratio is that of squared errors, together to alone; the interference is the same "
        "ratio with to without one other analyst, for whoever harms most. Above 1 is a harm."
    )
    notes = [element("p", ratios), element("p", f"{together}.")]
    notes += [
        element("p", f"Without {name.replace('_', ' ')}: {reason}")
        for name, reason in content.unsupported.items()
    ]
    yield section(
        "standings",
        "Error alone, and in the collective",
        key,
        element("div", *charts, class_="charts"),
        _table(content),
        *notes,
    )


def _table(content: Content) -> Markup:
    titles = ("share", "alone", "together", "ratio", "largest interference")
    head = [element("th", "analyst", scope="col")]
    head += [element("th", title, scope="col", class_="right") for title in titles]
    rows = []
    for member in content.members:
        found = member.standings[content.mechanism]
        figures = (
            number(found.alone),
            number(found.together),
            f"{found.ratio:.3f}",
            f"{found.interference:.3f}",
        )
        cells = [element("td", str(member.share), class_="right")]
        cells += [element("td", figure, class_="right") for figure in figures]
        rows.append(element("tr", element("th", member.name, scope="row"), *cells))
    table = element(
        "table",
        element("caption", f"Expected error of a typical answer under {content.mechanism}"),
        element("thead", element("tr", *head)),
        element("tbody", *rows),
    )
    return scrolling(table, "Expected errors")


def interference(content: Content) -> Iterator[Markup]:
    """Yield what each analyst's joining does to the others, if there are others."""
    if len(content.interference) < 2:
        return
    names = list(content.interference)
    rows = []
    for joining in names:
        cells = [element("th", joining, scope="row")]
        for other in names:
            cells.append(_influence(content.interference[joining].get(other)))
        rows.append(element("tr", *cells))
    head = [element("th", "joining", scope="col")]
    head += [element("th", name, scope="col") for name in names]
    table = element(
        "table",
        element("caption", "Squared error with the row's analyst, divided by that without"),
        element("thead", element("tr", *head)),
        element("tbody", *rows),
        class_="heat influence",
    )
    words = (
        "Read a row: what that analyst's joining does to everybody else. Below 1 the others gain, "
        "at 1 nothing changes, above 1 (marked !) they are harmed."
    )
    yield section(
        "interference",
        "Who helps and who harms whom",
        element("p", words),
        scrolling(table, "Interference"),
    )


def _influence(ratio: float | None) -> Markup:
    if ratio is None:
        return element("td", "·", class_="self")
    harm = ratio > WORSE
    part = min(abs(ratio - 1) * 1.6, 1.0)
    kind = "harm" if harm else None
    words = f"{ratio:.3f}{' !' if harm else ''}"
    return element("td", words, style=f"--part:{part:.3f}", class_=kind)

"""The page: one self-contained HTML file, made from a report's content and nothing else.

No network, no external script: the style and the few lines of script are part of the page, and a
content security policy allows just that script, by its hash.  The page is readable without it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib import resources

from sqlmadp.answer.result import number
from sqlmadp.report.buckets import pools
from sqlmadp.report.charts import (
    KINDS,
    WORSE,
    buckets_chart,
    budget_chart,
    error_ends,
    fills,
    pools_chart,
    standings_chart,
)
from sqlmadp.report.content import Content, Member, Question
from sqlmadp.report.drawing import legend
from sqlmadp.report.markup import Markup, element
from sqlmadp.report.queries import scrolling, shown_rows
from sqlmadp.report.words import certificate

MOST_BUCKETS = 40
"""Measured questions up to which each is drawn as a bucket."""


def page(content: Content, version: str) -> str:
    """Return the report as HTML."""
    style, script = _file("page.css"), _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{content.table}: {'release' if content.released else 'preview'}"),
        element("style", Markup(style)),
    )
    main = element(
        "main",
        _section("certificate", "Certificate", element("div", *certificate(content))),
        *_standings(content),
        *_interference(content),
        *_measured(content),
        _budget(content),
        _questions(content),
        id="main",
    )
    body = element(
        "body",
        element("a", "Skip to the report", href="#main", class_="skip"),
        _patterns(),
        _header(content),
        main,
        element("footer", element("p", f"Made by sqlmadp {version} from {content.plan}.")),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _header(content: Content) -> Markup:
    release = content.released
    state = (
        element("span", "Preview", class_="chip preview")
        if release is None
        else element("span", "Released", class_="chip released")
    )
    left = content.budget - content.spent - (content.charge if release is None else 0)
    questions = sum(len(member.questions) for member in content.members)
    facts = (
        ("epsilon", str(content.epsilon)),
        ("budget left" if release else "left after it", str(left)),
        ("mechanism", content.mechanism.replace("_", " ")),
        ("analysts", str(content.analysts)),
        ("questions", f"{questions:,}"),
        ("cells", f"{content.cells:,}"),
    )
    cells = (element("div", element("dt", k), element("dd", v)) for k, v in facts)
    links = [
        ("certificate", "Certificate"),
        ("standings", "Errors"),
        *([("interference", "Interference")] if content.interference else []),
        *([("measured", "Measured")] if content.buckets else []),
        ("budget", "Budget"),
        ("questions", "Questions"),
    ]
    whose = "" if content.reader is None else f" for {content.reader}"
    subtitle = (
        f"What would be released from this table{whose}. Nothing is spent yet."
        if release is None
        else f"What was released from this table{whose}."
    )
    return element(
        "header",
        element("p", state, class_="state"),
        element("h1", content.table),
        element("p", subtitle, class_="subtitle"),
        element("dl", *cells, class_="facts"),
        element(
            "nav",
            element("ul", *(element("li", element("a", t, href=f"#{i}")) for i, t in links)),
            aria_label="Parts of the report",
        ),
    )


def _section(name: str, title: str, *parts: str) -> Markup:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *parts, id=name, aria_labelledby=f"{name}-title")


def _standings(content: Content) -> Iterator[Markup]:
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
        "Each line goes from the error alone with the own share (hollow) to the error in the "
        "collective (filled). An exclamation mark says that the collective is worse. The rule of "
        "this plan is shaded.",
    )
    together = f"All expected squared errors together are {number(content.total)}"
    if content.to_utilitarian is not None:
        together += (
            f", {content.to_utilitarian:.2f} times utilitarian's, which looks at nothing else"
        )
    notes = [element("p", f"{together}.")]
    notes += [
        element("p", f"{name.replace('_', ' ')}: {reason}")
        for name, reason in content.unsupported.items()
    ]
    yield _section(
        "standings",
        "Error alone, and in the collective",
        key,
        element("div", *charts, class_="charts"),
        _standings_table(content),
        *notes,
    )


def _standings_table(content: Content) -> Markup:
    titles = ("share", "alone", "together", "ratio of squares", "largest interference")
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


def _interference(content: Content) -> Iterator[Markup]:
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
    yield _section(
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


def _measured(content: Content) -> Iterator[Markup]:
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
    yield _section(
        "measured",
        "What is measured, and from whose share",
        element("p", words),
        key,
        element("div", *figures, class_="charts"),
    )


def _budget(content: Content) -> Markup:
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
    return _section("budget", "Budget over time", *parts)


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


def _questions(content: Content) -> Markup:
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
    return _section("questions", title, *([_filter(content)] if many else []), *parts)


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
    expected = f"{groups}; a typical answer is expected to be off by {number(question.rmse)}"
    sql = element(
        "details",
        element("summary", "SQL"),
        element("pre", element("code", question.sql.strip())),
    )
    shown = [] if question.result is None else [shown_rows(question.name, question.result)]
    return element(
        "section",
        element("h4", question.name),
        element("p", expected, class_="expected"),
        sql,
        *shown,
        class_="question",
    )


def _patterns() -> Markup:
    """Return the fills that tell analysts apart without colour: stripes of different kinds."""
    made = []
    for n in range(KINDS):
        lines = (
            element("rect", width=8, height=8, class_=f"ground{n}"),
            *((element("path", d=_STRIPES[n], class_="stripe"),) if _STRIPES[n] else ()),
        )
        size = {"width": 8, "height": 8, "patternUnits": "userSpaceOnUse"}
        made.append(element("pattern", *lines, id=f"fill{n}", **size))
    return element(
        "svg", element("defs", *made), width=0, height=0, aria_hidden="true", class_="patterns"
    )


_STRIPES = (
    "",
    "M0 8L8 0M-2 2L2 -2M6 10L10 6",
    "M0 4H8",
    "M4 0V8",
    "M0 0L8 8M-2 6L2 10M6 -2L10 2",
    "M4 4m-1.2 0a1.2 1.2 0 1 0 2.4 0a1.2 1.2 0 1 0 -2.4 0",
    "M0 4H8M4 0V8",
    "M0 2L4 6L8 2",
)
"""Paths of the stripes, in a square of 8."""

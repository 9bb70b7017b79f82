"""The page: one self-contained HTML file, made from a report's content and nothing else.

No network, no external script: the style and the few lines of script are part of the page, and a
content security policy allows just that script, by its hash.  The page is readable without it.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from sqlmadp.report.charts import KINDS
from sqlmadp.report.content import Content
from sqlmadp.report.drawing import count_anew
from sqlmadp.report.fairness import interference, standings
from sqlmadp.report.frames import section
from sqlmadp.report.markup import Markup, element
from sqlmadp.report.questions import questions
from sqlmadp.report.spending import budget, measured
from sqlmadp.report.words import certificate


def page(content: Content, version: str) -> str:
    """Return the report as HTML."""
    count_anew()
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
        section("certificate", "Certificate", element("div", *certificate(content))),
        *standings(content),
        *interference(content),
        *measured(content),
        budget(content),
        questions(content),
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

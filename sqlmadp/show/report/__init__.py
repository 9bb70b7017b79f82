"""The report: one page that explains a release to people who do not read code.

Before a release it is a preview without rows; afterwards it has the rows too.  Making it reads no
record and spends nothing.

The page is one self-contained HTML file.  No network, no external script: the style and the few
lines of script are part of the page, and a content security policy allows just that script, by its
hash.  The page is readable without it.  After a release the answers come first, then the verdict,
then fairness; before it the expected accuracy of every statement.  How it works comes last.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from importlib import resources
from importlib.metadata import version
from pathlib import Path

from sqlmadp.errors import OperationalError
from sqlmadp.files.plan import Plan
from sqlmadp.release.release import Progress
from sqlmadp.show import SHOWN_HASH
from sqlmadp.show.report.answers import accuracy, answers
from sqlmadp.show.report.content import Content, gather
from sqlmadp.show.report.fairness import fairness, verdict
from sqlmadp.show.report.markup import Markup, element, section
from sqlmadp.show.report.privacy import method, moment, not_counted, privacy


def write_report(
    plan: Plan,
    path: Path,
    *,
    analyst: str | None = None,
    mechanisms: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> None:
    """Write the report of a plan to ``path``, whole or not at all.

    With an analyst it has what that analyst may see, and nothing else.  The plan's mechanism is
    shown by itself, or compared with the ones named.
    """
    text = page(gather(plan, analyst, progress, mechanisms), version("sqlmadp"))
    aside = path.with_name(f".{path.name}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    except OSError as error:
        raise OperationalError(
            f"cannot write {str(path)!r} ({error.strerror}); name another --out"
        ) from None


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
        element("title", f"{content.table}: {'release' if content.made else 'preview'}"),
        element("style", Markup(style)),
    )
    parts = [
        ("verdict", "Verdict", verdict(content)),
        ("fairness", "Fairness", fairness(content)),
        ("privacy", "Privacy", privacy(content)),
        ("method", "How it works", method(content)),
    ]
    accurate = [accuracy(content), *([] if content.made else [not_counted(content)])]
    expected = ("accuracy", "Accuracy", section("accuracy", "Expected accuracy", *accurate))
    if content.made:
        parts = [("answers", "Answers", answers(content)), *parts[:2], expected, *parts[2:]]
    else:
        parts = [expected, *parts[:2], ("answers", "Statements", answers(content)), *parts[2:]]
    body = element(
        "body",
        element("a", "Skip to the report", href="#main", class_="skip"),
        _header(content, [(name, title) for name, title, _ in parts]),
        element("main", *(made for _, _, made in parts), id="main"),
        element("footer", element("p", f"Made by sqlmadp {version} from {content.plan}.")),
        element("script", Markup(script)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _header(content: Content, links: list[tuple[str, str]]) -> Markup:
    release = content.released
    chip = ("Preview", "preview") if release is None else ("Released", "released")
    date = "not yet" if release is None else moment(release.time)
    left = content.left - (content.charge if release is None else 0)
    facts = (
        ("plan", content.plan),
        ("schema", f"{content.schema} · {content.schema_id[:SHOWN_HASH]}"),
        ("released", date),
        ("release id", content.release_id[:SHOWN_HASH]),
        ("epsilon", f"{content.epsilon}"),
        ("budget left" if release else "budget left after it", str(left)),
        ("mechanism", content.mechanism.replace("_", " ")),
        ("analysts · statements", f"{content.analysts} · {len(content.statements):,}"),
    )
    cells = (element("div", element("dt", k), element("dd", v)) for k, v in facts)
    whose = "" if content.reader is None else f" for {content.reader}"
    subtitle = (
        f"What would be released from this table{whose}. Nothing is spent yet."
        if release is None
        else f"What was released from this table{whose}."
    )
    return element(
        "header",
        element("p", element("span", chip[0], class_=f"chip {chip[1]}"), class_="state"),
        element("h1", content.table),
        element("p", subtitle, class_="subtitle"),
        element("dl", *cells, class_="facts"),
        element(
            "nav",
            element("ul", *(element("li", element("a", t, href=f"#{i}")) for i, t in links)),
            aria_label="Parts of the report",
        ),
    )

"""Markup: elements of HTML and SVG, in which every string that is not markup is escaped.

Names of analysts, queries, columns and values come from strangers.  ``element`` takes them as plain
strings and escapes them; only what ``element`` made is put in as it is.  Characters that cannot be
seen, such as those that turn the direction of writing, are shown as their codes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from sqlmadp.answer.table import visible

VOID = frozenset({"meta", "br", "hr", "input"})
"""Elements of HTML that have no end."""


class Markup(str):
    """A piece of HTML or SVG that is safe to put into a page."""

    __slots__ = ()


def text(plain: str) -> Markup:
    """Return a plain string as markup; lines and tabs stay."""
    shown = "".join(mark if mark in "\n\t" else visible(mark) for mark in plain)
    return Markup(html.escape(shown))


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """Return an element.  ``class_`` is class, and other underscores are hyphens.

    An attribute that is None or False is left out, and one that is True has no value.
    """
    given = "".join(
        f" {_attribute_name(key)}" + ("" if value is True else f'="{text(_shown(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(pieces: Iterable[str]) -> Markup:
    """Return the pieces in order; those that are not markup are escaped."""
    return Markup("".join(p if isinstance(p, Markup) else text(p) for p in pieces))


def section(name: str, title: str, *parts: str) -> Markup:
    """Return a part of the page, named by its heading."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *parts, id=name, aria_labelledby=f"{name}-title")


def listed(items: Iterable[str]) -> Markup:
    """Return a list of points."""
    return element("ul", *(element("li", item) for item in items))


def sentence(words: str) -> str:
    """Return words with a capital letter and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def _attribute_name(key: str) -> str:
    return "viewBox" if key == "view_box" else key.rstrip("_").replace("_", "-")


def _shown(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)

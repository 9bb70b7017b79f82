"""Frames: a part of the page with its heading, and a table that scrolls by itself."""

from __future__ import annotations

from sqlmadp.report.markup import Markup, element


def section(name: str, title: str, *parts: str) -> Markup:
    """Return a part of the page, which its heading names."""
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *parts, id=name, aria_labelledby=f"{name}-title")


def scrolling(table: Markup, name: str, kind: str = "scroll") -> Markup:
    """Return a table in a frame of its own, which a keyboard can scroll if it is too wide."""
    return element("div", table, class_=kind, tabindex="0", role="region", aria_label=name)

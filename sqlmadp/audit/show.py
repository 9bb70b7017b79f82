"""Show: an audit's report as a table for people, or as figures for machines."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from sqlmadp.audit.report import POWER, Report


def show_audit(report: Report) -> None:
    """Print every case with the epsilon that was proven, and what was found besides."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name, side in (("case", "left"), ("claimed", "right"), ("proven", "right"), ("by", "left")):
        table.add_column(name, justify="right" if side == "right" else "left")
    for each in report.audited:
        bound = each.bound
        event = f"{bound.event}: {bound.more_likely:.4f} against {bound.less_likely:.4f}"
        table.add_row(each.case, str(each.claimed), f"{bound.epsilon:.3f}", event)
    plain = Console(highlight=False)
    screen = plain if plain.is_terminal else Console(highlight=False, width=200)
    screen.print(table)
    fewest = min(each.measurements for each in report.audited)
    screen.print(
        f"\n{len(report.audited)} cases, {fewest:,} measurements of either table in each; every "
        f"bound holds with confidence {report.confidence:.3%}"
    )
    screen.print(f"power: {report.power:.3f} of epsilon is seen on a plain count (needed: {POWER})")
    screen.print(f"noise: {report.repeated or 'never the same twice'}")
    said = "; ".join(report.messages)
    screen.print(f"messages: {said or 'none depends on a record'}", markup=False)


def audit_figures(report: Report) -> dict[str, Any]:
    """Return what ``audit --json`` prints."""
    return {
        "ok": not report.problems,
        "confidence": report.confidence,
        "power": report.power,
        "problems": report.problems,
        "cases": [
            {
                "name": each.case,
                "claimed": str(each.claimed),
                "bound": each.bound.epsilon,
                "event": each.bound.event,
                "measurements": each.measurements,
            }
            for each in report.audited
        ],
    }

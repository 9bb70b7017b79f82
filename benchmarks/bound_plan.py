"""A plan's statements as a collective of analysts, for benchmarks of selection."""

from dataclasses import replace
from pathlib import Path

from sqlmadp.asked import Asked
from sqlmadp.core.collective import Collective
from sqlmadp.plan import Plan


def collective(path: Path) -> Collective:
    """Return the analysts of a plan; their errors are plain sums of squares, as in the paper."""
    plan = replace(Plan.open(path), measure="squared")
    known = Asked.bind(plan).collective
    # Without the cache on disk: what is measured is selection.
    return Collective(known.workloads, known.shares, columns=known.columns)

"""A plan's statements as a collective of analysts, for benchmarks of selection."""

from dataclasses import replace
from pathlib import Path

from sqlmadp.files.plan import Plan
from sqlmadp.mechanism.collective import Collective
from sqlmadp.release.bound_plan import BoundPlan


def collective(path: Path) -> Collective:
    """Return the analysts of a plan; their errors are plain sums of squares, as in the paper."""
    plan = replace(Plan.open(path), measure="squared")
    known = BoundPlan.bind(plan).collective
    # Without the cache on disk: what is measured is selection.
    return Collective(known.workloads, known.shares, columns=known.columns)

"""A plan's statements as a collective of analysts, for benchmarks of selection."""

from pathlib import Path

from sqlmadp.asked import Asked
from sqlmadp.core.collective import Collective
from sqlmadp.plan import Plan
from sqlmadp.table.rows import Rows


def collective(path: Path) -> Collective:
    """Return the analysts of a plan; their errors are plain sums of squares, as in the paper."""
    asked = Asked.bind(Plan.open(path))
    known: dict[int, Rows] = {}
    workloads = []
    for own in asked.queries:
        blocks = [block for query in own for block in query.aggregates]
        for block in blocks:
            if id(block) not in known:  # Equal statements share their blocks.
                marginal = block.marginal
                known[id(block)] = Rows.reduced(marginal.scope, marginal.parts, block.matrix)
        workloads.append([known[id(block)] for block in blocks])
    shares = [analyst.share for analyst in asked.plan.analysts]
    return Collective(workloads, shares, columns=dict(asked.columns))

"""What is too large to be worked on, told from sizes before any work, by statement and analyst.

Statements over the same columns are refused if all of them together tell too many cells apart, or
take too many numbers.  Statements over different columns that overlap are refused if no strategy
could be selected for them, and all statements if selecting would take more memory than the plan
allows (`strategy.tractable`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlmadp.errors import Problem
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.bind import BoundQuery
from sqlmadp.sql.limits import Limits, advice
from sqlmadp.sql.statements import Statement
from sqlmadp.workload.sizes import overlapping_cells, scope_sizes

Found = list[tuple[Block, Statement, str]]

FOR_ALL = ("utilitarian", "weighted_utilitarian")
"""Mechanisms that select one strategy for everybody's queries as one workload."""

ALWAYS = 1 << 12
"""Cells of overlapping scopes up to which there is no need to look any closer."""

ENOUGH = 8192
"""Megabytes that selecting never takes more than, whatever is asked."""

SHOWN = 4
"""Scopes that a message names."""


def oversized(
    bound: Mapping[str, Sequence[BoundQuery]], limits: Limits, mechanism: str
) -> Iterator[tuple[str, Statement, Problem]]:
    """Yield whose statement, and which, makes too much of what is asked, and why.

    What remains without these statements may still be too much: ask again until nothing is found.
    """
    asked = [
        (block, query.statement, name)
        for name, queries in bound.items()
        for query in queries
        for block in query.aggregates
    ]
    problems = list(_large_scopes(asked, limits)) or list(_large_selection(asked, limits))
    yield from problems
    if problems:
        return
    if mechanism in FOR_ALL:
        yield from _overlapping(asked, "all analysts")
        return
    own: dict[str, Found] = {}
    for each in asked:
        own.setdefault(each[2], []).append(each)
    for name, part in own.items():
        yield from _overlapping(part, repr(name))


def _large_scopes(asked: Found, limits: Limits) -> Iterator[tuple[str, Statement, Problem]]:
    most = min(limits.block_cells, limits.measured_rows)  # Every cell is measured.
    for size in scope_sizes([block for block, _, _ in asked]):
        if size.cells <= most and size.entries <= limits.plan_cells:
            continue
        _, statement, name = asked[size.largest]
        yield (
            name,
            statement,
            statement.problem(
                "scope-too-large",
                f"all statements over {', '.join(size.scope)} together tell {size.cells:,} cells "
                f"apart and take {size.entries:,} numbers over them; at most "
                f"{most:,} cells and {limits.plan_cells:,} numbers are supported, "
                f"and of those statements this one of {name!r} is the finest",
                hint="Ask for fewer columns at once, or cut their values at the same places as "
                f"the others. {advice('block_cells')}, plan_cells = ..., memory = ...",
            ),
        )


def _large_selection(asked: Found, limits: Limits) -> Iterator[tuple[str, Statement, Problem]]:
    """Yield the finest statement, if working on all of them takes more memory than is allowed."""
    blocks = [block for block, _, _ in asked]
    most = limits.memory * 2**20
    if limits.memory >= ENOUGH:
        return
    from sqlmadp.strategy.tractable import dense_groups, selection_bytes  # noqa: PLC0415

    cells = sum(size.cells for size in scope_sizes(blocks))
    if selection_bytes(cells) <= most or selection_bytes(groups := dense_groups(blocks)) <= most:
        return
    _, statement, name = max(asked, key=lambda each: each[0].marginal.size)
    yield (
        name,
        statement,
        statement.problem(
            "scope-too-large",
            f"all statements together tell {groups:,} groups of cells apart, and selecting what to "
            f"measure for them takes about {-(-selection_bytes(groups) // 2**20):,} megabytes; "
            f"{limits.memory:,} are allowed, and of those statements this one of {name!r} is the "
            f"finest",
            hint="Ask for fewer columns at once, or for coarser groups of their values. "
            f"{advice('memory')}",
        ),
    )


def _overlapping(asked: Found, whose: str) -> Iterator[tuple[str, Statement, Problem]]:
    blocks = [block for block, _, _ in asked]
    if overlapping_cells(blocks) <= ALWAYS:
        return
    from sqlmadp.strategy.tractable import entangled  # noqa: PLC0415  Optimisers load slowly.

    found = entangled(blocks)
    if found is None:
        return
    _, statement, name = max(asked, key=lambda each: each[0].marginal.size)
    scopes = " and ".join(" x ".join(scope) for scope in found.scopes[:SHOWN])
    yield (
        name,
        statement,
        statement.problem(
            "scopes-too-large",
            f"the statements of {whose} over {scopes} tell {found.groups:,} combinations of values "
            f"apart and take {found.coordinates:,} coordinates together; at most "
            f"{found.most_groups:,} combinations or {found.most_coordinates:,} coordinates are "
            f"supported, and of those statements this one of {name!r} is the finest",
            hint="Ask for fewer columns at once, or for coarser groups of their values.",
        ),
    )

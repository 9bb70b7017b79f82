"""Size limits: what is too large to be worked on, told from sizes before any work.

Statements over the same columns are refused if all of them together tell too many vertices apart,
or take too many numbers.  All statements are refused whose partitions are tangled: where a column
is cut at many different places, functions of several columns share one residual space (see
`solve.residual`), which is factored whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from sqlmadp.bind.bind import BoundQuery
from sqlmadp.errors import Problem
from sqlmadp.sql.limits import Limits, advice
from sqlmadp.sql.statements import Statement
from sqlmadp.table.joint import declared
from sqlmadp.table.partition import common
from sqlmadp.table.rows import Rows, Scope

Found = list[tuple[Rows, Statement, str]]

MAX_SPACE = 6000
"""Factor residual spaces of at most this many coordinates: about 5 s and 600 MB each."""


def oversized(
    bound: Mapping[str, Sequence[BoundQuery]], limits: Limits
) -> Iterator[tuple[str, Statement, Problem]]:
    """Yield whose statement, and which, makes too much of what is asked, and why.

    What remains without these statements may still be too much: ask again until nothing is found.
    """
    asked = [
        (rows, query.statement, name)
        for name, queries in bound.items()
        for query in queries
        for rows in query.aggregates
    ]
    problems = list(_large_scopes(asked, limits))
    yield from problems or _tangled(asked)


def _large_scopes(asked: Found, limits: Limits) -> Iterator[tuple[str, Statement, Problem]]:
    most = min(limits.block_cells, limits.measured_rows)  # Every vertex is measured.
    by_scope: dict[Scope, Found] = {}
    for each in asked:
        by_scope.setdefault(each[0].scope, []).append(each)
    for scope, own in by_scope.items():
        layouts = {rows.layout: rows for rows, _, _ in own}
        columns = zip(*(rows.parts for rows in layouts.values()), strict=True)
        vertices = math.prod(common(parts).size for parts in columns)
        if vertices > most:
            from sqlmadp.strategy.layout import SCOPE_VERTICES  # noqa: PLC0415 - Loads slowly.

            if vertices > SCOPE_VERTICES:  # They are measured as they are asked.
                vertices = min(vertices, sum(rows.size for rows in layouts.values()))
        entries = sum(rows.entries for rows, _, _ in own)
        if vertices <= most and entries <= limits.plan_cells:
            continue
        _, statement, name = max(own, key=lambda each: each[0].size)
        yield (
            name,
            statement,
            statement.problem(
                "scope-too-large",
                f"all statements over {', '.join(declared(scope))} together tell {vertices:,} "
                f"combinations of values apart and take {entries:,} numbers over them; at most "
                f"{most:,} combinations and {limits.plan_cells:,} numbers are supported, and of "
                f"those statements this one of {name!r} is the finest",
                hint="Ask for fewer columns at once, or cut their values at the same places as "
                f"the others. {advice('block_cells')}, plan_cells = ..., memory = ...",
            ),
        )


def _tangled(asked: Found) -> Iterator[tuple[str, Statement, Problem]]:
    several = {rows.layout: rows for rows, _, _ in asked}
    if sum(rows.size for rows in several.values()) <= MAX_SPACE:
        return
    # Optimisers load slowly, and are needed for large plans only.
    from sqlmadp.solve.residual import Residuals  # noqa: PLC0415
    from sqlmadp.strategy.kronecker import as_products  # noqa: PLC0415
    from sqlmadp.strategy.layout import as_asked, written_out  # noqa: PLC0415

    # Every vertex alone is the plainest strategy, and always a candidate.
    plainest = [Rows(rows.scope, rows.parts, 1.0) for rows in several.values()]
    largest = written_out(plainest)
    if largest <= MAX_SPACE:  # Otherwise not even the basis of one column can be worked out.
        largest = max((space.size for space in Residuals(plainest).spaces.values()), default=0)
    if largest <= MAX_SPACE or as_products(as_asked([rows for rows, _, _ in asked])) is not None:
        return
    rows, statement, name = max(asked, key=lambda each: each[0].size)
    yield (
        name,
        statement,
        statement.problem(
            "scopes-too-large",
            f"all statements together depend on {largest:,} combinations of values that must be "
            f"solved for at once; at most {MAX_SPACE:,} are supported, and of those statements "
            f"this one of {name!r}, over {', '.join(declared(rows.scope))}, is the finest",
            hint="Ask for fewer columns at once, or for coarser groups of their values.",
        ),
    )

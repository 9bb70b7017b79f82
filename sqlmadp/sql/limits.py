"""Limits: how large statements and their cells may be, checked before the expensive step.

A plan raises or lowers them in its ``[limits]`` table, by the names of these fields.  The length of
text is bounded too, since DuckDB cannot be interrupted inside a single call.
"""

from __future__ import annotations

from dataclasses import dataclass

_BYTES_A_ROW = 512
"""About what one strategy query takes, in all processes, while it is measured (540 in a run)."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The bounds of one plan."""

    statements: int = 10_000
    """Statements that one file may hold."""
    characters: int = 100_000
    """Characters that one statement may have."""
    nesting: int = 100
    """Levels to which expressions and subqueries may nest."""
    parts: int = 30_000
    """Parts that a statement may have once aliases are replaced by their expressions."""
    in_list: int = 10_000
    """Values that one IN list may have."""
    terms: int = 3_000
    """Terms that one AND or OR may have: each is an expression of its own, and 6,000 take 4 s."""
    blocks: int = 200
    """SELECTs over the private table that one statement may hold."""
    expressions: int = 400
    """Predicates, keys and values that DuckDB must evaluate for one statement, each once."""
    keys: int = 60
    """Expressions that one SELECT may group by."""
    grouping_sets: int = 2048
    """Grouping sets that one SELECT may have."""
    predicate_cells: int = 2**21
    """Cells of the columns that one expression must look at together."""
    evaluated_cells: int = 2**25
    """Cells of all these expressions together, each counted with those of its own columns."""
    block_cells: int = 2**20
    """Cells that one aggregate may tell apart."""
    groups: int = 100_000
    """Groups that one SELECT may return: a trial of its rows takes 17 us and 1 KB for each."""
    plan_cells: int = 2**26
    """Entries of all queries of a plan together."""
    cuts: int = 10_000
    """Places at which all statements together may cut one real column."""
    seconds: int = 1
    """CPU seconds that evaluating one expression over declared values may take."""
    outer_seconds: int = 20
    """CPU seconds that the SQL around the private blocks may take."""
    sql_memory: int = 256
    """Megabytes that DuckDB may take for one of those; it never writes to a disk instead."""
    memory: int = 8192
    """Megabytes that counting with DuckDB or a Spark of one's own, and then measuring, may take."""

    @property
    def measured_rows(self) -> int:
        """Return how many strategy queries can be measured in that memory."""
        return self.memory * 2**20 // _BYTES_A_ROW


DEFAULT = Limits()


def advice(name: str) -> str:
    """Return how to raise a limit."""
    return f"The curator can raise it in the plan: [limits] {name} = ..."

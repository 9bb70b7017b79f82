"""Limits: how large statements and their cells may be, checked before the expensive step.

A plan raises or lowers them in its ``[limits]`` table, by the names of these fields.  The length of
text is bounded too, since DuckDB cannot be interrupted inside a single call.  The sizes below them,
which no plan changes, are all that decide anything else in this package.
"""

from __future__ import annotations

from dataclasses import dataclass


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
        return self.memory * 2**20 // BYTES_PER_ROW


DEFAULT = Limits()


def advice(name: str) -> str:
    """Return how to raise a limit."""
    return f"The curator can raise it in the plan: [limits] {name} = ..."


# Sizes that no plan changes.

BYTES_PER_ROW = 512
"""Take one strategy query to need this while it is measured, in all processes (540 in a run)."""
FRAMES_PER_LEVEL = 60
"""Let Python nest this many calls per level of nesting: sqlglot's parser and walks take them."""
READ_AT_ONCE = 50_000
"""Give DuckDB this many characters to read at once: its tree of them takes a hundred times more."""
TRIED_CHARACTERS = 10_000
"""Look for another dialect that reads a statement only below this many characters."""
ALIAS_PARTS = 2
"""Count a part that replaces an alias this many times: it is visited more often than others."""
LONGEST_TEXT = 20_000
"""Refuse an expression that could make longer text than this of one record or row of answers."""
GATHERED_TEXT = 1_000
"""Refuse an aggregate over answers that puts together more characters than this of each row."""
COLUMN_TEXT = 200
"""Take a value of a column to have this many characters, if the schema declares no longer one."""
MATCHING_STEPS = 10**7
"""Refuse a pattern, or a comparison of two texts, that could take more steps than this."""
MOST_PROBLEMS = 50
"""Stop looking at a statement after this many mistakes: nobody mends more of them at once."""
NAME_CHARACTERS = 100
"""Refuse a longer name of a statement: names become file names."""
EXCERPT_CHARACTERS = 100
"""Show a longer line from a little before the mistake."""
BINS = 10
"""Offer about this many bins of a real column."""
LISTED = 5
"""List this many declared values in a hint or note."""

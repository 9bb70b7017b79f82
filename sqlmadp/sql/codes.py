"""The codes of refused statements: one word for each kind of mistake, and what it means.

A code stays the same when a message is put better, so programs may rely on it: it is
``error.code`` in Python and ``code`` in ``sqlmadp check --json``.  The table in docs/sql.md is made
from this list.
"""

from __future__ import annotations

from typing import Final

CODES: Final = {
    # The file.
    "unreadable-file": "a file of statements cannot be read",
    "no-statement": "a file holds no statement",
    "nothing-asked": "an analyst has handed in nothing yet",
    "nothing-counted": "no statement of an analyst counts anything",
    "bad-name": "a name that no statement can have",
    "duplicate-name": "two statements of one analyst have the same name",
    "bad-weight": "a weight that is no number above 0",
    # What can be read at all.
    "syntax": "DuckDB cannot parse it, or the form of the query is not supported",
    "not-a-select": "something else than a SELECT",
    "parameter": "a parameter without a value, or a value that SQL does not have",
    "duckdb": "DuckDB itself refuses the statement, with DuckDB's reason",
    "construct": "a construct that is not on the allow-list",
    "unfaithful": "a construct that DuckDB would read differently once it is taken apart",
    "dialect": "no dialect, or a construct of one that does not mean the same in DuckDB",
    "pivot": "PIVOT",
    "recursive-cte": "a recursive CTE",
    "lambda": "a lambda function",
    "collation": "a collation",
    "positional-reference": "a column by its number, #1",
    "sample": "sampling, which is not the same every time",
    # Names.
    "unknown-table": "a table that is not declared",
    "unknown-column": "a column that is not there",
    "unknown-function": "a function that DuckDB does not have",
    "ambiguous-name": "a name that can be read in two ways",
    "no-table": "the private table is not read at all",
    # What is asked of records.
    "rows": "rows of individuals",
    "window": "a window over single records",
    "limit-records": "LIMIT over single records",
    "private-subquery": "a condition on records that depends on another answer",
    "min-max": "an aggregate that a single record decides",
    "count-distinct": "DISTINCT inside an aggregate",
    "aggregate": "another aggregate that is not answered",
    "misplaced-aggregate": "an aggregate where a condition on records stands",
    "count-star": "a star in an aggregate other than COUNT(*)",
    "not-grouped": "a column that is neither grouped by nor counted",
    "grouping": "GROUPING() of something that is not a group key",
    "key-type": "groups by a nested type",
    "quantile": "a quantile that is no constant between 0 and 1",
    "sum-type": "a sum or mean of what is no number",
    "real-column": "a real column that is neither compared with constants nor binned",
    "not-cut": "a constant at which the release did not cut a real column",
    "join": "a join that could count a record twice, or joins records with records",
    "table-function": "a table function, which could read files",
    "nondeterministic": "a function of the clock, the session or chance",
    "function": "a function, or a form of it, that is not on the allow-list",
    "type": "a cast to a type that is not on the allow-list",
    "evaluation": "an expression that fails on a declared value",
    # What runs over answers.
    "outer": "what stands around the private blocks cannot run over answers",
    "type-changed": "a result column that would have another type over answers",
    "limit": "LIMIT or OFFSET that is no constant",
    "not-covered": "the release does not measure what is asked",
    "fails-on-answers": "the rows cannot be made from every answer, such as a negative one",
    # Limits.
    "too-many-statements": "more statements in a file than the limit",
    "too-long": "a statement with more characters than the limit",
    "too-deep": "more expressions inside each other than the limit",
    "too-large": "more parts than the limit, once aliases are replaced",
    "in-list": "a longer list of values or terms than the limit",
    "too-many-cells": "an expression or aggregate of more cells than the limit",
    "too-many-groups": "more groups than the limit",
    "too-many-entries": "more numbers in all queries of a plan than the limit",
    "scope-too-large": "statements over the same columns that together tell more cells apart than "
    "the limits allow",
    "scopes-too-large": "statements over different columns that together take more coordinates "
    "than can be worked with",
    "not-selectable": "what to measure cannot be selected; of all statements this one tells most "
    "values apart",
    "too-many-cuts": "more bins of a real column than the limit",
    "too-long-text": "an expression that could make very long text",
    "slow-pattern": "a pattern or comparison of text that could take very long",
    "too-slow": "an expression that takes longer than the limit",
    # Notes.
    "read-as": "a note: how a statement in another dialect was read",
    "undeclared-value": "accepted with a note: a value that the schema does not declare",
    "quantile-resolution": "accepted with a note: a quantile that merges neighbouring values",
}
"""Code and meaning of every kind of refusal, and of what is noted."""

"""Expected errors of result columns: exact where a column is linear in the answers, else simulated.

**Linear columns** are ``c_0 + c_1 a_1 + c_2 a_2 + ...`` for answers a and numbers c that the
statement alone decides (see ``sql.linear``).  Running what is around the blocks on answers of 0,
and again with one answer set to 1, gives every c by DuckDB's own arithmetic; the variance then
follows from the covariances of the answers:

    a column of its own group    all groups at once, one run with a copy of them per aggregate
    windows, joins, subqueries   one run per answer, up to a bound

Rounding to whole numbers is left out, as it is for counts.

**All others** (ratios, means, quantiles, ranks): the statement is run again over the answers of
simulated releases (see ``reconstruct``), and a column's error is the root of the mean squared
distance of those runs from their mean.

Rows of two runs of one statement belong together if they have the same group; a tracked query's
rows end with its number.  Any other row is known by the columns that no answer changes (FREE), or,
where all runs have the same rows in the same order, by its place.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.answer.derived import Column, derive
from sqlmadp.answer.result import Result, is_number
from sqlmadp.answer.rows import Desk, Estimated, ResultRows, answers_of
from sqlmadp.answer.sizes import MAX_RUNS, MIN_DRAWS, SIMULATED_ROWS
from sqlmadp.bind.bound import BoundAggregate, BoundPiece, BoundQuery, PrivateBlock
from sqlmadp.bind.linear import Kind
from sqlmadp.sql.aggregates import LINEAR

Matrix = NDArray[np.float64]
Key = tuple[Any, ...]
"""Tells one row of a statement from all others."""
Errors = dict[str, tuple[float, ...]]
"""By the name of the column: one expected error per row; NaN where it is unknown."""


def result_of(
    query: BoundQuery, estimate: Estimated, desk: Desk, known: dict[str, Exact] | None = None
) -> Result:
    """Return the rows of a query with answers from ``estimate``, and their expected errors.

    ``known`` keeps the errors that no answer changes, by the text of the statement, for the next
    estimate of the same strategy.
    """
    rows, notes = desk.noted_rows(query, estimate)
    known = {} if known is None or estimate.processing.nonnegative else known
    errors = {}
    if rows and estimate.noise_variance:
        errors = _errors_of(query, estimate, desk, rows, known)
    shown = [row[:-1] for row in rows] if query.tracked else rows
    return Result(query.columns, tuple(shown), errors, notes)


def _errors_of(
    query: BoundQuery, estimate: Estimated, desk: Desk, rows: ResultRows, known: dict[str, Exact]
) -> Errors:
    keys = row_keys(query, rows)
    if keys is None:
        return {}
    text = query.statement.text
    if text not in known:
        known[text] = exact_errors(query, estimate, desk)
    exact = known[text]
    place_of = {key: place for place, key in enumerate(exact.keys)}
    usable = exact.errors if all(key in place_of for key in keys) else {}
    chosen = [place_of[key] for key in keys] if usable else []
    found = {place: errors[chosen] for place, errors in usable.items()}
    left = [
        place
        for place, (_, kind) in enumerate(query.columns)
        if place not in found and query.kinds[place] != Kind.FREE and is_number(kind)
    ]
    if left:
        found |= simulated_errors(query, estimate, desk, left, keys)
    return by_name(query, found)


def by_name(query: BoundQuery, errors: dict[int, np.ndarray]) -> Errors:
    """Return errors by the names of their columns; of two columns with one name, the larger."""
    named: dict[str, np.ndarray] = {}
    for place in sorted(errors):
        name = query.columns[place][0]
        named[name] = np.fmax(named[name], errors[place]) if name in named else errors[place]
    return {name: tuple(each.tolist()) for name, each in named.items()}


# Which rows belong together.


def aligned(
    query: BoundQuery, rows: Sequence[tuple[Any, ...]], keys: Sequence[Key]
) -> list[tuple[Any, ...]] | None:
    """Return the rows of another run in the order of ``keys``; None unless they belong together.

    The order of a join's rows may change from run to run where nothing tells them apart.
    """
    found = dict(zip(row_keys(query, rows) or (), rows, strict=False))
    return [found[key] for key in keys] if found.keys() == set(keys) else None


def row_keys(query: BoundQuery, rows: Sequence[tuple[Any, ...]]) -> tuple[Key, ...] | None:
    """Return a key of each row; None if some rows have no key of their own."""
    if query.tracked:
        return tuple((row[-1],) for row in rows)
    free = [place for place, kind in enumerate(query.kinds) if kind == Kind.FREE]
    keys = tuple(tuple(repr(row[place]) for place in free) for row in rows)
    if len(set(keys)) == len(keys):
        return keys
    if query.fixed and query.untouched in (query.outer, query.lenient):
        return tuple((place, *key) for place, key in enumerate(keys))
    return None


# Linear columns.


@dataclass(frozen=True)
class Exact:
    """Errors of some columns, for every row that the statement can have."""

    keys: tuple[Key, ...]
    """What tells the rows apart: the number of the group, or the columns that are FREE."""
    errors: dict[int, Matrix]
    """By the place of the column: one per row; NaN where the column is NULL."""


def exact_errors(query: BoundQuery, estimate: Estimated, desk: Desk) -> Exact:
    """Return the error of every column that is linear, as far as it can be worked out."""
    copies = _copies(query)
    left = [
        place
        for place, (_, kind) in enumerate(query.columns)
        if query.kinds[place] == Kind.LINEAR and is_number(kind) and place not in copies
    ]
    if estimate.processing.nonnegative:
        left = []  # Then answers are no longer linear in the measurement.
    terms = list(_terms(query))
    if query.tracked:
        keys: tuple[Key, ...] = tuple((group,) for group in range(query.top_block.rows))
        errors = {place: _of_copy(query, measure, estimate) for place, measure in copies.items()}
        local = [place for place in left if query.local[place]]
        if local:
            errors |= _errors(_by_group(query, local, desk), terms, estimate)
        left = [place for place in left if not query.local[place]]
    else:
        keys, errors = (), {}
    if left and sum(term.rows for term in terms) <= MAX_RUNS:
        found = _by_answer(query, left, desk)
        if found is not None:
            keys, coefficients = found
            errors |= _errors(coefficients, terms, estimate)
    return Exact(keys, errors)


@dataclass(frozen=True)
class _Term:
    """Answers that columns may be made of: a count or sum, of every group of a block."""

    block: PrivateBlock
    aggregate: int

    @property
    def piece(self) -> BoundPiece:
        (place,) = self.block.aggregates[self.aggregate].pieces
        return self.block.pieces[place]

    @property
    def rows(self) -> int:
        return self.block.rows


def _terms(query: BoundQuery) -> Iterator[_Term]:
    for block in query.blocks:
        for place, aggregate in enumerate(block.aggregates):
            if aggregate.function in LINEAR:
                yield _Term(block, place)


def _copies(query: BoundQuery) -> dict[int, int]:
    """Return the columns that are bare copies of a count or sum, and of which."""
    return {
        place: measure
        for place, measure in enumerate(query.measures)
        if measure is not None and query.top_block.aggregates[measure].function in LINEAR
    }


def _of_copy(query: BoundQuery, aggregate: int, estimate: Estimated) -> Matrix:
    term = _Term(query.top_block, aggregate)
    errors = np.concatenate([estimate.rmse(rows) for rows in term.piece.rows])
    empty = term.block.aggregates[aggregate].empty
    return errors if empty is None else np.where(empty, np.nan, errors)


# Coefficients: one row for every row of the statement, one column for every answer of every term.


def _by_group(query: BoundQuery, places: Sequence[int], desk: Desk) -> dict[int, sparse.csr_array]:
    """Return the coefficients of columns that read nothing but their own group."""
    top, terms = query.top_block, list(_terms(query))
    own = [term for term in terms if term.block is top]
    copies = 1 + len(own)
    for block in query.blocks:
        desk.fill(block, _columns(block, (), ()))
    marks = [np.repeat(np.eye(copies)[1 + number], top.rows) for number in range(len(own))]
    desk.fill(top, _columns(top, own, marks, copies), copies)
    rows = desk.run(query, query.untouched)
    found = {}
    for place in places:
        values = _numbers(rows, place).reshape(copies, top.rows)
        changes = iter(values[1:] - values[0])
        found[place] = sparse.hstack(
            [
                sparse.diags_array(next(changes))
                if term.block is top
                else sparse.csr_array((top.rows, term.rows))
                for term in terms
            ],
            format="csr",
        )
    return found


def _by_answer(
    query: BoundQuery, places: Sequence[int], desk: Desk
) -> tuple[tuple[Key, ...], dict[int, sparse.csr_array]] | None:
    """Return the keys of rows and their coefficients, from one run per answer."""
    terms = list(_terms(query))
    nothing = [np.zeros(term.rows) for term in terms]
    for block in query.blocks:
        desk.fill(block, _columns(block, terms, nothing))
    first = desk.run(query, query.untouched)
    keys = row_keys(query, first)
    if keys is None:
        return None
    if query.tracked:  # A window may have changed the order of groups.
        first.sort(key=lambda row: row[-1])
        keys = tuple(sorted(keys))
    base = {place: _numbers(first, place) for place in places}
    found: dict[int, list[Matrix]] = {place: [] for place in places}
    for number, term in enumerate(terms):
        for group in range(term.rows):
            marks = [*nothing]
            marks[number] = np.eye(1, term.rows, group)[0]
            desk.fill(term.block, _columns(term.block, terms, marks))
            ordered = aligned(query, desk.run(query, query.untouched), keys)
            if ordered is None:
                return None
            for place in places:
                found[place].append(_numbers(ordered, place) - base[place])
        desk.fill(term.block, _columns(term.block, terms, nothing))
    return keys, {
        place: sparse.csr_array(np.column_stack(columns)) for place, columns in found.items()
    }


def _columns(
    block: PrivateBlock, terms: Sequence[_Term], values: Sequence[Matrix], copies: int = 1
) -> list[Column]:
    """Return the aggregates of a block: the given values of its terms, and NULL for all others."""
    given = {
        term.aggregate: _marked(block.aggregates[term.aggregate], value)
        for term, value in zip(terms, values, strict=True)
        if term.block is block
    }
    missing: Column = [None] * (block.rows * copies)
    return [given.get(place, missing) for place in range(len(block.aggregates))]


def _marked(aggregate: BoundAggregate, marks: Matrix) -> Column:
    """Return whole numbers, with NULL where the aggregate is NULL for any table."""
    column: Column = [int(mark) for mark in marks.tolist()]
    if aggregate.empty is None:
        return column
    empty = np.resize(aggregate.empty, len(column))
    return [None if none else mark for none, mark in zip(empty, column, strict=True)]


def _numbers(rows: ResultRows, place: int) -> Matrix:
    return np.array([_number(row[place]) for row in rows])


def _number(value: object) -> float:
    return math.nan if value is None else float(value)  # type: ignore[arg-type]


def _errors(
    coefficients: dict[int, sparse.csr_array], terms: Sequence[_Term], estimate: Estimated
) -> dict[int, Matrix]:
    """Return the error of every row of every column: that of a sum of answers."""
    return {place: _error(matrix, terms, estimate) for place, matrix in coefficients.items()}


def _error(coefficients: sparse.csr_array, terms: Sequence[_Term], estimate: Estimated) -> Matrix:
    entries = coefficients.tocoo()
    unknown = np.zeros(coefficients.shape[0], dtype=bool)
    unknown[entries.row[np.isnan(entries.data)]] = True
    by_answer = coefficients.tocsc()
    by_answer.data[~np.isfinite(by_answer.data)] = 0.0
    by_answer.eliminate_zeros()
    parts, start = [], 0
    for term in terms:
        for rows in term.piece.rows:
            mine = by_answer[:, start : start + rows.count]
            if mine.nnz:
                parts.append((rows, sparse.csr_array(mine)))
            start += rows.count
    errors = estimate.sum_rmse(parts) if parts else np.zeros(len(unknown))
    return np.where(unknown, np.nan, errors)


# Columns that are not linear.


def simulated_errors(
    query: BoundQuery, estimate: Estimated, desk: Desk, places: Sequence[int], keys: Sequence[Key]
) -> dict[int, Matrix]:
    """Return the error of every row that ``keys`` tell apart, by the place of the column.

    A column that never moves is no answer, and is left out.
    """
    answers = [answers_of(block, estimate.simulated) for block in query.blocks]
    draws = next((each.shape[1] for own in answers for each in own), 0)
    draws = min(draws, max(MIN_DRAWS, SIMULATED_ROWS // max(1, query.rows)))
    if query.tracked and all(query.local[place] for place in places):
        found = _at_once(query, answers, desk, places, draws)
        groups = [group for (group,) in keys]
        errors = {place: _spread(values)[groups] for place, values in found.items()}
    else:
        runs = _one_by_one(query, answers, desk, draws)
        errors = {place: _spread(_aligned(runs, place, keys)) for place in places}
    return {place: each for place, each in errors.items() if (each > 0).any()}


def _at_once(
    query: BoundQuery,
    answers: Sequence[Sequence[Matrix]],
    desk: Desk,
    places: Sequence[int],
    draws: int,
) -> dict[int, Matrix]:
    """Return columns that read nothing but their own group: one line per release.

    All releases are in one table, one below the other, so the statement runs once.
    """
    for other, own in zip(query.blocks, answers, strict=True):
        desk.fill(other, derive(other, [each[:, 0] for each in own]))
    block = query.top_block
    stacked = [each[:, :draws].T.reshape(-1) for each in answers[query.top]]
    desk.fill(block, derive(replace(block, rows=block.rows * draws), stacked), draws)
    found = {place: np.full(draws * block.rows, np.nan) for place in places}
    for row in desk.run(query, query.untouched):
        for place, values in found.items():
            values[row[-1]] = _number(row[place])
    return {place: values.reshape(draws, block.rows) for place, values in found.items()}


def _one_by_one(
    query: BoundQuery, answers: Sequence[Sequence[Matrix]], desk: Desk, draws: int
) -> list[dict[Key, tuple[object, ...]]]:
    """Return the rows of every simulated release, by what tells them apart."""
    runs = []
    for draw in range(draws):
        for block, own in zip(query.blocks, answers, strict=True):
            desk.fill(block, derive(block, [columns[:, draw] for columns in own]))
        rows: ResultRows = desk.run(query, query.untouched)
        runs.append(dict(zip(row_keys(query, rows) or (), rows, strict=False)))
    return runs


def _aligned(
    runs: Sequence[dict[Key, tuple[object, ...]]], place: int, keys: Sequence[Key]
) -> Matrix:
    return np.array(
        [[_number(run[key][place]) if key in run else np.nan for key in keys] for run in runs]
    )


def _spread(values: Matrix) -> Matrix:
    """Return the standard deviation of every column; NaN where half of it or more is missing."""
    finite = np.isfinite(values)
    count = finite.sum(axis=0)
    with np.errstate(all="ignore"):
        mean = np.where(finite, values, 0).sum(axis=0) / count
        squares = (np.where(finite, values - mean, 0) ** 2).sum(axis=0)
        spread = np.sqrt(squares / (count - 1))
    return np.where((count >= 2) & (2 * count >= len(values)), spread, np.nan)

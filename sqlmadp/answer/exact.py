"""Exact expected errors of columns that are linear in the answers, without any data.

Such a column is ``c_0 + c_1 a_1 + c_2 a_2 + ...`` for answers a and numbers c that the statement
alone decides (see ``sql.linear``).  Running what stands around the blocks on answers of 0, and
again with one answer set to 1, gives every c by DuckDB's own arithmetic; the variance then
follows from the covariances of the answers:

    a column of its own group    all groups at once, one run with a copy of them for each aggregate
    windows, joins, subqueries   one run an answer, up to a bound

Rounding to whole numbers is left out, as it is for counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.answer.made_up import Estimated
from sqlmadp.answer.matching import Key, aligned, row_keys
from sqlmadp.answer.quantiles import Column
from sqlmadp.answer.result import is_number
from sqlmadp.answer.rows import Desk, ResultRows
from sqlmadp.sql.aggregates import LINEAR
from sqlmadp.sql.bound import BoundAggregate, BoundPiece, BoundQuery, PrivateBlock
from sqlmadp.sql.linear import Kind

Matrix = NDArray[np.float64]

MOST_ANSWERS = 400
"""Answers up to which a statement with windows, joins or subqueries is run once for each."""


@dataclass(frozen=True)
class Exact:
    """Errors of some columns, for every row that the statement can have."""

    keys: tuple[Key, ...]
    """What tells the rows apart: the number of the group, or the columns that are FREE."""
    errors: dict[int, Matrix]
    """By the place of the column: one a row; NaN where the column is NULL."""


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
    if left and sum(term.rows for term in terms) <= MOST_ANSWERS:
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
    """Return what tells rows apart and their coefficients, from one run an answer."""
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
    return np.array([np.nan if row[place] is None else float(row[place]) for row in rows])


# Errors.


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

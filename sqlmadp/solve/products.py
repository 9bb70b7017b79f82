"""Least squares for strategies of products: the second solver, for scopes too large to factor.

Rows of a strategy for a large scope are products of one function per column, ``F_1 x ... x F_d``
times heights (`table.products`).  Nothing over the scope's vertices is factored: X = A^T A is only
ever applied, column by column, and solved with by conjugate gradients.

*Frames* are the scopes that are inside no other.  With u_m one table over the vertices of frame m,
functions are sums ``z = sum_m u_m``; under the inner product that averages over all vertices, a
table of one scope meets one of another by averaging over columns that the other lacks.  The
preconditioner of a frame is the product nearest to what is measured there [VLP93], every factor of
it a diagonal and few rows:

    X_c = diag(o) + R^T R,   X_c^-1 = diag(1 / o) - V^T V,   V = L^-1 R / o,  L L^T = I + R / o R^T

If one grid of equal heights is all that is measured, X is that product, and the variance of a query
that is a product is ``prod_c w_c X_c^-1 w_c^T``, whatever the number of vertices and queries.

[VLP93] Van Loan, Pitsianis, "Approximation with Kronecker products", 1993.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular

from sqlmadp.errors import NotCoveredError
from sqlmadp.solve.column import NEGLIGIBLE
from sqlmadp.solve.inverse import OUTSIDE, Inverse
from sqlmadp.solve.solution import NOT_COVERED, Solution
from sqlmadp.table.joint import is_joint, realised
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.products import Factored, Products
from sqlmadp.table.rows import Rows, Scope
from sqlmadp.table.runs import Floats

CLOSE, CLOSEST = 1e-6, 1e-11
"""Relative residual at which a right side is solved: for variances, into which the error of a
solution enters by its square, and for answers."""

MAX_STEPS = 2000
"""Take a query to be unanswered if it is not solved in this many steps."""

FLAT = 1e-13
"""Take a direction to be unmeasured if its information is below this part of the mean."""

LEAST_OWN = 1e-3
"""Information, as part of the mean, that the preconditioner gives to an unmeasured vertex."""

CHUNK = 2**21
"""Solve for as many queries at once as have this many numbers."""


def solution_of(blocks: Sequence[Rows]) -> Solution | ProductSolution:
    """Return the solver of a strategy: of products if a block keeps its rows as factors."""
    if any(isinstance(block, Products) for block in blocks):
        return ProductSolution(blocks)
    return Solution(blocks)


class _Axis:
    """A factor, as rows of one vertex and few others: to be multiplied by along one axis."""

    def __init__(self, factor: sparse.csr_array) -> None:
        lengths = np.diff(factor.indptr)
        self.order = np.argsort(lengths != 1, kind="stable")
        single = factor[lengths == 1]
        self._places, self._own = single.indices, single.data.astype(np.float64)[:, None]
        self._rest = factor[lengths != 1].toarray().astype(np.float64)
        self._size = factor.shape[1]
        self._distinct = len(np.unique(self._places)) == len(self._places)

    def times(self, table: Floats) -> Floats:
        return np.concatenate([self._own * table[:, self._places], self._rest @ table], axis=1)

    def back(self, table: Floats) -> Floats:
        own, count = self._own * table[:, : len(self._own)], len(self._own)
        if len(self._rest):
            found = np.matmul(self._rest.T, table[:, count:])
        else:
            found = np.zeros((table.shape[0], self._size, table.shape[2]))
        if self._distinct:
            found[:, self._places] += own
        else:
            for place, each in zip(self._places, np.moveaxis(own, 1, 0), strict=True):
                found[:, place] += each
        return np.asarray(found, dtype=np.float64)


class _NearInverse:
    """The inverse of one column's ``diag(o) + R^T R``."""

    def __init__(self, factor: sparse.csr_array, weights: Floats) -> None:
        scaled = sparse.csr_array(sparse.diags_array(np.sqrt(weights)) @ factor)
        lengths = np.diff(scaled.indptr)
        single = scaled[lengths == 1]
        own = np.bincount(single.indices, single.data**2, minlength=factor.shape[1])
        mean = float(weights.sum()) / factor.shape[1]
        self._own = 1 / np.maximum(own, LEAST_OWN * mean)[:, None]
        rest = scaled[lengths > 1].toarray()
        over = rest * self._own.T
        inner = np.eye(len(rest)) + over @ rest.T
        self._low = over
        if len(rest):
            self._low = solve_triangular(cholesky(inner, lower=True), over, lower=True)

    def times(self, table: Floats) -> Floats:
        found = self._own * table
        if len(self._low):
            found -= np.matmul(self._low.T, self._low @ table)
        return np.asarray(found)


def _along(table: Floats, axis: int, step: _Axis | _NearInverse, *, back: bool = False) -> Floats:
    """Return a table with one axis multiplied; the last axis numbers right sides."""
    before, after = table.shape[:axis], table.shape[axis + 1 :]
    flat = table.reshape(math.prod(before), table.shape[axis], math.prod(after))
    found = step.back(flat) if back and isinstance(step, _Axis) else step.times(flat)
    return found.reshape(*before, found.shape[1], *after)


@dataclass(frozen=True, eq=False)
class _Measured:
    """A block over the finest vertices of its columns."""

    block: Rows
    axes: tuple[_Axis, ...]
    """The factors of products; none for other rows."""
    squares: Floats

    @classmethod
    def of(cls, block: Rows, parts: Sequence[Partition]) -> _Measured:
        if block.plain:  # A grid of the vertices' functions.
            factors = tuple(sparse.eye_array(size, format="csr") for size in block.shape)
            heights = np.full(block.shape, float(block.weight))
            block = Products(block.scope, block.parts, 0, None, factors, heights)
        fine = block.over(block.scope, parts)
        if not isinstance(fine, Products):
            return cls(fine, (), np.ones(0))
        axes = tuple(_Axis(factor) for factor in fine.factors)
        heights = fine.heights.astype(np.float64)
        if axes:
            heights = heights[np.ix_(*(axis.order for axis in axes))]
        return cls(fine, axes, heights[..., None] ** 2)

    def gram(self, table: Floats) -> Floats:
        """Return ``A^T A`` times tables, in units of the mean over vertices."""
        if not isinstance(self.block, Products):
            flat = table.reshape(self.block.size, -1)
            matrix = self.block.matrix
            return np.asarray(matrix.T @ (matrix @ flat)).reshape(table.shape) / self.block.size
        found = table
        for axis, own in enumerate(self.axes):
            found = _along(found, axis, own)
        found = found * self.squares
        for axis, own in enumerate(self.axes):
            found = _along(found, axis, own, back=True)
        return found / self.block.size

    def answers(self, table: Floats) -> Floats:
        """Return the rows' averages over a table, one column per right side."""
        flat = table.reshape(self.block.size, -1) / self.block.size
        if isinstance(self.block, Products):
            return np.array([self.block.answers(each) for each in flat.T]).T
        return np.asarray(self.block.matrix @ flat)

    def moments(self, values: Floats) -> Floats:
        """Return ``A^T y``, one column per right side, as tables."""
        if isinstance(self.block, Products):
            found = np.array([self.block.moments(each) for each in values.T]).T
        else:
            found = np.asarray(self.block.matrix.T @ values)
        return found.reshape(*self.block.shape, -1)


class ProductSolution:
    """Answers queries from noisy products and other rows, and says how noisy the answers are."""

    def __init__(self, blocks: Sequence[Rows]) -> None:
        """Write every block over the finest partitions of its columns."""
        self.blocks = tuple(blocks)
        used: dict[str, set[Partition]] = {}
        for block in blocks:
            for column, part in zip(block.scope, block.parts, strict=True):
                used.setdefault(column, set()).add(part)
        self.finest = {
            column: common(sorted(parts, key=lambda p: p.key)) for column, parts in used.items()
        }
        scopes = {block.scope for block in blocks}
        self.frames = sorted(s for s in scopes if not any(set(s) < set(t) for t in scopes))
        self._shapes = [tuple(self.finest[c].size for c in scope) for scope in self.frames]
        sizes = [math.prod(shape) for shape in self._shapes]
        self._ends = np.cumsum([0, *sizes])
        self.size = int(self._ends[-1])
        self._mean = np.repeat(1 / np.array(sizes, dtype=np.float64), sizes)[:, None]
        self._measured = [_Measured.of(b, [self.finest[c] for c in b.scope]) for b in blocks]
        self._near = [self._nearest(scope) for scope in self.frames]
        self._level = math.fsum(m.block.square_sum / m.block.size for m in self._measured)
        self._separate = self._factored()

    # The operator and its preconditioner.

    def _tables(self, flat: Floats) -> list[Floats]:
        bounds = zip(self._ends[:-1], self._ends[1:], self._shapes, strict=True)
        return [flat[a:b].reshape(*shape, -1) for a, b, shape in bounds]

    def _at(self, tables: Sequence[Floats], scope: Scope) -> Floats:
        """Return the sum of the frames' tables, averaged over the columns outside a scope."""
        parts = (
            _averaged(table, frame, scope) for table, frame in zip(tables, self.frames, strict=True)
        )
        found = reduce(np.add, parts)
        shape = tuple(self.finest[c].size for c in scope)
        return np.broadcast_to(found, (*shape, found.shape[-1]))

    def _spread(self, table: Floats, scope: Scope, flat: Floats) -> None:
        """Add a function of a scope to all frames, averaged over the columns that they lack."""
        for own, frame in zip(self._tables(flat), self.frames, strict=True):
            own[...] += _averaged(table, scope, frame)

    def _times(self, flat: Floats) -> Floats:
        tables, found = self._tables(flat), np.zeros_like(flat)
        for measured in self._measured:
            scope = measured.block.scope
            self._spread(measured.gram(self._at(tables, scope)), scope, found)
        return found

    def _nearest(self, frame: Scope) -> list[_NearInverse]:
        """Return the inverse of the product nearest to the blocks inside a frame."""
        inside = [m for m in self._measured if set(m.block.scope) <= set(frame)]
        parts = [_unit_factors(m.block, frame, self.finest) for m in inside]
        total = math.fsum(float(squares.sum()) for _, squares in parts)
        found = []
        for axis in range(len(frame)):
            factor = sparse.csr_array(sparse.vstack([factors[axis] for factors, _ in parts]))
            others = tuple(a for a in range(len(frame)) if a != axis)
            weights = np.concatenate([squares.sum(axis=others) for _, squares in parts])
            found.append(_NearInverse(factor, weights / total if axis else weights))
        return found

    def _preconditioned(self, flat: Floats) -> Floats:
        found = []
        for table, inverses in zip(self._tables(flat), self._near, strict=True):
            own = table
            for axis, inverse in enumerate(inverses):
                own = _along(own, axis, inverse)
            found.append(own.reshape(-1, flat.shape[1]) * (own.size // flat.shape[1]))
        return np.concatenate(found)

    def _solved(self, right: Floats, close: float) -> Floats:
        """Return the solutions of ``X u = right``, one per column, by conjugate gradients."""
        found, residual = np.zeros_like(right), right.copy()
        scaled = self._preconditioned(residual)
        direction, squares = scaled.copy(), self._dots(residual, scaled)
        goals = close**2 * squares
        for _ in range(MAX_STEPS):
            unsolved = squares > goals
            if not unsolved.any():
                return found
            image = self._times(direction)
            curvature = self._dots(direction, image)
            lengths = self._dots(direction, direction)
            if (unsolved & (curvature <= FLAT * self._level * lengths)).any():
                break
            step = np.divide(squares, curvature, out=np.zeros_like(squares), where=unsolved)
            found += step * direction
            residual -= step * image
            scaled = self._preconditioned(residual)
            before, squares = squares, self._dots(residual, scaled)
            turn = np.divide(squares, before, out=np.zeros_like(squares), where=unsolved)
            direction = scaled + turn * direction
        raise NotCoveredError(NOT_COVERED)

    def _dots(self, one: Floats, two: Floats) -> Floats:
        return np.asarray((one * two * self._mean).sum(axis=0))

    # Expected errors.

    def errors(self, workloads: Sequence[Sequence[Rows]]) -> Floats:
        """Return the sum of the variances of every workload's queries; infinite if not answered."""
        found = []
        for workload in workloads:
            try:
                found.append(math.fsum(float(self.variances(rows).sum()) for rows in workload))
            except NotCoveredError:
                found.append(math.inf)
        return np.array(found)

    def variances(self, rows: Rows) -> Floats:
        """Return the variance of every row's answer; NotCoveredError if one is not answered."""
        rows = self._known(rows)
        if self._separate is not None and (factored := Factored.of(rows)) is not None:
            [frame] = self.frames
            queries = factored.over(frame, [self.finest[c] for c in frame])
            return self._product_variances(queries, self._separate)
        found = np.zeros(rows.count)
        for some, right in self._right_sides(rows):
            solution = self._solved(right, CLOSE)
            found[some] = self._dots(solution, 2 * right - self._times(solution))
        return found

    def sum_variances(self, parts: Sequence[tuple[Rows, sparse.csr_array]]) -> Floats:
        """Return the variances of sums of functions, one function per row of each part.

        ``parts``: rows whose vertices the functions are given over, and their coefficients.
        """
        given = [Rows(rows.scope, rows.parts, 0, functions) for rows, functions in parts]
        found = []
        for sides in zip(*(self._right_sides(rows) for rows in given), strict=True):
            right = reduce(np.add, (right for _, right in sides))
            solution = self._solved(right, CLOSE)
            found.append(self._dots(solution, 2 * right - self._times(solution)))
        return np.concatenate(found)

    def covariance(self, rows: Rows) -> Floats:
        """Return the covariances of the rows' answers."""
        right = np.hstack([right for _, right in self._right_sides(rows)])
        return np.asarray((right * self._mean).T @ self._solved(right, CLOSEST))

    def _factored(self) -> list[Inverse] | None:
        """Return the inverse of every column's X_c if one grid of equal heights was measured."""
        if len(self._measured) != 1 or not isinstance(self._measured[0].block, Products):
            return None
        block = self._measured[0].block
        height = block.heights.flat[0]
        if not (block.heights == height).all():
            return None
        grams = [(f.T @ f).toarray().astype(np.float64) for f in block.factors]
        return [Inverse(g * (float(height) ** 2 if n == 0 else 1)) for n, g in enumerate(grams)]

    def _known(self, rows: Rows) -> Rows:
        """Return rows over columns of the blocks; NotCoveredError if they tell more apart."""
        rows = self.resolved(rows)
        if not any(set(rows.scope) <= set(frame) for frame in self.frames):
            raise NotCoveredError(NOT_COVERED)
        for column, own in zip(rows.scope, rows.parts, strict=True):
            finer = self.finest[column]
            missed = abs(finer.missed_of(own))
            if missed.nnz and missed.max() > NEGLIGIBLE:
                raise NotCoveredError("the query tells values apart that were measured together")
        return rows

    def resolved(self, rows: Rows) -> Rows:
        """Return rows over declared columns if no block has their joint ones."""
        unknown = any(is_joint(column) and column not in self.finest for column in rows.scope)
        return realised(rows) if unknown else rows

    @staticmethod
    def _product_variances(queries: Factored, inverses: Sequence[Inverse]) -> Floats:
        found = queries.values**2
        for sets, members, inverse in zip(queries.sets, queries.members, inverses, strict=True):
            lengths = (members**2).sum(axis=1)
            if (inverse.outside(members) > OUTSIDE * lengths).any():
                raise NotCoveredError(NOT_COVERED)
            found = found * (inverse.half(members) ** 2).sum(axis=1)[sets]
        return found

    def _right_sides(self, rows: Rows) -> Iterator[tuple[slice, Floats]]:
        """Yield queries in frames, one per column, a few at a time."""
        rows = self._known(rows)
        parts = [self.finest[c] for c in rows.scope]
        step, shape = max(1, CHUNK // self.size), tuple(part.size for part in parts)
        factored = Factored.of(rows) if rows.plain or isinstance(rows, Products) else None
        listed = factored.over(rows.scope, parts) if factored is not None else None
        matrix = None if listed is not None else rows.over(rows.scope, parts).matrix
        for start in range(0, rows.count, step):
            some = slice(start, min(start + step, rows.count))
            if listed is not None:
                tables = listed.tables(some)
            else:
                assert matrix is not None
                tables = matrix[some].toarray().astype(np.float64).reshape(-1, *shape)
            right = np.zeros((self.size, len(tables)))
            self._spread(np.moveaxis(tables, 0, -1), rows.scope, right)
            yield some, right

    # Estimates.

    def estimate(self, values: Sequence[Floats]) -> ProductEstimate:
        """Return the least-squares estimate, given the noisy answers of every block.

        The answers may have columns, one per release; the estimate's answers then have them too.
        """
        single = values[0].ndim == 1
        given = [np.asarray(y, dtype=np.float64).reshape(len(y), -1) for y in values]
        right = np.zeros((self.size, given[0].shape[1]))
        for measured, y in zip(self._measured, given, strict=True):
            self._spread(measured.moments(y), measured.block.scope, right)
        return ProductEstimate(self, self._solved(right, CLOSEST), single=single)


class ProductEstimate:
    """The least-squares estimate of the table, as one table per frame."""

    def __init__(self, solution: ProductSolution, flat: Floats, *, single: bool) -> None:
        """Keep the frames' tables, one column per release."""
        self.solution, self._flat, self._single = solution, flat, single

    def answers(self, rows: Rows) -> Floats:
        """Return the answer of every row, without a check that it was measured."""
        rows = self.solution.resolved(rows)
        finest = [self.solution.finest[c] for c in rows.scope]
        table = self.solution._at(self.solution._tables(self._flat), rows.scope)
        found = _Measured.of(rows, finest).answers(table)
        return found[:, 0] if self._single else found


def _averaged(table: Floats, scope: Scope, other: Scope) -> Floats:
    """Return a table of one scope averaged over columns outside another, which it broadcasts to."""
    outside = tuple(axis for axis, column in enumerate(scope) if column not in other)
    found = table.mean(axis=outside) if outside else table
    missing = tuple(axis for axis, column in enumerate(other) if column not in scope)
    return np.expand_dims(found, missing) if missing else found


def _unit_factors(
    block: Rows, frame: Scope, finest: dict[str, Partition]
) -> tuple[list[sparse.csr_array], Floats]:
    """Return a block's factors over a frame with rows of length 1, and squares of their heights.

    Rows that are no products count as every vertex alone, with their mean square.
    """
    if isinstance(block, Products):
        own = dict(zip(block.scope, block.factors, strict=True))
        squares = block.heights.astype(np.float64) ** 2
    else:
        shape = tuple(finest[c].size for c in block.scope)
        own = {c: sparse.eye_array(finest[c].size, format="csr") for c in block.scope}
        squares = np.full(shape, block.square_sum / block.size)
    squares = np.expand_dims(squares, [n for n, c in enumerate(frame) if c not in block.scope])
    factors = []
    for axis, column in enumerate(frame):
        factor = own.get(column, sparse.csr_array(np.ones((1, finest[column].size))))
        rows = sparse.csr_array(factor, dtype=np.float64)
        lengths = np.sqrt(np.asarray(rows.power(2).sum(axis=1)).reshape(-1))
        lengths[lengths == 0] = 1
        factors.append(sparse.csr_array(sparse.diags_array(1 / lengths) @ rows))
        squares = squares * np.expand_dims(lengths**2, [a for a in range(len(frame)) if a != axis])
    return factors, np.asarray(squares)

"""Least squares from one strategy: expected errors, variances of answers, and estimates.

With y = A x + noise of variance 1, the best unbiased estimate of a query w is ``w X^- A^T y`` with
``X = A^T A``, and its variance is ``w X^- w^T``.  Both are worked out residual space by residual
space (see `residual`), so that no matrix is larger than the coarse coordinates of one space.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.solve.inverse import OUTSIDE, UNMEASURED, Inverse
from sqlmadp.solve.residual import Gram, Residuals
from sqlmadp.solve.sparse_rows import squares, width
from sqlmadp.table.rows import Rows, Scope, kronecker
from sqlmadp.table.runs import Floats, Integers

REFINEMENTS = 2
"""Solve this often again for what rounding left over: counts may be in the millions, and rows of
weight 1 stand beside rows of weight 2^24."""

NOT_COVERED = "the query is not a combination of what was measured"

CHUNK = 2**22
"""Work out at most this many coordinates of queries at once."""


class Solution:
    """Answers queries from noisy strategy rows, and says how noisy the answers are."""

    def __init__(self, blocks: Sequence[Rows], spaces: Residuals | None = None) -> None:
        """Factor the strategy, in coordinates that are known already if ``spaces`` are given."""
        self.blocks = tuple(blocks)
        self.spaces = Residuals(self.blocks) if spaces is None else spaces
        information = self.spaces.gram(self.blocks)
        # A column of one vertex has no fine residual: nothing is measured or asked there.
        self._numbers = information.numbers / np.maximum(self.spaces.multiplicities, 1)
        matrices = assembled(self.spaces, information)
        tops = (float(np.diag(matrix).max(initial=0.0)) for matrix in matrices.values())
        largest = max(float(self._numbers.max(initial=0.0)), *tops, 0.0)
        self._numbers[self._numbers <= UNMEASURED**2 * largest] = 0
        self._inverses = {fine: Inverse(matrix, largest) for fine, matrix in matrices.items()}

    # Expected errors.

    def error(self, queries: Gram) -> float:
        """Return ``trace(W X^- W^T)``; infinite if a query is not answered."""
        measured = self._numbers > 0
        total = float((queries.numbers[measured] / self._numbers[measured]).sum())
        square = float(queries.numbers.sum())
        outside = float(queries.numbers[~measured].sum())
        for piece in queries.pieces:
            inverse = self._inverses[piece.fine]
            total += inverse.trace(piece.place, piece.trace)
            square += float(np.trace(piece.trace))
            outside += inverse.missed(piece.place, piece.trace)
        return total if outside <= OUTSIDE * square else math.inf

    def errors(self, workloads: Sequence[Sequence[Rows]]) -> Floats:
        """Return the sum of the variances of every workload's queries."""
        found = []
        for workload in workloads:
            try:
                found.append(self.error(self.spaces.gram(workload)))
            except NotCoveredError:
                found.append(math.inf)
        return np.array(found)

    def variances(self, rows: Rows) -> Floats:
        """Return the variance of every row's answer; NotCoveredError if one is not answered."""
        rows = self.spaces.resolved(rows)
        if rows.plain:
            return float(rows.weight) ** 2 * self._vertex_variances(rows)
        matrix = rows.matrix
        found = np.zeros(rows.count)
        left = np.diff(matrix.indptr) > 0
        single = np.flatnonzero(np.diff(matrix.indptr) == 1)
        if len(single) * FEW_SINGLE >= rows.size:
            alone = matrix[single]
            with suppress(NotCoveredError):  # A vertex that nobody asks for may not be answered.
                found[single] = alone.data**2 * self._vertex_variances(rows)[alone.indices]
                left[single] = False
        if left.any():
            found[left] = self.sum_variances([(rows, matrix[left])])
        return found

    def _vertex_variances(self, rows: Rows) -> Floats:
        """Return the variance of every vertex alone."""
        found, total, outside = (np.zeros(rows.shape) for _ in range(3))
        axes = range(len(rows.scope))
        pairs = zip(rows.scope, rows.parts, strict=True)
        parts = [self.spaces.known(c).coordinates(part) for c, part in pairs]
        for fine in self.spaces.fine_sets(rows):
            place = self.spaces.place(rows, fine)
            coarse = [axis for axis in axes if rows.scope[axis] not in fine]
            basis = kronecker(parts[axis].coarse for axis in coarse)
            length = np.ones(())
            for axis in axes:
                if axis not in coarse:
                    shape = [-1 if a == axis else 1 for a in axes]
                    length = length * parts[axis].fine.reshape(shape)
            half, missed = self._half(fine, place, basis)
            each = (half**2).sum(axis=1), (basis**2).sum(axis=1), missed
            shape = [rows.shape[axis] if axis in coarse else 1 for axis in axes]
            sums = [length * own.reshape(shape) for own in each]
            found, total, outside = found + sums[0], total + sums[1], outside + sums[2]
        if (outside > OUTSIDE * total).any():
            raise NotCoveredError(NOT_COVERED)
        return found.reshape(-1)

    def _half(self, fine: Scope, place: Integers, rows: Floats) -> tuple[Floats, Floats]:
        """Return rows of a space over independent noises of variance 1, and what was not measured.

        The second is the square, per row, of what lies outside the measured coordinates.
        """
        known = place >= 0
        outside = (rows[:, ~known] ** 2).sum(axis=1)
        if fine in self._inverses:
            inverse = self._inverses[fine]
            wide = np.zeros((len(rows), inverse.size))
            wide[:, place[known]] = rows[:, known]
            return inverse.half(wide), outside + inverse.outside(wide)
        if not known.any():
            return np.zeros((len(rows), 0)), outside
        number = self._numbers[self.spaces.numbers[fine]]
        own = rows[:, known]
        if number <= 0:
            return np.zeros((len(rows), 1)), outside + (own**2).sum(axis=1)
        return own / math.sqrt(number), outside

    def _halves(self, rows: Rows, dense: Floats) -> list[tuple[Scope, Floats]]:
        """Return the rows' noise in every space: (row, fine residual, noise)."""
        found, total, outside = [], np.zeros(len(dense)), np.zeros(len(dense))
        for fine in self.spaces.fine_sets(rows):
            coordinates = self.spaces.coordinates(rows, fine, dense)
            flat = coordinates.reshape(-1, coordinates.shape[-1])
            half, missed = self._half(fine, self.spaces.place(rows, fine), flat)
            found.append((fine, half.reshape(*coordinates.shape[:2], -1)))
            total += (coordinates**2).sum(axis=(1, 2))
            outside += missed.reshape(coordinates.shape[:2]).sum(axis=1)
        if (outside > OUTSIDE * total).any():
            raise NotCoveredError(NOT_COVERED)
        return found

    def sum_variances(self, parts: Sequence[tuple[Rows, sparse.csr_array]]) -> Floats:
        """Return the variances of sums of functions, one function per row of each part.

        ``parts``: rows whose vertices the functions are given over, and their coefficients.
        """
        known = [
            self.spaces.resolved(Rows(rows.scope, rows.parts, 0, sparse.csr_array(functions)))
            for rows, functions in parts
        ]
        count = known[0].count
        entries = sum(rows.entries * width(self.spaces, rows) for rows in known)
        few = entries * FEW_ENTRIES <= sum(rows.count * rows.size for rows in known)
        step = max(1, count * CHUNK // max(1, entries)) if few else self._step(known)
        found = []
        for start in range(0, count, step):
            some = [
                Rows(rows.scope, rows.parts, 0, rows.matrix[start : start + step]) for rows in known
            ]
            found.append(self._few_variances(some) if few else self._sum_variances(some))
        return np.concatenate([np.zeros(0), *found])

    def _few_variances(self, parts: Sequence[Rows]) -> Floats:
        found = squares(self.spaces, parts, self._half)
        if (found.outside > OUTSIDE * found.lengths).any():
            raise NotCoveredError(NOT_COVERED)
        return np.maximum(found.variances, 0.0)

    def _sum_variances(self, parts: Sequence[Rows]) -> Floats:
        halves: dict[Scope, Floats] = {}
        for rows in parts:
            for fine, half in self._halves(rows, rows.matrix.toarray().astype(np.float64)):
                halves[fine] = halves[fine] + half if fine in halves else half
        return np.asarray(sum((half**2).sum(axis=(1, 2)) for half in halves.values()))

    def covariance(self, tables: Sequence[Rows]) -> Floats:
        """Return the covariances of all answers to all rows of several tables."""
        starts = np.cumsum([0, *(rows.count for rows in tables)])
        halves: dict[Scope, list[tuple[Integers, Floats]]] = {}
        for start, given in zip(starts, tables, strict=False):
            rows = self.spaces.resolved(given)
            for fine, half in self._halves(rows, rows.matrix.toarray().astype(np.float64)):
                places = start + np.arange(rows.count)
                halves.setdefault(fine, []).append((places, half.reshape(rows.count, -1)))
        found = np.zeros((starts[-1], starts[-1]))
        for parts in halves.values():
            places, noise = (np.concatenate(each) for each in zip(*parts, strict=True))
            found[np.ix_(places, places)] += noise @ noise.T
        return found

    @staticmethod
    def _step(parts: Sequence[Rows]) -> int:
        """Return how many functions are written out at once."""
        return max(1, CHUNK // max(1, *(rows.size for rows in parts)))

    # Estimates.

    def estimate(self, values: Sequence[Floats], *, refinements: int = REFINEMENTS) -> Estimate:
        """Return the least-squares estimate, given the noisy answers of every block.

        The answers may have columns, one per release; the estimate's answers then have them too.
        """
        single = values[0].ndim == 1
        given = [np.atleast_2d(np.asarray(y, dtype=np.float64).T) for y in values]
        found = self._solved(self._moments(self.blocks, given))
        for _ in range(refinements):
            fitted = Estimate(self, found, single=False)
            rest = [y - fitted.answers(b).T for y, b in zip(given, self.blocks, strict=True)]
            more = self._solved(self._moments(self.blocks, rest))
            found = {fine: found[fine] + more[fine] for fine in found}
        return Estimate(self, found, single=single)

    def pulled(self, tables: Sequence[Rows], pulls: Sequence[Floats]) -> Estimate:
        """Return ``X^- C^T l``: by how much estimates move if the rows C are pulled at by l."""
        single = pulls[0].ndim == 1
        given = [np.atleast_2d(np.asarray(pull, dtype=np.float64).T) for pull in pulls]
        return Estimate(self, self._solved(self._moments(tables, given)), single=single)

    def _moments(self, blocks: Sequence[Rows], values: Sequence[Floats]) -> dict[Scope, Floats]:
        """Return ``A^T y`` in every space: (release, fine residual, coordinate)."""
        moments: dict[Scope, Floats] = {}
        for block, y in zip(blocks, values, strict=True):
            vertices = block.weight * y if block.plain else np.asarray(y @ block.matrix)
            for fine in self.spaces.fine_sets(block):
                part = self.spaces.coordinates(block, fine, vertices)
                place = self.spaces.place(block, fine)
                shape = (*part.shape[:2], self.spaces.spaces[fine].size)
                total = moments.setdefault(fine, np.zeros(shape))
                total[:, :, place] += part
        return moments

    def _solved(self, moments: dict[Scope, Floats]) -> dict[Scope, Floats]:
        found = {}
        for fine, moment in moments.items():
            if fine in self.spaces.numbers:
                number = self._numbers[self.spaces.numbers[fine]]
                found[fine] = moment / number if number > 0 else moment
            else:
                flat = moment.reshape(-1, moment.shape[-1])
                found[fine] = self._inverses[fine].solve(flat.T).T.reshape(moment.shape)
        return found


class Estimate:
    """The least-squares estimate of the table, as coordinates in every space."""

    def __init__(
        self, solution: Solution, coordinates: dict[Scope, Floats], *, single: bool
    ) -> None:
        """Keep the coordinates: by space, (release, fine residual, coordinate)."""
        self.solution, self._coordinates, self._single = solution, coordinates, single

    def mixed_with_even(self, part: Floats | float) -> Estimate:
        """Return this estimate, a part of it replaced by the even table of the same total."""
        kept = np.reshape(1 - np.asarray(part, dtype=np.float64), (-1, 1, 1))
        mixed = {fine: kept * own for fine, own in self._coordinates.items()}
        place = int(self.solution.spaces.spaces[()].places[()])
        total = np.maximum(self._coordinates[()][:, :, place], 0)
        mixed[()][:, :, place] += (1 - kept[:, :, 0]) * total
        return Estimate(self.solution, mixed, single=self._single)

    def plus(self, other: Estimate) -> Estimate:
        """Return the sum of two estimates of the same strategy."""
        found = dict(self._coordinates)
        for fine, own in other._coordinates.items():
            found[fine] = found[fine] + own if fine in found else own
        return Estimate(self.solution, found, single=self._single)

    def answers(self, rows: Rows) -> Floats:
        """Return the answer of every row, without a check that it was measured."""
        spaces = self.solution.spaces
        rows = spaces.resolved(rows)
        releases = len(next(iter(self._coordinates.values())))
        vertices = np.zeros((releases, rows.size))
        for fine in spaces.fine_sets(rows):
            if fine in self._coordinates:
                place = spaces.place(rows, fine)
                found = np.where(place >= 0, self._coordinates[fine][:, :, place], 0.0)
                vertices += spaces.at_vertices(rows, fine, found)
        answers = (rows.weight * vertices).T if rows.plain else np.asarray(rows.matrix @ vertices.T)
        return answers[:, 0] if self._single else answers


FEW_ENTRIES = 4
"""Work with single coefficients of rows if these, times the coordinates of each, are at most one in
this many of all that would be written out."""

FEW_SINGLE = 4
"""Work out the variance of every vertex if at least one vertex in this many is asked for alone."""


def assembled(spaces: Residuals, gram: Gram) -> dict[Scope, Floats]:
    """Return ``X_F`` of every space of more than one coordinate."""
    matrices = {fine: np.zeros((spaces.spaces[fine].size,) * 2) for fine in spaces.large}
    for piece in gram.pieces:
        share = piece.trace / max(1, spaces.spaces[piece.fine].multiplicity)
        matrices[piece.fine][np.ix_(piece.place, piece.place)] += share
    return matrices

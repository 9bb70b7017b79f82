"""The basis of one column's functions: the constant, a coarse basis, and the fine residual.

All functions of a column that are in use are known over the vertices of one common partition, so
they are vectors of as many coefficients; K is their number.  Under the inner product
``<f, g> = f . g / K`` the constant has length 1, so a column outside a scope drops out of every
formula.  The coarse basis spans the functions of every partition but the finest one, coarse
partitions before fine ones.  What only the finest tells apart, the *fine residual*, is never
written out: it is usable where every strategy is a multiple of the identity on it.  Exceptional
vertices, which some strategy treats unlike all others, belong to the coarse basis one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.linalg import qr

from sqlmadp.table.partition import Floats, Integers, Partition, common, sampled
from sqlmadp.table.rows import Exceptions

NEGLIGIBLE = 1e-9
"""Take a coordinate to be zero below this, relative to functions of length about 1."""

MANY_EXCEPTIONS = 2
"""Write out all functions of a column if more than one vertex in this many is exceptional."""

KEPT_COLUMNS = 256
"""Keep the bases of this many columns: commands solve for the same ones many times over."""


class Column:
    """The basis of the functions that a set of partitions of one column spans."""

    def __init__(self, parts: Iterable[Partition], exceptions: Exceptions = ()) -> None:
        """``exceptions``: vertices of the finest partition that a strategy treats unlike others."""
        distinct = sorted(set(parts), key=lambda part: (part.size, part.key))
        self.finest, self._sampled = _finest(distinct)
        self.count = self.finest.size
        few = len(exceptions) * MANY_EXCEPTIONS <= self.count
        whole = few and self.finest in distinct
        coarse = [part for part in distinct if not (whole and part == self.finest)]
        basis = np.ones((1, self.count))
        for part in coarse:  # Level by level: nested partitions share the first vectors.
            basis = _extended(basis, np.asarray(part.over(self.finest).todense()))
        if whole and exceptions:
            alone = np.zeros((len(exceptions), self.count))
            alone[np.arange(len(exceptions)), list(exceptions)] = 1
            basis = _extended(basis, alone)
        self.basis = basis
        self.fine = self.count - len(basis) if whole else 0
        """Dimensions of the fine residual; 0 if it is written out."""
        self._coordinates: dict[Partition, Coordinates] = {}
        self._missed: dict[Partition, sparse.csr_array | None] = {self.finest: None}

    def missed(self, part: Partition) -> sparse.csr_array | None:
        """Return the residual of a partition's functions over the finest vertices; None if zero."""
        if part not in self._missed and not self._sampled and self.finest.refines(part):
            self._missed[part] = None
        elif part not in self._missed:
            if self._sampled:
                left = sparse.csr_array(self._projected(part.over(self.finest).toarray()))
            else:
                left = self.finest.missed_of(part)
            left.data[np.abs(left.data) < NEGLIGIBLE] = 0
            left.eliminate_zeros()
            self._missed[part] = left if left.nnz else None
        return self._missed[part]

    def coordinates(self, part: Partition) -> Coordinates:
        """Return where the functions of a partition lie."""
        if part not in self._coordinates:
            self._coordinates[part] = self._worked_out(part)
        return self._coordinates[part]

    def _worked_out(self, part: Partition) -> Coordinates:
        if part == self.finest:
            lift, coarse = None, self.basis.T / self.count
            lengths = np.full(self.count, 1 / self.count)
        else:
            lift = part.over(self.finest)
            coarse = np.asarray(lift @ self.basis.T) / self.count
            lengths = np.asarray((lift**2).sum(axis=1)).reshape(-1) / self.count
        used = np.flatnonzero(np.abs(coarse).max(axis=0) > NEGLIGIBLE / self.count)
        fine = np.maximum(lengths - (coarse**2).sum(axis=1), 0.0)
        fine[fine < NEGLIGIBLE * lengths] = 0
        return Coordinates(coarse[:, used], used, fine, lift)

    def fine_part(self, tensor: Floats, axis: int, part: Partition) -> Floats:
        """Return functions of a partition, along one axis, in the fine residual.

        It is written as coefficients of all finest vertices that are orthogonal to the basis.
        """
        moved, lift = np.moveaxis(tensor, axis, -1), self.coordinates(part).lift
        if lift is not None:
            moved = (moved.reshape(-1, moved.shape[-1]) @ lift).reshape(*moved.shape[:-1], -1)
        return np.moveaxis(self._projected(moved), -1, axis) / math.sqrt(self.count)

    def from_fine(self, tensor: Floats, axis: int, part: Partition) -> Floats:
        """Return the functions of a partition applied to the fine residual: the transpose."""
        moved, lift = self._projected(np.moveaxis(tensor, axis, -1)), self.coordinates(part).lift
        if lift is not None:
            moved = (moved.reshape(-1, moved.shape[-1]) @ lift.T).reshape(*moved.shape[:-1], -1)
        return np.moveaxis(moved, -1, axis) / math.sqrt(self.count)

    def _projected(self, rows: Floats) -> Floats:
        return np.asarray(rows - (rows @ self.basis.T / self.count) @ self.basis)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The functions of one partition of a column in its basis."""

    coarse: Floats
    """Their coordinates in the basis vectors that they use: one row per vertex."""
    used: Integers
    """The numbers of these basis vectors."""
    fine: Floats
    """The squared length of every vertex's part in the fine residual."""
    lift: sparse.csr_array | None
    """The functions over the finest vertices; None for the finest partition itself."""

    @property
    def holds_fine(self) -> bool:
        """Whether a function has a part in the fine residual."""
        return bool(self.fine.any())


@lru_cache(maxsize=KEPT_COLUMNS)
def column_of(parts: frozenset[Partition], exceptions: Exceptions = ()) -> Column:
    """Return the basis of a column; equal ones are worked out once."""
    return Column(parts, exceptions)


def _finest(parts: Sequence[Partition]) -> tuple[Partition, bool]:
    """Return vertices over which all parts' functions are known, and whether at some values only.

    Functions are known at some values alone where they are curved along a wide column, and no part
    tells everything apart: then there is no fine residual.
    """
    if len(parts) > 1 and any(part.is_curved for part in parts):
        *others, last = parts
        some = None if all(last.refines(part) for part in others) else sampled(parts)
        if some is not None:
            return some, True
    return common(parts), False


def _extended(basis: Floats, functions: Floats) -> Floats:
    """Return an orthonormal basis of the span of both, its first vectors kept."""
    count = basis.shape[1]
    left = functions
    for _ in range(2):  # Once more, for what rounding left.
        left = left - (left @ basis.T / count) @ basis
    q, r, _ = qr(left.T, mode="economic", pivoting=True)
    # Functions of length about 1 under the inner product are as long as sqrt(count) here.
    least = NEGLIGIBLE * math.sqrt(count) * max(1.0, float(np.abs(functions).max()))
    rank = int((np.abs(np.diag(r)) > least).sum())
    return np.vstack([basis, q[:, :rank].T * math.sqrt(count)])

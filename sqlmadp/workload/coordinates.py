"""Coordinates: a small basis in which all queries and strategy rows live.

Per column take functions g_0 = 1, g_1, g_2, ... on the groups of the common refinement of its
partitions in use, orthogonal and of mean square 1, such that the first d_l of them span the
indicators of the l coarsest partitions.  A function on the scope S is a combination of the products

    g_t = prod_c g_{t_c},    t_c = 0 outside S,   t_c < d_l(c) inside,

so a block whose scope has partitions of levels l uses a *box* of tuples t.  All boxes
together are the coordinates; their number D is far below the number of cells.

Expected errors do not depend on the choice of basis: ``X A = W`` has the same solutions X
after any invertible change of coordinates.  An orthogonal one keeps the numbers tame.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from sqlmadp.schema.marginal import Block, Labels, Marginal, Partition

Matrix = NDArray[np.float64]

RANK_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Basis:
    """The basis functions of one column, over the common refinement of its partitions."""

    refinement: Partition
    functions: Matrix
    """One column a function, one row a group of the refinement."""
    levels: dict[Partition, int]
    """How many of the first functions span each partition in use."""

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> Basis:
        """Build the basis by orthogonalising indicators, coarse partitions first."""
        ordered = sorted(set(partitions), key=lambda p: (p.size, p.key))
        refinement = reduce(Partition.refine, ordered)
        groups = refinement.size
        functions = np.ones((groups, 1)) / np.sqrt(groups)
        levels = {}
        for partition in ordered:
            if functions.shape[1] < groups:
                new = _new_directions(partition, refinement, functions)
                functions = np.hstack([functions, new])
            levels[partition] = functions.shape[1]
        # Whatever none of them spans comes last, so that no query can lose a part of itself.
        functions = np.hstack([functions, _completion(functions)])
        return cls(refinement, functions * np.sqrt(groups), levels)

    def coefficients(self, partition: Partition, functions: int) -> Matrix:
        """Return the first coefficients of the indicators of ``partition``, one row a group."""
        groups = self.refinement.size
        sums = np.zeros((partition.size, functions))
        np.add.at(sums, partition.coarsen(self.refinement), self.functions[:, :functions])
        return sums / groups


def _new_directions(partition: Partition, refinement: Partition, basis: Matrix) -> Matrix:
    """Return orthonormal columns that extend ``basis`` to span the partition's indicators too."""
    if partition.size == refinement.size:
        return _completion(basis)  # Far cheaper than to orthogonalise every indicator.
    vectors = np.eye(partition.size)[partition.coarsen(refinement)]
    for _ in range(2):  # Twice, since one pass of Gram-Schmidt loses orthogonality.
        vectors = vectors - basis @ (basis.T @ vectors)
    q, r, _ = qr(vectors, mode="economic", pivoting=True, check_finite=False)
    rank = int((np.abs(np.diag(r)) > RANK_TOLERANCE).sum())
    return np.asarray(q[:, :rank])


def _completion(basis: Matrix) -> Matrix:
    """Return orthonormal columns that extend ``basis`` to span everything."""
    return np.asarray(qr(basis, check_finite=False)[0][:, basis.shape[1] :])


class Coordinates:
    """The coordinate tuples that a set of marginals uses, numbered from 0."""

    def __init__(self, marginals: Iterable[Marginal]) -> None:
        """Build each column's basis and number the tuples of every box."""
        marginals = list(marginals)
        used: dict[str, list[Partition]] = {}
        for marginal in marginals:
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True):
                used.setdefault(name, []).append(partition)
        self.bases = {name: Basis.of(partitions) for name, partitions in used.items()}
        self._index = self._number(marginals)
        self.size = max(int(index.max(initial=-1)) + 1 for index in self._index.values())

    def _number(self, marginals: list[Marginal]) -> dict[tuple[str, ...], Labels]:
        """Return, for each support (columns with t_c > 0), the numbers of its tuples, -1 unused."""
        boxes: dict[tuple[str, ...], set[tuple[int, ...]]] = {(): {()}}
        for marginal in marginals:
            depth = dict(zip(marginal.scope, self._depths(marginal), strict=True))
            for support in _supports(marginal.scope):
                sides = tuple(depth[name] - 1 for name in support)
                boxes.setdefault(support, set()).add(sides)
        index, count = {}, 0
        for support in sorted(boxes, key=lambda s: (len(s), s)):
            mask = np.zeros(np.max(list(boxes[support]), axis=0, initial=0), dtype=np.bool_)
            for sides in boxes[support]:
                mask[tuple(slice(side) for side in sides)] = True
            numbers = np.full(mask.shape, -1, dtype=np.int64)
            numbers[mask] = count + np.arange(mask.sum())
            index[support] = numbers
            count += int(mask.sum())
        return index

    def _depths(self, marginal: Marginal) -> tuple[int, ...]:
        """Return how many functions of each column span the marginal's partition."""
        return tuple(
            self.bases[name].levels.get(partition, int(self.bases[name].functions.shape[1]))
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True)
        )

    def box(self, marginal: Marginal) -> Labels:
        """Return the coordinate number of every tuple of the marginal's box (-1: not in use)."""
        depths = self._depths(marginal)
        numbers = np.full(depths, -1, dtype=np.int64)
        for support in _supports(marginal.scope):
            if support not in self._index:
                continue
            index, sides = self._index[support], iter(self._index[support].shape)
            within = [
                (depth - 1, next(sides)) if name in support else None
                for name, depth in zip(marginal.scope, depths, strict=True)
            ]
            target = tuple(0 if w is None else slice(1, 1 + min(w)) for w in within)
            numbers[target] = index[tuple(slice(min(w)) for w in within if w is not None)]
        return numbers.reshape(-1)

    def resolves(self, marginal: Marginal) -> bool:
        """Tell whether the refinements tell apart all that the marginal tells apart."""
        return all(
            name in self.bases
            and self.bases[name].refinement.refine(partition).size
            == self.bases[name].refinement.size
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True)
        )

    def cells(self, marginal: Marginal) -> tuple[Matrix, Labels]:
        """Return the coefficients of the indicators of the marginal's cells, over its box."""
        coefficients: Matrix = np.ones((1, 1))
        for name, partition, depth in zip(
            marginal.scope, marginal.partitions, self._depths(marginal), strict=True
        ):
            factor = self.bases[name].coefficients(partition, depth)
            coefficients = np.asarray(np.kron(coefficients, factor), dtype=np.float64)
        return coefficients, self.box(marginal)

    def rows(self, block: Block) -> tuple[Matrix, Matrix]:
        """Return a block's rows in coordinates, and each row's largest coefficient without a place.

        A coefficient outside the coordinates in use is not representable: it is zero, up to
        rounding, for every function in the span of the marginals that built them.
        """
        coefficients, box = self.cells(block.marginal)
        over_box = np.asarray(block.matrix @ coefficients)
        placed = box >= 0
        rows = np.zeros((block.rows, self.size))
        rows[:, box[placed]] = over_box[:, placed]
        return rows, np.asarray(np.abs(over_box[:, ~placed]).max(axis=1, initial=0.0))


def _supports(scope: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    return itertools.chain.from_iterable(
        itertools.combinations(scope, count) for count in range(len(scope) + 1)
    )

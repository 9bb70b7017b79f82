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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from sqlmadp.errors import NotCoveredError, NotSupportedError
from sqlmadp.schema.marginal import Block, Labels, Marginal, Partition
from sqlmadp.workload.reduce import reduced

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
    def of(cls, partitions: Mapping[Partition, int]) -> Basis:
        """Build the basis by orthogonalising indicators, coarse partitions first.

        ``partitions`` tells how many cells of other columns each is crossed with, at most.  A
        partition's level counts functions of those before it, whether it needs them or not; so
        of two that are not nested, the one that would pay more for that comes first.
        """
        ordered = list(_coarse_first(partitions))
        refinement = reduce(Partition.refine, ordered)
        groups = refinement.size
        functions = np.ones((groups, 1)) / np.sqrt(groups)
        levels = {}
        known = Partition.of(np.zeros(groups, dtype=np.int64))
        for partition in ordered:
            finer = Partition.of(partition.coarsen(refinement))
            nested = functions.shape[1] == known.size and known.refine(finer).size == finer.size
            if functions.shape[1] < groups:
                new = contrasts(known, finer) if nested else _new_directions(finer, functions)
                functions = np.hstack([functions, new])
            levels[partition] = functions.shape[1]
            known = known.refine(finer)
        # Whatever none of them spans comes last, so that no query can lose a part of itself.
        functions = np.hstack([functions, _completion(functions)])
        return cls(refinement, functions * np.sqrt(groups), levels)

    def level(self, partition: Partition) -> int:
        """Return how many of the first functions span a partition, whether it is in use or not."""
        if partition not in self.levels:
            coefficients = self.coefficients(partition, self.functions.shape[1])
            used = np.abs(coefficients).max(axis=0) > RANK_TOLERANCE * np.abs(coefficients).max()
            self.levels[partition] = int(np.flatnonzero(used)[-1]) + 1
        return self.levels[partition]

    def coefficients(self, partition: Partition, functions: int) -> Matrix:
        """Return the first coefficients of the indicators of ``partition``, one row a group."""
        groups = self.refinement.size
        sums = np.zeros((partition.size, functions))
        np.add.at(sums, partition.coarsen(self.refinement), self.functions[:, :functions])
        return sums / groups


def _coarse_first(partitions: Mapping[Partition, int]) -> Iterator[Partition]:
    """Yield every partition after all coarser ones, otherwise those of many cells first."""
    left = sorted(partitions, key=lambda p: (-partitions[p], p.size, p.key))
    while left:
        chosen = next(p for p in left if not any(_is_coarser(q, p) for q in left))
        left.remove(chosen)
        yield chosen


def _is_coarser(one: Partition, other: Partition) -> bool:
    return one.size < other.size and one.refine(other).size == other.size


def contrasts(coarse: Partition, fine: Partition) -> Matrix:
    """Return orthonormal columns that extend the indicators of ``coarse`` to those of ``fine``.

    Each lives inside one group of ``coarse``.  So what treats the groups inside it alike, as most
    queries do, has no coefficients between two such columns, and `components` finds them apart.
    """
    sizes = np.bincount(fine.labels)
    parents = coarse.coarsen(fine)
    columns = np.zeros((len(fine.labels), fine.size - coarse.size))
    at = 0
    for parent in range(coarse.size):
        children = np.flatnonzero(parents == parent)
        # A reflection that takes the parent's indicator, as a unit vector, to the first axis.
        axis = np.sqrt(sizes[children] / sizes[children].sum())
        axis[0] += 1
        others = np.eye(len(children))[:, 1:] - np.outer(axis, axis[1:]) / axis[0]
        values = np.zeros((fine.size, len(children) - 1))
        values[children] = others / np.sqrt(sizes[children])[:, None]
        columns[:, at : at + len(children) - 1] = values[fine.labels]
        at += len(children) - 1
    return columns


def _new_directions(partition: Partition, basis: Matrix) -> Matrix:
    """Return orthonormal columns that extend ``basis`` to span the partition's indicators too."""
    if partition.size == len(basis):
        return _completion(basis)  # Far cheaper than to orthogonalise every indicator.
    vectors = np.eye(partition.size)[partition.labels]
    for _ in range(2):  # Twice, since one pass of Gram-Schmidt loses orthogonality.
        vectors = vectors - basis @ (basis.T @ vectors)
    q, r, _ = qr(vectors, mode="economic", pivoting=True, check_finite=False)
    rank = int((np.abs(np.diag(r)) > RANK_TOLERANCE).sum())
    return np.asarray(q[:, :rank])


def _completion(basis: Matrix) -> Matrix:
    """Return orthonormal columns that extend ``basis`` to span everything."""
    groups, known = basis.shape
    if known == groups:  # Nothing is missing; to find that out takes as long as everything else.
        return np.zeros((groups, 0))
    return np.asarray(qr(basis, check_finite=False)[0][:, basis.shape[1] :])


class Coordinates:
    """The coordinate tuples that a set of marginals uses, numbered from 0."""

    def __init__(
        self,
        marginals: Iterable[Marginal],
        basis: Callable[[Mapping[Partition, int]], Basis] = Basis.of,
    ) -> None:
        """Build each column's ``basis`` and number the tuples of every box."""
        marginals = list(marginals)
        used: dict[str, dict[Partition, int]] = {}
        for marginal in marginals:
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True):
                crossed = used.setdefault(name, {})
                others = marginal.size // partition.size
                crossed[partition] = max(crossed.get(partition, 0), others)
        self.bases = {name: basis(partitions) for name, partitions in used.items()}
        self._index = self._number(marginals)
        self.size = max(int(index.max(initial=-1)) + 1 for index in self._index.values())

    def require(self, most: int) -> None:
        """Raise NotSupportedError if there are more than ``most`` coordinates."""
        if self.size > most:
            raise NotSupportedError(
                f"these queries together take {self.size:,} coordinates; at most {most:,} are "
                "supported. Ask for fewer columns at a time, or for coarser groups of their values"
            )

    def _number(self, marginals: list[Marginal]) -> dict[tuple[str, ...], Labels]:
        """Return, for each support (columns with t_c > 0), the numbers of its tuples, -1 unused."""
        boxes: dict[tuple[str, ...], set[tuple[int, ...]]] = {(): {()}}
        for marginal in marginals:
            depth = dict(zip(marginal.scope, self.depths(marginal), strict=True))
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

    def depths(self, marginal: Marginal) -> tuple[int, ...]:
        """Return how many functions of each column span the marginal's partition."""
        return tuple(
            self.bases[name].level(partition)
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True)
        )

    def box(self, marginal: Marginal) -> Labels:
        """Return the coordinate number of every tuple of the marginal's box (-1: not in use)."""
        depths = self.depths(marginal)
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

    def inside(self, scope: tuple[str, ...]) -> Labels:
        """Return the numbers of all tuples that are constant in every column but some."""
        supports = (support for support in self._index if set(support) <= set(scope))
        numbers = np.concatenate([self._index[support].reshape(-1) for support in supports])
        return numbers[numbers >= 0]

    def resolves(self, marginal: Marginal) -> bool:
        """Tell whether the refinements tell apart all that the marginal tells apart."""
        return all(
            name in self.bases
            and self.bases[name].refinement.refine(partition).size
            == self.bases[name].refinement.size
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True)
        )

    def resolved(self, block: Block) -> Block:
        """Return a block without what no row of it depends on, or raise if it is too fine."""
        if not self.resolves(block.marginal):
            block = reduced(block)  # What no row depends on need not have been measured.
        if not self.resolves(block.marginal):
            raise NotCoveredError("the release does not tell apart what the query tells apart")
        return block

    def holds(self, marginal: Marginal) -> bool:
        """Tell whether every function on the marginal's cells has a place."""
        return self.resolves(marginal) and bool((self.box(marginal) >= 0).all())

    def cells(self, marginal: Marginal) -> tuple[Matrix, Labels]:
        """Return the coefficients of the indicators of the marginal's cells, over its box."""
        coefficients: Matrix = np.ones((1, 1))
        for name, partition, depth in zip(
            marginal.scope, marginal.partitions, self.depths(marginal), strict=True
        ):
            factor = self.bases[name].coefficients(partition, depth)
            coefficients = np.asarray(np.kron(coefficients, factor), dtype=np.float64)
        return coefficients, self.box(marginal)

    def square(self, gram: Matrix, marginal: Marginal) -> tuple[Matrix, Labels]:
        """Return a square matrix over the marginal's cells over its box, column by column."""
        table = gram.reshape((*marginal.shape, *marginal.shape))
        parts = zip(marginal.scope, marginal.partitions, self.depths(marginal), strict=True)
        for axis, (name, partition, depth) in enumerate(parts):
            factor = self.bases[name].coefficients(partition, depth)
            for place in (axis, len(marginal.scope) + axis):
                table = np.moveaxis(np.tensordot(table, factor, (place, 0)), -1, place)
        box = self.box(marginal)
        return table.reshape(len(box), len(box)), box

    def rows(self, block: Block) -> tuple[Matrix, Matrix]:
        """Return a block's rows in coordinates, and each row's largest coefficient without a place.

        A coefficient outside the coordinates in use is not representable: it is zero, up to
        rounding, for every function in the span of the marginals that built them.
        """
        marginal, box = block.marginal, self.box(block.marginal)
        table = block.matrix.toarray().astype(np.float64).reshape(block.rows, *marginal.shape)
        parts = zip(marginal.scope, marginal.partitions, self.depths(marginal), strict=True)
        for axis, (name, partition, depth) in enumerate(parts, start=1):
            factor = self.bases[name].coefficients(partition, depth)
            table = np.moveaxis(np.tensordot(table, factor, (axis, 0)), -1, axis)
        over_box = table.reshape(block.rows, len(box))
        placed = box >= 0
        rows = np.zeros((block.rows, self.size))
        rows[:, box[placed]] = over_box[:, placed]
        return rows, np.asarray(np.abs(over_box[:, ~placed]).max(axis=1, initial=0.0))


def _supports(scope: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    return itertools.chain.from_iterable(
        itertools.combinations(scope, count) for count in range(len(scope) + 1)
    )

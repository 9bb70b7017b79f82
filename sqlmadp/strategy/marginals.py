"""Marginal strategies: weights on plain marginals, for any number of columns.

If every column has one partition in use, with n_c groups, and all queries and strategy rows are
single cells of marginals, then ``A^T A`` and ``W^T W`` are diagonal in coordinates and depend on
the support S of a coordinate alone (the columns where it is not constant).  With n_T cells of T,

    X_S = sum over measured T >= S of  u_T^2 / n_T,      M_S = sum over asked T >= S of  q_T^2 / n_T
    error = (sum_T u_T)^2  sum_S  m_S M_S / X_S,         m_S = prod over c in S of (n_c - 1)

Only sets of columns inside some asked or merged scope occur, so nothing grows with 2^d.  [MMHM18]
McKenna, Miklau, Hay, Machanavajjhala, doi:10.14778/3231751.3231769, optimise the same error
over all 2^d weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.marginal import Block, CellBlock, Marginal, Partition, cell_weight
from sqlmadp.strategy.integer import S, apportion
from sqlmadp.strategy.merging import Asked, merge
from sqlmadp.strategy.weights import Selected, error_of, few_weights

Matrix = NDArray[np.float64]
Scope = tuple[str, ...]

MOST_CELLS = 1 << 20
"""Cells of a marginal up to which it may take the place of smaller ones."""

MOST_SETS = 1 << 13
"""Sets of columns inside merged scopes up to which all of them are tried."""

MOST_STEPS = 8
"""About how many stages of merging are tried, from the last one on."""

PARTS_A_BLOCK = 64
"""Integer parts of the whole weight there are at least for every block."""


@dataclass(frozen=True, eq=False)
class PlainWorkload:
    """Queries that are all the cells of some marginals, one partition a column."""

    partitions: Mapping[str, Partition]
    squares: Mapping[Scope, float]
    """For every asked scope, the sum of squared query weights of one cell."""

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> PlainWorkload | None:
        """Return the workload in this form, or None if it has another one."""
        partitions: dict[str, Partition] = {}
        squares: dict[Scope, float] = {}
        for block in blocks:
            weight = cell_weight(block)
            if weight is None:
                return None
            marginal = block.marginal
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True):
                known = partitions.setdefault(name, partition)
                if known is not partition and known != partition:
                    return None
            squares[marginal.scope] = squares.get(marginal.scope, 0.0) + float(weight) ** 2
        return cls(partitions, squares)

    def marginal(self, scope: Scope) -> Marginal:
        """Return the marginal of a scope."""
        return Marginal(scope, tuple(self.partitions[name] for name in scope))

    def cells(self, scope: Scope) -> int:
        """Return the number of cells of a scope (exact, of any size)."""
        return math.prod(self.partitions[name].size for name in scope)


class Supports:
    """The error of weights on given scopes, support by support."""

    def __init__(self, workload: PlainWorkload, scopes: Sequence[Scope]) -> None:
        """Take the supports of all asked scopes."""
        self.scopes = tuple(scopes)
        self.count = len(self.scopes)
        number: dict[Scope, int] = {}
        asked = [_entries(scope, number, grow=True) for scope in workload.squares]
        weights = [square / workload.cells(s) for s, square in workload.squares.items()]
        moments = np.zeros(len(number))
        for supports, weight in zip(asked, weights, strict=True):
            moments[supports] += weight
        copies = [math.prod(workload.partitions[c].size - 1 for c in s) for s in number]
        self._moments = moments * np.array(copies, dtype=np.float64)
        places = [_entries(scope, number, grow=False) for scope in self.scopes]
        values = [
            np.full(len(p), 1 / workload.cells(s)) for p, s in zip(places, scopes, strict=True)
        ]
        starts = np.concatenate([[0], np.cumsum([len(p) for p in places])])
        parts = (np.concatenate(values), np.concatenate(places), starts)
        # One row a scope: the transpose of what turns squares into X.
        self._blocks = sparse.csr_array(parts, shape=(self.count, len(number)))
        self._columns = sparse.csr_array(self._blocks.T)

    def trace(self, squares: Matrix) -> float:
        """Return the trace."""
        return float((self._moments / (self._columns @ squares)).sum())

    def trace_and_slopes(self, squares: Matrix) -> tuple[float, Matrix]:
        """Return the trace, and its derivative by every square."""
        information = self._columns @ squares
        parts = self._moments / information
        return float(parts.sum()), -(self._blocks @ (parts / information))


def select_marginals(workload: PlainWorkload) -> Selected:
    """Return good integer weights for marginals in and above what was asked."""
    best: tuple[float, tuple[Scope, ...], Matrix] | None = None
    for scopes, starts in _choices(workload):
        error, weights = few_weights(Supports(workload, scopes), starts)
        if best is None or error < best[0]:
            best = error, scopes, weights
    if best is None:
        raise ValueError("a workload asks for something")
    _, scopes, weights = best
    kept = np.flatnonzero(weights)
    chosen = [scopes[k] for k in kept]
    total = S
    while total < PARTS_A_BLOCK * len(chosen):
        total *= 2
    whole = apportion(weights[kept].tolist(), total)
    error = error_of(Supports(workload, chosen), np.array(whole, dtype=np.float64))
    pairs = zip(chosen, whole, strict=True)
    return Selected(tuple(CellBlock(workload.marginal(s), w) for s, w in pairs), total, error)


def _choices(workload: PlainWorkload) -> Iterator[tuple[tuple[Scope, ...], list[Matrix]]]:
    """Yield sets of scopes to weigh, each with weights to start from."""
    asked = tuple(workload.squares)
    closure = _closure(asked)
    yield closure, [_start(workload, closure, asked)]
    tops = [
        Asked(
            tuple((name, workload.partitions[name].size) for name in scope),
            square * workload.cells(scope),
        )
        for scope, square in workload.squares.items()
        if scope
    ]
    merged = merge(tops, MOST_CELLS)
    tried = merged[:: -max(1, len(merged) // MOST_STEPS)]
    steps = [tuple(part.scope for part in step) for step in tried]
    if workload.cells(every := tuple(sorted(workload.partitions))) <= MOST_CELLS:
        steps.append((every,))
        yield (every,), [np.ones(1)]  # Whatever else is found is no worse than the identity.
    for scopes in steps:
        if sum(2 ** len(scope) for scope in scopes) <= MOST_SETS:
            wide = _closure(scopes)
            yield wide, [_start(workload, wide, scopes)]


def _closure(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """Return all sets of columns inside some scope, small ones first."""
    found = {subset for scope in scopes for subset in _subsets(scope)}
    return tuple(sorted(found, key=lambda scope: (len(scope), scope)))


def _start(workload: PlainWorkload, scopes: Sequence[Scope], heavy: Iterable[Scope]) -> Matrix:
    """Return weights to start from: most on ``heavy``, by the cube root of their cells."""
    main = set(heavy)
    roots = np.array([np.cbrt(float(workload.cells(scope))) for scope in scopes])
    return np.asarray(np.where([scope in main for scope in scopes], 1.0, 0.1) * roots)


def _entries(scope: Scope, number: dict[Scope, int], *, grow: bool) -> NDArray[np.int64]:
    """Return the numbers of the supports inside a scope; new ones are numbered if ``grow``."""
    subsets = _subsets(scope)
    if grow:
        return np.array([number.setdefault(s, len(number)) for s in subsets], dtype=np.int64)
    return np.array([number[s] for s in subsets if s in number], dtype=np.int64)


def _subsets(scope: Scope) -> Iterator[Scope]:
    return itertools.chain.from_iterable(
        itertools.combinations(scope, count) for count in range(len(scope) + 1)
    )

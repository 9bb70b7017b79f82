"""Least squares for strategies that fall apart: parts that share no column meet in the total alone.

Blocks over ``a, b`` and blocks over ``c`` tell nothing of each other but how many records there
are.  So each *part* is solved by itself, with what all others know of the total as one more row:

    1 / v_i    what part i alone knows of the total, v_i being the variance of its estimate
    s_i        the sum of that over all other parts: a row of weight sqrt(s_i), whose value is the
               mean of their estimates, weighed by what each knows

A query w reads one part.  Its answer takes ``k = s_i cov(w, total)`` of the others' total, with the
covariance that all parts together give, and the rest, ``w - k total``, from its own part alone: so
the noise of every answer is known over the noise of all parts by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import TOTAL, Block
from sqlmadp.workload.reduce import reduced

if TYPE_CHECKING:
    from sqlmadp.workload.solver import Solver

Matrix = NDArray[np.float64]
SolverFor = Callable[[Sequence[Block]], "Solver"]

ONE = Block(TOTAL, sparse.csr_array(np.ones((1, 1))))
"""The total."""

NOTHING = Block(TOTAL, sparse.csr_array(np.zeros((1, 1))))
"""A query that counts nothing, which any strategy answers."""

ROUNDING = 1e-12
"""What may be left of a query, relatively, that is the total of the others but for rounding."""


@dataclass(frozen=True, eq=False)
class _Part:
    """Some blocks, all over columns that no other block has."""

    columns: frozenset[str]
    places: tuple[int, ...]
    """The numbers of the blocks."""
    alone: Solver
    known: float
    """What they know of the total: one over its variance, 0 if they do not tell it."""

    @classmethod
    def of(cls, places: Sequence[int], blocks: Sequence[Block], solver_for: SolverFor) -> _Part:
        """Return a part of a strategy."""
        columns = frozenset(name for block in blocks for name in block.marginal.scope)
        alone = solver_for(blocks)
        try:
            known = 1 / float(alone.variances(ONE)[0])
        except NotCoveredError:
            known = 0.0
        return cls(columns, tuple(places), alone, known)


class ApartSolver:
    """Solve for parts of a strategy that share no column."""

    def __init__(
        self, blocks: Sequence[Block], groups: Sequence[Sequence[int]], solver_for: SolverFor
    ) -> None:
        """Solve every part alone, and with what the others know of the total."""
        self._rows = [block.rows for block in blocks]
        self._parts = [_Part.of(g, [blocks[n] for n in g], solver_for) for g in groups]
        self._others = [sum(p.known for p in self._parts if p is not part) for part in self._parts]
        self._solvers = []
        for part, others in zip(self._parts, self._others, strict=True):
            row = Block(TOTAL, sparse.csr_array(np.array([[math.sqrt(others)]])))
            self._solvers.append(solver_for([*(blocks[n] for n in part.places), row]))

    @classmethod
    def of(cls, blocks: Sequence[Block], solver_for: SolverFor) -> ApartSolver | None:
        """Return the solver of a strategy, given that of its parts; None if all hang together."""
        groups: list[tuple[set[str], list[int]]] = []
        totals = [number for number, block in enumerate(blocks) if not block.marginal.scope]
        for number, block in enumerate(blocks):
            columns, numbers = set(block.marginal.scope), [number]
            for group in [each for each in groups if each[0] & columns]:
                columns |= group[0]
                numbers += group[1]
                groups.remove(group)
            if columns:
                groups.append((columns, numbers))
        if len(groups) < 2:
            return None
        groups[0][1].extend(totals)  # What has no column may go with any part.
        return cls(blocks, [numbers for _, numbers in groups], solver_for)

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        return self._solvers[self._place(block)].variances(block)

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows of ``blocks``."""
        return math.fsum(float(self.variances(block).sum()) for block in blocks)

    def noise(self, block: Block) -> Matrix:
        """Return each answer's noise over that of all parts by themselves."""
        place = self._place(block)
        solver, others = self._solvers[place], self._others[place]
        gain = others * (_dense(solver.noise(block)) @ _dense(solver.noise(ONE)).T)
        shares = [each.known / others if others else 0.0 for each in self._parts]
        columns = [share * gain * t for share, t in zip(shares, self._totals, strict=True)]
        rows = block.matrix.toarray()
        rest = rows - gain
        rest[np.abs(rest) <= ROUNDING * np.abs(rows).max(axis=1, keepdims=True)] = 0
        left = Block(block.marginal, sparse.csr_array(rest))
        columns[place] = _dense(self._parts[place].alone.noise(left))
        return np.hstack(columns)

    def fit(self, values: Sequence[Matrix]) -> Callable[[Block], Matrix]:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""
        return self.answers(self.estimate(values))

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the least-squares estimates of all parts, one after the other."""
        own = [[values[number] for number in part.places] for part in self._parts]
        totals = [
            part.known * part.alone.fit(each)(ONE) if part.known else 0.0
            for part, each in zip(self._parts, own, strict=True)
        ]
        estimates = []
        for n, (solver, others) in enumerate(zip(self._solvers, self._others, strict=True)):
            told = np.zeros((1, *values[0].shape[1:]))
            if others > 0:
                told = told + sum(t for m, t in enumerate(totals) if m != n) / math.sqrt(others)
            estimates.append(solver.estimate([*own[n], told]))
        return np.concatenate(estimates)

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return the values of every strategy block that an estimate stands for."""
        found: dict[int, Matrix] = {}
        estimates = np.split(estimate, self._ends)
        for part, solver, own in zip(self._parts, self._solvers, estimates, strict=True):
            found |= dict(zip(part.places, solver.fitted(own)[:-1], strict=True))
        return tuple(found[number] for number in range(len(self._rows)))

    def answers(self, estimate: Matrix) -> Callable[[Block], Matrix]:
        """Return what answers blocks from an estimate."""
        pairs = zip(self._solvers, np.split(estimate, self._ends), strict=True)
        own = [solver.answers(each) for solver, each in pairs]
        return lambda block: own[self._place(block)](block)

    @cached_property
    def _ends(self) -> list[int]:
        """Return where the estimate of every part but the last ends."""
        sizes = []
        for part, solver in zip(self._parts, self._solvers, strict=True):
            nothing = [np.zeros(self._rows[number]) for number in part.places]
            sizes.append(len(solver.estimate([*nothing, np.zeros(1)])))
        return [int(end) for end in np.cumsum(sizes)[:-1]]

    @cached_property
    def _totals(self) -> list[Matrix]:
        """Return the noise of every part's own estimate of the total."""
        asked = [ONE if part.known else NOTHING for part in self._parts]
        pairs = zip(self._parts, asked, strict=True)
        return [_dense(part.alone.noise(each)) for part, each in pairs]

    def _place(self, block: Block) -> int:
        """Return the part that a block reads."""
        for read in (block, reduced(block)):  # What no row depends on is not read.
            for place, part in enumerate(self._parts):
                if part.columns >= set(read.marginal.scope):
                    return place
        raise NotCoveredError("the query is not a combination of what the release measured")


def _dense(matrix: Matrix | sparse.csr_array) -> Matrix:
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())

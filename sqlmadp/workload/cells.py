"""Least squares for strategies of one scope: what is estimated is every cell of one marginal.

`CellsSolver` is what such solvers have in common: which queries lie inside the marginal, and how
they are answered from its cells.  `IdentitySolver` serves a strategy that measures each cell.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import Block, Marginal, cell_map
from sqlmadp.workload.reduce import reduced

Matrix = NDArray[np.float64]


class CellsSolver(ABC):
    """Answers queries from an estimate of every cell of a marginal."""

    def __init__(self, marginal: Marginal) -> None:
        """Keep the marginal."""
        self.marginal = marginal

    @abstractmethod
    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the estimate of every cell of the marginal."""

    def fit(self, values: Sequence[Matrix]) -> Callable[[Block], Matrix]:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""
        return self.answers(self.estimate(values))

    def answers(self, estimate: Matrix) -> Callable[[Block], Matrix]:
        """Return what answers blocks from an estimate of every cell."""

        def answers(block: Block) -> Matrix:
            block = self.checked(block)
            cells = cell_map(block.marginal, self.marginal)
            merged = sparse.csr_array(  # Ten times faster than np.add.at for several columns.
                (np.ones(len(cells)), (cells, np.arange(len(cells)))),
                shape=(block.marginal.size, len(cells)),
            )
            return np.asarray(block.matrix @ (merged @ estimate))

        return answers

    def checked(self, block: Block) -> Block:
        """Return the block, reduced if need be, or raise if it is finer than what was measured."""
        return resolved(block, self.marginal)


def resolved(block: Block, measured: Marginal) -> Block:
    """Return a block, reduced if need be, or raise if it is finer than what was measured."""
    if not measured.resolves(block.marginal):
        block = reduced(block)  # What no row depends on need not have been measured.
    if not measured.resolves(block.marginal):
        raise NotCoveredError("the release does not tell apart what the query tells apart")
    return block


class IdentitySolver(CellsSolver):
    """Solve for a strategy that measures every cell of one marginal, each with one weight."""

    def __init__(self, block: Block) -> None:
        """Keep the marginal and the weight."""
        super().__init__(block.marginal)
        self._weight = float(block.matrix.data[0])

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        block = self.checked(block)
        copies = np.asarray([1.0])
        place = dict(zip(block.marginal.scope, block.marginal.partitions, strict=True))
        for name, measured in zip(self.marginal.scope, self.marginal.partitions, strict=True):
            inside = (
                place[name].coarsen(measured) if name in place else np.zeros(measured.size, int)
            )
            copies = np.multiply.outer(copies, np.bincount(inside)).reshape(-1)
        squares = np.asarray(block.matrix.multiply(block.matrix) @ copies)
        return np.asarray(squares / self._weight**2)

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows of ``blocks``."""
        return math.fsum(float(self.variances(block).sum()) for block in blocks)

    def noise(self, block: Block) -> sparse.csr_array:
        """Return each answer's noise over that of every measured cell."""
        block = self.checked(block)
        cells = cell_map(block.marginal, self.marginal)
        return sparse.csr_array(block.matrix[:, cells] / self._weight)

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return the estimate of every cell of the marginal."""
        return values[0] / self._weight

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return the values of the block that an estimate of every cell stands for."""
        return (estimate * self._weight,)

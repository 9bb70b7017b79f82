"""Least squares for plain marginals: ``A^T A`` is diagonal, so nothing is factored.

Every block measures the cells of a marginal, each alone and with one weight, and every column has
one partition.  A function on the cells of T is a sum of parts, one for every support S inside T:
``P_S w`` varies in all columns of S and is constant in the others.  With n_T the cells of T,

    X_S = sum over measured T >= S of  u_T^2 / n_T
    variance of w       =  sum over S of  |P_S w|^2 / (n_T X_S)
    estimate on S   e_S =  (n_S / X_S) P_S z_S,
                    z_S =  sum over measured T >= S of  (u_T / n_T) (y_T summed to S)
    answer to w         =  sum over S of  <w summed to S, e_S> / n_T

Supports that lie inside no measured scope are not known: a query with a part there is refused.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.schema.marginal import (
    Block,
    CellBlock,
    Marginal,
    Partition,
    cell_weight,
    expand,
    weight_in_any_order,
)
from sqlmadp.workload.factor import COVERED
from sqlmadp.workload.reduce import reduced

Matrix = NDArray[np.float64]
Scope = tuple[str, ...]

MOST_SUPPORTS = 1 << 22
"""Supports of all blocks, counted block by block, up to which they are kept."""

CHUNK = 1 << 22
"""Numbers that one dense slice of a query block may hold."""


def is_plain(blocks: Sequence[Block]) -> bool:
    """Tell whether blocks measure cells of marginals with one partition a column."""
    partitions: dict[str, Partition] = {}
    for block in blocks:
        for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
            known = partitions.setdefault(name, partition)
            if known is not partition and known != partition:
                return False
    supports = sum(2 ** len(block.marginal.scope) for block in blocks)
    return supports <= MOST_SUPPORTS and all(cell_weight(block) is not None for block in blocks)


class DiagonalSolver:
    """Solve support by support."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        """Add up the information on every support."""
        self._marginals = [block.marginal for block in blocks]
        self._weights = [float(cell_weight(block) or 0) for block in blocks]
        self._partitions = {
            name: partition
            for marginal in self._marginals
            for name, partition in zip(marginal.scope, marginal.partitions, strict=True)
        }
        self._information: dict[Scope, float] = {}
        for marginal, weight in zip(self._marginals, self._weights, strict=True):
            added = weight**2 / marginal.size
            for support in _subsets(marginal.scope):
                self._information[support] = self._information.get(support, 0.0) + added

    def total(self, blocks: Sequence[Block]) -> float:
        """Return the sum of the variances of all rows."""
        return math.fsum(self._total(block) for block in blocks)

    def variances(self, block: Block) -> Matrix:
        """Return each row's variance in units of the noise variance."""
        block = self._resolved(block)
        weight = weight_in_any_order(block)
        if weight is not None:  # All cells have the same variance.
            return np.full(block.rows, self._total(CellBlock(block.marginal, weight)) / block.rows)
        parts = [np.zeros(0)]
        for rows in self._slices(block):
            variances = np.zeros(len(rows))
            for support, part, copies in self._parts(rows, block.marginal):
                variances += copies * _squared(part) / (block.marginal.size * self._known(support))
            parts.append(variances)
        return np.concatenate(parts)

    def noise(self, block: Block) -> sparse.csr_array:
        """Return each answer's noise over one independent unit a cell of every support."""
        block = self._resolved(block)
        starts, size = self._layout()
        slices = [sparse.csr_array((0, size))]
        for rows in self._slices(block):
            noise = sparse.csr_array((len(rows), size))
            for support, part, _ in self._parts(rows, block.marginal):
                flat = part.reshape(len(rows), -1)
                scaled = flat / np.sqrt(flat.shape[1] * self._known(support))
                row, place = np.nonzero(scaled)
                entries = (scaled[row, place], (row, starts[support] + place))
                noise = noise + sparse.csr_array(entries, shape=noise.shape)
            slices.append(noise)
        return sparse.csr_array(sparse.vstack(slices))

    def fit(self, values: Sequence[Matrix]) -> Callable[[Block], Matrix]:
        """Return what answers blocks, given the noisy ``values`` of every strategy block."""
        return self.answers(self.estimate(values))

    def estimate(self, values: Sequence[Matrix]) -> Matrix:
        """Return ``e_S`` of every support, one after the other."""
        more = values[0].shape[1:]
        starts, size = self._layout()
        estimate = np.zeros((size, *more))
        for marginal, weight, value in zip(self._marginals, self._weights, values, strict=True):
            table = (weight / marginal.size) * value.reshape((*marginal.shape, *more))
            for support, part in _sums(table, marginal.scope):
                start = starts[support]
                estimate[start : start + math.prod(part.shape[: len(support)])] += part.reshape(
                    -1, *more
                )
        for support, start in starts.items():
            shape = tuple(self._partitions[name].size for name in support)
            cells = math.prod(shape)
            part = estimate[start : start + cells].reshape((*shape, *more))
            for axis in range(len(shape)):
                part = part - part.mean(axis=axis, keepdims=True)
            scale = cells / self._information[support]
            estimate[start : start + cells] = scale * part.reshape(cells, *more)
        return estimate

    def fitted(self, estimate: Matrix) -> tuple[Matrix, ...]:
        """Return the values of every block that an estimate stands for."""
        answers = self.answers(estimate)
        pairs = zip(self._marginals, self._weights, strict=True)
        return tuple(answers(CellBlock(marginal, weight)) for marginal, weight in pairs)

    def answers(self, estimate: Matrix) -> Callable[[Block], Matrix]:
        """Return what answers blocks from an estimate."""
        starts, _ = self._layout()

        def answers(block: Block) -> Matrix:
            block = self._resolved(block)
            marginal = block.marginal
            self._check_parts(block)
            cells = np.zeros((*marginal.shape, *estimate.shape[1:]))
            for support in _subsets(marginal.scope):
                if support not in starts:
                    continue
                inside = [name in support for name in marginal.scope]
                shape = [s if i else 1 for s, i in zip(marginal.shape, inside, strict=True)]
                start, count = starts[support], math.prod(shape)
                part = estimate[start : start + count]
                cells += part.reshape((*shape, *estimate.shape[1:]))
            flat = cells.reshape(marginal.size, *estimate.shape[1:])
            return np.asarray(block.matrix @ flat / marginal.size)

        return answers

    def _layout(self) -> tuple[dict[Scope, int], int]:
        """Return where the cells of every support start in an estimate, and their number."""
        starts, size = {}, 0
        for support in self._information:
            starts[support] = size
            size += math.prod(self._partitions[name].size for name in support)
        return starts, size

    def _total(self, block: Block) -> float:
        block = self._resolved(block)
        if not isinstance(block, CellBlock):
            return float(self.variances(block).sum())
        # Every cell of T is a sum of parts with |P_S w|^2 = m_S / n_T.
        return math.fsum(
            block.weight**2
            * math.prod(self._partitions[name].size - 1 for name in support)
            / (block.marginal.size * self._known(support))
            for support in _subsets(block.marginal.scope)
        )

    def _known(self, support: Scope) -> float:
        if support not in self._information:
            raise NotCoveredError("the query is not a combination of what the release measured")
        return self._information[support]

    def _resolved(self, block: Block) -> Block:
        """Return the block over the measured partitions, or raise if it is finer."""
        pairs = zip(block.marginal.scope, block.marginal.partitions, strict=True)
        if all(self._partitions.get(name) is partition for name, partition in pairs):
            return block
        if any(self._partitions.get(name) is None for name in block.marginal.scope):
            block = reduced(block)  # What no row depends on need not have been measured.
        partitions = []
        for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
            measured = self._partitions.get(name)
            if measured is None or measured.refine(partition).size > measured.size:
                raise NotCoveredError("the release does not tell apart what the query tells apart")
            partitions.append(measured)
        fine = Marginal(block.marginal.scope, tuple(partitions))
        if fine == block.marginal:
            return block
        return Block(fine, expand(block.matrix, block.marginal, fine))

    def _check_parts(self, block: Block) -> None:
        """Raise if a row has a part on a support that is not known."""
        if all(support in self._information for support in _subsets(block.marginal.scope)):
            return
        for rows in self._slices(block):
            for _ in self._parts(rows, block.marginal):
                pass

    def _slices(self, block: Block) -> Iterator[Matrix]:
        """Yield the rows as dense arrays with one axis a column, a few at a time."""
        step = max(1, CHUNK // block.marginal.size)
        matrix = block.matrix
        for start in range(0, block.rows, step):
            rows = matrix[start : start + step].toarray().astype(np.float64)
            yield rows.reshape(len(rows), *block.marginal.shape)

    def _parts(self, rows: Matrix, marginal: Marginal) -> Iterator[tuple[Scope, Matrix, int]]:
        """Yield every known support, the rows' parts on it, and the cells each entry stands for."""
        largest = np.abs(rows).reshape(len(rows), -1).max(axis=1, initial=0.0)
        parts: list[tuple[Scope, Matrix]] = [((), rows)]
        for axis, name in enumerate(marginal.scope):
            split = []
            for support, part in parts:
                mean = part.mean(axis=axis + 1, keepdims=True)
                split += [(support, mean), ((*support, name), part - mean)]
            parts = split
        for support, part in parts:
            if support in self._information:
                yield support, part, marginal.size // math.prod(part.shape[1:])
            elif (np.abs(part).reshape(len(rows), -1).max(axis=1) > COVERED * largest).any():
                self._known(support)


def _squared(part: Matrix) -> Matrix:
    return np.asarray((part.reshape(len(part), -1) ** 2).sum(axis=1))


def _sums(table: Matrix, scope: Scope) -> Iterator[tuple[Scope, Matrix]]:
    """Yield a table summed to every set of its columns."""
    parts: list[tuple[Scope, Matrix]] = [((), table)]
    for name in scope:
        split = []
        for support, part in parts:
            split += [(support, part.sum(axis=len(support))), ((*support, name), part)]
        parts = split
    yield from parts


def _subsets(scope: Scope) -> Iterator[Scope]:
    return itertools.chain.from_iterable(
        itertools.combinations(scope, count) for count in range(len(scope) + 1)
    )

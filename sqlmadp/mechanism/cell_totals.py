"""Everybody's variances under many strategies that measure cells of the same products.

Leaving everyone out once selects many strategies, which mostly weigh the same products of
partitions anew.  The coordinates of those products, everybody's queries in them, and the parts that
they fall into (`components`) do not depend on weights: they are worked out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from sqlmadp.errors import NotCoveredError, NotSupportedError
from sqlmadp.mechanism.base import JointStrategy
from sqlmadp.schema.marginal import Block, CellBlock, Marginal
from sqlmadp.workload.components import Components, parts_of
from sqlmadp.workload.coordinates import Coordinates
from sqlmadp.workload.diagonal import is_plain
from sqlmadp.workload.gram import cells_gram, gram_of
from sqlmadp.workload.solver import FEW_COORDINATES, MOST_COORDINATES
from sqlmadp.workload.workload import Workload

MOST_ENTRIES = 1 << 24
"""Pairs of coordinates that one analyst's queries may meet in."""


class CellTotals:
    """Sums of the variances of each analyst's queries, in units of the noise variance."""

    def __init__(self, workloads: Sequence[Workload]) -> None:
        """Remember who may take part."""
        self._workloads = {workload.fingerprint: workload for workload in workloads}
        self._places = {name: place for place, name in enumerate(self._workloads)}
        self._split = cache(self._split_over)

    def of(self, strategy: JointStrategy, workloads: Sequence[Workload]) -> list[float] | None:
        """Return the sum of each of ``workloads``; None where another way is as good, or better."""
        blocks = [block for block in strategy.blocks if isinstance(block, CellBlock)]
        by_all = all(len(reads) == len(blocks) for reads in strategy.reads)
        if not by_all or not _products(strategy.blocks):
            return None
        split = self._split(tuple(block.marginal for block in blocks))
        if split is None:
            return None
        squares = np.array([float(block.weight) ** 2 for block in blocks])
        totals = split.traces(split.inverses(squares))
        return [float(totals[self._places[workload.fingerprint]]) for workload in workloads]

    def _split_over(self, marginals: tuple[Marginal, ...]) -> Components | None:
        coordinates = Coordinates(marginals)
        asked = [workload.by_scope for workload in self._workloads.values()]
        held = all(coordinates.holds(block.marginal) for blocks in asked for block in blocks)
        if not held or coordinates.size > MOST_COORDINATES:
            return None
        try:
            measured = [cells_gram(each, coordinates) for each in marginals]
            parts = parts_of(measured)
            grams = [gram_of(each, coordinates, MOST_ENTRIES, parts=parts) for each in asked]
            return Components(grams, measured)
        except (NotCoveredError, NotSupportedError):  # Who is left out may ask for more than that.
            return None


def _products(blocks: Sequence[Block]) -> bool:
    """Tell whether a strategy measures products that are no plain marginals, and large ones."""
    large = sum(block.marginal.size for block in blocks) > FEW_COORDINATES
    cells = all(isinstance(block, CellBlock) for block in blocks)
    return cells and large and len(blocks) > 1 and not is_plain(blocks)

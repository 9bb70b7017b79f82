"""Variances of the queries of a workload, block by block: all of one scope are solved for at once.

Large strategies are solved iteratively, many right sides in one go; and what a workload's error
adds up are the very variances that single queries are stated with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.marginal import Block, CellBlock, expand
from sqlmadp.workload.solver import Solver
from sqlmadp.workload.workload import Workload, common

Matrix = NDArray[np.float64]


def variances_of(workload: Workload, solver: Solver) -> tuple[Matrix, ...]:
    """Return the variances of the rows of every block of a workload, in the workload's order."""
    found: dict[int, Matrix] = {}
    scopes: dict[tuple[str, ...], list[int]] = {}
    for place, block in enumerate(workload.blocks):
        if isinstance(block, CellBlock):  # Very many cells are never written out.
            found[place] = solver.variances(block)
        else:
            scopes.setdefault(block.marginal.scope, []).append(place)
    for places in scopes.values():
        blocks = [workload.blocks[place] for place in places]
        ends = np.cumsum([block.rows for block in blocks])[:-1]
        parts = np.split(solver.variances(_stacked(blocks)), ends)
        found |= dict(zip(places, parts, strict=True))
    return tuple(found[place] for place in range(len(workload.blocks)))


def _stacked(blocks: Sequence[Block]) -> Block:
    """Return blocks of one scope as one, over the common refinement of their partitions."""
    if len(blocks) == 1:
        return blocks[0]
    marginal = common([block.marginal for block in blocks])
    rows = [expand(block.matrix, block.marginal, marginal) for block in blocks]
    return Block(marginal, sparse.csr_array(sparse.vstack(rows)))

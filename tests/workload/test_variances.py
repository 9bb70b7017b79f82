"""The variances of a workload's queries are worked out together and stated one by one."""

import numpy as np
from small_tables import block, finest, histogram, total

from sqlmadp.schema.marginal import CellBlock, Marginal, Partition
from sqlmadp.workload.solver import DenseSolver
from sqlmadp.workload.variances import variances_of
from sqlmadp.workload.workload import Workload

HALVES = Marginal(("a", "b"), (Partition.of(np.array([0, 0, 1, 1, 1])), Partition.finest(3)))
MEASURED = [CellBlock(finest("a", "b"), 2.0), total(), histogram("a")]


class Counting(DenseSolver):
    """A solver that counts what it is asked."""

    asked = 0

    def variances(self, block):
        self.asked += 1
        return super().variances(block)


def test_every_block_has_the_variances_that_it_has_alone_and_in_its_place():
    random = np.random.default_rng(5)
    blocks = [
        block(finest("a", "b"), random.integers(0, 4, (4, 15))),
        total(),
        block(HALVES, random.integers(0, 4, (2, 6))),
        CellBlock(finest("a", "b"), 3.0),
        histogram("a"),
        block(finest("a", "b"), random.integers(0, 4, (1, 15))),
    ]
    workload = Workload.of(blocks)
    solver = Counting(MEASURED)
    found = variances_of(workload, solver)
    assert solver.asked == 4  # The cells; and all others, scope by scope.
    for own, asked in zip(found, blocks, strict=True):
        np.testing.assert_allclose(own, DenseSolver(MEASURED).variances(asked), rtol=1e-12)

"""Independent: each analyst's own strategy, measured with that analyst's share alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlmadp.mechanism.base import JointStrategy, lowest_terms, poured_weights
from sqlmadp.schema.kronecker import scaled
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Independent:
    """Split the budget; nothing is merged, and everyone reads only what is theirs [PWFM21].

    Sharing incentive and non-interference hold with equality: nobody's error depends on
    anybody else.
    """

    cache: StrategyCache | None = None

    def select(self, workloads: Sequence[Workload], shares: Sequence[Fraction]) -> JointStrategy:
        """Stack each analyst's strategy, scaled by the share."""
        strategies = [select(workload, cache=self.cache) for workload in workloads]
        factors, total = poured_weights(strategies, shares)
        blocks: list[Block] = []
        reads = []
        for own, factor in zip(strategies, factors, strict=True):
            reads.append(tuple(range(len(blocks), len(blocks) + len(own.blocks))))
            blocks += [scaled(block, factor) for block in own.blocks]
        return lowest_terms(blocks, total, reads)

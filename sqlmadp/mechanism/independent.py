"""Independent: each analyst's own strategy, measured with that analyst's share alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sqlmadp.mechanism.base import BOTH, Mechanism, registered
from sqlmadp.mechanism.collective import Collective, Joint, lowest_terms
from sqlmadp.table.partition import Floats
from sqlmadp.table.rows import Rows


@registered
@dataclass(frozen=True, kw_only=True)
class Independent(Mechanism):
    """Split the budget; nothing is merged, and everyone reads only what is theirs [PWFM21].

    Sharing incentive and non-interference hold with equality: nobody's error depends on anybody
    else.
    """

    name = "independent"
    rule = "each analyst's share is spent for that analyst alone, and nothing is pooled"
    promise = BOTH
    separate = True

    def _choose(self, collective: Collective) -> Joint:
        blocks: list[Rows] = []
        reads = []
        for own, factor in zip(collective.strategies, collective.factors, strict=True):
            reads.append(tuple(range(len(blocks), len(blocks) + len(own.blocks))))
            blocks += [block.times(factor) for block in own.blocks]
        pairs = zip(collective.factors, collective.strategies, strict=True)
        total = sum(factor * strategy.total for factor, strategy in pairs)
        return lowest_terms(blocks, total, reads, collective.alone)

    def interference(self, collective: Collective) -> Floats:
        """Return ones: everyone's blocks and noise stay, whoever joins."""
        return np.ones((len(collective), len(collective)))

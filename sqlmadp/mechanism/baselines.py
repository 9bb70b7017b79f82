"""The mechanisms that pool nothing: Independent and Identity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sqlmadp.errors import NotSupportedError
from sqlmadp.mechanism.base import BOTH, Mechanism, registered
from sqlmadp.mechanism.collective import Collective, Joint, lowest_terms
from sqlmadp.table.joint import is_joint
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats

MOST_CELLS = 1 << 20
"""Measure all cells one by one up to this many."""


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
        return lowest_terms(blocks, collective.poured_total, reads, collective.alone)

    def interference(self, collective: Collective) -> Floats:
        """Return ones: everyone's blocks and noise stay, whoever joins."""
        return np.ones((len(collective), len(collective)))


@registered
@dataclass(frozen=True, kw_only=True)
class Identity(Mechanism):
    """Measure each cell with the whole budget; adaptive to nothing [PWFM21].

    The strategy depends on the domain alone, so leaving an analyst out changes nothing but the
    budget: sharing incentive and non-interference hold.
    """

    name = "identity"
    rule = "every combination of declared values is counted, whatever was asked"
    promise = BOTH
    adaptive = False

    def _choose(self, collective: Collective) -> Joint:
        columns = {c: n for c, n in sorted(collective.columns.items()) if not is_joint(c)}
        cells = math.prod(columns.values())
        if cells > MOST_CELLS:
            raise NotSupportedError(
                f"mechanism 'identity' would measure each of the {cells:,} cells of "
                f"{', '.join(columns)}; at most {MOST_CELLS:,} are supported. Choose another "
                f"mechanism, which measures only what was asked."
            )
        kept = {column: values for column, values in columns.items() if values > 1}
        parts = tuple(Partition.finest(values) for values in kept.values())
        return collective.read_by_all([Rows(tuple(kept), parts, 1)], 1)

    def interference(self, collective: Collective) -> Floats:
        """Return the square of the part of the budget that was there before whoever joins."""
        count = len(collective)
        left = [float(1 - share / collective.whole) ** 2 for share in collective.shares]
        found = np.repeat(np.array(left)[:, None], count, axis=1)
        np.fill_diagonal(found, 1.0)
        return found

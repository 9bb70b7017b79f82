"""Buckets: which questions are measured, and whose part of the budget each is measured with.

Every column of an analyst's own strategy sums to the same number, so the mean over the columns of
what a strategy query weighs, over all of the strategy's queries, adds up to the analyst's share.
That is the part of epsilon that the analyst brings to a question:

    part_i(question)  =  share_i  weight_i(question)  /  all weights of analyst i

Under Waterfilling each measured question is a bucket that holds just what was poured into it.
Another mechanism measures questions of its own choice, which nobody would have asked for in
this way; they have no parts, only a weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.asked import Asked
from sqlmadp.report.naming import question_name
from sqlmadp.schema.marginal import Block, Marginal, expand
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.strategy.select import select
from sqlmadp.workload.workload import common

MOST_QUESTIONS = 20_000
"""Questions up to which each is looked at."""

COLLECTIVE = None
"""Who brought a question that no analyst's own strategy has: the mechanism itself."""


@dataclass(frozen=True)
class Bucket:
    """One measured question, and whose part of the budget it holds."""

    name: str
    columns: tuple[str, ...]
    parts: Mapping[str | None, float]
    """By analyst (None: the mechanism for all): a part of epsilon."""
    level: float
    """What the question weighs for one record: how precisely it is measured."""

    @property
    def size(self) -> float:
        """Return the part of epsilon that the question is measured with."""
        return sum(self.parts.values())

    def scaled(self, factor: float) -> Bucket:
        """Return the bucket with other parts in the same proportions."""
        return replace(self, parts={who: part * factor for who, part in self.parts.items()})


@dataclass(frozen=True)
class Pool:
    """All measured questions over the same columns that the same analysts brought."""

    columns: tuple[str, ...]
    questions: int
    parts: Mapping[str | None, float]


def buckets(
    asked: Asked, measured: Sequence[Block], cache: StrategyCache | None
) -> list[Bucket] | None:
    """Return every measured question with its parts; None if there are too many to look at.

    The parts of all questions sum to 1.
    """
    if sum(block.rows for block in measured) > MOST_QUESTIONS:
        return None
    own = _own_blocks(asked, cache)
    found = []
    for scope in dict.fromkeys(block.marginal.scope for block in measured):
        blocks = [block for block in measured if block.marginal.scope == scope]
        theirs = [(name, block) for name, block in own if block.marginal.scope == scope]
        marginal = common([block.marginal for block in (*blocks, *(b for _, b in theirs))])
        asking: dict[bytes, dict[str | None, float]] = {}
        for name, block in theirs:
            for key, weight, _ in _rows(block, marginal):
                asking.setdefault(key, {}).setdefault(name, 0.0)
                asking[key][name] += weight
        for block in blocks:
            for key, weight, row in _rows(block, marginal):
                parts = asking.get(key, {COLLECTIVE: 1.0})
                scale = weight / sum(parts.values())
                named = question_name(asked.domain, marginal, row)
                level = float(np.abs(row[1]).max())
                shared = {who: part * scale for who, part in parts.items()}
                found.append(Bucket(named, scope, shared, level))
    whole = sum(bucket.size for bucket in found)
    return [bucket.scaled(1 / whole) for bucket in found]


def pools(found: Sequence[Bucket]) -> list[Pool]:
    """Return the questions put together by columns and by who brought them, largest first."""
    groups: dict[tuple[tuple[str, ...], frozenset[str | None]], list[Bucket]] = {}
    for bucket in found:
        groups.setdefault((bucket.columns, frozenset(bucket.parts)), []).append(bucket)
    made = [
        Pool(
            columns,
            len(own),
            {who: sum(b.parts[who] for b in own) for who in own[0].parts},
        )
        for (columns, _), own in groups.items()
    ]
    return sorted(made, key=lambda pool: -sum(pool.parts.values()))


def _own_blocks(asked: Asked, cache: StrategyCache | None) -> list[tuple[str, Block]]:
    """Return what each analyst would measure alone, with the share as its weight."""
    found = []
    for analyst, workload in zip(asked.plan.analysts, asked.workloads, strict=True):
        for block in select(workload, cache=cache).blocks:
            scaled = sparse.csr_array(block.matrix * float(analyst.share))
            found.append((analyst.name, Block(block.marginal, scaled)))
    return found


def _rows(
    block: Block, marginal: Marginal
) -> Iterator[tuple[bytes, float, tuple[NDArray[np.int64], NDArray[np.float64]]]]:
    """Yield each row over ``marginal``: its direction, its weight, and where it is not zero."""
    matrix = expand(block.matrix, block.marginal, marginal)
    matrix.sort_indices()
    for number in range(matrix.shape[0]):
        part = slice(matrix.indptr[number], matrix.indptr[number + 1])
        places, values = matrix.indices[part], matrix.data[part].astype(np.float64)
        kept = values != 0
        places, values = places[kept].astype(np.int64), values[kept]
        if len(values):
            # Entries of one direction differ only by rounding to integers.
            direction = np.round(values / values[0], 9)
            weight = float(np.abs(values).sum()) / marginal.size
            yield places.tobytes() + direction.tobytes(), weight, (places, values)

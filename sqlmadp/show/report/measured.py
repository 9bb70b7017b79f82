"""Measured: which combinations of columns are measured, at what price, and for whom.

A block of a strategy is over one scope, and the absolute values of its columns sum to its weight.
Weights of one measurement add up to its sensitivity, so a block's part of epsilon is

    weight / sum of all weights.

A statement is answered mostly from the smallest combination that has all of its columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import numpy as np

from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.table.joint import declared
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

Columns = frozenset[str]


@dataclass(frozen=True)
class Measured:
    """All measured numbers over one combination of columns."""

    columns: tuple[str, ...]
    summed: frozenset[str]
    """Columns whose values are summed, not only counted."""
    numbers: int
    """How many numbers are measured."""
    part: float
    """Of all epsilon that was ever charged for the answers."""
    serves: tuple[str, ...]
    """Analysts whose statements are answered from it."""

    @property
    def name(self) -> str:
        """The combination as a person would put it: 'ward × sum of price'."""
        named = (f"sum of {name}" if name in self.summed else name for name in self.columns)
        return " × ".join(named) or "all records"


def measured(
    asked: BoundPlan, blocks: Sequence[tuple[Fraction, Sequence[Rows]]], reader: str | None
) -> tuple[Measured, ...]:
    """Return what is measured by combination of columns, the largest part first.

    An analyst sees just what is within the columns of an own statement, and no other name.
    """
    found: dict[tuple[tuple[str, ...], frozenset[str]], tuple[int, float]] = {}
    whole = float(sum(epsilon for epsilon, _ in blocks))
    for epsilon, own in blocks:
        weights = [weight(rows) for rows in own]
        for rows, each in zip(own, weights, strict=True):
            pairs = zip(rows.scope, rows.parts, strict=True)
            key = rows.scope, frozenset(name for name, part in pairs if part.degree)
            numbers, part = found.get(key, (0, 0.0))
            found[key] = numbers + rows.count, part + each / sum(weights) * float(epsilon) / whole
    scopes = {
        analyst.name: [
            Columns(declared(rows.scope)) for query in queries for rows in query.aggregates
        ]
        for analyst, queries in zip(asked.plan.analysts, asked.queries, strict=True)
        if reader in (None, analyst.name)
    }
    combinations = [Columns(scope) for scope, _ in found]
    made = []
    for (scope, summed), (numbers, part) in found.items():
        columns = Columns(scope)
        if reader is not None and not any(columns <= own for own in scopes[reader]):
            continue
        serves = _served(scopes, columns, combinations)
        made.append(Measured(scope, summed, numbers, part, serves))
    return tuple(sorted(made, key=lambda each: -each.part))


def _served(
    asked: Mapping[str, Sequence[Columns]], columns: Columns, combinations: Sequence[Columns]
) -> tuple[str, ...]:
    """Return the analysts whose statements are answered from one of all combinations.

    One that no statement is answered from first adds to statements about more columns.
    """
    first = [
        n for n, own in asked.items() if any(columns in _smallest(q, combinations) for q in own)
    ]
    return tuple(first or [n for n, own in asked.items() if any(columns <= q for q in own)])


def _smallest(asked: Columns, scopes: Sequence[Columns]) -> list[Columns]:
    """Return the combinations that have all columns of a statement and contain no other such."""
    wide = [each for each in scopes if asked <= each]
    return [each for each in wide if not any(other < each for other in wide)]


def weight(rows: Rows) -> float:
    """Return what the absolute values of a block's columns sum to, on average over vertices."""
    if isinstance(rows, Products):
        sums = [np.asarray(abs(f).sum(axis=1)).reshape(-1) / f.shape[1] for f in rows.factors]
        left = np.abs(rows.heights).astype(np.float64)
        return float(reduce(lambda table, axis: np.tensordot(axis, table, (0, 0)), sums, left))
    if rows.plain:
        return abs(float(rows.weight))
    return float(abs(rows.matrix).sum()) / rows.size

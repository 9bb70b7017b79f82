"""Quantiles and modes: from the histograms of groups to the value at a place in them.

A quantile is the value at a place of the histogram's running count, which is made monotone first,
midway between its smallest monotone majorant and largest minorant.  Types that DuckDB interpolates
are interpolated as DuckDB does; of all others a value that is declared is returned.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlmadp.sql.bound import BoundAggregate, BoundPiece
from sqlmadp.sql.evaluate import Argument

Numbers = NDArray[np.float64]
Column = list[Any]
"""One value a group: a number, text that DuckDB casts to the type, or None for NULL."""

INTEGERS = frozenset({"BIGINT", "HUGEINT", "INTEGER", "UINTEGER", "UBIGINT", "UHUGEINT"})


def from_histogram(
    aggregate: BoundAggregate, piece: BoundPiece, values: Numbers, rows: int
) -> Column:
    """Return a quantile, a list of them or the mode of every group, given its histogram."""
    argument = piece.argument
    if argument is None or not len(argument.texts):
        return [None] * rows
    histogram = values.reshape(rows, piece.width)
    if aggregate.function == "mode":
        found = np.argmax(histogram, axis=1)
        present = np.rint(histogram.max(axis=1)) > 0
        return [argument.texts[k] if p else None for k, p in zip(found, present, strict=True)]
    running = running_counts(histogram)
    continuous = _is_continuous(aggregate, argument)
    columns = [
        [_quantile(aggregate, argument, line, fraction, continuous) for line in running]
        for fraction in aggregate.fractions
    ]
    if not aggregate.listed:
        return columns[0]
    return [
        None if any(value is None for value in group) else f"[{', '.join(map(_quoted, group))}]"
        for group in zip(*columns, strict=True)
    ]


def _quoted(value: Any) -> str:
    return repr(value) if isinstance(value, float) else "'" + str(value).replace("'", "''") + "'"


def _is_continuous(aggregate: BoundAggregate, argument: Argument) -> bool:
    """Return whether DuckDB interpolates between two values of this type."""
    if aggregate.function == "quantile_disc" or not np.isfinite(argument.numbers).all():
        return False
    element = aggregate.type.removesuffix("[]")
    if aggregate.function == "approx_quantile":
        return True
    return element in ("DOUBLE", "FLOAT", "TIMESTAMP") or element.startswith("DECIMAL")


def _value_at(line: NDArray[np.int64], place: int) -> int:
    """Return the number of the value of the record at a place, records in order."""
    return int(np.searchsorted(line, place, side="right"))


def _oriented(
    aggregate: BoundAggregate, fraction: Fraction | float | None
) -> tuple[Fraction | float, bool]:
    """Return the fraction as a positive number, and whether records descend."""
    given: Fraction | float = 0 if fraction is None else fraction
    share: Fraction | float = -given if given < 0 else given
    return share, aggregate.descending != (given < 0)


def running_counts(histogram: Numbers) -> NDArray[np.int64]:
    """Return the running counts of histograms (one a line), monotone, whole and not negative."""
    running = np.cumsum(histogram, axis=1)
    above = np.maximum.accumulate(running, axis=1)
    below = np.minimum.accumulate(running[:, ::-1], axis=1)[:, ::-1]
    return np.maximum(np.rint((above + below) / 2), 0).astype(np.int64)


def _quantile(
    aggregate: BoundAggregate,
    argument: Argument,
    line: NDArray[np.int64],
    fraction: Fraction | float | None,
    continuous: bool,
) -> Any:
    """Return the quantile of one group, whose running counts are ``line``."""
    records = int(line[-1])
    if records <= 0:
        return None
    share, descending = _oriented(aggregate, fraction)
    if continuous:
        exact = (records - 1) * float(share)
        below, above = math.floor(exact), math.ceil(exact)
    else:
        below = above = max(1, records - math.floor(records - records * share)) - 1
        exact = below
    places = [records - 1 - place if descending else place for place in (below, above)]
    low, high = (_value_at(line, place) for place in places)
    if not continuous:
        return argument.texts[low]
    ends = float(argument.numbers[low]), float(argument.numbers[high])
    return _between(aggregate, *ends, exact - below)


def _between(aggregate: BoundAggregate, low: float, high: float, part: float) -> Any:
    """Return the value a ``part`` of the way from ``low`` to ``high``, as the type rounds it."""
    element = aggregate.type.removesuffix("[]")
    if element == "TIMESTAMP":
        return _timestamp(_nearest(_fused(low, 1 - part, high * part)))
    if element.startswith("DECIMAL"):
        unit = 10 ** scale(element)
        first, last = (round(value * unit) for value in (low, high))
        return str(Decimal(int(_fused(last - first, part, first))) / unit)
    value = _fused(low, 1 - part, high * part) if low != high else low
    if aggregate.function != "approx_quantile":
        return value
    if element == "DATE":
        return _timestamp(int(value))[:10]
    return str(round(value)) if element in INTEGERS else value


def _fused(one: float, other: float, added: float) -> float:
    """Return ``one * other + added``, rounded once: DuckDB is compiled to that instruction."""
    return float(Fraction(one) * Fraction(other) + Fraction(added))


def _nearest(value: float) -> int:
    """Return the nearest whole number, halves away from zero, as C rounds."""
    whole = math.trunc(value)
    return whole + (value - whole >= 0.5) - (value - whole <= -0.5)


def scale(kind: str) -> int:
    """Return the digits after the point of a DECIMAL type."""
    return int(kind.rstrip(")").rpartition(",")[2])


def _timestamp(microseconds: int) -> str:
    moment = np.datetime64(microseconds, "us")
    return str(moment).replace("T", " ")

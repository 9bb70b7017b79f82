"""Derived aggregates: from the answers to linear pieces to what the statement asked for.

    mean       s / n, within the smallest and largest value
    variance   (q - s^2 / n) / n, at least 0 and at most (largest - smallest)^2 / 4
    quantile   the value at a place of the histogram's running count

for the answers n (count), s (sum), q (sum of squares).  An estimated count that rounds to 0 or
less has no mean and no quantile: the answer is NULL, as DuckDB's is for no record.  Without
noise every formula gives what DuckDB gives; integers are rounded to the nearest.

Least squares leaves an error of some 1e-16 of the largest answer.  It is rounded away first, or it
would break ties of MODE and RANK, and be all that is left of the variance of equal values.

A histogram's running count is made monotone first, midway between its smallest monotone majorant
and largest minorant.  Types that DuckDB interpolates are interpolated as DuckDB does; of all others
a value that is declared is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.sizes import DIGITS, NEGLIGIBLE
from sqlmadp.bind.bound import BoundAggregate, BoundPiece, PrivateBlock
from sqlmadp.bind.evaluate import Argument

Numbers = NDArray[np.float64]
Column = list[Any]
"""One value per group: a number, text that DuckDB casts to the type, or None for NULL."""

INTEGERS = frozenset({"BIGINT", "HUGEINT", "INTEGER", "UINTEGER", "UBIGINT", "UHUGEINT"})


def derive(block: PrivateBlock, answers: Sequence[Numbers]) -> list[Column]:
    """Return the column of every aggregate, given the answers to every piece."""
    rounded = [_rounded(values) for values in answers]
    return [_derive(aggregate, block, rounded) for aggregate in block.aggregates]


def _rounded(values: Numbers) -> Numbers:
    largest = float(np.abs(values).max(initial=0))
    if not 1e-200 < largest < math.inf:  # Else 10 to the power of the digits is infinite.
        return values
    return np.round(values, DIGITS - math.ceil(math.log10(largest)))


def _derive(aggregate: BoundAggregate, block: PrivateBlock, answers: Sequence[Numbers]) -> Column:
    pieces = [block.pieces[place] for place in aggregate.pieces]
    values = [answers[place] for place in aggregate.pieces]
    if aggregate.function in ("count", "count_if", "sum", "regr_count"):
        return _linear(aggregate, values[0])
    if pieces[0].kind == "histogram":
        return _from_histogram(aggregate, pieces[0], values[0], block.rows)
    if aggregate.function == "avg":
        return _plain(_mean(pieces[0], values[0], values[1]))
    with np.errstate(all="ignore"):
        if aggregate.function in _PAIRS:
            return _pair(aggregate.function, pieces, values)
        return _plain(_spread(aggregate.function, pieces[0], values))


def _linear(aggregate: BoundAggregate, values: Numbers) -> Column:
    column = _counted(aggregate.type, values)
    if aggregate.empty is None:
        return column
    empty = np.resize(aggregate.empty, len(column))  # Copies of all groups, one after the other.
    return [None if none else value for none, value in zip(empty, column, strict=True)]


def _counted(kind: str, values: Numbers) -> Column:
    if kind in INTEGERS:
        whole = [int(value) for value in np.rint(values).tolist()]
        # REGR_COUNT has no sign in DuckDB, and noise may be below 0.
        return [max(0, value) for value in whole] if kind.startswith("U") else whole
    if kind.startswith("DECIMAL"):
        unit = Decimal(1).scaleb(-_scale(kind))
        return [str(Decimal(value).quantize(unit)) for value in values.tolist()]
    return [float(value) for value in values]


def _plain(values: Numbers) -> Column:
    """Return numbers with None for what is not one."""
    return [float(value) if math.isfinite(value) else None for value in values.tolist()]


def _mean(piece: BoundPiece, sums: Numbers, counts: Numbers) -> Numbers:
    with np.errstate(all="ignore"):
        # The count is rounded only to see whether there is a record: a mean of few records
        # would otherwise jump.
        means = np.clip(sums / _whole(counts), *piece.bounds)
        return np.where(np.rint(counts) > 0, means, np.nan)


def _whole(values: Numbers) -> Numbers:
    """Return numbers with the dust of rounding removed from those that are integers."""
    near = np.rint(values)
    return np.where(np.abs(values - near) <= 1e-6 + 1e-12 * np.abs(near), near, values)


def _deviations(squares: Numbers, sums: Numbers, counts: Numbers) -> Numbers:
    """Return the sum of squared deviations from the mean."""
    found = squares - sums * sums / counts
    return np.where(found <= NEGLIGIBLE * squares, 0, found)


def _spread(name: str, piece: BoundPiece, values: Sequence[Numbers]) -> Numbers:
    sums, counts, squares = (_whole(value) for value in values)
    records = np.rint(counts)
    low, high = piece.bounds
    least = 1 if name.endswith("_pop") or name == "sem" else 2
    population = np.minimum(_deviations(squares, sums, counts) / counts, (high - low) ** 2 / 4)
    population = np.where(records >= least, population, np.nan)
    sample = population * counts / (counts - 1)
    match name:
        case "var_pop":
            return population
        case "stddev_pop":
            return np.sqrt(population)
        case "var_samp":
            return sample
        case "stddev_samp":
            return np.sqrt(sample)
        case _:
            return np.sqrt(population / counts)


def _pair(name: str, pieces: Sequence[BoundPiece], values: Sequence[Numbers]) -> Column:
    """Return a function of two columns; as DuckDB's, it is NaN where one of them is constant."""
    n, x, y, xx, yy, xy = (_whole(value) for value in values)
    records = np.rint(n)
    mean_x, mean_y = np.clip(x / n, *pieces[1].bounds), np.clip(y / n, *pieces[2].bounds)
    sxx, syy = _deviations(xx, x, n), _deviations(yy, y, n)
    most = np.sqrt(sxx * syy)
    sxy = np.clip(xy - x * y / n, -most, most)
    found = _PAIRS[name](n, mean_x, mean_y, sxx, syy, sxy)
    least = 2 if name == "covar_samp" else 1
    known = (records >= least) & ~((name in _NULL_IF_CONSTANT) & np.isnan(found))
    return [float(v) if k else None for v, k in zip(found, known, strict=True)]


_PAIRS: dict[str, Callable[..., Numbers]] = {
    "covar_pop": lambda n, mx, my, sxx, syy, sxy: sxy / n,
    "covar_samp": lambda n, mx, my, sxx, syy, sxy: sxy / (n - 1),
    "corr": lambda n, mx, my, sxx, syy, sxy: np.where(
        sxx * syy > 0, sxy / np.sqrt(sxx * syy), np.nan
    ),
    "regr_slope": lambda n, mx, my, sxx, syy, sxy: np.where(sxx > 0, sxy / sxx, np.nan),
    "regr_intercept": lambda n, mx, my, sxx, syy, sxy: np.where(
        sxx > 0, my - sxy / sxx * mx, np.nan
    ),
    "regr_r2": lambda n, mx, my, sxx, syy, sxy: np.where(
        sxx > 0, np.where(syy > 0, sxy * sxy / (sxx * syy), 1.0), np.nan
    ),
    "regr_avgx": lambda n, mx, my, sxx, syy, sxy: mx,
    "regr_avgy": lambda n, mx, my, sxx, syy, sxy: my,
    "regr_sxx": lambda n, mx, my, sxx, syy, sxy: sxx,
    "regr_syy": lambda n, mx, my, sxx, syy, sxy: syy,
    "regr_sxy": lambda n, mx, my, sxx, syy, sxy: sxy,
}


_NULL_IF_CONSTANT = frozenset({"regr_r2", "regr_intercept"})


# Quantiles and modes.


def _from_histogram(
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
    """Return the running counts of histograms (one per line), monotone, whole and not negative."""
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
        unit = 10 ** _scale(element)
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


def _scale(kind: str) -> int:
    """Return the digits after the point of a DECIMAL type."""
    return int(kind.rstrip(")").rpartition(",")[2])


def _timestamp(microseconds: int) -> str:
    moment = np.datetime64(microseconds, "us")
    return str(moment).replace("T", " ")

"""Bound: what samples from neighbouring tables prove about epsilon.

For every event E, epsilon-differential privacy says P(E | table) <= exp(epsilon) P(E | neighbour),
so an event that is more likely on one table proves that epsilon is at least

    ln( P(E | table) / P(E | neighbour) ).

The event is chosen on one half of the samples.  On the other half both probabilities are
bounded by Clopper and Pearson's exact intervals, so the result is a lower bound on epsilon
with the stated confidence, whatever the distribution.

Events are thresholds of a few statistics of what was measured:

    likelihood   (|y - a| - |y - a'|) / spread summed over all answers, for exact answers a and a'
                 and the mean distance of an answer's samples from a
    lattice      the lowest binary digit in use: floating-point noise gives the table away by it
    width        how many answers there are
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Answers = NDArray[Any]
"""Measured answers, one measurement per row: integers, unless the noise is broken."""

THRESHOLDS = 200
"""Thresholds that are tried of every statistic."""


@dataclass(frozen=True)
class Bound:
    """A lower bound on epsilon, and the event that proves it."""

    epsilon: float
    """With the confidence that was asked for, the privacy loss is at least this."""
    event: str
    more_likely: float
    """How often the event happened on the table where it is more likely."""
    less_likely: float


def lower_bound(
    samples: Answers,
    others: Answers,
    exact: Matrix,
    other_exact: Matrix,
    *,
    confidence: float,
    only: str = "",
) -> Bound:
    """Return the best lower bound that one event proves of two tables' samples.

    ``only`` names the one statistic whose events are tried, if not all are.
    """
    best, chosen = -np.inf, None
    spread = _spread(samples[: len(samples) // 2], exact)
    for name, *both in _statistics(samples, others, exact, other_exact, spread):
        for sign in (1, -1) if only in {"", name} else ():
            first, second = (sign * values for values in both)
            for more, less in ((first, second), (second, first)):
                (more_half, more_rest), (less_half, less_rest) = _halves(more), _halves(less)
                thresholds = _thresholds(np.concatenate([more_half, less_half]))
                losses = _losses(more_half, less_half, thresholds, confidence)
                if losses.max() > best:
                    best, place = float(losses.max()), int(losses.argmax())
                    chosen = (name, sign, thresholds[place], more_rest, less_rest)
    if chosen is None:
        return Bound(0.0, "none", 0.0, 0.0)
    # From here on only the halves that had no part in the choice.
    name, sign, threshold, more, less = chosen
    loss = float(_losses(more, less, np.array([threshold]), confidence)[0])
    text = f"{name} {'>=' if sign > 0 else '<='} {sign * threshold:g}"
    rates = (float((values >= threshold).mean()) for values in (more, less))
    return Bound(max(loss, 0.0), text, *rates)


def clopper_pearson(
    counts: NDArray[np.int64], size: int, *, confidence: float
) -> tuple[Matrix, Matrix]:
    """Return exact lower and upper bounds on probabilities, each with ``confidence`` alone."""
    from scipy.stats import beta  # noqa: PLC0415

    miss = 1 - confidence
    # Clipped, since beta has no parameter 0; both ends are then set by hand.
    low = beta.ppf(miss, np.maximum(counts, 1), size - counts + 1)
    high = beta.isf(miss, counts + 1, np.maximum(size - counts, 1))
    return np.where(counts == 0, 0.0, low), np.where(counts == size, 1.0, high)


def _losses(more: Matrix, less: Matrix, thresholds: Matrix, confidence: float) -> Matrix:
    """Return the epsilon that each event proves: a statistic is at least a threshold."""
    each = 1 - (1 - confidence) / 2  # Both bounds hold together with the stated confidence.
    low, _ = clopper_pearson(_counts(more, thresholds), len(more), confidence=each)
    _, high = clopper_pearson(_counts(less, thresholds), len(less), confidence=each)
    with np.errstate(divide="ignore"):
        losses: Matrix = np.log(low) - np.log(high)
    return losses


def _halves(values: Matrix) -> tuple[Matrix, Matrix]:
    return values[: len(values) // 2], values[len(values) // 2 :]


def _spread(samples: Answers, exact: Matrix) -> Matrix:
    """Return how far samples of every answer are from it on average: blocks differ in units."""
    if samples.shape[1] != len(exact):
        return np.ones(len(exact))
    spread: Matrix = np.abs(samples - exact).mean(axis=0)
    return np.where(spread > 0, spread, 1.0)


def _statistics(
    samples: Answers, others: Answers, exact: Matrix, other_exact: Matrix, spread: Matrix
) -> Iterator[tuple[str, Matrix, Matrix]]:
    """Yield each statistic's name and its values on either table's samples."""
    widths = [np.full(len(each), each.shape[1], dtype=np.float64) for each in (samples, others)]
    yield "width", widths[0], widths[1]
    moved = exact != other_exact
    if samples.shape[1] == others.shape[1] == len(moved):
        nearer = [_likelihood(each, exact, other_exact, spread) for each in (samples, others)]
        yield "likelihood", nearer[0], nearer[1]
        yield "lattice", _lowest_digit(samples[:, moved]), _lowest_digit(others[:, moved])


def _likelihood(samples: Answers, exact: Matrix, other_exact: Matrix, spread: Matrix) -> Matrix:
    nearer = np.abs(samples - exact) - np.abs(samples - other_exact)
    total: Matrix = (nearer / spread).sum(axis=1)
    return total


def _lowest_digit(samples: Answers) -> Matrix:
    """Return the exponent of the lowest binary digit that a sample's answers use."""
    if samples.dtype.kind == "i":
        lowest = samples & -samples
        digits = np.where(samples == 0, 64.0, np.log2(np.where(lowest == 0, 1, np.abs(lowest))))
    else:
        mantissa, exponent = np.frexp(samples)
        whole = (mantissa * 2.0**53).astype(np.int64)
        lowest = np.where(whole == 0, 1, whole & -whole)
        digits = np.where(samples == 0, 64.0, np.log2(lowest) + exponent - 53)
    least: Matrix = digits.min(axis=1)
    return least


def _thresholds(values: Matrix) -> Matrix:
    return np.unique(np.quantile(values, np.linspace(0, 1, THRESHOLDS), method="nearest"))


def _counts(values: Matrix, thresholds: Matrix) -> NDArray[np.int64]:
    return np.asarray(len(values) - np.searchsorted(np.sort(values), thresholds, side="left"))

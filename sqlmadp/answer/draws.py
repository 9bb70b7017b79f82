"""Draws: further releases, simulated from the public measurement, to see how answers spread.

The noise of a measurement is known but for its values: independent Laplace of one scale.  A
simulated release adds such noise once more to the stored values, which are public, so this
spends nothing.  The pseudo-random numbers are a fixed sequence (SplitMix64, by counter): the same
release always states the same errors, and no noise of a release comes from here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

COUNT = 60
"""Simulated releases."""


def simulated(
    values: Sequence[Matrix], noise_variance: float, count: int = COUNT
) -> tuple[Matrix, ...]:
    """Return ``values`` with noise added once more, one column per simulated release."""
    scale = math.sqrt(noise_variance / 2)
    start, columns = 0, []
    for value in values:
        noise = [laplace(draw, start, len(value)) for draw in range(count)]
        columns.append(value[:, None] + scale * np.column_stack(noise))
        start += len(value)
    return tuple(columns)


def laplace(draw: int, start: int, count: int) -> NDArray[np.float64]:
    """Return ``count`` numbers of the Laplace distribution of scale 1, always the same ones."""
    uniform = _uniform(np.arange(start, start + count, dtype=np.uint64), draw)
    centred = uniform - 0.5
    return np.asarray(-np.sign(centred) * np.log1p(-2 * np.abs(centred)))


def _uniform(counter: NDArray[np.uint64], stream: int) -> NDArray[np.float64]:
    """Return numbers strictly between 0 and 1 by SplitMix64 of a counter."""
    step, first, second = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
    offset = np.uint64((stream + 1) * 0xD1342543DE82EF95 % 2**64)
    z = counter * np.uint64(step) + offset
    z = (z ^ (z >> np.uint64(30))) * np.uint64(first)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(second)
    z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53

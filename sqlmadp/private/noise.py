"""Noise: the only source of randomness for releases.

OpenDP draws from the discrete Laplace distribution, exactly, over the integers:

    P(noise = k)  =  (1 - p) / (1 + p) * p^|k|,     p = exp(-1 / scale)

Integers with noise of scale ``sensitivity / epsilon`` are epsilon-differentially private.
The scale is a floating-point number, so it is rounded up, and raised further until
OpenDP's own bound on the privacy loss is at most epsilon.

OpenDP draws some 200,000 values per second, and lets other threads run meanwhile, so a
large release draws in parts, several at once.

Guarantee  `add_discrete_laplace(values, noise_scale(sensitivity, epsilon))` is
           epsilon-differentially private for values whose L1 sensitivity is ``sensitivity``.
Requires   OpenDP's discrete Laplace measurement is correct.
Numerics   Sampling is exact (OpenDP, arbitrary precision).  The scale only ever errs upwards:
           losses are compared as exact fractions.  Sums beyond 64 bits saturate, which is
           post-processing of the noisy integer.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlmadp.errors import InternalError, StrategyError

PART = 100_000
"""Values that one thread draws noise for at a time: half a second, which Ctrl-C has to wait."""

_ATTEMPTS = 64


@lru_cache(maxsize=1024)  # Many blocks move alike.
def noise_scale(sensitivity: int, epsilon: Fraction) -> float:
    """Return a scale whose privacy loss at ``sensitivity`` is at most ``epsilon``."""
    if sensitivity <= 0 or epsilon <= 0:
        raise StrategyError(
            f"noise needs a positive sensitivity and epsilon, not {sensitivity} and {epsilon}"
        )
    if not Fraction(1, 2**200) <= epsilon <= 2**200:
        raise StrategyError("epsilon must lie between 2^-200 and 2^200")
    if sensitivity >= 2**63:  # OpenDP measures distances in 64-bit integers.
        raise StrategyError("one unit could move the answers by 2^63 or more; let it own less")
    scale = _round_up(sensitivity / epsilon)
    for _ in range(_ATTEMPTS):
        if _loss(scale, sensitivity) <= epsilon:
            return scale
        scale = math.nextafter(scale, math.inf)
    raise InternalError(f"no noise scale near {scale!r} has a privacy loss of at most {epsilon}")


def add_discrete_laplace(values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Return ``values`` with independent discrete Laplace noise of ``scale`` on each."""
    if values.dtype != np.int64 or values.ndim != 1:
        raise StrategyError("noise is added to one list of 64-bit integers")
    draw = _laplace(scale)
    parts = np.array_split(values, max(1, len(values) // PART))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        drawn = pool.map(lambda part: np.array(draw(part.tolist()), dtype=np.int64), parts)
        return np.concatenate(list(drawn))


def _round_up(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _loss(scale: float, sensitivity: int) -> Fraction:
    return Fraction(_laplace(scale).map(sensitivity))


@lru_cache(maxsize=16)
def _laplace(scale: float) -> Any:
    # OpenDP takes long to load, and planning never needs it.
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    return dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale
    )

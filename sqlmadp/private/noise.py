"""Noise: the only source of randomness for releases.

OpenDP draws from the discrete Laplace distribution, exactly, over the integers:

    P(noise = k)  =  (1 - p) / (1 + p) * p^|k|,     p = exp(-1 / scale)

Integers with noise of scale ``sensitivity / epsilon`` are epsilon-differentially private.
The scale is a floating-point number, so it is rounded up, and raised further until
OpenDP's own bound on the privacy loss is at most epsilon.

OpenDP draws some 80,000 values per second, so a large release draws in several processes.  Each
is a new process and no fork: a fork would inherit the state of the random generator, and
processes with the same state would draw the same noise.

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
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlmadp.errors import InternalError, StrategyError

PART = 100_000
"""How many values a process draws noise for, before another process is worth its start."""

_ATTEMPTS = 64
_WORKER = "from sqlmadp.private.noise import _work; _work()"


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
    processes = min(len(values) // PART, os.cpu_count() or 1)
    if processes < 2:
        return _drawn(values, scale)
    with ThreadPoolExecutor(processes) as pool:  # Each thread waits for a process of its own.
        parts = np.array_split(values, processes)
        return np.concatenate(list(pool.map(_drawn_apart, parts, [scale] * processes)))


def _drawn(values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    return np.array(_laplace(scale)(values.tolist()), dtype=np.int64)


def _drawn_apart(values: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Return values with noise from a new process."""
    done = subprocess.run(
        # -P: never a module that happens to be in the folder that the command runs in.
        [sys.executable, "-P", "-c", _WORKER, scale.hex()],
        input=values.tobytes(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # It could quote a value.
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        check=False,
    )
    noisy = np.frombuffer(done.stdout, dtype=np.int64) if done.returncode == 0 else values[:0]
    if len(noisy) != len(values):
        raise InternalError("a process that draws noise did not finish")
    return noisy


def _work() -> None:
    """Read values, and write them with noise: what a process of its own does."""
    values = np.frombuffer(sys.stdin.buffer.read(), dtype=np.int64)
    sys.stdout.buffer.write(_drawn(values, float.fromhex(sys.argv[1])).tobytes())


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

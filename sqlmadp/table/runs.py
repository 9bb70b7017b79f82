"""Runs: whole numbers, one per value of a column, as few stretches of a straight line.

Pieces and steps of a column of a million values are a few such stretches.  As runs they are short
enough to be written into a statement, and to be read in a ledger:

    from_runs(affine_runs(numbers)) == numbers

for 64-bit integers whose differences are 64-bit integers too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Run = tuple[int, int, int]
"""How many numbers, the first of them, and by how much each exceeds the one before."""


def bends(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where a number leaves the line of the two before it; runs are at most one more."""
    return np.flatnonzero(np.diff(numbers, 2)) + 2


def affine_runs(numbers: NDArray[np.int64]) -> list[Run]:
    """Return the numbers as runs."""
    ends = [*bends(numbers).tolist(), len(numbers)]
    runs: list[Run] = []
    place = 0
    for end in ends:
        if end > place:
            slope = int(numbers[place + 1] - numbers[place]) if end > place + 1 else 0
            runs.append((end - place, int(numbers[place]), slope))
            place = end
    return runs


def from_runs(runs: Sequence[Run]) -> NDArray[np.int64]:
    """Return the numbers that the runs stand for, not to be written to."""
    parts = [first + slope * np.arange(length, dtype=np.int64) for length, first, slope in runs]
    numbers = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
    numbers.flags.writeable = False
    return numbers

"""Runs: whole numbers, one per value of a column, as few stretches of a straight line.

Pieces and steps of a column of a million values are a few such stretches.  As runs they are short
enough to be written into a statement, and to be read in a ledger:

    from_runs(affine_runs(numbers)) == numbers

for 64-bit integers whose differences are 64-bit integers too.  `Runs` keeps pieces and steps of a
partition in this way, with what is worked out at the ends of runs alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

Run = tuple[int, int, int]
"""How many numbers, the first of them, and by how much each exceeds the one before."""

AT_ONCE = 2**16
"""Compare this many values with a polynomial at once: a column may have millions."""

COUNTED = 4
"""Number labels by counting, which takes less memory than sorting, if they range over at most four
times as many integers as there are labels."""

WIDE = 4096
"""Keep a column of more values than this as runs: 2,000,001 prices take 32 MB otherwise, in every
one of some 20 partitions."""

WRITTEN_OUT = 64
"""Look at every value of a run of at most this many, and at a few values of a longer one."""


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


@dataclass(frozen=True, eq=False)
class Runs:
    """Consecutive values in one piece, with steps along a line, from left to right."""

    starts: Integers
    """The first value of every run."""
    pieces: Integers
    steps: Integers
    """Of the first value."""
    slopes: Integers
    """By how much the steps of each value exceed those of the one before."""
    count: int
    """The number of values."""

    @classmethod
    def of(cls, values: Integers, pieces: Integers, steps: Integers, count: int) -> Runs:
        """Return the longest runs.

        Between two ``values`` that are not neighbours, everything goes on along a line that begins
        before and ends after them.
        """
        begins = np.ones(len(values), dtype=bool)
        begins[1:] = pieces[1:] != pieces[:-1]
        bent = np.zeros(len(values), dtype=bool)
        bent[2:] = (np.diff(steps, 2) != 0) & (values[2:] - values[:-2] == 2)
        bent[2:] &= ~begins[1:-1] & ~begins[2:]
        # A run begins at a bend; its second value is then on a line with the first in any case.
        places = np.flatnonzero(bent)
        apart = np.flatnonzero(np.diff(places, prepend=-2) > 1)
        rank = np.arange(len(places)) - np.repeat(apart, np.diff(apart, append=len(places)))
        begins[places[rank % 2 == 0]] = True
        first = np.flatnonzero(begins)
        second = np.minimum(first + 1, len(values) - 1)
        far = np.where(begins[second], 1, values[second] - values[first])
        slopes = np.where(begins[second], 0, steps[second] - steps[first]) // np.maximum(far, 1)
        return cls(values[first], pieces[first], steps[first], slopes, count)

    @property
    def arrays(self) -> tuple[Integers, Integers, Integers, Integers]:
        """What the runs are made of."""
        return self.starts, self.pieces, self.steps, self.slopes

    @property
    def longest(self) -> Runs:
        """The same as the longest runs, which are the same however the runs were cut."""
        values = outline_of(self.starts, self.count)
        return Runs.of(values, *self.at(values), self.count)

    @cached_property
    def lengths(self) -> Integers:
        """The number of values of every run."""
        return np.diff(self.starts, append=self.count)

    def at(self, values: Integers) -> tuple[Integers, Integers]:
        """Return pieces and steps of some values."""
        run = np.searchsorted(self.starts, values, side="right") - 1
        return self.pieces[run], self.steps[run] + self.slopes[run] * (values - self.starts[run])


def run_starts(changes: Sequence[NDArray[np.bool_]]) -> Integers:
    """Return the first value, and all at which something changes."""
    begins = np.logical_or.reduce(changes)
    begins[:1] = True
    return np.flatnonzero(begins)


def union(starts: Sequence[Integers], count: int) -> Integers:
    """Return the starts of any of several lists of runs."""
    begins = np.zeros(count, dtype=bool)
    for own in starts:
        begins[own] = True
    return np.flatnonzero(begins)


def outline_of(starts: Integers, count: int) -> Integers:
    """Return values that show what goes on in runs: all of a short one, a few of a long one."""
    if count <= WIDE:
        return np.arange(count)
    lengths = np.diff(starts, append=count)
    long = np.flatnonzero(lengths > WRITTEN_OUT)
    rest = np.setdiff1d(np.arange(len(starts)), long, assume_unique=True)
    own = lengths[long]
    places = (0 * own, 0 * own + 1, 0 * own + 2, own // 4, own // 2, 3 * own // 4, own - 2, own - 1)
    few = np.column_stack([starts[long] + place for place in places]).reshape(-1)
    ends = np.cumsum(lengths[rest])
    within = np.arange(int(lengths[rest].sum())) - np.repeat(ends - lengths[rest], lengths[rest])
    return np.sort(np.concatenate([few, np.repeat(starts[rest], lengths[rest]) + within]))


def renumbered(labels: NDArray[np.integer]) -> Integers:
    """Return labels numbered by their first place."""
    numbers: Integers = np.asarray(labels, dtype=np.int64)
    if not len(numbers):
        return numbers
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= COUNTED * len(numbers):
        numbers = np.unique(numbers, return_inverse=True)[1].reshape(-1)
        low, high = 0, int(numbers.max())
    first = np.full(high - low + 1, len(numbers), dtype=np.int64)
    for start in reversed(range(0, len(numbers), AT_ONCE)):  # The first place is written last.
        some = numbers[start : start + AT_ONCE]
        first[some[::-1] - low] = np.arange(start + len(some) - 1, start - 1, -1)
    present = np.flatnonzero(first < len(numbers))
    rank = np.empty(len(first), dtype=np.int64)
    rank[present[np.argsort(first[present])]] = np.arange(len(present))
    return np.asarray(rank[numbers - low], dtype=np.int64)

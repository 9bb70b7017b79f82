"""Partitions: the few vertices that stand for all values of one column.

A record's value enters every query through one vector, its column of the workload matrix.  Values
with equal vectors are merged.  Values whose vectors lie on a segment, as those of ``v`` do under
``SUM(v)`` and ``COUNT(*)``, are convex combinations of its two ends; values on a parabola
(``SUM(v * v)`` besides) are convex combinations of its three Bernstein control points.  What is
left are *vertices*.  Nothing is lost: a strategy over vertices extends to all values by the same
convex combinations, which keeps what it answers and its sensitivity; and restricting a strategy to
the vertices can only lower its sensitivity.

A *piece* is a set of values that share their vertices.  Its degree is 0 (one vertex), 1 (a segment,
two) or 2 (a parabola, three).  A value lies ``t = steps / unit`` of the way along its piece, both
whole numbers, and its weights on the piece's vertices are the Bernstein polynomials

    degree 0:  1        degree 1:  1 - t, t        degree 2:  (1 - t)^2, 2 t (1 - t), t^2

which are not negative and sum to 1.  All pieces of a partition share one ``unit``.

A price in cents has millions of values, but few *runs* of consecutive values that are in one piece
with steps along a line.  Partitions of wide columns are kept as runs, and everything about them is
worked out at the ends of runs alone.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.table.polynomials import (
    CURVED_VALUES,
    MAX_STEPS,
    MOST_CURVED,
    few_distinct,
    looks_polynomial,
    roots,
    stretches,
)
from sqlmadp.table.runs import (
    WIDE,
    Floats,
    Integers,
    Runs,
    outline_of,
    renumbered,
    run_starts,
    union,
)

FINEST_UNIT = 1024
"""Stretch the longest piece by at most this factor to give all pieces one unit.  A piece whose
length does not divide the unit then seems longer than it is by at most one part in 1,024."""

ROUNDING = 1e-13
"""Take a coefficient of a function of length about 1 to be zero below this."""

FEW_VALUES = (2, 8)
"""A function of at most this many values tells values apart instead of lying on a line; whichever
of the two bounds leaves fewer vertices is taken."""


SAMPLED, MOST_SAMPLED = 16, 4096
"""Look at 16 values of a run to tell curved functions apart, and two more for each of them, while
that is at most 4,096 values: beside the 512 ranges of a median, every value alone is quicker."""

KEPT_RUNS = 2**22
"""Keep partitions of at most this many runs in all, to find them again: commands make the same ones
many times over."""


class Partition:
    """The vertices of one column, and where every value lies between them."""

    degrees: Integers
    """The degree of every piece: one vertex less than it has."""
    unit: int
    """Steps from one end of a piece to the other."""

    def __init__(self, pieces: Integers, steps: Integers, degrees: Integers, unit: int = 1) -> None:
        """Take the piece and steps of every value; see `pieces` and `steps`."""
        self.degrees, self.unit = degrees, unit
        self._given: tuple[Integers, Integers] | None = (pieces, steps)
        sound = len(pieces) == len(steps) and pieces.dtype == steps.dtype == np.int64
        if sound and len(pieces) > WIDE:
            self.runs = Runs.of(np.arange(len(pieces)), pieces, steps, len(pieces))
            self._given = None

    @classmethod
    def of_runs(cls, runs: Runs, degrees: Integers, unit: int = 1) -> Partition:
        """Return the partition with these runs; pieces are numbered by their first value."""
        found = cls.__new__(cls)
        found.degrees, found.unit, found.runs = degrees, unit, runs
        found._given = None
        if runs.count <= WIDE:
            found._given = runs.at(np.arange(runs.count))
        return found

    @cached_property
    def runs(self) -> Runs:
        """The values as runs."""
        assert self._given is not None
        pieces, steps = self._given
        return Runs.of(np.arange(len(pieces)), pieces, steps, len(pieces))

    @property
    def pieces(self) -> Integers:
        """The piece of every value; pieces are numbered by their first value."""
        if self._given is not None:
            return self._given[0]
        return np.repeat(self.runs.pieces, self.runs.lengths)

    @property
    def steps(self) -> Integers:
        """How far along its piece every value lies, from 0 to ``unit``; 0 where the degree is 0."""
        if self._given is not None:
            return self._given[1]
        runs = self.runs
        steps = np.repeat(runs.steps - runs.slopes * runs.starts, runs.lengths)
        if runs.slopes.any():
            steps += np.repeat(runs.slopes, runs.lengths) * np.arange(runs.count)
        return steps

    @property
    def values(self) -> int:
        """The number of values."""
        return len(self._given[0]) if self._given is not None else self.runs.count

    @classmethod
    def flat(cls, labels: NDArray[np.integer]) -> Partition:
        """Return the partition that merges values of equal label and has no longer pieces."""
        starts = run_starts([labels != np.roll(labels, 1)])
        return cls._flat_runs(starts, labels[starts], len(labels))

    @classmethod
    def _flat_runs(cls, starts: Integers, labels: NDArray[np.integer], count: int) -> Partition:
        pieces = renumbered(labels)
        degrees = np.zeros(int(pieces.max(initial=-1)) + 1, np.int64)
        none = np.zeros_like(pieces)
        return cls.of_runs(Runs(starts, pieces, none, none, count), degrees)

    @classmethod
    def finest(cls, values: int) -> Partition:
        """Return the partition in which every value is a vertex."""
        return _worked_out_once(("finest", values), lambda: cls.flat(np.arange(values)))

    @classmethod
    def of_functions(cls, rows: Floats, labels: Integers | None = None) -> Partition:
        """Return the coarsest partition over whose vertices every row is known.

        Values of different labels, if there are any, are in different pieces.

        Rows of few different numbers (predicates, small cases) tell values apart; segments and
        parabolas are looked for among values that these do not.
        """
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        given = np.zeros(rows.shape[1], dtype=np.int64) if labels is None else labels
        digest = hashlib.sha256(rows.data)
        digest.update(np.ascontiguousarray(given, dtype=np.int64).data)
        return _worked_out_once(("functions", digest.digest()), lambda: _of_functions(rows, given))

    @cached_property
    def size(self) -> int:
        """The number of vertices."""
        return len(self.degrees) + int(self.degrees.sum())

    @cached_property
    def is_flat(self) -> bool:
        """Whether every piece is a single vertex."""
        return not self.degrees.any()

    @cached_property
    def is_curved(self) -> bool:
        """Whether a piece rises along no few straight lines: what LN(price) does."""
        return not self.is_flat and len(self.runs.starts) > CURVED_VALUES

    @cached_property
    def degree(self) -> int:
        """The largest degree of a piece."""
        return int(self.degrees.max(initial=0))

    @cached_property
    def first_vertices(self) -> Integers:
        """The first vertex of every piece."""
        return np.concatenate([[0], np.cumsum(self.degrees + 1)[:-1]]).astype(np.int64)

    @cached_property
    def key(self) -> bytes:
        """A digest that is equal just for equal partitions."""
        digest = hashlib.sha256(self.unit.to_bytes(16, "big"))
        for part in (self.pieces, self.steps, self.degrees):
            digest.update(np.ascontiguousarray(part, dtype=np.int64).data)
        return digest.digest()

    @cached_property
    def _content(self) -> bytes:
        """A digest of the runs: quick, and small where a column has millions of values."""
        digest = hashlib.sha256(repr((self.runs.count, self.unit, len(self.degrees))).encode())
        for array in (*self.runs.arrays, self.degrees):
            digest.update(np.ascontiguousarray(array).data)
        return digest.digest()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Partition) and self._content == other._content)

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def functions(self) -> sparse.csr_array:
        """One row per vertex, one column per value: not negative, every column sums to 1."""
        return self.functions_at(np.arange(self.values))

    def functions_at(self, values: Integers) -> sparse.csr_array:
        """Return the functions at some values only."""
        return self._numerators_at(values).astype(np.float64) / float(self.denominator)

    @property
    def denominator(self) -> int:
        """The whole number that makes all weights whole: ``unit ** degree``."""
        return int(self.unit**self.degree)

    @property
    def numerators(self) -> sparse.csr_array:
        """The functions times ``denominator``, in whole numbers."""
        return self._numerators_at(np.arange(self.values))

    def _numerators_at(self, values: Integers) -> sparse.csr_array:
        pieces, all_steps = self.runs.at(values)
        if self.denominator >= 2**62:  # Only ever where few values are curved along long steps.
            all_steps = all_steps.astype(np.float64)
        degrees, firsts = self.degrees[pieces], self.first_vertices[pieces]
        rows, columns, data = [], [], []
        for degree in range(self.degree + 1):
            here = np.flatnonzero(degrees == degree)
            steps = all_steps[here]
            rest = self.unit - steps
            scale = self.unit ** (self.degree - degree)
            for place in range(degree + 1):
                bernstein = math.comb(degree, place) * steps**place * rest ** (degree - place)
                rows.append(firsts[here] + place)
                columns.append(here)
                data.append(bernstein * (scale if all_steps.dtype == np.int64 else float(scale)))
        entries = (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns)))
        shape = self.size, len(values)
        found = sparse.csr_array(entries, shape=shape, dtype=all_steps.dtype)
        found.eliminate_zeros()
        return found

    @cached_property
    def evaluation(self) -> tuple[Integers, sparse.csr_array]:
        """A few values, and the matrix from what a function is there to its coefficients.

        The function must be known over the vertices: a polynomial of a piece's degree along every
        piece.  The matrix has one row per value and one column per vertex.
        """
        flat = np.flatnonzero(self.degrees == 0)
        values, columns = [self.first_values[flat]], [self.first_vertices[flat]]
        data = [np.ones(len(flat))]
        for degree in (1, 2):
            curved = np.flatnonzero(self.degrees == degree)
            nodes = self._nodes(curved, degree)
            places = self.runs.at(nodes.reshape(-1))[1] / self.unit
            basis = bernstein_basis(places, degree).reshape(len(curved), degree + 1, degree + 1)
            vertices = self.first_vertices[curved][:, None] + np.arange(degree + 1)
            values.append(np.tile(nodes, degree + 1).reshape(-1))
            columns.append(np.repeat(vertices, degree + 1))
            data.append(np.asarray(np.linalg.inv(basis), dtype=np.float64).reshape(-1))
        used, rows = np.unique(np.concatenate(values), return_inverse=True)
        entries = (np.concatenate(data), (rows.reshape(-1), np.concatenate(columns)))
        return used, sparse.csr_array(entries, shape=(len(used), self.size))

    @cached_property
    def first_values(self) -> Integers:
        """The first value of every piece."""
        return self.runs.starts[np.unique(self.runs.pieces, return_index=True)[1]]

    @cached_property
    def _ends(self) -> tuple[Integers, Integers]:
        """The values of fewest and of most steps of every piece, the first of these."""
        runs = self.runs
        last = runs.starts + runs.lengths - 1
        values = np.concatenate([runs.starts, last])
        pieces = np.concatenate([runs.pieces, runs.pieces])
        steps = np.concatenate([runs.steps, runs.at(last)[1]])
        found = []
        for signed in (steps, -steps):
            order = np.lexsort((values, signed, pieces))
            first = np.searchsorted(pieces[order], np.arange(len(self.degrees)))
            found.append(values[order[np.minimum(first, len(order) - 1)]])
        return found[0], found[1]

    def _nodes(self, pieces: Integers, degree: int) -> Integers:
        """Return as many values of every piece as it has vertices, far apart: one row per piece."""
        low, high = (ends[pieces] for ends in self._ends)
        if degree == 1:
            return np.column_stack([low, high])
        middle = [self._middle(*each) for each in zip(pieces, low, high, strict=True)]
        return np.column_stack([low, np.array(middle, dtype=np.int64), high])

    def _middle(self, piece: int, low: int, high: int) -> int:
        """Return the first value of a piece that is nearest to the middle of its ends."""
        runs = self.runs
        twice = int(runs.at(np.array([low, high]))[1].sum())
        own = np.flatnonzero(runs.pieces == piece)
        slopes = np.where(runs.slopes[own] == 0, 1, runs.slopes[own])
        exact = (twice / 2 - runs.steps[own]) / slopes
        near = [np.clip(side(exact), 0, runs.lengths[own] - 1) for side in (np.floor, np.ceil)]
        still = runs.slopes[own] == 0
        values = np.concatenate([runs.starts[own] + np.where(still, 0, n) for n in near])
        values = values.astype(np.int64)
        away = np.abs(2 * runs.at(values)[1] - twice)
        return int(values[away == away.min()].min())

    def over(self, finer: Partition) -> sparse.csr_array:
        """Return this partition's functions as coefficients of a finer partition's vertices.

        One row per vertex here, one column per vertex there.
        """
        if self == finer:
            return sparse.eye_array(self.size, format="csr")
        values, coefficients = finer.evaluation
        found = sparse.csr_array(self.functions_at(values) @ coefficients)
        found.data[np.abs(found.data) < ROUNDING] = 0
        found.eliminate_zeros()
        return found

    def missed_of(self, other: Partition) -> sparse.csr_array:
        """Return the residual of another partition's functions over these vertices, at some values.

        Where nothing is missed at these values, nothing is missed at any.
        """
        starts = union([self.runs.starts, other.runs.starts], self.values)
        values = outline_of(starts, self.values)
        return sparse.csr_array(
            other.over(self) @ self.functions_at(values) - other.functions_at(values)
        )

    def refines(self, other: Partition) -> bool:
        """Return whether every piece runs evenly along a single piece of another partition.

        All functions of the other are then known over the vertices here.
        """
        starts = union([self.runs.starts, other.runs.starts], self.values)
        values = np.concatenate([starts, np.append(starts[1:], self.values) - 1])
        (pieces, steps), (theirs, their_steps) = self.runs.at(values), other.runs.at(values)
        inside = other.runs.at(self.first_values)[0]
        if not np.array_equal(inside[pieces], theirs):
            return False
        if other.is_flat:
            return True
        curved = self.degrees > 0
        low, high = self._ends
        low = np.where(curved, low, self.first_values)
        own_low, theirs_low = self.runs.at(low)[1], other.runs.at(low)[1]
        rise = np.where(curved, other.runs.at(high)[1] - theirs_low, 0)
        run = np.where(curved, self.runs.at(high)[1] - own_low, 1)
        if (rise[other.degrees[inside] > self.degrees] != 0).any():
            return False
        along = steps - own_low[pieces]
        expected = theirs_low[pieces] + (rise / run)[pieces] * along
        return bool(np.abs(expected - their_steps).max() <= ROUNDING * other.unit)

    def restricted(self, labels: Integers) -> Partition:
        """Return the partition of values that are known by ``labels``, the values of this one."""
        return self._numbered_anew(Partition(*self.runs.at(labels), self.degrees, self.unit).runs)

    def composed(self, groups: Partition) -> Partition:
        """Return the partition of values whose groups, single vertices, are the values of this."""
        runs = groups.runs
        pieces, steps = self.runs.at(runs.pieces)
        outline = outline_of(runs.starts, runs.count)
        at = np.searchsorted(runs.starts, outline, side="right") - 1
        return self._numbered_anew(Runs.of(outline, pieces[at], steps[at], runs.count))

    def _numbered_anew(self, runs: Runs) -> Partition:
        """Return runs as a partition; pieces without a value are kept, after all others."""
        used, first = np.unique(runs.pieces, return_index=True)
        without = np.setdiff1d(np.arange(len(self.degrees)), used)
        degrees = self.degrees[np.append(used[np.argsort(first, kind="stable")], without)]
        pieces = renumbered(runs.pieces)
        made = Runs(runs.starts, pieces, runs.steps, runs.slopes, runs.count)
        return Partition.of_runs(made, degrees, self.unit)

    def merged(self, labels: Integers, flattened: NDArray[np.bool_]) -> Partition:
        """Return the partition in which pieces of equal label are one, some of them one vertex."""
        runs = self.runs
        if self.is_flat:
            own = labels[runs.pieces]
            longer = run_starts([own != np.roll(own, 1)])
            return Partition._flat_runs(runs.starts[longer], own[longer], runs.count)
        outline = outline_of(runs.starts, runs.count)
        pieces, steps = runs.at(outline)
        still = np.where(flattened[pieces], 0, steps)
        number = renumbered(labels[pieces])
        first = np.unique(number, return_index=True)[1]
        degrees = np.where(flattened, 0, self.degrees)[pieces[first]]
        made = Runs.of(outline, number, still, runs.count)
        return Partition.of_runs(made, degrees, self.unit if degrees.any() else 1)


def common(parts: Sequence[Partition]) -> Partition:
    """Return the coarsest partition over whose vertices the functions of all parts are known."""
    distinct = list(dict.fromkeys(parts))
    if len(distinct) == 1:
        return distinct[0]
    return _worked_out_once(("common", *distinct), lambda: _common(distinct))


def _common(distinct: Sequence[Partition]) -> Partition:
    finest = max(distinct, key=lambda part: part.size)
    count = finest.values
    if finest.size < count and _all_apart(distinct):
        return Partition.finest(count)
    if all(finest.refines(part) for part in distinct if part is not finest):
        return finest
    starts = union([part.runs.starts for part in distinct], count)
    for values in (outline_of(starts, count), np.arange(count)):
        known = [part.runs.at(values) for part in distinct]
        labels = known[0][0]
        for pieces, _ in known[1:]:
            labels = renumbered(labels * (int(pieces.max(initial=0)) + 1) + pieces)
        curved = [(p, steps) for p, (_, steps) in zip(distinct, known, strict=True) if p.degree]
        if not curved:
            return Partition._flat_runs(starts, labels[np.searchsorted(values, starts)], count)
        # Whole numbers if possible: fractions of ten million steps cannot be told from rounding.
        unit = math.lcm(*(part.unit for part, _ in curved))
        unit = unit if unit <= MAX_STEPS else 1
        places = np.array([steps * (unit / part.unit) for part, steps in curved])
        squares = places[[part.degree > 1 for part, _ in curved]] ** 2 / unit
        found = _assembled(labels, np.vstack([places, squares]), values, count)
        if found is not None:
            return found
    raise AssertionError("every value was looked at")


def _all_apart(parts: Sequence[Partition]) -> bool:
    """Return whether several functions are curved along all values, so that each is a vertex."""
    some = sampled(parts) if sum(part.is_curved for part in parts) else None
    if some is None:
        return False
    known = [part.runs.at(some.first_values) for part in parts]
    labels = distinct_columns(np.array([pieces for pieces, _ in known], float), some.size)
    rows = np.array([steps / part.unit for part, (_, steps) in zip(parts, known, strict=True)])
    groups = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    return all(
        len(own) < 3 or not any(looks_polynomial(rows[:, own], lead, 2) for lead in leads)
        for own in groups
        for leads in [[own, *rows[:, own], *roots(rows[:, own])]]
    )


_KEPT: OrderedDict[tuple[object, ...], Partition] = OrderedDict()


def _worked_out_once(key: tuple[object, ...], work: Callable[[], Partition]) -> Partition:
    """Return a partition that was made before, if it was used lately."""
    if key in _KEPT:
        _KEPT.move_to_end(key)
        return _KEPT[key]
    found = work()
    _KEPT[key] = found
    while len(_KEPT) > 1 and sum(len(part.runs.starts) for part in _KEPT.values()) > KEPT_RUNS:
        _KEPT.popitem(last=False)
    return found


def sampled(parts: Sequence[Partition]) -> Partition | None:
    """Return single vertices whose first values tell all parts' functions apart; None if many.

    Where functions along a wide column are curved, only every value alone would express them all.
    Whether functions depend on each other is seen at a few values: some of every run along which
    nothing but curved functions changes.
    """
    count = parts[0].values
    begins = []
    for part in parts:
        starts, pieces = part.runs.starts, part.runs.pieces
        begins.append(
            starts[run_starts([pieces != np.roll(pieces, 1)])] if part.is_curved else starts
        )
    starts = union(begins, count)
    each = SAMPLED + 2 * len(parts)
    if len(starts) * each > min(count, MOST_SAMPLED):
        return None
    ends = np.append(starts[1:], count) - 1
    own = np.linspace(starts, ends, each).astype(np.int64).reshape(-1)
    chosen = union([own, *(part.evaluation[0] for part in parts)], count)
    return Partition._flat_runs(chosen, np.arange(len(chosen)), count)


def _of_functions(rows: Floats, labels: Integers) -> Partition:
    count = rows.shape[1]
    outlines = [np.arange(count)]
    if count > WIDE:  # Runs along which all rows are polynomials, at least of degree 2.
        cubic = (np.diff(row, 3, prepend=[np.nan] * 3) != 0 for row in rows)
        starts = run_starts([labels != np.roll(labels, 1), *cubic])
        outlines.insert(0, outline_of(starts, count))
    for values in outlines:
        some, given = rows[:, values], labels[values]
        gaps = np.flatnonzero(np.diff(values) > 1)
        moving = (some[:, gaps] != some[:, gaps + 1]).any(axis=1)  # Along many values, that is.
        counts = np.array([few_distinct(row, max(FEW_VALUES)) for row in some], dtype=np.int64)
        counts[moving] = max(FEW_VALUES) + 1
        found = []
        for few in {(counts <= most).tobytes(): counts <= most for most in FEW_VALUES}.values():
            apart = distinct_columns(some[few], len(values), given)
            found.append(_assembled(apart, some[~few], values, count))
            if few.all():
                break
        made = [part for part in found if part is not None]
        if len(made) == len(found):
            return min(made, key=lambda part: part.size)
    raise AssertionError("every value was looked at")


def bernstein_basis(places: Floats, degree: int) -> Floats:
    """Return the Bernstein polynomials of one degree at some places, one row per place."""
    t = np.asarray(places, dtype=np.float64)[:, None]
    k = np.arange(degree + 1)
    binomials = np.array([math.comb(degree, int(each)) for each in k], dtype=np.float64)
    return np.asarray(binomials * t**k * (1 - t) ** (degree - k))


def distinct_columns(
    rows: NDArray[np.floating], columns: int, labels: Integers | None = None
) -> Integers:
    """Return a number for every column of a matrix, equal just for equal columns.

    Columns of different ``labels``, if there are any, have different numbers.
    """
    numbers = np.zeros(columns, dtype=np.int64) if labels is None else renumbered(labels)
    for row in rows:  # Numbered anew after every row, so that the numbers never overflow.
        if columns and numbers.max() + 1 == columns:
            break
        different = np.unique(row)
        numbers = renumbered(numbers * len(different) + np.searchsorted(different, row))
    return numbers


def _assembled(labels: Integers, rows: Floats, values: Integers, count: int) -> Partition | None:
    """Cut values of equal label into pieces along which all ``rows`` are polynomials.

    ``values`` are some of a column's ``count`` values.  None if these do not show where the values
    between them lie.
    """
    pieces = labels.copy()
    steps = np.zeros(len(labels), dtype=np.int64)
    lengths: list[tuple[NDArray[np.int64], int, int]] = []
    number_of = int(labels.max(initial=-1)) + 1
    if len(rows):
        order = np.argsort(labels, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(labels))])
        widths = np.diff(values, append=count)[order]
        places = np.cumsum(widths) - widths
        for piece in range(number_of):
            here = slice(bounds[piece], bounds[piece + 1])
            members = order[here]
            if len(members) == 1:
                continue
            found = stretches(rows, members, places[here] - places[bounds[piece]])
            for place, (own, line) in enumerate(found):
                pieces[own] = piece if place == 0 else number_of + place - 1
                if line is not None:
                    lengths.append((own, int(line[0].max()), line[1]))
                    steps[own] = line[0]
            number_of += max(0, len(found) - 1)
            if not found and len(rows) == 1 and CURVED_VALUES < len(members) <= MOST_CURVED:
                return _curved(labels, rows[0]) if len(values) == count else None
            if not found:
                alike = distinct_columns(rows[:, members], len(members))
                pieces[members] = np.where(alike == 0, piece, number_of + alike - 1)
                number_of += int(alike.max())
    number = renumbered(pieces)
    unit, found_degrees = 1, np.zeros(int(number.max(initial=-1)) + 1, dtype=np.int64)
    if lengths:
        unit = _common_unit([length for _, length, _ in lengths])
        for members, length, degree in lengths:
            steps[members] *= unit // length
            found_degrees[number[members[0]]] = degree
    if not _straight(values, number, steps):
        return None
    return Partition.of_runs(Runs.of(values, number, steps, count), found_degrees, unit)


def _curved(labels: Integers, row: Floats) -> Partition:
    """Return one ramp per label along which a function of many values rises, in rounded steps."""
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels))[:-1]])
    low, high = (end.reduceat(row[order], starts) for end in (np.minimum, np.maximum))
    first, last = row[order][starts], row[order][np.append(starts[1:], len(row)) - 1]
    low, high = np.where(first <= last, (low, high), (high, low))
    span = np.where(low == high, 1.0, high - low)
    steps = np.rint((row - low[labels]) / span[labels] * MAX_STEPS).astype(np.int64)
    return Partition(labels, steps, (low != high).astype(np.int64), MAX_STEPS)


def _straight(values: Integers, pieces: Integers, steps: Integers) -> bool:
    """Return whether everything goes on along a line where values are left out."""
    far, rise = np.diff(values), np.diff(steps)
    gaps = np.flatnonzero(far > 1)
    bent = [rise[gaps] * far[gaps + by] != rise[gaps + by] * far[gaps] for by in (-1, 1)]
    return not (np.any(bent) or (pieces[gaps] != pieces[gaps + 1]).any())


def _common_unit(lengths: Sequence[int]) -> int:
    """Return a number of steps that all lengths divide, or nearly where that would be too many."""
    longest = max(lengths)
    least = math.lcm(*set(lengths))
    return least if least <= FINEST_UNIT * longest else FINEST_UNIT * longest

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
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

FINEST_UNIT = 1024
"""Stretch the longest piece by at most this factor to give all pieces one unit.  A piece whose
length does not divide the unit then seems longer than it is by at most one part in 1,024."""

ROUNDING = 1e-13
"""Take a coefficient of a function of length about 1 to be zero below this."""

DECIMALS = (1.0, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6)
"""Units in which numbers are looked at as whole ones, before their own smallest difference is."""

FEW_VALUES = (2, 8)
"""A function of at most this many values tells values apart instead of lying on a line; whichever
of the two bounds leaves fewer vertices is taken."""


COUNTED = 4
"""Number labels by counting, which takes less memory than sorting, if they range over at most four
times as many integers as there are labels."""

AT_ONCE = 2**16
"""Compare this many values with a polynomial at once: a column may have millions."""

CURVED_VALUES = 1024
"""Let steps be any function of a column of at most this many values.  Those of a wide column are
written into a statement as a few straight runs: its squares lie on a parabola, not on a ramp."""

MIN_STRETCH, MAX_BENDS = 32, 16
"""Cut a column of at least this many values where its functions bend, at no more than 16 places."""


KEPT_VALUES = 2**23
"""Keep partitions of at most this many values in all, to find them again: commands make the same
ones many times over.  A column of prices may have millions of values."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The vertices of one column, and where every value lies between them."""

    pieces: Integers
    """The piece of every value; pieces are numbered by their first value."""
    steps: Integers
    """How far along its piece every value lies, from 0 to ``unit``; 0 where the degree is 0."""
    degrees: Integers
    """The degree of every piece: one vertex less than it has."""
    unit: int = 1
    """Steps from one end of a piece to the other."""

    @classmethod
    def flat(cls, labels: NDArray[np.integer]) -> Partition:
        """Return the partition that merges values of equal label and has no longer pieces."""
        pieces = renumbered(labels)
        count = int(pieces.max(initial=-1)) + 1
        return cls(pieces, _no_steps(len(pieces)), np.zeros(count, np.int64))

    @classmethod
    def finest(cls, values: int) -> Partition:
        """Return the partition in which every value is a vertex."""
        return cls(np.arange(values), _no_steps(values), np.zeros(values, np.int64))

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
        return _worked_out_once(
            ("functions", digest.digest()), lambda: cls._of_functions(rows, given)
        )

    @classmethod
    def _of_functions(cls, rows: Floats, given: Integers) -> Partition:
        counts = np.array([_few_distinct(row, max(FEW_VALUES)) for row in rows], dtype=np.int64)
        found = []
        for few in {(counts <= most).tobytes(): counts <= most for most in FEW_VALUES}.values():
            apart = distinct_columns(rows[few], rows.shape[1], given)
            found.append(_assembled(apart, rows[~few]))
            if few.all():
                break
        return min(found, key=lambda part: part.size)

    @cached_property
    def size(self) -> int:
        """The number of vertices."""
        return len(self.degrees) + int(self.degrees.sum())

    @cached_property
    def is_flat(self) -> bool:
        """Whether every piece is a single vertex."""
        return not self.degrees.any()

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @cached_property
    def functions(self) -> sparse.csr_array:
        """One row per vertex, one column per value: not negative, every column sums to 1."""
        return self.numerators.astype(np.float64) / float(self.denominator)

    @property
    def denominator(self) -> int:
        """The whole number that makes all weights whole: ``unit ** degree``."""
        return int(self.unit**self.degree)

    @cached_property
    def numerators(self) -> sparse.csr_array:
        """The functions times ``denominator``, in whole numbers."""
        return self._numerators_at(np.arange(len(self.pieces)))

    def _numerators_at(self, values: Integers) -> sparse.csr_array:
        """Return the same at some values only."""
        pieces = self.pieces[values]
        degrees, firsts = self.degrees[pieces], self.first_vertices[pieces]
        rows, columns, data = [], [], []
        for degree in range(self.degree + 1):
            here = np.flatnonzero(degrees == degree)
            steps = self.steps[values[here]]
            rest = self.unit - steps
            scale = self.unit ** (self.degree - degree)
            for place in range(degree + 1):
                bernstein = math.comb(degree, place) * steps**place * rest ** (degree - place)
                rows.append(firsts[here] + place)
                columns.append(here)
                data.append(bernstein * scale)
        entries = (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns)))
        found = sparse.csr_array(entries, shape=(self.size, len(values)), dtype=np.int64)
        found.eliminate_zeros()
        return found

    @cached_property
    def evaluation(self) -> sparse.csr_array:
        """The matrix from values of a function to its coefficients: one column per vertex.

        The function must be known over the vertices: a polynomial of a piece's degree along every
        piece.
        """
        flat = np.flatnonzero(self.degrees == 0)
        rows, columns = [self.first_values[flat]], [self.first_vertices[flat]]
        data = [np.ones(len(flat))]
        for piece in np.flatnonzero(self.degrees):
            nodes, degree = self._nodes(int(piece)), int(self.degrees[piece])
            inverse = np.linalg.inv(bernstein_basis(self.steps[nodes] / self.unit, degree))
            vertices = self.first_vertices[piece] + np.arange(degree + 1)
            rows.append(np.tile(nodes, degree + 1))
            columns.append(np.repeat(vertices, degree + 1))
            data.append(np.asarray(inverse, dtype=np.float64).reshape(-1))
        entries = (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns)))
        return sparse.csr_array(entries, shape=(len(self.pieces), self.size))

    @cached_property
    def first_values(self) -> Integers:
        """The first value of every piece."""
        found = np.empty(len(self.degrees), dtype=np.int64)
        found[self.pieces[::-1]] = np.arange(len(self.pieces))[::-1]  # The last one counts.
        return found

    @cached_property
    def _members(self) -> tuple[Integers, Integers]:
        """The values, piece by piece, and where every piece begins."""
        order = np.argsort(self.pieces, kind="stable")
        return order, np.searchsorted(self.pieces[order], np.arange(len(self.degrees) + 1))

    def _nodes(self, piece: int) -> Integers:
        """Return as many values of a piece as it has vertices, far apart."""
        members: Integers | slice = slice(None)
        if len(self.degrees) > 1:
            order, starts = self._members
            members = order[starts[piece] : starts[piece + 1]]
        steps = self.steps[members]
        nodes = [int(np.argmin(steps)), int(np.argmax(steps))]
        if self.degrees[piece] == 2:
            nodes.insert(1, _nearest(steps, (steps[nodes[0]] + steps[nodes[1]]) / 2))
        return np.array(nodes) if isinstance(members, slice) else members[nodes]

    def over(self, finer: Partition) -> sparse.csr_array:
        """Return this partition's functions as coefficients of a finer partition's vertices.

        One row per vertex here, one column per vertex there.
        """
        if self == finer:
            return sparse.eye_array(self.size, format="csr")
        nodes = np.flatnonzero(np.diff(finer.evaluation.indptr))
        functions = self._numerators_at(nodes) / float(self.denominator)
        found = sparse.csr_array(functions @ finer.evaluation[nodes])
        found.data[np.abs(found.data) < ROUNDING] = 0
        found.eliminate_zeros()
        return found

    def refines(self, other: Partition) -> bool:
        """Return whether every piece runs evenly along a single piece of another partition.

        All functions of the other are then known over the vertices here.
        """
        inside = other.pieces[self.first_values]
        if not np.array_equal(inside[self.pieces], other.pieces):
            return False
        if other.is_flat:
            return True
        low = self.first_values.copy()
        rise, run = np.zeros(len(low), np.int64), np.ones(len(low), np.int64)
        for piece in np.flatnonzero(self.degrees):
            ends = self._nodes(int(piece))[[0, -1]]
            low[piece] = ends[0]
            rise[piece], run[piece] = np.diff(other.steps[ends])[0], np.diff(self.steps[ends])[0]
        if (rise[other.degrees[inside] > self.degrees] != 0).any():
            return False
        along = self.steps - self.steps[low][self.pieces]
        expected = other.steps[low][self.pieces] + (rise / run)[self.pieces] * along
        return bool(np.abs(expected - other.steps).max() <= ROUNDING * other.unit)

    def restricted(self, labels: Integers) -> Partition:
        """Return the partition of values that are known by ``labels``, the values of this one."""
        firsts = np.full(len(self.degrees), len(labels), dtype=np.int64)
        np.minimum.at(firsts, self.pieces[labels], np.arange(len(labels)))
        order = np.argsort(firsts, kind="stable")
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        pieces = number[self.pieces[labels]]
        steps = _no_steps(len(labels)) if self.is_flat else self.steps[labels]
        return Partition(pieces, steps, self.degrees[order], self.unit)


def common(parts: Sequence[Partition]) -> Partition:
    """Return the coarsest partition over whose vertices the functions of all parts are known."""
    distinct = list({part.key: part for part in parts}.values())
    if len(distinct) == 1:
        return distinct[0]
    key = ("common", *(part.key for part in distinct))
    return _worked_out_once(key, lambda: _common(distinct))


def _common(distinct: Sequence[Partition]) -> Partition:
    finest = max(distinct, key=lambda part: part.size)
    if all(finest.refines(part) for part in distinct if part is not finest):
        return finest
    labels = distinct[0].pieces
    for part in distinct[1:]:
        labels = renumbered(labels * (int(part.pieces.max(initial=0)) + 1) + part.pieces)
    curved = [part for part in distinct if not part.is_flat]
    if not curved:
        return Partition.flat(labels)
    places = np.array([part.steps / part.unit for part in curved])
    return _assembled(labels, np.vstack([places, places[[p.degree > 1 for p in curved]] ** 2]))


_KEPT: OrderedDict[tuple[object, ...], Partition] = OrderedDict()


def _worked_out_once(key: tuple[object, ...], work: Callable[[], Partition]) -> Partition:
    """Return a partition that was made before, if it was used lately."""
    if key in _KEPT:
        _KEPT.move_to_end(key)
        return _KEPT[key]
    found = work()
    _KEPT[key] = found
    while len(_KEPT) > 1 and sum(len(part.pieces) for part in _KEPT.values()) > KEPT_VALUES:
        _KEPT.popitem(last=False)
    return found


def _no_steps(values: int) -> Integers:
    """Return a zero for every value, which take no memory."""
    return np.broadcast_to(np.zeros((), dtype=np.int64), (values,))


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
        different = np.unique(row)
        numbers = renumbered(numbers * len(different) + np.searchsorted(different, row))
    return numbers


def renumbered(labels: NDArray[np.integer]) -> Integers:
    """Return labels numbered by their first place."""
    numbers: Integers = np.asarray(labels, dtype=np.int64)
    if not len(numbers):
        return numbers
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= COUNTED * len(numbers):
        numbers = np.unique(numbers, return_inverse=True)[1].reshape(-1)
        low, high = 0, int(numbers.max())
    if low == numbers[0] == 0 and (np.diff(np.maximum.accumulate(numbers)) <= 1).all():
        return numbers  # Every new label is the next one.
    first = np.full(high - low + 1, len(numbers), dtype=np.int64)
    first[numbers[::-1] - low] = np.arange(len(numbers) - 1, -1, -1)
    present = np.flatnonzero(first < len(numbers))
    rank = np.empty(len(first), dtype=np.int64)
    rank[present[np.argsort(first[present])]] = np.arange(len(present))
    return np.asarray(rank[numbers - low], dtype=np.int64)


Line = tuple[Integers, int]
"""Whole steps along a line, from 0, and the degree of what is a polynomial of them."""


def _assembled(labels: Integers, rows: Floats) -> Partition:
    """Cut values of equal label into pieces along which all ``rows`` are polynomials."""
    if not labels.any() and len(labels) > 1 and (whole := _line(rows)) is not None:
        return Partition(labels, whole[0], np.array([whole[1]]), int(whole[0].max()))
    pieces = labels.copy()
    steps = np.zeros(len(labels), dtype=np.int64)
    lengths: list[tuple[NDArray[np.int64], int, int]] = []
    count = int(labels.max(initial=-1)) + 1
    if len(rows):
        order = np.argsort(labels, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(labels))])
        for piece in range(count):
            members = order[bounds[piece] : bounds[piece + 1]]
            if len(members) == 1:
                continue
            stretches = _stretches(rows, members)
            for place, (own, line) in enumerate(stretches):
                pieces[own] = piece if place == 0 else count + place - 1
                if line is not None:
                    lengths.append((own, int(line[0].max()), line[1]))
                    steps[own] = line[0]
            count += max(0, len(stretches) - 1)
            if not stretches:
                alike = distinct_columns(rows[:, members], len(members))
                pieces[members] = np.where(alike == 0, piece, count + alike - 1)
                count += int(alike.max())
    number = renumbered(pieces)
    unit, found_degrees = 1, np.zeros(int(number.max(initial=-1)) + 1, dtype=np.int64)
    if lengths:
        unit = _common_unit([length for _, length, _ in lengths])
        for members, length, degree in lengths:
            steps[members] *= unit // length
            found_degrees[number[members[0]]] = degree
    return Partition(number, steps, found_degrees, unit)


def _stretches(rows: Floats, members: Integers) -> list[tuple[Integers, Line | None]]:
    """Return consecutive values along which all rows are polynomials; nothing if there are none.

    Values along which nothing changes need no line.
    """
    whole = _line(rows[:, members])
    if whole is not None:
        return [(members, whole)]
    ends = _bends(rows[:, members])
    if not len(ends):
        return []
    found = [(own, _line(rows[:, own])) for own in np.split(members, ends)]
    level = [bool((np.ptp(rows[:, own], axis=1) == 0).all()) for own, _ in found]
    pairs = zip(found, level, strict=True)
    return found if all(line is not None or same for (_, line), same in pairs) else []


def _bends(rows: Floats) -> Integers:
    """Return where rows, linear between few bends, are to be cut; nothing if they bend often."""
    if rows.shape[1] < MIN_STRETCH:
        return np.zeros(0, dtype=np.int64)
    second = np.abs(rows[:, 2:] - 2 * rows[:, 1:-1] + rows[:, :-2]).max(axis=0)
    bent = np.flatnonzero(second > 1e-9 * np.abs(rows).max())
    if len(bent) > 2 * MAX_BENDS:
        return np.zeros(0, dtype=np.int64)
    ends: list[int] = []
    for place in bent.tolist():
        if place >= (ends[-1] if ends else 0):  # All three values are in the present stretch.
            ends.append(place + 2)
    return np.array(ends if len(ends) <= MAX_BENDS else [], dtype=np.int64)


def _common_unit(lengths: Sequence[int]) -> int:
    """Return a number of steps that all lengths divide, or nearly where that would be too many."""
    longest = max(lengths)
    least = math.lcm(*set(lengths))
    return least if least <= FINEST_UNIT * longest else FINEST_UNIT * longest


def _oriented(rise: Integers) -> Integers:
    """Return steps that start at 0 in lowest terms, from the first value towards the last."""
    rise = rise - rise.min()
    rise //= int(np.gcd.reduce(rise))
    return rise if rise[0] <= rise[-1] else rise.max() - rise


def _line(rows: Floats) -> Line | None:
    """Return whole steps of which all rows are polynomials of degree 1 or 2; None without them."""
    spread = np.ptp(rows, axis=1)
    rows = rows if spread.all() else rows[spread > 0]
    if not len(rows):
        return None
    widest = rows[np.argmax(np.ptp(rows, axis=1))]
    for degree in (1, 2):
        for lead in [widest] if degree == 1 else [np.arange(len(widest)), *rows, *_roots(rows)]:
            rise = _whole_steps(lead)
            if rise is None or _few_distinct(rise, degree + 1) <= degree + 1:
                continue
            if len(rise) > CURVED_VALUES and np.count_nonzero(np.diff(rise, 2)) > MAX_BENDS:
                continue
            # The polynomial through as few values as determine it must go through all of them.
            t = rise / rise.max()
            nodes = [_nearest(t, at) for at in np.linspace(0, 1, degree + 1)]
            powers = np.vander(t[nodes], degree + 1)
            if abs(np.linalg.det(powers)) < 1e-9:
                continue
            coefficients = np.linalg.solve(powers, rows[:, nodes].T).T
            if _distance(rows, coefficients, t) <= 1e-10 * np.abs(rows).max():
                return _oriented(rise), degree
    return None


def _distance(rows: Floats, coefficients: Floats, t: Floats) -> float:
    """Return how far rows are from polynomials of ``t`` at most; few values at once, for memory."""
    return max(
        float(np.abs(rows[:, at : at + AT_ONCE] - coefficients @ powers.T).max())
        for at in range(0, len(t), AT_ONCE)
        for powers in [np.vander(t[at : at + AT_ONCE], coefficients.shape[1])]
    )


def _nearest(t: NDArray[np.number], at: float) -> int:
    """Return which number is nearest to another one."""
    away = t - at
    return int(np.abs(away, out=away).argmin())


def _few_distinct(row: NDArray[Any], most: int) -> int:
    """Return how many different numbers a row has, or some number above ``most`` if it has more."""
    step = len(row) // 256 + 1
    some = len(np.unique(row[::step]))
    return some if some > most or step == 1 else len(np.unique(row))


def _roots(rows: Floats) -> Floats:
    return np.asarray(np.sqrt(rows - rows.min(axis=1, keepdims=True)))


def _smallest_gap(numbers: Floats) -> float:
    gaps = np.diff(np.sort(numbers))
    return float(gaps[gaps > 1e-12 * numbers.max()].min())


def _whole_steps(lead: Floats) -> Integers | None:
    """Return numbers as whole steps from the smallest, if all of them are that; None otherwise."""
    away = np.asarray(lead - lead.min(), dtype=np.float64)
    if away.max() == 0:
        return None
    for decimal in (*DECIMALS, None):
        rest = away / (decimal or _smallest_gap(away))
        whole = np.rint(rest)
        rest -= whole
        if whole.max() <= 2**40 and np.abs(rest, out=rest).max() <= 1e-6:
            del away, rest  # Each may be of millions of values.
            return np.asarray(whole.astype(np.int64))
    return None

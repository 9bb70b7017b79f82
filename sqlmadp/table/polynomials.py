"""Polynomials: whole steps along which functions of a column lie on a line or a parabola.

Functions are given at some values of a column, one row each.  They are cut where they bend.  Along
each stretch, one of them, its root, or the place of a value is looked at in whole steps: all rows
may be polynomials of it.  A polynomial through as few values as determine it must go through all
of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sqlmadp.table.runs import AT_ONCE, Floats, Integers

DECIMALS = (1.0, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6)
"""Units in which numbers are looked at as whole ones, before their own smallest difference is."""

MAX_STEPS = 2**40
"""Look for at most this many whole steps along a piece, and round to as many where there are none:
what a record adds to a sum is then off by less than 5e-13 of the span of what is summed, far below
what `solve.column` takes to be rounding."""

CURVED_VALUES, MOST_CURVED = 1024, 2**20
"""Let steps be any whole numbers along a column of at most 1,024 values.  Those of a wide column
are written into a statement as a few straight runs if possible: its squares lie on a parabola, not
on a ramp.  A function that is neither, LN(price), is a ramp of its own while the column has at most
2^20 values, which are then grouped by (1.5 s and 320 MB to plan for a million)."""

MIN_STRETCH, MAX_BENDS = 32, 16
"""Cut a column of at least this many values where its functions bend, at no more than 16 places."""

Line = tuple[Integers, int]
"""Whole steps along a line, from 0, and the degree of what is a polynomial of them."""


def stretches(
    rows: Floats, members: Integers, places: Integers
) -> list[tuple[Integers, Line | None]]:
    """Return consecutive values along which all rows are polynomials; nothing if there are none.

    ``places``: the place of each of the members among all values of their label.  Values along
    which nothing changes need no line.
    """
    whole = line(rows[:, members], places)
    if whole is not None:
        return [(members, whole)]
    ends = _bends(rows[:, members], places)
    if not len(ends):
        return []
    parts = zip(np.split(members, ends), np.split(places, ends), strict=True)
    found = [(own, line(rows[:, own], at - at[0])) for own, at in parts]
    level = [bool((np.ptp(rows[:, own], axis=1) == 0).all()) for own, _ in found]
    pairs = zip(found, level, strict=True)
    return found if all(line is not None or same for (_, line), same in pairs) else []


def _bends(rows: Floats, places: Integers) -> Integers:
    """Return where rows, linear between few bends, are to be cut; nothing if they bend often."""
    if places[-1] + 1 < MIN_STRETCH:
        return np.zeros(0, dtype=np.int64)
    second = np.abs(rows[:, 2:] - 2 * rows[:, 1:-1] + rows[:, :-2]).max(axis=0)
    bent = _neighbours(second > 1e-9 * np.abs(rows).max(), places)
    if bent is None or len(bent) > 2 * MAX_BENDS:
        return np.zeros(0, dtype=np.int64)
    ends: list[int] = []
    for place in bent.tolist():
        if place >= (ends[-1] if ends else 0):  # All three values are in the present stretch.
            ends.append(place + 2)
    return np.array(ends if len(ends) <= MAX_BENDS else [], dtype=np.int64)


def _neighbours(bent: NDArray[np.bool_], places: Integers) -> Integers | None:
    """Return which of three neighbours are bent; None if all values that are left out are."""
    found = np.flatnonzero(bent & (places[2:] - places[:-2] == 2))
    after = np.append(places, places[-1] + 1)[found + 3] - places[found + 2]
    return None if (after > 1).any() else found


def _oriented(rise: Integers) -> Integers:
    """Return steps that start at 0 in lowest terms, from the first value towards the last."""
    rise = rise - rise.min()
    rise //= int(np.gcd.reduce(rise))
    return rise if rise[0] <= rise[-1] else rise.max() - rise


def line(rows: Floats, places: Integers) -> Line | None:
    """Return whole steps of which all rows are polynomials of degree 1 or 2; None without them."""
    spread = np.ptp(rows, axis=1)
    rows = rows if spread.all() else rows[spread > 0]
    if not len(rows):
        return None
    widest = rows[np.argmax(np.ptp(rows, axis=1))]
    for degree in (1, 2):
        for lead in [widest] if degree == 1 else [places, *rows, *roots(rows)]:
            if not looks_polynomial(rows, lead, degree):
                continue
            rise = _whole_steps(lead)
            if rise is None or few_distinct(rise, degree + 1) <= degree + 1:
                continue
            if places[-1] + 1 > CURVED_VALUES:
                bent = _neighbours(np.diff(rise, 2) != 0, places)
                if bent is None or len(bent) > MAX_BENDS:
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


def looks_polynomial(rows: Floats, lead: NDArray[np.number], degree: int) -> bool:
    """Return whether rows are polynomials of ``lead`` at a few values, nearly."""
    some = np.linspace(0, len(lead) - 1, min(len(lead), 16)).astype(np.int64)
    t = lead[some] - lead[some].min()
    powers = np.vander(t / max(float(t.max()), 1e-300), degree + 1)
    fitted = powers @ np.linalg.lstsq(powers, rows[:, some].T)[0]
    return float(np.abs(fitted - rows[:, some].T).max()) <= 1e-6 * float(np.abs(rows).max())


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


def few_distinct(row: NDArray[Any], most: int) -> int:
    """Return how many different numbers a row has, or some number above ``most`` if it has more."""
    step = len(row) // 256 + 1
    some = len(np.unique(row[::step]))
    return some if some > most or step == 1 else len(np.unique(row))


def roots(rows: Floats) -> Floats:
    """Return the square roots of rows above their least value: a parabola is straight in these."""
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
        if whole.max() <= MAX_STEPS and np.abs(rest, out=rest).max() <= 1e-6:
            del away, rest  # Each may be of millions of values.
            return np.asarray(whole.astype(np.int64))
    return None

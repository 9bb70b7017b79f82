"""p-Identity strategies of one block: every vertex alone, and a few rows across them.

    A = [I; B] diag(1 / s),    s = 1 + column sums of B,    B >= 0

Every column of A sums to 1.  By the Woodbury identity, with K = (I + B^T B)^-1,

    trace(W (A^T A)^-1 W^T) = s^T (W^T W * K) s

costs p n^2 for p rows over n vertices.  Vertices that all queries treat alike get equal columns of
B, so n is the number of such classes.  B is bounded: far out the loss is a difference of huge
numbers, and falls below the optimum.

[MMHM18] McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of high-dimensional statistical
queries under differential privacy", PVLDB 11(10), 2018.
"""

from __future__ import annotations

import hashlib

import numpy as np
from scipy import sparse

from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats, Integers

MAX_HEIGHT = 63.0
"""Bound on the entries of B."""

MIN_GAIN = 1e-3
"""Add a row only for this relative gain: the fewer, the more is left to rows that others share."""

MAX_GROWN = 8
"""Rows that are added one by one at most."""

REMEMBERED = 512
"""Remember the rows of this many Gram matrices in a process."""

SEED = 2021
"""The public seed of random starts, so that equal questions get equal strategies."""

MANY_CLASSES = (32, 128)
"""Start from many rows at once, too, from the first number of classes on; search longer, and with
rows in proportion to classes, from the second."""

STARTED = (24, 20, 16, 13)
"""Start from one row per so many classes, as many as 100 steps show to be best: prefixes of 256
values want 13 rows, and 16 leave 3% more error."""

MANY_STARTED = 512
"""Start from the largest number of rows alone from this many classes on: more rows take more steps
to show what they are worth (prefixes of 1,024 values: 64 rows 0.949 of HDMM's error, 42 rows 0.965
though better after 100 steps)."""

MAX_STARTED = 64
"""Start from at most this many rows."""


def gram_over_vertices(rows: Rows) -> Floats:
    """Return ``W^T W`` over the vertices of one block."""
    across = rows.across.toarray()
    gram = across.T @ across
    gram[np.diag_indices(rows.size)] += rows.squares
    return np.asarray(gram)


def interchangeable(gram: Floats, shape: tuple[int, ...]) -> Integers:
    """Return the class of every vertex: swapping two of one column's leaves ``gram`` as it is."""
    tensor = gram.reshape(*shape, *shape)
    labels = np.zeros(1, dtype=np.int64)
    for axis, size in enumerate(shape):
        moved = np.moveaxis(tensor, (axis, axis + len(shape)), (0, 1)).reshape(size, size, -1)
        found = np.full(size, -1, dtype=np.int64)
        known: dict[tuple[float, float], list[int]] = {}
        for value in range(size):
            sums = float(f"{moved[value, value].sum():.9g}"), float(f"{moved[value].sum():.9g}")
            firsts = known.setdefault(sums, [])
            for other in _likely(moved, value, firsts):
                if _swappable(moved, value, other):
                    found[value] = found[other]
                    break
            else:
                found[value] = value
                firsts.append(value)
        labels = (labels[:, None] * size + found[None, :]).reshape(-1)
    return np.asarray(np.unique(labels, return_inverse=True)[1]).reshape(-1)


LOOKED_AT = 8
"""Compare two vertices at this many others first."""


def _likely(moved: Floats, one: int, others: list[int]) -> list[int]:
    """Return those of some vertices that agree with one at a few places."""
    places = np.linspace(0, len(moved) - 1, LOOKED_AT).astype(np.int64)
    numbers = np.array(others, dtype=np.int64)
    differ = (moved[np.ix_(numbers, places)] != moved[one, places]).any(axis=2)
    differ &= (places != one) & (places[None, :] != numbers[:, None])
    return [other for other, no in zip(others, differ.any(axis=1), strict=True) if not no]


def _swappable(moved: Floats, one: int, two: int) -> bool:
    apart = (moved[one] != moved[two]).any(axis=1) | (moved[:, one] != moved[:, two]).any(axis=1)
    apart[[one, two]] = False
    return not apart.any() and (
        np.array_equal(moved[one, one], moved[two, two])
        and np.array_equal(moved[one, two], moved[two, one])
    )


_found: dict[bytes, Floats] = {}


def total_row(gram: Floats) -> Floats:
    """Return the best single row that is the same for all vertices asked for: Total + Identity.

    trace = (1 + t)^2 (trace M - t^2 (1^T M 1) / (1 + n t^2))
    """
    from scipy.optimize import minimize_scalar  # noqa: PLC0415 - It is slow to load.

    asked = np.diag(gram) > 0
    count, trace, pooled = int(asked.sum()), float(np.trace(gram)), float(gram.sum())

    def loss(t: float) -> float:
        return (1 + t) ** 2 * (trace - t * t * pooled / (1 + count * t * t))

    found = minimize_scalar(loss, bounds=(0, MAX_HEIGHT), method="bounded", options={"xatol": 1e-9})
    return np.asarray(found.x * asked[None, :].astype(np.float64))


def p_identity(gram: Floats, classes: Integers, *, alone: bool = True) -> Floats:
    """Return the rows B of a good p-Identity strategy, constant on classes of vertices.

    Not ``alone``, many rows are searched for only briefly: they are moved again with those of the
    other blocks if they are worth it.
    """
    if not np.abs(gram - np.diag(np.diag(gram))).max() > 0:  # Tiny squares may vanish, too.
        return np.zeros((0, len(classes)))
    gram = gram / np.trace(gram)
    # Everyone but one asks much the same as everyone: most scopes are searched for only once.
    key = hashlib.sha256(gram.tobytes() + classes.tobytes() + bytes([alone])).digest()
    if key not in _found:
        if len(_found) >= REMEMBERED:
            _found.clear()
        _found[key] = _searched(gram, classes, alone=alone)
    return _found[key].copy()


def _searched(gram: Floats, classes: Integers, *, alone: bool) -> Floats:
    count = int(classes.max()) + 1
    search = _Search(gram, classes)
    random = np.random.default_rng(SEED)
    best, rows = 1.0, np.zeros((0, count))
    for _ in range(MAX_GROWN):
        value, grown = search.descend(np.vstack([rows, random.random(count)]), 40, 1e-4)
        if value > best * (1 - MIN_GAIN):
            break
        best, rows = value, grown
    found = [(1.0, np.zeros((0, count)))]
    if len(rows):
        found.append(search.descend(rows, 300, 1e-7))
    few, many = MANY_CLASSES
    if few <= count < many:
        start = _stretches(random, round(np.sqrt(count) / 2), count)
        found.append(search.descend(start, 300, 1e-7))
    elif count >= many:
        parts = STARTED if alone and count < MANY_STARTED else STARTED[-1:]
        heights = sorted({min(count // part, MAX_STARTED) for part in parts})
        tried = [search.descend(_stretches(random, h, count), 100, 1e-6) for h in heights]
        best_start = min(tried, key=lambda pair: pair[0])
        found.append(search.descend(best_start[1], 600, 1e-9) if alone else best_start)
    chosen = min(found, key=lambda pair: pair[0] * (1 + MIN_GAIN * len(pair[1])))[1]
    return np.asarray(chosen[:, classes])


def _stretches(random: np.random.Generator, height: int, count: int) -> Floats:
    """Return rows to start from: each is larger on its own stretch of classes."""
    rows = min(0.5, 8 / height) * random.random((height, count))
    rows[np.arange(count) * height // count, np.arange(count)] += 0.5
    return np.asarray(rows)


class _Search:
    """The loss over classes of vertices, relative to measuring every vertex alone."""

    def __init__(self, gram: Floats, classes: Integers) -> None:
        self._times = np.bincount(classes).astype(np.float64)
        places = (classes, np.arange(len(classes)))
        members = sparse.csr_array((np.ones(len(classes)), places))
        self._diagonal = members @ np.diag(gram)
        self._gram = members @ (members @ gram).T
        self._asked = (self._diagonal > 0).astype(np.float64)

    def _loss(self, flat: Floats) -> tuple[float, Floats]:
        rows = flat.reshape(-1, len(self._times))
        inner = np.eye(len(rows)) + (rows * self._times) @ rows.T
        solved = np.linalg.solve(inner, rows)
        sums = 1 + rows.sum(axis=0)
        weighted = (solved * sums) @ self._gram
        pull = self._diagonal * sums - (rows * weighted).sum(axis=0)
        weighted *= sums
        gradient = 2 * (pull - weighted + ((weighted @ rows.T) @ solved) * self._times)
        return float(sums @ pull), gradient.reshape(-1)

    def descend(self, start: Floats, steps: int, tolerance: float) -> tuple[float, Floats]:
        """Return the loss and rows that L-BFGS-B finds from a start."""
        from scipy.optimize import Bounds, minimize  # noqa: PLC0415 - It is slow to load.

        bounds = Bounds(np.zeros(start.size), np.tile(MAX_HEIGHT * self._asked, len(start)))
        options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": tolerance}
        first = (start * self._asked).reshape(-1)
        found = minimize(
            self._loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        )
        return float(found.fun), found.x.reshape(start.shape)

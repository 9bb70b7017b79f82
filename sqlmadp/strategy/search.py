"""One search: weights of blocks and p-Identity rows on top of them, with or without caps.

Block b has a weight u_b and ``A_b = [I; B_b] diag(1 / s_b)`` over its vertices (C_b: their
coordinates), with s_b = 1 + column sums of B_b >= 0.  Every column of A_b sums to 1, so the
sensitivity is t = sum_b u_b.  With K the information that is known already, in the units in which
the new rows have a sensitivity of 1,

    e_j = t^2 sum_F trace(M_jF X_F^-1),     X = t^2 K + sum_b u_b^2 C_b^T A_b^T A_b C_b,
    minimise  sum_j w_j e_j   subject to  e_j <= c_j,

by L-BFGS-B, caps by an augmented Lagrangian.  With Y = X^-1 M X^-1, P = C Y C^T / (s s^T) and
h = ((I + B^T B) * P) 1 the gradients of trace(M X^-1) are -2 u h.sum() and
-2 u^2 (B P - 1 (h / s)^T).  What it finds is only ever a candidate: errors are recomputed from the
integers that it is rounded to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from sqlmadp.solve.residual import Gram, Residuals
from sqlmadp.solve.solution import assembled
from sqlmadp.strategy.p_identity import MAX_HEIGHT
from sqlmadp.table.rows import Rows, kronecker
from sqlmadp.table.runs import Floats, Integers

MAX_LOG_WEIGHT = 6.0
"""Bound on the logarithm of a block's weight, relative to the mean."""

RIDGE = 1e-12
"""Raise the diagonal by this part of itself while searching; certified errors do without."""

KNOWN_RIDGE = 1e-9
"""Raise the diagonal of what is known by this part of its mean while searching."""

MANY_BLOCKS = 400
"""Give blocks of equal shape one weight where there are more blocks than this."""

CAP_ROUNDS = 8
"""Rounds of the augmented Lagrangian."""

WORK = 2**30
"""Do at most this much work in one search: about 0.16 s of CPU time, at 1.5e-10 s per unit.  An
evaluation of all errors and their gradient takes the cube of every space's size, and `PIECE_WORK`
per space and per block in it."""

JOINT_WORK = 2**32
"""Do at most this much work in a search for everybody's blocks.  With `WORK` it was the search, not
the caps, that left Pareto with Waterfilling on everyday plans: a hospital's total is 0.95 of it."""

PIECE_WORK = 2**16
"""What one block in one space adds to the work of an evaluation: 10 microseconds."""

STACKED = 2**21
"""Keep everybody's Gram matrices in one space as one matrix up to this many numbers."""

WEIGHED_TOLERANCE, MOVED_TOLERANCE = 1e-5, 1e-7
"""End a search at a step that lowers the error by less than this part: weights converge within 10
to 20 steps, rows go on to gain little by little."""

FEWEST_STEPS = 8
"""Search at least this many steps."""

CAP_SLACK = 1e-4
"""Relative excess over a cap at which the rounds end; rounding down the caps makes up for it."""


Top = Floats | Rows | None
"""What a block has: rows B above every vertex alone; fixed rows whose columns' absolute values sum
to 1, which are only weighed; or every vertex alone."""


@dataclass(frozen=True, eq=False)
class _Free:
    """A block whose rows are searched for."""

    number: int
    place: Integers
    cells: Floats
    """The coordinates of every vertex."""


@dataclass(frozen=True, eq=False)
class _State:
    """What errors were worked out from, kept for their gradient."""

    weights: Floats
    rows: list[Top]
    numbers: Floats
    inverses: list[Floats]
    traces: Floats


class UnmeasuredError(Exception):
    """The blocks leave directions unmeasured, so nothing can be searched."""


class Search:
    """Everybody's error as a function of one flat vector: logarithms of weights, then rows B."""

    def __init__(
        self,
        blocks: Sequence[Rows],
        rows: Sequence[Top],
        workloads: Sequence[Sequence[Rows]],
        *,
        move: bool = True,
        known: Sequence[Rows] = (),
        work: int = WORK,
    ) -> None:
        """``rows``: what each block has.  Rows B move only if ``move``."""
        self._left: tuple[Sequence[Rows], Sequence[Sequence[Rows]], Sequence[Rows]] | None
        self._work = work
        self._given = list(rows)
        self._spent = 0
        self.blocks = list(blocks)
        self.rows = [own if move and isinstance(own, np.ndarray) else None for own in self._given]
        ones = [
            unit_rows(block, None if moved is not None else own)
            for block, own, moved in zip(blocks, rows, self.rows, strict=True)
        ]
        exceptions = [
            one.exceptions if own is None else tuple(tuple(range(size)) for size in one.shape)
            for one, own in zip(ones, self.rows, strict=True)
        ]
        exceptions += [each.exceptions for each in known]
        self.spaces = Residuals([*ones, *known], exceptions)
        self._sizes = [self.spaces.spaces[fine].size for fine in self.spaces.large]
        self._classes = self._weight_classes()
        self._left = (ones, workloads, known)

    def _prepare(self) -> None:
        """Write out all matrices, once: where a search is not affordable they would be large."""
        if self._left is None:
            return
        (ones, workloads, known), self._left = self._left, None
        self._collect_blocks(ones)
        self._collect_queries([self.spaces.gram(workload) for workload in workloads])
        self._collect_known(self.spaces.gram(known))

    def _collect_blocks(self, ones: Sequence[Rows]) -> None:
        spaces = self.spaces
        free = {number for number, own in enumerate(self.rows) if own is not None}
        simple = [n for n in spaces.told_apart(ones)[0] if n not in free]
        together = spaces.simple_entries([ones[n] for n in simple])
        entries: list[tuple[int, int, float]] = []
        matrices: list[list[tuple[int, Integers, Floats]]] = [[] for _ in spaces.large]
        self._free: list[_Free] = []
        for n, (one, own) in enumerate(zip(ones, self.rows, strict=True)):
            if own is not None:
                parts = [
                    spaces.columns[c].coordinates(part).coarse
                    for c, part in zip(one.scope, one.parts, strict=True)
                ]
                self._free.append(_Free(n, spaces.place(one, ()), kronecker(parts)))
        numbers = np.array(simple, dtype=np.int64)
        pieces = [
            (int(numbers[n]), p) for n, p in zip(together.owners, together.pieces, strict=True)
        ]
        rest = sorted(set(range(len(ones))) - free - set(simple))
        pieces += [(n, piece) for n in rest for piece in spaces.pieces(ones[n])]
        for n, piece in pieces:
            share = piece.trace / spaces.spaces[piece.fine].multiplicity
            if piece.fine in spaces.numbers:
                entries.append((spaces.numbers[piece.fine], n, share.item()))
            else:
                matrices[spaces.large[piece.fine]].append((n, piece.place, share))
        at, of, values = zip(*entries, strict=True) if entries else ((), (), ())
        places = np.concatenate([together.places, np.array(at, dtype=np.int64)])
        owners = np.concatenate([numbers[together.rows], np.array(of, dtype=np.int64)])
        shares = np.concatenate([together.shares, np.array(values, dtype=np.float64)])
        shape = (len(spaces.numbers), len(self.blocks))
        self._incidence = sparse.csr_array((shares, (places, owners)), shape=shape)
        self._pieces = len(self._sizes) + sum(len(own) for own in matrices)
        self._fixed = [
            _flattened(own, len(self.blocks), size)
            for own, size in zip(matrices, self._sizes, strict=True)
        ]
        self._total_space = spaces.large.get((), -1)

    def _collect_queries(self, grams: Sequence[Gram]) -> None:
        self._scalars = np.array([gram.numbers for gram in grams])
        self._asked: list[list[tuple[int, tuple[Integers, ...], Floats]]] = [
            [] for _ in self.spaces.large
        ]
        for j, gram in enumerate(grams):
            for piece in gram.pieces:
                at = np.ix_(piece.place, piece.place)
                self._asked[self.spaces.large[piece.fine]].append((j, at, piece.trace))
        self._stacked = [
            self._stack(pieces, size, len(grams)) if len(grams) * size**2 <= STACKED else None
            for pieces, size in zip(self._asked, self._sizes, strict=True)
        ]

    @staticmethod
    def _stack(
        pieces: Sequence[tuple[int, tuple[Integers, ...], Floats]], size: int, count: int
    ) -> Floats:
        """Return everybody's Gram matrix in one space, each flattened to a row."""
        found = np.zeros((count, size, size))
        for j, at, piece in pieces:
            found[j][at] += piece
        return found.reshape(count, -1)

    def _collect_known(self, known: Gram) -> None:
        self._known_numbers = known.numbers / self.spaces.multiplicities
        self._known = list(assembled(self.spaces, known).values()) if known.pieces else None
        for matrix in self._known or ():  # Not every direction of what is known was measured.
            matrix[np.diag_indices(len(matrix))] += KNOWN_RIDGE * np.trace(matrix) / len(matrix)

    def _weight_classes(self) -> Integers:
        if len(self.blocks) <= MANY_BLOCKS:
            return np.arange(len(self.blocks))
        shapes = [repr(tuple(sorted(block.shape))) for block in self.blocks]
        return np.asarray(np.unique(shapes, return_inverse=True)[1]).reshape(-1)

    @property
    def size(self) -> int:
        """The number of coordinates of the largest residual space."""
        return max(self._sizes, default=1)

    @cached_property
    def affordable(self) -> int:
        """How many evaluations the work allows, in all searches together."""
        cubes = sum(size**3 for size in self._sizes)
        if FEWEST_STEPS * cubes > self._work:
            return 0
        self._prepare()
        moved = sum(len(free.cells) ** 3 for free in self._free)
        return self._work // (cubes + moved + PIECE_WORK * (1 + self._pieces))

    def start(self, weights: Floats | None = None) -> Floats:
        """Return a flat vector to start from: given weights, or the cube roots of squares asked."""
        if weights is None:
            weights = np.cbrt([max(block.square_sum, 1e-9) for block in self.blocks])
        logs = np.log(np.maximum(weights, 1e-9 * np.max(weights)))
        first = np.bincount(self._classes, logs) / np.bincount(self._classes)
        first = np.clip(first - first.mean(), -MAX_LOG_WEIGHT + 1, MAX_LOG_WEIGHT - 1)
        return np.concatenate([first, *(r.reshape(-1) for r in self.rows if r is not None)])

    def split(self, flat: Floats) -> tuple[Floats, list[Top]]:
        """Return the weights and rows that a flat vector stands for."""
        at = int(self._classes.max()) + 1
        weights = np.exp(flat[:at])[self._classes]
        rows: list[Top] = []
        for own, given in zip(self.rows, self._given, strict=True):
            if own is None:
                rows.append(given)
            else:
                rows.append(flat[at : at + own.size].reshape(own.shape))
                at += own.size
        return weights, rows

    def errors(self, flat: Floats) -> tuple[Floats, _State]:
        """Return everybody's error, and what its gradient is worked out from."""
        self._prepare()
        weights, rows = self.split(flat)
        total = float(weights.sum())
        numbers = self._incidence @ weights**2 + total**2 * self._known_numbers
        traces = self._scalars @ (1 / numbers) if len(numbers) else np.zeros(len(self._scalars))
        inverses = []
        for space, size in enumerate(self._sizes):
            x = (self._fixed[space].T @ weights**2).reshape(size, size)
            if self._known is not None:
                x += total**2 * self._known[space]
            if space == self._total_space:
                for free in self._free:
                    b = rows[free.number]
                    assert isinstance(b, np.ndarray)
                    tall = free.cells / (1 + b.sum(axis=0))[:, None]
                    low = b @ tall
                    gram = tall.T @ tall + low.T @ low
                    x[np.ix_(free.place, free.place)] += weights[free.number] ** 2 * gram
            inverse = _inverse(x)
            stacked = self._stacked[space]
            if stacked is not None:
                traces += stacked @ inverse.reshape(-1)
            else:
                for j, at, piece in self._asked[space]:
                    traces[j] += np.vdot(piece, inverse[at])
            inverses.append(inverse)
        return total**2 * traces, _State(weights, rows, numbers, inverses, traces)

    def gradient(self, state: _State, factors: Floats) -> Floats:
        """Return the gradient of ``sum_j factors_j e_j``."""
        weights, total = state.weights, float(state.weights.sum())
        slopes = np.zeros(len(weights))
        from_known = 0.0
        if len(state.numbers):
            pull = (factors @ self._scalars) / state.numbers**2
            slopes -= 2 * weights * (self._incidence.T @ pull)
            from_known -= 2 * total * float(pull @ self._known_numbers)
        changes: dict[int, Floats] = {}
        for space, inverse in enumerate(state.inverses):
            stacked = self._stacked[space]
            if stacked is not None:
                asked = (factors @ stacked).reshape(inverse.shape)
            else:
                asked = np.zeros_like(inverse)
                for j, at, piece in self._asked[space]:
                    if factors[j]:
                        asked[at] += factors[j] * piece
            pull = inverse @ asked @ inverse
            slopes -= 2 * weights * (self._fixed[space] @ pull.reshape(-1))
            if self._known is not None:
                from_known -= 2 * total * float(np.vdot(pull, self._known[space]))
            if space == self._total_space:
                for free in self._free:
                    slope, change = self._free_gradient(free, pull, state, total)
                    slopes[free.number] += slope
                    changes[free.number] = change
        traces = float(factors @ state.traces)
        logs = weights * (2 * total * traces + total**2 * (slopes + from_known))
        first = np.bincount(self._classes, logs)
        flat = [changes[n].reshape(-1) for n, own in enumerate(self.rows) if own is not None]
        return np.concatenate([first, *flat])

    @staticmethod
    def _free_gradient(
        free: _Free, pull: Floats, state: _State, total: float
    ) -> tuple[float, Floats]:
        b, weight = state.rows[free.number], state.weights[free.number]
        assert isinstance(b, np.ndarray)
        sums = 1 + b.sum(axis=0)
        p = free.cells @ pull[np.ix_(free.place, free.place)] @ free.cells.T
        p /= np.outer(sums, sums)
        moved = b @ p
        heights = np.diag(p) + (b * moved).sum(axis=0)
        return -2 * weight * float(heights.sum()), -2 * (total * weight) ** 2 * (
            moved - heights / sums
        )

    def least(
        self,
        *,
        importance: Floats | None = None,
        caps: Floats | None = None,
        start: Floats | None = None,
        steps: int = 200,
        rounds: int = CAP_ROUNDS,
    ) -> Floats:
        """Return the flat vector of least weighted error, within the caps as far as possible."""
        self._prepare()
        flat = self.start() if start is None else start
        count = len(self._scalars)
        importance = np.ones(count) if importance is None else importance
        unit = float(importance @ self.errors(flat)[0])
        limits = np.full(count, np.inf) if caps is None else caps
        multipliers, stiffness = np.zeros(count), 10.0

        def loss(flat: Floats) -> tuple[float, Floats]:
            errors, state = self.errors(flat)
            value, factors = float(importance @ errors) / unit, importance / unit
            if caps is not None:
                push = np.maximum(0, multipliers + stiffness * (errors / limits - 1))
                value += float((push**2 - multipliers**2).sum()) / (2 * stiffness)
                factors = factors + push / limits
            return value, self.gradient(state, factors)

        from scipy.optimize import Bounds, minimize  # noqa: PLC0415 - `check` does without it.

        weights = np.arange(len(flat)) <= self._classes.max()
        bounds = Bounds(
            np.where(weights, -MAX_LOG_WEIGHT, 0.0), np.where(weights, MAX_LOG_WEIGHT, MAX_HEIGHT)
        )
        tolerance = MOVED_TOLERANCE if self._free else WEIGHED_TOLERANCE
        left = max(self.affordable - self._spent, FEWEST_STEPS)
        for turn in range(1 if caps is None else rounds):
            options = {"maxiter": steps, "maxfun": min(2 * steps, left), "ftol": tolerance}
            found = minimize(
                loss, flat, jac=True, method="L-BFGS-B", bounds=bounds, options=options
            )
            flat = found.x
            left -= int(found.nfev)
            self._spent += int(found.nfev)
            if caps is None:
                break
            above = self.errors(flat)[0] / limits - 1
            if (turn and above.max() <= CAP_SLACK) or left < FEWEST_STEPS:
                break
            multipliers = np.maximum(0, multipliers + stiffness * above)
            stiffness *= 3 if above.max() > CAP_SLACK else 1
        return np.asarray(flat)


def _flattened(
    pieces: Sequence[tuple[int, Integers, Floats]], count: int, size: int
) -> sparse.csr_array:
    """Return every block's matrix in one space, each flattened to a sparse row."""
    owners, places, shares = [], [], []
    for n, at, piece in pieces:
        places.append(np.add.outer(at * size, at).reshape(-1))
        owners.append(np.full(piece.size, n))
        shares.append(piece.reshape(-1))
    if not pieces:
        return sparse.csr_array((count, size * size))
    entries = (np.concatenate(owners), np.concatenate(places))
    return sparse.csr_array((np.concatenate(shares), entries), shape=(count, size * size))


def unit_rows(block: Rows, rows: Top) -> Rows:
    """Return a block's rows with the absolute values of every column summing to 1."""
    if isinstance(rows, Rows):
        return rows
    if rows is None:
        return Rows(block.scope, block.parts, 1.0)
    sums = 1 + rows.sum(axis=0)
    own = sparse.diags_array(1 / sums)
    matrix = sparse.csr_array(sparse.vstack([own, sparse.csr_array(rows / sums)]))
    return Rows(block.scope, block.parts, 0, matrix)


def _inverse(matrix: Floats) -> Floats:
    matrix[np.diag_indices(len(matrix))] *= 1 + RIDGE
    lower, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    if failed:
        raise UnmeasuredError
    inverse = lapack.dpotri(lower, lower=1, overwrite_c=1)[0]  # Its upper half is zero.
    full = inverse + inverse.T
    full[np.diag_indices(len(full))] /= 2
    return np.asarray(full)

"""A collective: analysts with their workloads, shares and own strategies, solved for together.

Errors are ``(t / s)^2 trace(W (A^T A)^- W^T)``, t the column sums of A and s the sum of all shares:
variances in units of 2 / epsilon^2, epsilon the budget of one unit of share.  Whoever leaves takes
their share of the budget along, so errors of smaller collectives compare as they are.

Analysts are kept in an order of their own, by what they ask and their shares, so that whoever lists
them in whatever order gets the same strategy, bit for bit; `arrangement` leads back.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.mechanism.pour import pour
from sqlmadp.solve.products import solution_of
from sqlmadp.solve.residual import Gram, Residuals
from sqlmadp.solve.solution import Solution
from sqlmadp.strategy.cache import Entry, StrategyCache, digest
from sqlmadp.strategy.integers import Strategy, certified
from sqlmadp.strategy.select import CAP_ROOM, select
from sqlmadp.table.joint import is_joint, realised
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats, Integers
from sqlmadp.workload.questions import Workload as Questions

Workload = tuple[Rows, ...]

ROUNDING = 1e-11
"""Take an error to be within its cap if it is above by at most this part."""

QUESTION_ROOM = CAP_ROOM * (1 + ROUNDING) + ROUNDING
"""Take a question to be within its cap if it is above by at most this part."""

MOST_PARTS = 1 << 14
"""Equal parts of the budget that shares may need at most."""


@dataclass(frozen=True, eq=False)
class Capped:
    """A workload with parts of it, and the error that each part may have at most alone.

    Caps are in units of the whole budget, ``t^2 trace(W (A^T A)^- W^T)``.
    """

    parts: tuple[Workload, ...] = ()
    caps: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Joint:
    """What everyone measures together, who reads which blocks, and everybody's error."""

    blocks: tuple[Rows, ...]
    total: int
    """What the absolute values of every column sum to."""
    reads: tuple[tuple[int, ...], ...]
    """For each analyst, the numbers of the blocks that answers are reconstructed from."""
    errors: Floats
    """Recomputed from the integers, in the units of the collective."""

    @cached_property
    def measured(self) -> tuple[Rows, ...]:
        """The blocks over declared columns alone, as they are measured."""
        return tuple(realised(block) for block in self.blocks)

    def read_by(self, analyst: int) -> tuple[Rows, ...]:
        """Return the blocks that one analyst reads."""
        return tuple(self.blocks[number] for number in self.reads[analyst])

    def rearranged(self, places: Sequence[int]) -> Joint:
        """Return the same with analyst ``places[n]`` as the nth."""
        reads = tuple(self.reads[place] for place in places)
        return replace(self, reads=reads, errors=self.errors[list(places)])


Selector = Callable[[Workload, Capped], Strategy]


def selected(workload: Workload, capped: Capped) -> Strategy:
    """Return the strategy that a workload would measure alone."""
    return select(workload, parts=capped.parts, caps=capped.caps)


class Collective:
    """Everyone who takes part."""

    def __init__(
        self,
        workloads: Sequence[Iterable[Rows]],
        shares: Sequence[Fraction],
        *,
        columns: Mapping[str, int] | None = None,
        importance: Sequence[float] | None = None,
        units: Sequence[float] | None = None,
        capped: Sequence[Capped] | None = None,
        selector: Selector = selected,
        known: Sequence[Rows] = (),
        cache: StrategyCache | None = None,
    ) -> None:
        """Keep workloads and shares; the shares need not sum to 1.

        ``columns``: the number of values of every declared column; those in use if not given.
        ``importance``: what each analyst's error counts for where errors are added up; 1 if not
        given.  ``units``: what an error of 1 is for each analyst, where errors are relative to
        what the analyst would have otherwise; None if errors are variances.  ``capped``: parts of
        each analyst's workload with caps for the own selection.
        ``known``: rows that everyone reads besides, measured before, with noise of variance 1 in
        the units of the errors.  ``cache``: strategies on disk, used and added to.
        """
        self.workloads = [tuple(sorted(w, key=_by_content)) for w in workloads]
        self.shares = list(shares)
        self.importance = np.ones(len(shares)) if importance is None else np.array(importance)
        self.units = None if units is None else np.array(units)
        self.capped = [Capped()] * len(shares) if capped is None else list(capped)
        self._columns = columns
        self.known = tuple(known)
        self._selector = selector
        self._cache = cache
        self._selected: dict[str, Strategy] = {}
        self.memory: dict[object, object] = {}
        """What mechanisms worked out for this collective and parts of it, by keys of their own."""
        self.progress: Callable[[int, int], None] = lambda done, total: None
        """Told how many analysts have a strategy of their own, of all."""

    @classmethod
    def asking(
        cls,
        workloads: Sequence[Questions],
        shares: Sequence[Fraction],
        *,
        columns: Mapping[str, int],
        cache: StrategyCache | None = None,
    ) -> Collective:
        """Return analysts with questions.

        Where these have caps, errors are relative to asking one by one with the own share, and are
        added up weighted by the shares.
        """
        relative = all(each.caps is not None for each in workloads)
        return cls(
            [workload.rows for workload in workloads],
            shares,
            columns=columns,
            units=[float(share) ** 2 for share in shares] if relative else None,
            importance=[float(share) ** 3 for share in shares] if relative else None,
            capped=[
                Capped() if each.caps is None else Capped(each.parts, tuple(each.caps.tolist()))
                for each in workloads
            ],
            cache=cache,
        )

    # Who takes part.

    def __len__(self) -> int:
        return len(self.workloads)

    def of(
        self,
        members: Sequence[int],
        *,
        shares: Sequence[Fraction] | None = None,
        importance: Sequence[float] | None = None,
        known: Sequence[Rows] | None = None,
    ) -> Collective:
        """Return some of the analysts, in the order given; with other shares and so on if given."""
        found = Collective(
            [self.workloads[m] for m in members],
            [self.shares[m] for m in members] if shares is None else shares,
            columns=self.columns,
            importance=importance or [float(self.importance[m]) for m in members],
            units=None if self.units is None else [float(self.units[m]) for m in members],
            capped=[self.capped[m] for m in members],
            selector=self._selector,
            known=self.known if known is None else known,
            cache=self._cache,
        )
        found._selected = self._selected
        found.memory = self.memory
        return found

    def without(self, leaver: int) -> Collective:
        """Return everyone but one."""
        return self.of([m for m in range(len(self)) if m != leaver])

    @cached_property
    def kinds(self) -> list[bytes]:
        """A digest per analyst of all that tells them apart: workload, caps, share, importance."""
        found = []
        for n, workload in enumerate(self.workloads):
            kind = hashlib.sha256(fingerprint(workload))
            for part, cap in zip(self.capped[n].parts, self.capped[n].caps, strict=True):
                kind.update(fingerprint(part) + repr(cap).encode())
            kind.update(repr((self.shares[n], float(self.importance[n]))).encode())
            found.append(kind.digest())
        return found

    @cached_property
    def distinct(self) -> tuple[list[int], list[int]]:
        """The first analyst of every different workload, and which of these each analyst is like.

        Analysts who ask the same have the same error from what all read.
        """
        known: dict[bytes, int] = {}
        prints = [fingerprint(workload) for workload in self.workloads]
        numbers = [known.setdefault(each, len(known)) for each in prints]
        return [numbers.index(n) for n in range(len(known))], numbers

    @cached_property
    def arrangement(self) -> list[int]:
        """The analysts in an order that does not depend on how they are listed."""
        return sorted(range(len(self)), key=lambda n: (self.kinds[n], n))

    @cached_property
    def arranged(self) -> Collective:
        """The same analysts in the order of `arrangement`."""
        if self.arrangement == list(range(len(self))):
            return self
        return self.of(self.arrangement)

    @cached_property
    def whole(self) -> Fraction:
        """The sum of all shares."""
        return sum(self.shares, Fraction(0))

    @cached_property
    def columns(self) -> dict[str, int]:
        """The number of values of every column, joint ones in use included."""
        used = values_of(rows for workload in self.workloads for rows in workload)
        if self._columns is None:
            return used
        return dict(self._columns) | {name: used[name] for name in used if is_joint(name)}

    @cached_property
    def together(self) -> Workload:
        """Everyone's queries as one workload, each multiplied by the root of its importance."""
        return self.weighted(self.importance)

    def weighted(self, importance: Floats) -> Workload:
        """Return everyone's queries as one workload, weighed by given importances.

        Only proportions matter: against the least one, equal analysts keep their rows as they are.
        """
        least = float(importance.min())
        found: list[Rows] = []
        for workload, own in zip(self.workloads, importance, strict=True):
            factor = math.sqrt(float(own) / least)
            found += workload if factor == 1 else [rows.times(factor) for rows in workload]
        return tuple(found)

    # Strategies and errors.

    def select(self, workload: Workload, capped: Capped = Capped()) -> Strategy:
        """Return the strategy of a workload; equal workloads share one."""
        parts = zip(capped.parts, capped.caps, strict=True)
        caps = (fingerprint(part) + repr(cap).encode() for part, cap in parts)
        key = digest("strategy", fingerprint(workload), *caps)
        if key not in self._selected:
            self._selected[key] = self._stored(key, workload, capped) or self._searched(
                key, workload, capped
            )
        return self._selected[key]

    @cached_property
    def for_all(self) -> Strategy | None:
        """The strategy selected for everyone's queries together; None if that is too large."""
        try:
            return self.select(self.together)
        except NotCoveredError:
            return None

    def total(self, joint: Joint) -> float:
        """Return everyone's error added up by importance."""
        return float(self.importance @ joint.errors)

    def _stored(self, key: str, workload: Workload, capped: Capped) -> Strategy | None:
        """Return the cached strategy of a workload if it answers all of it within the caps."""
        entry = None if self._cache is None else self._cache.load(key, values_of(workload))
        if entry is None or len(entry.strategies) != 1:
            return None
        found = recertified(entry.strategies[0], workload)
        errors = certified(found.blocks, found.total, capped.parts)
        above = errors > np.array(capped.caps) * (1 + CAP_ROOM)
        return None if above.any() or not math.isfinite(found.error) else found

    def _searched(self, key: str, workload: Workload, capped: Capped) -> Strategy:
        found = self._selector(workload, capped)
        if self._cache is not None:
            self._cache.save(key, Entry((found,)))
        return recertified(found, workload)

    def restored(self, rule: str) -> Entry | None:
        """Return the cached strategy of this collective under a rule; errors are to be recomputed.

        The rule names the mechanism and its options.
        """
        if self._cache is None:
            return None
        return self._cache.load(self._key(rule), self.columns)

    def store(self, rule: str, entry: Entry) -> None:
        """Keep what was chosen for this collective under a rule."""
        if self._cache is not None:
            self._cache.save(self._key(rule), entry)

    def _key(self, rule: str) -> str:
        known = (rows.fingerprint for rows in self.known)
        return digest(rule, repr(sorted(self.columns.items())), *self.kinds, "known", *known)

    @cached_property
    def strategies(self) -> list[Strategy]:
        """Everyone's own strategy, which does not depend on how often everything is repeated."""
        found: list[Strategy] = []
        for workload, capped in zip(self.workloads, self.capped, strict=True):
            self.progress(len(found), len(self))
            once = workload if capped.parts else without_repetition(workload)
            own = self.select(once, capped)
            found.append(own if once is workload else recertified(own, workload))
        return found

    @cached_property
    def parts(self) -> list[int]:
        """The smallest whole numbers in the proportions of the shares."""
        unit = math.lcm(*(share.denominator for share in self.shares))
        parts = [int(share * unit) for share in self.shares]
        divisor = math.gcd(*parts)
        return [part // divisor for part in parts]

    @cached_property
    def factors(self) -> list[int]:
        """What everyone's own strategy is multiplied by, exactly in proportion to the shares."""
        largest = max(strategy.total for strategy in self.strategies)
        pairs = zip(self.parts, self.strategies, strict=True)
        return [part * (largest // strategy.total) for part, strategy in pairs]

    @cached_property
    def alone(self) -> Floats:
        """Everyone's error with their own strategy, their own share and nobody else."""
        pairs = zip(self.strategies, self.shares, strict=True)
        return np.array([s.error / float(share) ** 2 for s, share in pairs])

    def read_by_all(
        self, blocks: Sequence[Rows], total: int, errors: Floats | None = None
    ) -> Joint:
        """Return a strategy that everyone reads all of; errors are worked out unless given."""
        if errors is None:
            errors = self.errors(blocks, total)
        reads = (tuple(range(len(blocks))),) * len(self)
        return lowest_terms(blocks, total, reads, errors)

    def errors(self, blocks: Sequence[Rows], total: int) -> Floats:
        """Return everyone's error from all of a strategy and from what is known.

        ``trace(W (K + (s / t)^2 A^T A)^- W^T)``, K the Gram matrix of the known rows.
        """
        firsts, numbers = self.distinct
        return self._errors(blocks, total, [self.workloads[n] for n in firsts])[numbers]

    def _errors(self, blocks: Sequence[Rows], total: int, asked: Sequence[Workload]) -> Floats:
        scale = float(self.whole / total)
        if self.known:
            scaled = [block.times(scale) for block in blocks]
            return solution_of([*self.known, *scaled]).errors(asked)
        return solution_of(blocks).errors(asked) / scale**2

    @cached_property
    def questions(self) -> tuple[list[Workload], Floats]:
        """All questions that have a cap, and the error that each may have for its owner's share."""
        found: dict[bytes, tuple[Workload, float]] = {}
        for capped, share in zip(self.capped, self.shares, strict=True):
            for part, cap in zip(capped.parts, capped.caps, strict=True):
                if share:  # Whoever brings nothing has what is known.
                    key, limit = fingerprint(part), cap / float(share) ** 2
                    found[key] = part, min(limit, found.get(key, (part, math.inf))[1])
        return [part for part, _ in found.values()], np.array([c for _, c in found.values()])

    def questions_reached(self, joint: Joint) -> Floats:
        """Return the errors of the questions that have a cap, in units of the cap."""
        asked, limits = self.questions
        if not asked:
            return np.zeros(0)
        return self._errors(joint.blocks, joint.total, asked) / limits

    def exceeded(self, joint: Joint) -> bool:
        """Return whether a question's error is above its cap under a strategy."""
        return bool((self.questions_reached(joint) > 1 + QUESTION_ROOM).any())

    @cached_property
    def poured(self) -> Joint:
        """Everyone's own strategies poured into buckets."""
        blocks = pour(self.strategies, self.factors)
        errors = None if self.known else self._poured_errors(blocks, range(len(self)))
        return self.read_by_all(blocks, self.poured_total, errors)

    @property
    def poured_total(self) -> int:
        """What the columns of everyone's own strategies, multiplied by their factors, sum to."""
        return sum(f * s.total for f, s in zip(self.factors, self.strategies, strict=True))

    @cached_property
    def spaces(self) -> Residuals:
        """The coordinates of the buckets of everyone, and of everyone but some."""
        blocks = {b.fingerprint: b for s in self.strategies for b in s.blocks}
        together = pour(self.strategies, self.factors)
        return Residuals([*together, *blocks.values()])

    @cached_property
    def _grams(self) -> list[Gram]:
        known: dict[bytes, Gram] = {}
        for workload in self.workloads:
            known.setdefault(fingerprint(workload), self.spaces.gram(workload))
        return [known[fingerprint(workload)] for workload in self.workloads]

    def _poured_errors(self, blocks: Sequence[Rows], members: Sequence[int]) -> Floats:
        factored = any(isinstance(block, Products) for block in blocks)
        if factored or not self.spaces.fits(blocks):
            found = solution_of(blocks).errors([self.workloads[j] for j in members])
        else:
            solution = Solution(blocks, self.spaces)
            found = np.array([solution.error(self._grams[j]) for j in members])
        return float(self.poured_total / self.whole) ** 2 * found

    def poured_without(self, leaver: int) -> Floats:
        """Return the errors of everyone but one, from the others' buckets alone.

        Worked out in the coordinates of everyone's buckets, so nothing is factored that is larger.
        """
        others = [j for j in range(len(self)) if j != leaver]
        blocks = pour([self.strategies[j] for j in others], [self.factors[j] for j in others])
        return self._poured_errors(blocks, others)


def values_of(rows: Iterable[Rows]) -> dict[str, int]:
    """Return the number of values of every column in use."""
    pairs = (zip(each.scope, each.parts, strict=True) for each in rows)
    return dict(sorted({(column, part.values) for own in pairs for column, part in own}))


def recertified(strategy: Strategy, workload: Workload) -> Strategy:
    """Return a strategy with its error from the integers, the same whether it was stored or not."""
    [error] = certified(strategy.blocks, strategy.total, [workload])
    return replace(strategy, error=float(error))


def without_repetition(workload: Workload) -> Workload:
    """Return every different row once, times the root of how often it is asked.

    Counts are divided by what all have in common, so that the result is the same, bit for bit, if
    every row is asked several times.
    """
    blocks = {rows.fingerprint: rows for rows in workload}
    counted = Counter(rows.fingerprint for rows in workload)
    distinct = {key: _distinct_rows(rows) for key, rows in blocks.items()}
    times = {key: counted[key] * counts for key, (_, counts) in distinct.items()}
    common = math.gcd(*(int(each) for counts in times.values() for each in counts))
    if all((counts == 1).all() for counts in times.values()):
        return workload
    found = []
    for key, (rows, _) in distinct.items():
        factors = np.sqrt(times[key] // common)
        if rows.given is None or isinstance(rows, Products):
            found.append(rows if factors[0] == 1 else rows.times(float(factors[0])))
        else:
            matrix = sparse.csr_array(sparse.diags_array(factors) @ rows.given)
            found.append(Rows(rows.scope, rows.parts, 0, matrix))
    return tuple(sorted(found, key=_by_content))


def _distinct_rows(rows: Rows) -> tuple[Rows, Integers]:
    """Return the different rows in the order in which they come, and how often each does."""
    if rows.given is None or isinstance(rows, Products):  # One weight for all: no row is another.
        return rows, np.ones(1, dtype=np.int64)
    matrix = rows.given
    starts = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    keys = [matrix.indices[a:b].tobytes() + matrix.data[a:b].tobytes() for a, b in starts]
    places: dict[bytes, int] = {}
    numbers = [places.setdefault(key, len(places)) for key in keys]
    counts = np.bincount(numbers)
    if len(counts) == len(keys):
        return rows, counts
    kept = sparse.csr_array(matrix[np.unique(numbers, return_index=True)[1]])
    if rows.scope and kept.shape[0] == kept.nnz == rows.size:  # As `Rows.reduced` has every cell.
        return Rows(rows.scope, rows.parts, 0, kept), counts
    return Rows.of(rows.scope, rows.parts, kept), counts


def fingerprint(workload: Iterable[Rows]) -> bytes:
    """Return a digest that is equal just for equal workloads, in whatever order their rows are."""
    return hashlib.sha256(b"".join(sorted(rows.fingerprint for rows in workload))).digest()


def _by_content(rows: Rows) -> tuple[tuple[str, ...], bytes]:
    return rows.scope, rows.fingerprint


def lowest_terms(
    blocks: Sequence[Rows], total: int, reads: Sequence[tuple[int, ...]], errors: Floats
) -> Joint:
    """Return a strategy divided by the largest whole number that divides all of it."""
    divisor = math.gcd(total, *(_divisor(block) for block in blocks))
    divided = tuple(_divided(block, divisor) for block in blocks)
    return Joint(divided, total // divisor, tuple(reads), np.asarray(errors))


def _divisor(block: Rows) -> int:
    if isinstance(block, Products):  # The factors stay as they are.
        return int(np.gcd.reduce(block.heights, axis=None))
    if block.given is None:
        return int(block.weight)
    return int(np.gcd.reduce(np.abs(block.given.data), initial=0))


def _divided(block: Rows, divisor: int) -> Rows:
    if divisor == 1:
        return block
    if isinstance(block, Products):
        heights = block.heights // divisor
        return Products(block.scope, block.parts, 0, None, block.factors, heights)
    if block.given is None:
        return Rows(block.scope, block.parts, int(block.weight) // divisor)
    matrix = block.given
    parts = (matrix.data // divisor, matrix.indices, matrix.indptr)
    return Rows(block.scope, block.parts, 0, sparse.csr_array(parts, shape=matrix.shape))

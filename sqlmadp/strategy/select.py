"""Select: the strategy that one workload would measure alone, by errors recomputed from integers.

Candidates come plainest first, and a later one must be better by more than rounding: plain rows are
likelier to be shared with others.  The same workload gets the same strategy, bit for bit, whoever
asks and in whatever order, so that equal questions meet in one bucket.

Layouts are compared with their weights searched for; only the best of them have their rows moved,
which takes time with the cube of the coordinates.

Parts of the workload may have caps, ``e_p <= c_p``.  Measuring every part by its own rows, a share
of the weight each, is then among the candidates, so that caps which such a split meets are met.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.strategy.integers import (
    OPENED_CELLS,
    TOTAL,
    Strategy,
    certified,
    opened,
    rounded,
    split_by_scope,
)
from sqlmadp.strategy.kronecker import as_products, select_products
from sqlmadp.strategy.layout import (
    MANY_SCOPES,
    MAX_COORDINATES,
    as_asked,
    coordinates,
    layouts,
    per_scope,
    products,
    starts,
    weighed,
)
from sqlmadp.strategy.p_identity import gram_over_vertices, interchangeable, p_identity, total_row
from sqlmadp.strategy.search import FEWEST_STEPS, WORK, Search, Top, UnmeasuredError
from sqlmadp.table.joint import declared, has_joint
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows, column_labels
from sqlmadp.table.runs import Floats

SEARCHED_VERTICES = 1024
"""Search for rows across the vertices of a block up to this many."""

MEASURED_VERTICES = 6000
"""Measure a part by its own rows over at most this many vertices, which are factored together
(about 5 s and 600 MB); every vertex alone otherwise."""

MOVED_LAYOUTS = 2
"""Move the rows of at most this many layouts, the best ones."""

MOVED_ERROR = 1.3
"""Move the rows of a layout only if its error is below this multiple of the least."""

MIN_GAIN = 1e-5
"""Prefer a later candidate only if its error is lower by this part."""

SEARCH_ROOM = 2e-4
"""Search this part below a cap: twice what the search itself may end above it."""

CAP_ROOM = 1e-6
"""Take a cap to be met if an error is above by less than this part: weights are whole numbers."""


@dataclass(frozen=True, eq=False)
class Asked:
    """One workload, and the parts of it that have caps."""

    rows: tuple[Rows, ...]
    """One block per layout that is asked for."""
    parts: tuple[tuple[Rows, ...], ...] = ()
    caps: tuple[float, ...] = ()

    @cached_property
    def workloads(self) -> list[tuple[Rows, ...]]:
        """The whole, then every part."""
        return [self.rows, *self.parts]

    @cached_property
    def limits(self) -> Floats | None:
        """The caps of the whole, which has none, and of every part; None without caps."""
        return np.array([np.inf, *self.caps]) if self.caps else None

    @property
    def aims(self) -> Floats | None:
        """What a search is to stay below: it ends a little above, and weights are rounded."""
        return None if self.limits is None else self.limits * (1 - SEARCH_ROOM)

    @cached_property
    def importance(self) -> Floats:
        """Only the whole counts."""
        return np.array([1.0, *(0.0 for _ in self.parts)])

    def excess(self, errors: Floats) -> float:
        """Return by what part the worst cap is exceeded; 0 if all are met."""
        if self.limits is None:
            return 0.0
        above = float((errors / self.limits).max()) - 1
        return above if above > CAP_ROOM else 0.0


@dataclass(frozen=True, eq=False)
class Candidate:
    """Weights of blocks, and what each block has."""

    blocks: Sequence[Rows]
    weights: Floats
    rows: list[Top]


def select(
    workload: Sequence[Rows], *, parts: Sequence[Sequence[Rows]] = (), caps: Sequence[float] = ()
) -> Strategy:
    """Return the best strategy for one workload, each part's error within its cap if possible."""
    ordered = sorted(workload, key=lambda rows: (rows.scope, rows.fingerprint))
    if not ordered:  # Whatever is asked is 0 on every table: something is measured all the same.
        return Strategy((Rows((), (), TOTAL),), TOTAL, 0.0)
    whole = tuple(as_asked(ordered))
    if not whole:  # Every answer is known, such as a count over a value that no schema declares.
        return Strategy((Rows((), (), TOTAL),), TOTAL, 0.0)
    asked = Asked(whole, tuple(tuple(part) for part in parts), tuple(caps))
    best: Strategy | None = None
    excess = math.inf
    grown: list[tuple[float, int, Candidate]] = []
    for number, candidate in enumerate(_candidates(asked, grown)):
        made, total = rounded(candidate.blocks, candidate.weights, candidate.rows)
        errors = certified(made, total, asked.workloads)
        error, above = float(errors[0]), asked.excess(errors)
        if any(isinstance(own, np.ndarray) for own in candidate.rows):
            grown.append((error, number, candidate))
        if (
            best is None
            or above < excess
            or (above == excess and error < best.error * (1 - MIN_GAIN))
        ):
            if len(made) == 1:
                made = (opened(made[0], candidate.blocks[0]),)
            split = tuple(part for block in made for part in split_by_scope(block))
            best, excess = Strategy(split, total, error), above
    if (factored := _factored(asked, best)) is not None:
        return factored
    return _unsearched(asked) if best is None else best


def _unsearched(asked: Asked) -> Strategy:
    """Return every vertex of each scope alone, where weighing scopes is too much work."""
    blocks = layouts(asked.rows)[0]
    search = Search(blocks, [None] * len(blocks), asked.workloads, move=False)
    made, total = rounded(blocks, *search.split(search.start()))
    error = float(certified(made, total, asked.workloads)[0])
    if not math.isfinite(error):
        raise NotCoveredError("no strategy answers this workload")
    return Strategy(tuple(part for block in made for part in split_by_scope(block)), total, error)


def plainer(workload: Sequence[Rows]) -> tuple[str, ...]:
    """Say which searches are left out for a workload, because it is too large for them.

    That follows from sizes alone, so it is known beforehand and the same on every machine.
    """
    asked = as_asked(sorted(workload, key=lambda rows: (rows.scope, rows.fingerprint)))
    whole = per_scope(asked)
    found = []
    if len(whole) > MANY_SCOPES:
        found.append(
            f"{len(whole):,} sets of columns are not merged with one another (up to "
            f"{MANY_SCOPES:,} are)"
        )
    elif len(asked) > len(whole) and FEWEST_STEPS * coordinates(asked) ** 3 > WORK:
        most = round((WORK / FEWEST_STEPS) ** (1 / 3))
        found.append(
            f"weights of {len(asked):,} kinds of conditions are not searched for: they depend on "
            f"{coordinates(asked):,} numbers at once (up to {most:,} are searched)"
        )
    large = [rows for rows in whole if rows.size > SEARCHED_VERTICES and not rows.plain]
    if large and as_products(asked) is None:
        found += [
            f"sums across the {rows.size:,} combinations of {', '.join(declared(rows.scope))} are "
            f"not searched for (up to {SEARCHED_VERTICES:,} are)"
            for rows in large
        ]
    return tuple(found)


def _factored(asked: Asked, best: Strategy | None) -> Strategy | None:
    """Return a Kronecker strategy if a scope is too large for other rows, and it is better."""
    whole = per_scope(asked.rows)
    large = any(rows.size > SEARCHED_VERTICES and not rows.plain for rows in whole)
    joint = any(has_joint(rows.scope) for rows in whole)  # No product of declared columns.
    queries = as_products(asked.rows) if large and not joint else None
    if queries is None:
        return None
    found = select_products(queries)
    return found if best is None or found.error < best.error * (1 - MIN_GAIN) else None


def _candidates(asked: Asked, grown: list[tuple[float, int, Candidate]]) -> Iterator[Candidate]:
    """Yield candidates; ``grown`` is filled with the errors of those that have rows."""
    for number, blocks in enumerate(layouts(asked.rows)):
        if number == 0 or coordinates(blocks) <= MAX_COORDINATES:
            yield from _of_layout(blocks, asked)
    if 1 < len({rows.scope for rows in asked.rows}) <= MANY_SCOPES:
        yield from _weighed_products(asked)
    if asked.caps:
        yield from _one_by_one(asked)
    least = min((error for error, _, _ in grown), default=math.inf)
    for error, _, candidate in sorted(grown, key=lambda found: found[:2])[:MOVED_LAYOUTS]:
        if error <= MOVED_ERROR * least and (len(candidate.blocks) > 1 or asked.caps):
            yield from _moved(candidate, asked)


def _weighed_products(asked: Asked) -> Iterator[Candidate]:
    """Yield the products of the columns' own partitions that are worth measuring, weighed."""
    tried: set[tuple[object, ...]] = set()
    for source in (asked.rows, per_scope(asked.rows)):
        weighable = products(source)
        key = tuple(block.layout for block in weighable)
        if len(weighable) < 2 or key in tried or coordinates(weighable) > MAX_COORDINATES:
            continue
        tried.add(key)
        for start in starts(weighable, source):
            chosen, weights = weighed(
                weighable,
                asked.workloads,
                asked.aims,
                importance=asked.importance,
                start=start,
            )
            yield Candidate(chosen, weights, [None] * len(chosen))


def _of_layout(blocks: Sequence[Rows], asked: Asked) -> Iterator[Candidate]:
    """Yield weights and rows for a layout, plainest first."""
    yield from _balanced(blocks, [None] * len(blocks), asked)
    grams = [
        gram_over_vertices(block)
        if not block.plain and block.size <= SEARCHED_VERTICES and block.across.shape[0]
        else None
        for block in blocks
    ]
    if len(blocks) == 1 and grams[0] is not None:
        yield Candidate(blocks, np.ones(1), [total_row(grams[0])])
    grown: list[Top] = []
    for block, gram in zip(blocks, grams, strict=True):
        rows = None
        if gram is not None:
            classes = interchangeable(gram, block.shape)
            rows = p_identity(gram, classes, alone=len(blocks) == 1)
        grown.append(rows if rows is not None and len(rows) else None)
    if any(rows is not None for rows in grown):
        yield from _balanced(blocks, grown, asked)
    joint: list[Top] = [
        None if gram is None else _over_groups(block, alone=len(blocks) == 1)
        for block, gram in zip(blocks, grams, strict=True)
    ]
    if any(rows is not None for rows in joint):
        both = zip(joint, grown, strict=True)
        yield from _balanced(
            blocks, [own if own is not None else rows for own, rows in both], asked
        )


def _over_groups(block: Rows, *, alone: bool) -> Rows | None:
    """Return p-Identity rows over groups of vertices that no query tells apart; None if all are.

    Ranges of two columns tell all values of each apart, but few of their combinations.
    """
    if block.size <= OPENED_CELLS:  # Every vertex alone answers further questions, free.
        return None
    groups = Partition.flat(column_labels(block.matrix))
    if groups.size == block.size:
        return None
    matrix = sparse.csr_array(block.matrix[:, groups.first_values])
    gram = np.asarray((matrix.T @ matrix).toarray(), dtype=np.float64)
    above = p_identity(gram, np.arange(groups.size), alone=alone)
    sums = 1 + above.sum(axis=0)
    rows = sparse.vstack([sparse.diags_array(1 / sums), sparse.csr_array(above / sums)])
    spread = sparse.csr_array(sparse.csr_array(rows)[:, groups.pieces])
    return Rows(block.scope, block.parts, 0, spread)


def _balanced(blocks: Sequence[Rows], rows: list[Top], asked: Asked) -> Iterator[Candidate]:
    """Yield the best weights of blocks, if their search is affordable."""
    if len(blocks) == 1:
        yield Candidate(blocks, np.ones(1), rows)
        return
    search = Search(blocks, rows, asked.workloads, move=False)
    if search.affordable < FEWEST_STEPS:
        return
    yield _least(search, asked)


def _moved(candidate: Candidate, asked: Asked) -> Iterator[Candidate]:
    """Yield better weights and rows together, if their search is affordable."""
    search = Search(candidate.blocks, candidate.rows, asked.workloads)
    if search.affordable >= FEWEST_STEPS:
        yield _least(search, asked, candidate.weights)


def _least(search: Search, asked: Asked, weights: Floats | None = None) -> Candidate:
    try:
        flat = search.least(
            importance=asked.importance, caps=asked.aims, start=search.start(weights)
        )
    except UnmeasuredError:
        flat = search.start()
    return Candidate(search.blocks, *search.split(flat))


def _one_by_one(asked: Asked) -> Iterator[Candidate]:
    """Yield every part measured by its own rows, as heavy as its cap needs, and then better."""
    blocks, weights = [], []
    for part, cap in zip(asked.parts, asked.caps, strict=True):
        for rows in part:
            small = rows.size <= MEASURED_VERTICES
            blocks.append(as_measured(rows) if small else Rows(rows.scope, rows.parts, 1.0))
            # Noise of a row is its largest column sum over the weight.
            effect = float(abs(rows.matrix).sum(axis=0).max(initial=0.0))
            lengths = np.diff(rows.matrix.indptr)
            weights.append(effect * math.sqrt(np.count_nonzero(lengths) / cap))
    own: list[Top] = list(blocks)
    yield Candidate(blocks, np.array(weights), own)
    search = Search(blocks, own, asked.workloads, move=False)
    if len(blocks) > 1 and search.affordable >= FEWEST_STEPS:
        yield _least(search, asked, np.array(weights))


def as_measured(rows: Rows) -> Rows:
    """Return rows themselves as a block: the absolute values of every column sum to 1."""
    if rows.plain:
        return Rows(rows.scope, rows.parts, 1.0)
    matrix = sparse.csr_array(rows.matrix, dtype=np.float64)
    matrix = matrix / float(abs(matrix).sum(axis=0).max())
    slack = 1 - np.asarray(abs(matrix).sum(axis=0)).reshape(-1)
    places = np.flatnonzero(slack > 0)
    alone = sparse.csr_array(
        (slack[places], places, np.arange(len(places) + 1)), shape=(len(places), rows.size)
    )
    return Rows(rows.scope, rows.parts, 0, sparse.csr_array(sparse.vstack([matrix, alone])))

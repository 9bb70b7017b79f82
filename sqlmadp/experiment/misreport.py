"""Misreporting: what an analyst gains by handing in other queries than they want answered.

One analyst of an instance wants the queries W, and hands in

    repeated     every query of W four times
    split        W twice, as two analysts with half the share each
    junk         W, and 64 random sums of cells
    all cells    W, and every single cell

while all others are honest.  Printed is the error of W then, divided by that of W if it is handed
in as it is: below 1 the lie pays.  Of two analysts the better answers count.  Liars are the analyst
with the most and the one with the fewest queries.  Instances are those of the paper's experiments,
all over one column of cells; marginals of d columns of two values have 2^d cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sqlmadp.core.collective import Collective, Joint, Workload
from sqlmadp.core.mechanism import mechanism
from sqlmadp.core.mechanism.waterfilling import ratio
from sqlmadp.errors import NotSupportedError
from sqlmadp.experiment.instances import over_cells, practical_matrices
from sqlmadp.experiment.settings import Settings
from sqlmadp.solve.products import solution_of

Matrix = NDArray[np.float64]

TIMES = 4
"""How often a repeated query is handed in."""

JUNK = 64
"""Random queries that are handed in as junk."""

LIARS = ("most queries", "fewest queries")

Trick = Callable[[Matrix, np.random.Generator], Sequence[Matrix]]
"""From the queries that an analyst wants to those that each of their names hands in."""

TRICKS: Mapping[str, Trick] = {
    "repeated": lambda wanted, _: [np.vstack([wanted] * TIMES)],
    "split": lambda wanted, _: [wanted, wanted],
    "junk": lambda wanted, random: [np.vstack([wanted, _junk(wanted.shape[1], random)])],
    "all cells": lambda wanted, _: [np.vstack([wanted, np.eye(wanted.shape[1])])],
}


def misreported(settings: Settings, number: int) -> dict[str, tuple[float, ...] | None]:
    """Return the changes of the liars' true errors by mechanism, in the order of `labels`."""
    workloads = _instance(settings, np.random.default_rng([settings.seed, number]))
    shares = [Fraction(1, len(workloads))] * len(workloads)
    honest = collective(workloads, shares)
    lies = [lie for liar in _liars(workloads) for lie in _lies(workloads, liar, TRICKS, number)]
    found: dict[str, tuple[float, ...] | None] = {}
    for name in settings.mechanisms:
        try:
            found[name] = tuple(lie.change(name, honest) for lie in lies)
        except NotSupportedError:
            found[name] = None
    return found


def labels() -> list[tuple[str, str]]:
    """Return liar and trick of every change of an instance."""
    return list(itertools.product(LIARS, TRICKS))


def changes(
    name: str,
    workloads: Sequence[Matrix],
    liar: int,
    *,
    tricks: Sequence[str] = tuple(TRICKS),
    seed: int = 0,
) -> dict[str, float]:
    """Return the liar's true error by trick, divided by that without it; shares are equal."""
    honest = collective(workloads, [Fraction(1, len(workloads))] * len(workloads))
    lies = _lies(workloads, liar, tricks, seed)
    return {trick: lie.change(name, honest) for trick, lie in zip(tricks, lies, strict=True)}


@dataclass(frozen=True, eq=False)
class Lie:
    """What everybody hands in, and the queries that one of them wants."""

    handed_in: Collective
    names: range
    """The analysts as which the liar takes part."""
    liar: int
    """The analyst that the liar is in the honest collective."""

    def change(self, name: str, honest: Collective) -> float:
        """Return the liar's true error under a mechanism, divided by that of honest queries."""
        wanted = honest.workloads[self.liar]
        truth = mechanism(name).select(honest).errors[self.liar]
        joint = mechanism(name).select(self.handed_in)
        return ratio(min(true_error(joint, n, wanted) for n in self.names), float(truth))


def true_error(joint: Joint, analyst: int, wanted: Workload) -> float:
    """Return the error of queries answered from what an analyst reads; shares sum to 1."""
    [error] = solution_of(joint.read_by(analyst)).errors([wanted])
    return float(joint.total**2 * error)


def collective(workloads: Sequence[Matrix], shares: Sequence[Fraction]) -> Collective:
    """Return analysts who hand in matrices over one column of cells."""
    columns = {"cell": workloads[0].shape[1]}
    return Collective([over_cells(matrix) for matrix in workloads], shares, columns=columns)


def _lies(
    workloads: Sequence[Matrix], liar: int, tricks: Iterable[str], seed: int
) -> Iterator[Lie]:
    share = Fraction(1, len(workloads))
    for trick in tricks:
        handed_in = TRICKS[trick](workloads[liar], np.random.default_rng([seed, liar]))
        count = len(handed_in)
        shares = [share] * len(workloads)
        shares[liar : liar + 1] = [share / count] * count
        everyone = [*workloads[:liar], *handed_in, *workloads[liar + 1 :]]
        yield Lie(collective(everyone, shares), range(liar, liar + count), liar)


def _liars(workloads: Sequence[Matrix]) -> tuple[int, int]:
    """Return the first analyst with the most queries, and the last with the fewest."""
    sizes = [len(matrix) for matrix in workloads]
    return sizes.index(max(sizes)), len(sizes) - 1 - sizes[::-1].index(min(sizes))


def _instance(settings: Settings, random: np.random.Generator) -> list[Matrix]:
    analysts = int(random.integers(2, settings.most_analysts, endpoint=True))
    if settings.experiment.endswith("practical"):
        return practical_matrices(settings.cells, analysts, random)[1]
    scopes = list(itertools.combinations(range(settings.attributes), settings.way))
    chosen = [scopes[int(random.integers(len(scopes)))] for _ in range(analysts)]
    return [_marginal(scope, settings.attributes) for scope in chosen]


def _marginal(scope: Sequence[int], attributes: int) -> Matrix:
    """Return a marginal over the cells of columns of two values."""
    places = np.arange(2**attributes)
    values = np.array([places >> column & 1 for column in scope]).reshape(len(scope), len(places))
    cells = itertools.product((0, 1), repeat=len(scope))
    return np.array(
        [np.all(values.transpose() == cell, axis=1) for cell in cells], dtype=np.float64
    )


def _junk(cells: int, random: np.random.Generator) -> Matrix:
    return random.integers(0, 2, (JUNK, cells)).astype(np.float64)

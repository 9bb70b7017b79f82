"""Misreporting: what an analyst gains by handing in other queries than they want answered.

One analyst of an instance wants the queries W, and hands in

    repeated     every query of W four times
    split        W twice, as two analysts with half the share each
    junk         W, and 64 random sums of cells
    all cells    W, and every single cell

while all others are honest.  Printed is the error of W then, divided by that of W if it is handed
in as it is: below 1 the lie pays.  Of two analysts the better answers count.  Liars are the analyst
with the most and the one with the fewest queries.  Instances are those of the paper's experiments,
all over one column of cells; marginals of d columns of two values have 2^d cells.  Or they are the
analysts of a plan, whose errors are measured as the plan says; junk and cells are then those of
single columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import NotSupportedError
from sqlmadp.experiment.instances import Settings, over_cells, practical_matrices
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.collective import Collective, Joint, Workload
from sqlmadp.mechanism.waterfilling import ratio
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.solve.products import solution_of
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows
from sqlmadp.workload.questions import Question
from sqlmadp.workload.questions import Workload as Questions

Matrix = NDArray[np.float64]

TIMES = 4
"""How often a repeated query is handed in."""

JUNK = 64
"""Random queries that are handed in as junk."""

LIARS = ("most queries", "fewest queries")

TRICKS = ("repeated", "split", "junk", "all cells")

Wanted = TypeVar("Wanted")
"""What one analyst wants: a matrix, or questions."""

Trick = Callable[[Wanted, np.random.Generator], Sequence[Wanted]]
"""From the queries that an analyst wants to those that each of their names hands in."""


@dataclass(frozen=True, eq=False)
class Honest(Generic[Wanted]):
    """What everybody wants, and what a liar may hand in instead."""

    wanted: Sequence[Wanted]
    shares: Sequence[Fraction]
    tricks: Mapping[str, Trick[Wanted]]
    gather: Callable[[Sequence[Wanted], Sequence[Fraction]], Collective]
    """From what is handed in, and shares, to a collective."""
    sizes: Sequence[int]
    """The number of queries of every analyst."""

    @property
    def liars(self) -> tuple[int, int]:
        """The first analyst with the most queries, and the last with the fewest."""
        sizes = list(self.sizes)
        return sizes.index(max(sizes)), len(sizes) - 1 - sizes[::-1].index(min(sizes))

    def lies(self, liar: int, tricks: Sequence[str] = TRICKS, seed: int = 0) -> Iterator[Lie]:
        """Yield what everybody hands in if one of them lies."""
        for trick in tricks:
            random = np.random.default_rng([seed, liar])
            handed_in = self.tricks[trick](self.wanted[liar], random)
            count = len(handed_in)
            shares = [*self.shares]
            shares[liar : liar + 1] = [shares[liar] / count] * count
            everyone = [*self.wanted[:liar], *handed_in, *self.wanted[liar + 1 :]]
            yield Lie(self.gather(everyone, shares), range(liar, liar + count), liar)


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


def misreported(settings: Settings, number: int) -> dict[str, tuple[float, ...] | None]:
    """Return the changes of the liars' true errors by mechanism, in the order of `labels`."""
    if settings.plan:
        return _changed(of_plan(Path(settings.plan)), settings, number)
    matrices = _instance(settings, np.random.default_rng([settings.seed, number]))
    return _changed(of_matrices(matrices), settings, number)


def _changed(
    asked: Honest[Wanted], settings: Settings, number: int
) -> dict[str, tuple[float, ...] | None]:
    honest = asked.gather(asked.wanted, asked.shares)
    lies = [lie for liar in asked.liars for lie in asked.lies(liar, seed=number)]
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


# Matrices over one column of cells.


def of_matrices(matrices: Sequence[Matrix]) -> Honest[Matrix]:
    """Return analysts who want the rows of matrices, with equal shares."""
    tricks: dict[str, Trick[Matrix]] = {
        "repeated": lambda wanted, _: [np.vstack([wanted] * TIMES)],
        "split": lambda wanted, _: [wanted, wanted],
        "junk": lambda wanted, random: [np.vstack([wanted, _junk(wanted.shape[1], random)])],
        "all cells": lambda wanted, _: [np.vstack([wanted, np.eye(wanted.shape[1])])],
    }
    columns = {"cell": matrices[0].shape[1]}

    def gather(handed_in: Sequence[Matrix], shares: Sequence[Fraction]) -> Collective:
        return Collective([over_cells(matrix) for matrix in handed_in], shares, columns=columns)

    shares = [Fraction(1, len(matrices))] * len(matrices)
    return Honest(matrices, shares, tricks, gather, [len(matrix) for matrix in matrices])


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


# The statements of a plan.


def of_plan(path: Path) -> Honest[Sequence[Question]]:
    """Return the analysts of a plan with their statements and shares; reads no record."""
    asked = BoundPlan.bind(Plan.open(path))
    columns = {name: size for name, size in asked.columns if size > 1}
    tricks: dict[str, Trick[Sequence[Question]]] = {
        "repeated": lambda wanted, _: [[*wanted] * TIMES],
        "split": lambda wanted, _: [wanted, wanted],
        "junk": lambda wanted, random: [[*wanted, *_random_sums(columns, random)]],
        "all cells": lambda wanted, _: [[*wanted, *_histograms(columns)]],
    }

    def gather(handed_in: Sequence[Sequence[Question]], shares: Sequence[Fraction]) -> Collective:
        workloads = [Questions.of(own, asked.plan.measure) for own in handed_in]
        return Collective.asking(workloads, shares, columns=dict(asked.columns))

    shares = [analyst.share for analyst in asked.plan.analysts]
    sizes = [sum(question.rows for question in own) for own in asked.questions]
    return Honest(asked.questions, shares, tricks, gather, sizes)


def _random_sums(columns: Mapping[str, int], random: np.random.Generator) -> Iterator[Question]:
    """Yield counts of random sets of values, each of one column."""
    names = sorted(columns)
    for _ in range(JUNK):
        name = names[int(random.integers(len(names)))]
        chosen = random.integers(0, 2, (1, columns[name])).astype(np.float64)
        chosen[0, 0] += not chosen.any()  # A sum over nothing would ask nothing.
        finest = [Partition.finest(columns[name])]
        yield Question((Rows.reduced((name,), finest, sparse.csr_array(chosen)),))


def _histograms(columns: Mapping[str, int]) -> Iterator[Question]:
    """Yield the counts of every value, column by column."""
    for name, size in sorted(columns.items()):
        yield Question((Rows((name,), (Partition.finest(size),), 1.0),))

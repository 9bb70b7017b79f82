"""Instances: what an experiment runs, random sets of workloads by the paper's description.

An instance has k analysts, k uniform from 2 to the most, with equal shares.  Each picks a workload
uniformly:

    practical   three race workloads, Identity, Total, Prefix, H2, or a custom one.  Cells are
                combinations of binary race flags.  A custom workload has from 1 to 2n queries, each
                a range, a single cell, a random sum of cells, or a random vector.
    marginals   one of the m-way marginals over d columns of two values; so does ``tolerance``
    nonlinear   the mean, the median, or the 25th or 75th percentile of a column

Each instance has random numbers of its own, from the seed and its number: it is the same whatever
else is run, and in whatever order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.errors import ProgrammingError
from sqlmadp.mechanism.collective import Collective, Workload
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

TOLERANCES = (0.1, 0.01, 0.001, 0.0001, 0.0)
"""The tolerances of Waterfilling that the experiment on them compares."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.  Every instance depends on these and on its own number alone."""

    experiment: str
    seed: int
    most_analysts: int
    """Each instance has from 2 to this many analysts."""
    epsilon: str
    """Exact, as text."""
    mechanisms: tuple[str, ...]
    """Those compared; under ``tolerance`` it is Waterfilling at several tolerances instead."""
    cells: int = 64
    """Cells of the practical workloads: a power of 2."""
    attributes: int = 8
    """Columns of two values, for marginals."""
    way: int = 1
    """Columns of each marginal."""
    counts: tuple[int, ...] = ()
    """Records by value, for the non-linear queries."""
    plan: str = ""
    """The plan whose analysts misreport; otherwise instances are drawn."""
    samples: int = 200
    """Simulated releases from which an error of a non-linear query is worked out."""


def check(settings: Settings) -> None:
    """Raise ProgrammingError for sizes that make no experiment."""
    if settings.cells < 4 or settings.cells & (settings.cells - 1):
        raise ProgrammingError(f"--cells must be a power of 2 from 4 on, not {settings.cells}")
    if not 0 <= settings.way <= settings.attributes:
        raise ProgrammingError(
            f"a {settings.way}-way marginal needs that many attributes, not {settings.attributes}"
        )
    if settings.experiment == "nonlinear" and sum(settings.counts) <= 0:
        raise ProgrammingError("the data column must have at least one record")


def read_counts(path: Path) -> tuple[int, ...]:
    """Return records by value from a CSV file: one line per value, the count in its last field."""
    counts = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        field = line.rpartition(",")[2].strip().strip('"')
        if field.isdigit():
            counts.append(int(field))
        elif line.strip() and number > 1:  # The first line may name the columns.
            raise ProgrammingError(f"{path}:{number}: {field!r} is not a number of records")
    return tuple(counts)


def invented_counts() -> tuple[int, ...]:
    """Return a made-up data column: records by age from 0 to 85, many children and young adults."""
    children = [round(400 * 0.8**age) for age in range(86)]
    adults = [round(800 * 0.9 ** abs(age - 22)) for age in range(86)]
    return tuple(100 + child + adult for child, adult in zip(children, adults, strict=True))


Matrix = NDArray[np.float64]

NONLINEAR = ("mean", "median", "percentile 25", "percentile 75")


@dataclass(frozen=True, eq=False)
class Instance:
    """What some analysts ask: a name and a workload each."""

    names: tuple[str, ...]
    workloads: tuple[Workload, ...]
    columns: tuple[tuple[str, int], ...]
    """Name and number of cells of every column."""

    @cached_property
    def collective(self) -> Collective:
        """The analysts with equal shares; what is selected for one mechanism serves the others."""
        count = len(self.names)
        shares = [Fraction(1, count)] * count
        return Collective(self.workloads, shares, columns=dict(self.columns))


def instance(settings: Settings, number: int) -> Instance:
    """Return an instance of an experiment; the same number gives the same one."""
    random = np.random.default_rng([settings.seed, number])
    analysts = int(random.integers(2, settings.most_analysts, endpoint=True))
    if settings.experiment == "practical":
        return _practical(settings.cells, analysts, random)
    if settings.experiment == "nonlinear":
        chosen = [NONLINEAR[int(random.integers(len(NONLINEAR)))] for _ in range(analysts)]
        cells = len(settings.counts)
        workloads = [over_cells(_nonlinear(name, cells)) for name in chosen]
        return Instance(tuple(chosen), tuple(workloads), (("cell", cells),))
    return _marginals(settings, analysts, random)


def over_cells(matrix: Matrix) -> Workload:
    """Return the rows of a matrix as a workload over one column."""
    finest = [Partition.finest(matrix.shape[1])]
    return (Rows.reduced(("cell",), finest, sparse.csr_array(matrix)),)


def _practical(cells: int, analysts: int, random: np.random.Generator) -> Instance:
    names, matrices = practical_matrices(cells, analysts, random)
    workloads = [over_cells(matrix) for matrix in matrices]
    return Instance(tuple(names), tuple(workloads), (("cell", cells),))


def practical_matrices(
    cells: int, analysts: int, random: np.random.Generator
) -> tuple[list[str], list[Matrix]]:
    """Return the name and the queries of every analyst of a practical instance."""
    fixed = _fixed(cells)
    choices = [*fixed, "custom"]
    names = [choices[int(random.integers(len(choices)))] for _ in range(analysts)]
    return names, [_custom(cells, random) if n == "custom" else fixed[n] for n in names]


@cache
def _fixed(cells: int) -> dict[str, Matrix]:
    return {
        **_race(cells),
        "identity": np.eye(cells),
        "total": np.ones((1, cells)),
        "prefix": prefix(cells),
        "h2": _hierarchy(cells),
    }


def prefix(cells: int) -> Matrix:
    """Return the sums of the first cells: of one, of two, ..., of all."""
    return np.tril(np.ones((cells, cells)))


def _hierarchy(cells: int) -> Matrix:
    """Return the sums over halves, quarters, ..., single cells, and all."""
    rows: list[Matrix] = [np.ones((1, cells))]
    size = cells
    while size > 1:
        size //= 2
        rows.append(np.asarray(np.repeat(np.eye(cells // size), size, axis=1), dtype=np.float64))
    return np.vstack(rows)


def _race(cells: int) -> dict[str, Matrix]:
    """Return three tables of races; a cell says which of log2(cells) races a person is of.

    Each race alone, and two or more; each race alone or with others; and the number of races.
    """
    flags = cells.bit_length() - 1
    place = np.arange(cells)
    has = np.array([(place >> flag) & 1 for flag in range(flags)], dtype=np.float64)
    number = has.sum(axis=0)
    alone = np.vstack([has * (number == 1), number >= 2]).astype(np.float64)
    by_number = np.array([number == count for count in range(1, flags + 1)], dtype=np.float64)
    return {"race alone": alone, "race in combination": has, "number of races": by_number}


def _custom(cells: int, random: np.random.Generator) -> Matrix:
    rows = np.zeros((int(random.integers(1, 2 * cells, endpoint=True)), cells))
    for row in rows:
        match int(random.integers(4)):
            case 0:
                low, high = np.sort(random.integers(0, cells, 2))
                row[low : high + 1] = 1
            case 1:
                row[random.integers(cells)] = 1
            case 2:
                row[:] = random.integers(0, 2, cells)
            case _:
                row[:] = random.random(cells)
    rows[0, 0] += not rows.any()  # A workload of empty sums only would ask nothing.
    return rows


def _marginals(settings: Settings, analysts: int, random: np.random.Generator) -> Instance:
    names = [f"c{place}" for place in range(settings.attributes)]
    scopes = list(itertools.combinations(names, settings.way))
    chosen = [scopes[int(random.integers(len(scopes)))] for _ in range(analysts)]
    return Instance(
        tuple(" x ".join(scope) or "total" for scope in chosen),
        tuple(_marginal(scope) for scope in chosen),
        tuple((name, 2) for name in names),
    )


@cache
def _marginal(scope: tuple[str, ...]) -> Workload:
    return (Rows(scope, tuple(Partition.finest(2) for _ in scope), 1.0),)


@cache
def _nonlinear(name: str, cells: int) -> Matrix:
    """Return the linear queries that a statistic is worked out from."""
    if name == "mean":
        return np.vstack([np.ones(cells), np.arange(cells)])
    return prefix(cells)

"""An analyst's questions as a workload: errors in units of the question.

Squared errors of a sum of prices and of a count cannot be added up: the sum would drown the count,
and a table of a thousand rows a table of two.  So the error of a row is measured against the
*naive* answer to it, the plain Laplace mechanism with the analyst's share split evenly over their k
statements and a statement's part over its m linear pieces:

    naive variance = (k m D)^2      D = the largest effect of one record on the piece's rows

in units of 2 / epsilon^2 for the epsilon of the analyst's share.  An analyst's error is the mean
over statements of the mean over a statement's rows of ``variance / naive variance``: 1 means no
better than asking one by one, and the mean over the rows of any single piece is capped at 1: the
mean, not every row, since all rows of a piece have the same naive variance, and some may be
measured better at the expense of others.
Multiplying a statement by a constant changes nothing, and equal
statements count once, so repeating one gains nothing; a statement's weight multiplies it in the
mean.

The ``squared`` measure is the paper's: the plain sum of squared errors over all rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from scipy import sparse

from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Floats

Measure = Literal["relative", "squared"]


@dataclass(frozen=True, eq=False)
class Question:
    """The linear pieces of one statement."""

    pieces: tuple[Rows, ...]
    """As asked: in plain units."""
    weight: Fraction = Fraction(1)

    @cached_property
    def key(self) -> tuple[bytes, ...]:
        """What equal questions have in common."""
        return tuple(sorted(rows.fingerprint for rows in self.pieces))

    @cached_property
    def effects(self) -> Floats:
        """The largest effect of one record on the rows of every piece."""
        return np.array([record_effect(rows) for rows in self.pieces])

    @property
    def rows(self) -> int:
        """The number of rows that are not zero whatever the table is."""
        return sum(_counted(rows) for rows in self.pieces)


@dataclass(frozen=True, eq=False)
class Workload:
    """One analyst's questions, each scaled to its part of the analyst's error."""

    parts: tuple[tuple[Rows, ...], ...]
    """By linear piece of a question: rows whose variances add up to its part of the error."""
    caps: Floats | None = None
    """By piece: the part that the naive answer would have; None where nothing is capped."""

    @classmethod
    def of(cls, questions: Iterable[Question], measure: Measure = "relative") -> Workload:
        """Return the workload of an analyst's questions."""
        if measure == "squared":
            scaled = (
                tuple(rows.times(math.sqrt(each.weight)) for rows in each.pieces)
                for each in questions
            )
            return cls(tuple(part for part in scaled if part))
        asked = _distinct(questions)
        whole = sum((each.weight for each in asked), Fraction(0))
        parts, caps = [], []
        for each in asked:
            share = float(each.weight / whole)
            root = math.sqrt(share / each.rows) / (len(asked) * np.count_nonzero(each.effects))
            for rows, effect in zip(each.pieces, each.effects, strict=True):
                if effect:
                    parts.append((_scaled(rows, float(effect), root),))
                    caps.append(share * _counted(rows) / each.rows)
        return cls(tuple(parts), np.array(caps))

    @classmethod
    def plain(cls, rows: Iterable[Rows]) -> Workload:
        """Return a workload of matrices: squared errors, summed."""
        return cls((tuple(rows),))

    @property
    def rows(self) -> tuple[Rows, ...]:
        """All rows, whatever question they are of."""
        return tuple(rows for part in self.parts for rows in part)

    @cached_property
    def fingerprint(self) -> str:
        """A digest that equal questions share, in whatever order they are asked."""
        digest = hashlib.sha256()
        for key in sorted(rows.fingerprint for rows in self.rows):
            digest.update(key)
        digest.update(b"capped" if self.caps is not None else b"")
        return digest.hexdigest()


def naive_deviations(questions: Sequence[Question]) -> list[Floats]:
    """Return, by question and piece, ``k m D``: the naive standard error in units of sqrt(2) / eps.

    It is 0 for a piece that no record has an effect on.
    """
    count = len(_distinct(questions))
    return [count * np.count_nonzero(each.effects) * each.effects for each in questions]


def _distinct(questions: Iterable[Question]) -> list[Question]:
    """Return every different question once, with its largest weight, but those known beforehand."""
    found: dict[tuple[bytes, ...], Question] = {}
    for each in questions:
        known = found.get(each.key)
        if each.rows and (known is None or known.weight < each.weight):
            found[each.key] = each
    return [found[key] for key in sorted(found)]


def _scaled(rows: Rows, effect: float, root: float) -> Rows:
    """Return ``rows / effect * root``.

    A quotient is rounded once, so a statement that is multiplied by a whole number has the same
    rows, bit for bit.
    """
    if rows.given is None:
        return Rows(rows.scope, rows.parts, float(rows.weight) / effect * root)
    matrix = rows.given
    parts = (matrix.data / effect * root, matrix.indices, matrix.indptr)
    return Rows(rows.scope, rows.parts, 0, sparse.csr_array(parts, shape=matrix.shape))


def record_effect(rows: Rows) -> float:
    """Return the largest sum of absolute coefficients over vertices: what one record can change."""
    if rows.plain:
        return abs(float(rows.weight))
    return float(abs(rows.matrix).sum(axis=0).max(initial=0.0))


def _counted(rows: Rows) -> int:
    if rows.plain:
        return rows.count
    return int((np.diff(rows.matrix.indptr) > 0).sum())


def stacked(workloads: Sequence[Workload]) -> Workload:
    """Return all questions of all workloads as one workload without caps."""
    return Workload(tuple(part for workload in workloads for part in workload.parts))

"""Compare mechanisms on plain matrices, for researchers: no SQL, no schema, no data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sqlmadp.errors import ProgrammingError
from sqlmadp.mechanism.base import MECHANISMS, mechanism, one_thread
from sqlmadp.mechanism.collective import MOST_PARTS, Collective
from sqlmadp.mechanism.fairness import Outcome, outcome
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows


def compare(
    workloads: Sequence[ArrayLike],
    *,
    epsilon: Fraction | float | str,
    shares: Sequence[Fraction | float | str] | None = None,
    mechanisms: Iterable[str] | None = None,
) -> dict[str, Outcome]:
    """Return the errors and fairness measures of each mechanism, by its name.

    ``workloads[i]`` is analyst i's matrix, one row per query and one column per cell, all with the
    same columns.  Shares are equal unless given; they are taken in proportion, and to the nearest
    of some 2^14 equal parts of the budget if they have no small common denominator.
    """
    asked = [mechanism(name) for name in (MECHANISMS if mechanisms is None else mechanisms)]
    matrices = [_matrix(workload, i) for i, workload in enumerate(workloads)]
    if not matrices:
        raise ProgrammingError("compare() needs at least one workload")
    if len({matrix.shape[1] for matrix in matrices}) > 1:
        raise ProgrammingError("all workloads must have the same number of columns (cells)")
    budget = _positive(epsilon, "epsilon")
    parts = _proportions([1] * len(matrices) if shares is None else shares)
    if len(parts) != len(matrices):
        raise ProgrammingError(f"{len(matrices)} workloads need as many shares, not {len(parts)}")
    cells = matrices[0].shape[1]
    finest = [Partition.finest(cells)]
    asking = [[Rows.reduced(("cell",), finest, matrix)] for matrix in matrices]
    with one_thread():
        everyone = Collective(asking, parts, columns={"cell": cells})
        found = {each.name: outcome(each, everyone, budget) for each in asked}
        for each in found.values():
            each.work_out()
        return found


def _matrix(workload: ArrayLike, number: int) -> sparse.csr_array:
    try:
        dense = np.asarray(workload, dtype=np.float64)
    except (TypeError, ValueError):
        dense = np.zeros(0)
    if dense.ndim != 2 or 0 in dense.shape or not np.isfinite(dense).all():
        raise ProgrammingError(f"workload {number} must be a matrix of finite numbers, not empty")
    if not dense.any():
        raise ProgrammingError(f"workload {number} asks nothing: all its entries are 0")
    return sparse.csr_array(dense)


def _proportions(shares: Sequence[Fraction | float | str]) -> list[Fraction]:
    """Return shares that sum to 1, of a common denominator that strategies can be scaled by."""
    exact = [_positive(share, "a share") for share in shares]
    normalised = [share / sum(exact) for share in exact]
    if math.lcm(*(share.denominator for share in normalised)) <= MOST_PARTS:
        return normalised
    parts = [max(1, round(share * (MOST_PARTS // 2))) for share in normalised]
    return [Fraction(part, sum(parts)) for part in parts]


def _positive(value: Fraction | float | str, what: str) -> Fraction:
    try:
        exact = Fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        exact = Fraction(0)
    if exact <= 0:
        raise ProgrammingError(f"{what} must be a number above 0, not {value!r}")
    return exact

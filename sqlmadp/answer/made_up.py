"""Made-up answers: the rows of a statement before there is a strategy, from no data at all.

What runs over answers, and what works out their errors, asks an estimate for little (`Estimated`).
Made-up answers give that much without a strategy: zeros, or numbers from the public sequence of
`draws`, far from 0 and of both signs.  A statement whose rows cannot be made from them is refused
when it is handed in, long before a release tries it with the strategy that is measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.draws import laplace
from sqlmadp.answer.processing import Processing
from sqlmadp.answer.reconstruct import Sums
from sqlmadp.table.rows import Rows

Matrix = NDArray[np.float64]

DRAWS = 2
"""Simulated releases; nobody reads the errors that come of them."""


class Estimated(Protocol):
    """What rows and their errors are made from: an estimate, whatever it was solved by."""

    @property
    def noise_variance(self) -> float:
        """The variance of the noise of one measured value; 0 if there are no errors to state."""

    @property
    def processing(self) -> Processing:
        """What was done to the estimate."""

    def answers(self, rows: Rows) -> Matrix:
        """Return the best answer to every row."""

    def simulated(self, rows: Rows) -> Matrix:
        """Return the answers of simulated releases, one column each."""

    def rmse(self, rows: Rows) -> Matrix:
        """Return the root of every row's expected squared error."""

    def sum_rmse(self, parts: Sums) -> Matrix:
        """Return the same of sums of answers."""


@dataclass(frozen=True)
class MadeUp:
    """Answers about ``far`` away from 0, with errors of 1."""

    far: float
    noise_variance: float = 1.0
    processing: Processing = Processing()  # noqa: RUF009 - It never changes.

    def answers(self, rows: Rows) -> Matrix:
        """Return numbers that depend on nothing but their place."""
        return np.rint(self.far * laplace(0, 0, rows.count))

    def simulated(self, rows: Rows) -> Matrix:
        """Return others, one column per simulated release."""
        drawn = [self.far * laplace(draw, 0, rows.count) for draw in range(1, DRAWS + 1)]
        return np.column_stack(drawn)

    def rmse(self, rows: Rows) -> Matrix:
        """Return 1 for every row."""
        return np.ones(rows.count)

    def sum_rmse(self, parts: Sums) -> Matrix:
        """Return 1 for every sum."""
        return np.ones(parts[0][1].shape[0])


MADE_UP = (MadeUp(0.0), MadeUp(1000.0), MadeUp(-1000.0))
"""The made-up answers that statements are tried on."""

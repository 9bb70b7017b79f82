"""Many marginals at once: plain rows over columns that are told apart in one way only.

Where no partition of a column but the finest is in use, its basis is the constant alone.  Every
vertex of a scope of such columns, measured with weight w, has

    X_F = w^2 / size     for every subset F of the scope,

the size being the scope's number of vertices.  So the rows of hundreds of thousands of marginals
are worked on together: by number of columns, with every F coded as one integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sqlmadp.solve.column import Column
from sqlmadp.table.rows import Rows, Scope
from sqlmadp.table.runs import Floats, Integers

MAX_CODE = 2**62
"""Code sets of columns as integers up to this number."""

MAX_COLUMNS = 10
"""Work on marginals of at most this many columns together: they have 2^10 subsets each."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Information of plain rows, one entry per marginal and subset F of its scope."""

    codes: Integers
    """F as an integer."""
    rows: Integers
    """The number of the marginal."""
    shares: Floats
    """The information on every dimension of F's fine residuals."""


class Marginals:
    """Codes for subsets of the columns whose basis is the constant alone."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        """Give numbers to the columns of one partition, in the order of their names."""
        self._names = sorted(c for c, known in columns.items() if known.dimensions == 1)
        self._numbers = {column: number for number, column in enumerate(self._names, start=1)}
        self._finest = {column: columns[column].finest for column in self._names}
        self._counts = np.array([1, *(columns[c].count for c in self._names)], dtype=np.float64)
        self._base = len(self._names) + 1

    def covers(self, rows: Rows) -> bool:
        """Return whether rows are plain, over the finest partitions of such columns alone."""
        if not rows.plain or self._base ** len(rows.scope) > MAX_CODE:
            return False
        if len(rows.scope) > MAX_COLUMNS:
            return False
        for column, part in zip(rows.scope, rows.parts, strict=True):
            finest = self._finest.get(column)
            if finest is None or (part is not finest and part != finest):
                return False
        return True

    def entries(self, marginals: Sequence[Rows]) -> Entries:
        """Return the information of marginals, all of them covered, subset by subset."""
        arities: dict[int, list[int]] = {}
        for number, rows in enumerate(marginals):
            arities.setdefault(len(rows.scope), []).append(number)
        codes, numbers, shares = [], [], []
        for arity, own in arities.items():
            flat = [self._numbers[column] for number in own for column in marginals[number].scope]
            columns = np.array(flat, dtype=np.int64).reshape(len(own), arity)
            weights = np.array([marginals[number].weight for number in own], dtype=np.float64)
            share = weights**2 / self._counts[columns].prod(axis=1)
            for mask in range(1 << arity):
                code = np.zeros(len(own), dtype=np.int64)
                for place in range(arity):
                    if mask >> place & 1:
                        code = code * self._base + columns[:, place]
                codes.append(code)
                numbers.append(np.array(own))
                shares.append(share)
        none = np.zeros(0, dtype=np.int64)
        return Entries(
            np.concatenate([none, *codes]),
            np.concatenate([none, *numbers]),
            np.concatenate([np.zeros(0), *shares]),
        )

    def scopes(self, codes: Integers) -> list[Scope]:
        """Return the sets of columns that codes stand for."""
        digits = []
        left = codes
        while left.any():
            digits.append(left % self._base)
            left = left // self._base
        table = np.array(digits[::-1]).reshape(len(digits), len(codes)).T.tolist()
        return [tuple(self._names[digit - 1] for digit in row if digit) for row in table]

    def multiplicities(self, codes: Integers) -> Floats:
        """Return the dimensions of the products of fine residuals."""
        found = np.ones(len(codes))
        left = codes
        while left.any():
            digit = left % self._base
            found *= np.where(digit > 0, self._counts[digit] - 1, 1)
            left = left // self._base
        return found

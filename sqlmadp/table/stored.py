"""Rows and partitions as JSON: what is stored of a strategy beside its measured answers.

A partition is stored once, as runs of a straight line, and rows name it by its number.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Run, affine_runs, from_runs


class StoredPartition(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Runs of numbers: how many, the first, and by how much each exceeds the one before."""

    pieces: list[Run]
    """The piece of every cell."""
    steps: list[Run]
    """How far along its piece every cell lies."""
    degrees: list[Run]
    """The degree of every piece."""
    unit: int
    """Steps from one end of a piece to the other."""
    curve: bytes = b""
    """The steps instead, where they lie along no few lines: the differences of their differences,
    as 64-bit integers, compressed."""

    @classmethod
    def of(cls, part: Partition) -> StoredPartition:
        """Return a partition as runs."""
        pieces, degrees = affine_runs(part.pieces), affine_runs(part.degrees)
        if part.is_curved:
            turns = np.diff(part.steps, 2, prepend=[0, 0]).astype("<i8")
            curve = zlib.compress(turns.tobytes())
            return cls(pieces=pieces, steps=[], degrees=degrees, unit=part.unit, curve=curve)
        steps = affine_runs(part.steps)
        return cls(pieces=pieces, steps=steps, degrees=degrees, unit=part.unit)

    @property
    def partition(self) -> Partition:
        """The partition that is stored."""
        pieces, steps, degrees = map(from_runs, (self.pieces, self.steps, self.degrees))
        if self.curve:
            turns = np.frombuffer(zlib.decompress(self.curve), "<i8").astype(np.int64)
            steps = np.cumsum(np.cumsum(turns))
        return Partition(pieces, steps, degrees, self.unit)


class StoredMatrix(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A sparse matrix of integers, row by row."""

    row_starts: list[int]
    columns: list[int]
    entries: list[int]
    """Row by row: row i has entries[row_starts[i]:row_starts[i + 1]]."""

    @classmethod
    def of(cls, matrix: sparse.csr_array) -> StoredMatrix:
        """Return a matrix of integers as lists."""
        starts, columns, entries = matrix.indptr, matrix.indices, matrix.data
        return cls(row_starts=starts.tolist(), columns=columns.tolist(), entries=entries.tolist())

    def over(self, size: int) -> sparse.csr_array:
        """Return the matrix that is stored, with ``size`` columns."""
        entries = np.array(self.entries, dtype=np.int64)
        shape = len(self.row_starts) - 1, size
        return sparse.csr_array((entries, self.columns, self.row_starts), shape=shape)


class StoredRows(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rows of integers: every vertex alone, a matrix, or products."""

    scope: list[str]
    partitions: list[int]
    """Numbers of the measurement's partitions, one per column of the scope."""
    weight: int | None = None
    """Every vertex alone, with this weight."""
    matrix: StoredMatrix | None = None
    """Otherwise: one column per vertex of the scope."""
    factors: list[StoredMatrix] | None = None
    """Of products, instead of the matrix: one per column of the scope."""
    heights: list[int] | None = None
    """Of products: one per product of factor rows, row-major; 0: not measured."""

    def rows(self, every: list[Partition]) -> Rows:
        """Return the rows that are stored, given all partitions."""
        scope, parts = tuple(self.scope), tuple(every[number] for number in self.partitions)
        if self.factors is not None:
            sized = zip(self.factors, parts, strict=True)
            factors = tuple(factor.over(part.size) for factor, part in sized)
            heights = np.array(self.heights or [], dtype=np.int64)
            shape = [factor.shape[0] for factor in factors]
            return Products(scope, parts, 0, None, factors, heights.reshape(shape))
        if self.matrix is None:
            return Rows(scope, parts, self.weight or 0)
        return Rows(scope, parts, 0, self.matrix.over(Rows(scope, parts).size))


def stored_fields(rows: Rows, numbers: Mapping[Partition, int]) -> dict[str, Any]:
    """Return the fields of `StoredRows` for some rows, given the numbers of partitions."""
    fields: dict[str, Any] = {
        "scope": list(rows.scope),
        "partitions": [numbers[part] for part in rows.parts],
    }
    if isinstance(rows, Products):
        fields["factors"] = [StoredMatrix.of(factor) for factor in rows.factors]
        fields["heights"] = [int(height) for height in rows.heights.reshape(-1)]
    elif rows.given is None:
        fields["weight"] = int(rows.weight)
    else:
        fields["matrix"] = StoredMatrix.of(rows.given)
    return fields

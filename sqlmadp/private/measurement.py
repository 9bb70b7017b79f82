"""The measurement: noisy strategy answers, and all that is needed to read them.

It is public, and the only thing that a release learns about the table.  It is stored as
text (JSON, lists of integers) that an auditor can read; decoding and encoding it again gives
the same bytes.  Every partition is stored once, as runs (see `runs`), and every block with the
scale of its own noise.  Ledgers of the first format, with one scale for all blocks, are read too.

Guarantee  Holds noisy answers and public figures, never sums, exact answers or noise.
Requires   Made by `measure`, or decoded from a ledger.
Numerics   Integers as they are; a noise scale as the shortest decimal that reads back as
           the same floating-point number; epsilon and grains as fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.private.runs import Run, affine_runs, from_runs
from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows

FEW_ENTRIES = 2**16
"""Write out products of the first format while they have at most this many
entries."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """Noisy answers to the rows of blocks; public."""

    release: str
    """What was asked, as a hash; one measurement is ever recorded for it."""
    blocks: tuple[Rows, ...]
    values: tuple[NDArray[np.int64], ...]
    """What was measured: whole numbers, in units of the block's grain."""
    grains: tuple[Fraction, ...]
    """The answer to a row that one whole number of a block's values stands for."""
    scales: tuple[float, ...]
    """The noise scale of every block: its values have discrete Laplace noise of this scale."""
    epsilon: Fraction
    sensitivity: int
    metadata: Mapping[str, Any]
    """What the caller stored beside it: plain JSON values, not looked into here."""

    @property
    def answers(self) -> tuple[NDArray[np.float64], ...]:
        """Noisy answers to the rows of the blocks, all with noise of one scale, `scale`."""
        pairs = zip(self.values, self.grains, strict=True)
        return tuple(
            values.astype(np.float64) * grain.numerator / grain.denominator
            for values, grain in pairs
        )

    @property
    def scale(self) -> float:
        """The noise scale of the answers: equal for all blocks, but for rounding upwards."""
        pairs = zip(self.scales, self.grains, strict=True)
        return max(scale * grain.numerator / grain.denominator for scale, grain in pairs)

    def encode(self) -> bytes:
        """Return the measurement as JSON."""
        parts = _Parts()
        blocks = [
            _stored(block, parts, values, grain, scale)
            for block, values, grain, scale in zip(
                self.blocks, self.values, self.grains, self.scales, strict=True
            )
        ]
        return msgspec.json.encode(
            _StoredMeasurement(
                format=2,
                release=self.release,
                epsilon=str(self.epsilon),
                sensitivity=self.sensitivity,
                metadata=dict(self.metadata),
                partitions=parts.stored,
                blocks=blocks,
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Measurement:
        """Return the measurement that was encoded as ``data``."""
        stored: _StoredMeasurement | _FirstMeasurement
        if msgspec.json.decode(data, type=_Format).format == 1:
            stored = msgspec.json.decode(data, type=_FirstMeasurement)
            blocks = tuple(_first_block(block) for block in stored.blocks)
            grains = (Fraction(1),) * len(blocks)
            scales = (stored.scale,) * len(blocks)
        else:
            stored = msgspec.json.decode(data, type=_StoredMeasurement)
            parts = [_partition(part) for part in stored.partitions]
            blocks = tuple(_block(block, parts) for block in stored.blocks)
            grains = tuple(Fraction(block.grain) for block in stored.blocks)
            scales = tuple(block.scale for block in stored.blocks)
        return cls(
            release=stored.release,
            blocks=blocks,
            values=tuple(_read_only(block.values) for block in stored.blocks),
            grains=grains,
            scales=scales,
            epsilon=Fraction(stored.epsilon),
            sensitivity=stored.sensitivity,
            metadata=stored.metadata,
        )


class _Format(msgspec.Struct):
    format: int = 1


class _StoredPartition(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Runs of numbers: how many, the first, and by how much each exceeds the one before."""

    pieces: list[Run]
    """The piece of every cell."""
    steps: list[Run]
    """How far along its piece every cell lies."""
    degrees: list[Run]
    """The degree of every piece."""
    unit: int
    """Steps from one end of a piece to the other."""


class _StoredMatrix(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    row_starts: list[int]
    columns: list[int]
    entries: list[int]
    """Row by row: row i has entries[row_starts[i]:row_starts[i + 1]]."""


class _StoredBlock(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    scope: list[str]
    partitions: list[int]
    """Numbers of the measurement's partitions, one per column of the scope."""
    weight: int | None = None
    """Every vertex alone, with this weight."""
    matrix: _StoredMatrix | None = None
    """Otherwise: one column per vertex of the scope."""
    factors: list[_StoredMatrix] | None = None
    """Of products, instead of the matrix: one per column of the scope."""
    heights: list[int] | None = None
    """Of products: one per product of factor rows, row-major; 0: not measured."""
    grain: str
    scale: float
    values: list[int]


class _StoredMeasurement(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    format: Literal[2]
    release: str
    epsilon: str
    sensitivity: int
    metadata: dict[str, Any]
    partitions: list[_StoredPartition]
    blocks: list[_StoredBlock]


class _FirstBlock(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """As the first format has it: the group of every cell, and the matrix over groups."""

    scope: list[str]
    partitions: list[list[int]]
    row_starts: list[int] | None = None
    columns: list[int] | None = None
    entries: list[int] | None = None
    factors: list[_StoredMatrix] | None = None
    heights: list[int] | None = None
    values: list[int]


class _FirstMeasurement(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    release: str
    epsilon: str
    sensitivity: int
    scale: float
    metadata: dict[str, Any]
    blocks: list[_FirstBlock]


class _Parts:
    """The partitions of a measurement, each stored once."""

    def __init__(self) -> None:
        self.stored: list[_StoredPartition] = []
        self._numbers: dict[Partition, int] = {}

    def number(self, part: Partition) -> int:
        """Return the number of a partition, which is stored if it is new."""
        if part not in self._numbers:
            self._numbers[part] = len(self.stored)
            self.stored.append(
                _StoredPartition(
                    pieces=affine_runs(part.pieces),
                    steps=affine_runs(part.steps),
                    degrees=affine_runs(part.degrees),
                    unit=part.unit,
                )
            )
        return self._numbers[part]


def _stored(
    block: Rows, parts: _Parts, values: NDArray[np.int64], grain: Fraction, scale: float
) -> _StoredBlock:
    stored = _StoredBlock(
        scope=list(block.scope),
        partitions=[parts.number(part) for part in block.parts],
        grain=str(grain),
        scale=scale,
        values=values.tolist(),
    )
    if isinstance(block, Products):
        stored.factors = [_stored_matrix(factor) for factor in block.factors]
        stored.heights = [int(height) for height in block.heights.reshape(-1)]
    elif block.given is None:
        stored.weight = int(block.weight)
    else:
        stored.matrix = _stored_matrix(block.given)
    return stored


def _stored_matrix(matrix: sparse.csr_array) -> _StoredMatrix:
    return _StoredMatrix(
        row_starts=matrix.indptr.tolist(),
        columns=matrix.indices.tolist(),
        entries=matrix.data.tolist(),
    )


def _partition(stored: _StoredPartition) -> Partition:
    return Partition(
        from_runs(stored.pieces), from_runs(stored.steps), from_runs(stored.degrees), stored.unit
    )


def _block(stored: _StoredBlock, every: list[Partition]) -> Rows:
    scope, parts = tuple(stored.scope), tuple(every[number] for number in stored.partitions)
    if stored.factors is not None:
        return _products(scope, parts, stored.factors, stored.heights or [])
    if stored.matrix is None:
        return Rows(scope, parts, stored.weight or 0)
    return Rows(scope, parts, 0, _matrix(stored.matrix, Rows(scope, parts).size))


def _first_block(stored: _FirstBlock) -> Rows:
    scope = tuple(stored.scope)
    parts = tuple(Partition.flat(_read_only(labels)) for labels in stored.partitions)
    size = Rows(scope, parts).size
    if stored.factors is None:
        matrix = _StoredMatrix(
            row_starts=stored.row_starts or [0],
            columns=stored.columns or [],
            entries=stored.entries or [],
        )
        return Rows.of(scope, parts, _matrix(matrix, size))
    block = _products(scope, parts, stored.factors, stored.heights or [])
    return block if block.count * size > FEW_ENTRIES else Rows.of(scope, parts, block.matrix)


def _products(
    scope: tuple[str, ...],
    parts: tuple[Partition, ...],
    stored: list[_StoredMatrix],
    heights: list[int],
) -> Products:
    factors = tuple(_matrix(each, part.size) for each, part in zip(stored, parts, strict=True))
    shape = tuple(factor.shape[0] for factor in factors)
    return Products(scope, parts, 0, None, factors, _read_only(heights).reshape(shape))


def _matrix(stored: _StoredMatrix, size: int) -> sparse.csr_array:
    return sparse.csr_array(
        (np.array(stored.entries, dtype=np.int64), stored.columns, stored.row_starts),
        shape=(len(stored.row_starts) - 1, size),
    )


def _read_only(numbers: list[int]) -> NDArray[np.int64]:
    array = np.array(numbers, dtype=np.int64)
    array.flags.writeable = False
    return array

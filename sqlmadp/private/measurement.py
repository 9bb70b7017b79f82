"""The measurement: noisy strategy answers, and all that is needed to read them.

It is public, and the only thing that a release learns about the table.  It is stored as
text (JSON, lists of integers) that an auditor can read; decoding and encoding it again gives
the same bytes.  Every partition is stored once, as runs of a straight line, and every block with
the scale of its own noise.  The first ledgers stored the group of every cell in place of
partitions, and one scale for all blocks: `_second_format` rewrites these.

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

from sqlmadp.table.partition import Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows
from sqlmadp.table.runs import Run, affine_runs, from_runs


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
        numbers: dict[Partition, int] = {}
        for part in (part for block in self.blocks for part in block.parts):
            numbers.setdefault(part, len(numbers))
        blocks = []
        for place, block in enumerate(self.blocks):
            stored = _StoredBlock(
                scope=list(block.scope),
                partitions=[numbers[part] for part in block.parts],
                grain=str(self.grains[place]),
                scale=self.scales[place],
                values=self.values[place].tolist(),
            )
            if isinstance(block, Products):
                stored.factors = [_StoredMatrix.of(factor) for factor in block.factors]
                stored.heights = [int(height) for height in block.heights.reshape(-1)]
            elif block.given is None:
                stored.weight = int(block.weight)
            else:
                stored.matrix = _StoredMatrix.of(block.given)
            blocks.append(stored)
        return msgspec.json.encode(
            _StoredMeasurement(
                format=2,
                release=self.release,
                epsilon=str(self.epsilon),
                sensitivity=self.sensitivity,
                metadata=dict(self.metadata),
                partitions=[_StoredPartition.of(part) for part in numbers],
                blocks=blocks,
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Measurement:
        """Return the measurement that was encoded as ``data``."""
        given = msgspec.json.decode(data)
        if given.get("format", 1) == 1:
            given = _second_format(given)
        stored = msgspec.convert(given, _StoredMeasurement)
        parts = [part.partition for part in stored.partitions]
        return cls(
            release=stored.release,
            blocks=tuple(block.rows(parts) for block in stored.blocks),
            values=tuple(_read_only(block.values) for block in stored.blocks),
            grains=tuple(Fraction(block.grain) for block in stored.blocks),
            scales=tuple(block.scale for block in stored.blocks),
            epsilon=Fraction(stored.epsilon),
            sensitivity=stored.sensitivity,
            metadata=stored.metadata,
        )


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

    @classmethod
    def of(cls, part: Partition) -> _StoredPartition:
        pieces, steps, degrees = map(affine_runs, (part.pieces, part.steps, part.degrees))
        return cls(pieces=pieces, steps=steps, degrees=degrees, unit=part.unit)

    @property
    def partition(self) -> Partition:
        pieces, steps, degrees = map(from_runs, (self.pieces, self.steps, self.degrees))
        return Partition(pieces, steps, degrees, self.unit)


class _StoredMatrix(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    row_starts: list[int]
    columns: list[int]
    entries: list[int]
    """Row by row: row i has entries[row_starts[i]:row_starts[i + 1]]."""

    @classmethod
    def of(cls, matrix: sparse.csr_array) -> _StoredMatrix:
        starts, columns, entries = matrix.indptr, matrix.indices, matrix.data
        return cls(row_starts=starts.tolist(), columns=columns.tolist(), entries=entries.tolist())

    def over(self, size: int) -> sparse.csr_array:
        entries = np.array(self.entries, dtype=np.int64)
        shape = len(self.row_starts) - 1, size
        return sparse.csr_array((entries, self.columns, self.row_starts), shape=shape)


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

    def rows(self, every: list[Partition]) -> Rows:
        scope, parts = tuple(self.scope), tuple(every[number] for number in self.partitions)
        if self.factors is not None:
            sized = zip(self.factors, parts, strict=True)
            factors = tuple(factor.over(part.size) for factor, part in sized)
            heights = _read_only(self.heights or []).reshape([f.shape[0] for f in factors])
            return Products(scope, parts, 0, None, factors, heights)
        if self.matrix is None:
            return Rows(scope, parts, self.weight or 0)
        return Rows(scope, parts, 0, self.matrix.over(Rows(scope, parts).size))


class _StoredMeasurement(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    format: Literal[2]
    release: str
    epsilon: str
    sensitivity: int
    metadata: dict[str, Any]
    partitions: list[_StoredPartition]
    blocks: list[_StoredBlock]


def _second_format(first: dict[str, Any]) -> dict[str, Any]:
    """Return a measurement of the first format as one of the second, none of it changed."""
    scale = first.pop("scale")
    partitions: list[Any] = []
    blocks = []
    for block in first.pop("blocks"):
        flat = [Partition.flat(np.array(labels)) for labels in block.pop("partitions")]
        numbers = [len(partitions) + place for place in range(len(flat))]
        partitions += [msgspec.to_builtins(_StoredPartition.of(part)) for part in flat]
        if "factors" not in block:
            block["matrix"] = {name: block.pop(name) for name in _StoredMatrix.__struct_fields__}
        blocks.append({**block, "partitions": numbers, "grain": "1", "scale": scale})
    return {**first, "format": 2, "partitions": partitions, "blocks": blocks}


def _read_only(numbers: list[int]) -> NDArray[np.int64]:
    array = np.array(numbers, dtype=np.int64)
    array.flags.writeable = False
    return array

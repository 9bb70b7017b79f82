"""The measurement: noisy strategy answers, and all that is needed to read them.

It is public, and the only thing that a release learns about the table.  It is stored as text (JSON,
lists of integers; see `table.stored`) that an auditor can read; decoding and encoding it again
gives the same bytes.  The first ledgers stored the group of every cell in place of partitions, and
one scale for all blocks: `_second_format` rewrites these.

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

from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows
from sqlmadp.table.stored import StoredMatrix, StoredPartition, StoredRows, stored_fields


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """Noisy answers to the rows of blocks; public."""

    release: str
    """What was asked, as a hash; one measurement is ever recorded for it."""
    blocks: tuple[Rows, ...]
    values: tuple[NDArray[np.int64], ...]
    """What was measured: whole numbers, in units of the block's grain."""
    grains: tuple[Fraction, ...]
    """The answer to a row that one whole number of a block's values is worth."""
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
        blocks = [
            _StoredBlock(
                **stored_fields(block, numbers),
                grain=str(grain),
                scale=scale,
                values=values.tolist(),
            )
            for block, grain, scale, values in zip(
                self.blocks, self.grains, self.scales, self.values, strict=True
            )
        ]
        return msgspec.json.encode(
            _StoredMeasurement(
                format=2,
                release=self.release,
                epsilon=str(self.epsilon),
                sensitivity=self.sensitivity,
                metadata=dict(self.metadata),
                partitions=[StoredPartition.of(part) for part in numbers],
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


class _StoredBlock(StoredRows, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    grain: str
    scale: float
    values: list[int]


class _StoredMeasurement(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    format: Literal[2]
    release: str
    epsilon: str
    sensitivity: int
    metadata: dict[str, Any]
    partitions: list[StoredPartition]
    blocks: list[_StoredBlock]


def _second_format(first: dict[str, Any]) -> dict[str, Any]:
    """Return a measurement of the first format as one of the second, none of it changed."""
    scale = first.pop("scale")
    partitions: list[Any] = []
    blocks = []
    for block in first.pop("blocks"):
        flat = [Partition.flat(np.array(labels)) for labels in block.pop("partitions")]
        numbers = [len(partitions) + place for place in range(len(flat))]
        partitions += [msgspec.to_builtins(StoredPartition.of(part)) for part in flat]
        if "factors" not in block:
            block["matrix"] = {name: block.pop(name) for name in StoredMatrix.__struct_fields__}
        blocks.append({**block, "partitions": numbers, "grain": "1", "scale": scale})
    return {**first, "format": 2, "partitions": partitions, "blocks": blocks}


def _read_only(numbers: list[int]) -> NDArray[np.int64]:
    array = np.array(numbers, dtype=np.int64)
    array.flags.writeable = False
    return array

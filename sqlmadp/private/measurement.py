"""The measurement: noisy strategy answers, and all that is needed to read them.

It is public, and the only thing that a release learns about the table.  It is stored as
text (JSON, lists of integers) that an auditor can read; decoding and encoding it again gives
the same bytes.

Guarantee  Holds noisy answers and public figures, never counts, exact answers or noise.
Requires   Made by `measure`, or decoded from a ledger.
Numerics   Integers as they are; the noise scale as the shortest decimal that reads back as
           the same floating-point number; epsilon as a fraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.schema.marginal import Block, Marginal, Partition


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """Noisy answers ``values[b]`` to the rows of ``blocks[b]``; public."""

    release: str
    """What was asked, as a hash; one measurement is ever recorded for it."""
    blocks: tuple[Block, ...]
    values: tuple[NDArray[np.int64], ...]
    epsilon: Fraction
    sensitivity: int
    scale: float
    """The noise scale: every value has discrete Laplace noise of this scale."""
    metadata: Mapping[str, Any]
    """What the caller stored beside it: plain JSON values, not looked into here."""

    def encode(self) -> bytes:
        """Return the measurement as JSON."""
        return msgspec.json.encode(
            _StoredMeasurement(
                release=self.release,
                epsilon=str(self.epsilon),
                sensitivity=self.sensitivity,
                scale=self.scale,
                metadata=dict(self.metadata),
                blocks=[
                    _stored(block, values)
                    for block, values in zip(self.blocks, self.values, strict=True)
                ],
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Measurement:
        """Return the measurement that was encoded as ``data``."""
        stored = msgspec.json.decode(data, type=_StoredMeasurement)
        return cls(
            release=stored.release,
            blocks=tuple(_block(block) for block in stored.blocks),
            values=tuple(_read_only(block.values) for block in stored.blocks),
            epsilon=Fraction(stored.epsilon),
            sensitivity=stored.sensitivity,
            scale=stored.scale,
            metadata=stored.metadata,
        )


class _StoredMatrix(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    row_starts: list[int]
    columns: list[int]
    entries: list[int]
    """Row by row: row i has entries[row_starts[i]:row_starts[i + 1]]."""


class _StoredBlock(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    scope: list[str]
    partitions: list[list[int]]
    """The group of every cell, one list a column of the scope."""
    row_starts: list[int] | None = None
    columns: list[int] | None = None
    entries: list[int] | None = None
    """The matrix, row by row: row i has entries[row_starts[i]:row_starts[i + 1]]."""
    factors: list[_StoredMatrix] | None = None
    """Of a Kronecker block, instead of the matrix: one a column of the scope."""
    heights: list[int] | None = None
    """Of a Kronecker block: one a product of factor rows, in row-major order; 0: not measured."""
    values: list[int]


class _StoredMeasurement(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    release: str
    epsilon: str
    sensitivity: int
    scale: float
    metadata: dict[str, Any]
    blocks: list[_StoredBlock]


def _stored(block: Block, values: NDArray[np.int64]) -> _StoredBlock:
    if isinstance(block, KroneckerBlock):
        return _StoredBlock(
            scope=list(block.marginal.scope),
            partitions=[partition.labels.tolist() for partition in block.marginal.partitions],
            factors=[_stored_matrix(factor) for factor in block.factors],
            heights=[int(height) for height in block.heights.reshape(-1)],
            values=values.tolist(),
        )
    return _StoredBlock(
        scope=list(block.marginal.scope),
        partitions=[partition.labels.tolist() for partition in block.marginal.partitions],
        row_starts=block.matrix.indptr.tolist(),
        columns=block.matrix.indices.tolist(),
        entries=block.matrix.data.tolist(),
        values=values.tolist(),
    )


def _stored_matrix(matrix: sparse.csr_array) -> _StoredMatrix:
    return _StoredMatrix(
        row_starts=matrix.indptr.tolist(),
        columns=matrix.indices.tolist(),
        entries=matrix.data.tolist(),
    )


def _block(stored: _StoredBlock) -> Block:
    marginal = Marginal(
        tuple(stored.scope),
        tuple(Partition(_read_only(labels)) for labels in stored.partitions),
    )
    if stored.factors is not None:
        pairs = zip(stored.factors, marginal.shape, strict=True)
        factors = [_matrix(f.entries, f.columns, f.row_starts, groups) for f, groups in pairs]
        heights = _read_only(stored.heights or [])
        shape = tuple(factor.shape[0] for factor in factors)
        return KroneckerBlock(marginal, factors, heights.reshape(shape))
    parts = (stored.entries or [], stored.columns or [], stored.row_starts or [0])
    return Block(marginal, _matrix(*parts, marginal.size))


def _matrix(
    entries: list[int], columns: list[int], row_starts: list[int], size: int
) -> sparse.csr_array:
    return sparse.csr_array(
        (np.array(entries, dtype=np.int64), columns, row_starts),
        shape=(len(row_starts) - 1, size),
    )


def _read_only(numbers: list[int]) -> NDArray[np.int64]:
    array = np.array(numbers, dtype=np.int64)
    array.flags.writeable = False
    return array

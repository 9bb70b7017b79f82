"""The cache of selected strategies on disk, one file a workload fingerprint.

Strategies are public and depend on nothing but the workload, so the cache may be shared and
deleted at will.  Files are written aside and moved into place, so a killed process leaves
no half a file.  A file starts with the hash of the rest; one that cannot be read, or whose
hash differs, counts as absent.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.schema.marginal import Block, CellBlock, Labels, Marginal, Partition

VERSION = 8
"""Part of every file's name: raised whenever selection changes, so that old files are ignored."""

DIGEST_BYTES = hashlib.sha256().digest_size


def default_directory() -> Path:
    """Return where strategies are kept: ``$SQLMADP_CACHE``, or the user's cache directory."""
    if named := os.environ.get("SQLMADP_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sqlmadp"


@dataclass(frozen=True)
class StrategyCache:
    """Strategies on disk, found by workload fingerprint."""

    directory: Path

    def _path(self, fingerprint: str) -> Path:
        return self.directory / f"strategy-{VERSION}-{fingerprint}.npz"

    def load(self, fingerprint: str) -> tuple[tuple[Block, ...], float, int] | None:
        """Return the stored blocks, their certified error and what columns sum to, or None."""
        try:
            content = self._path(fingerprint).read_bytes()
        except OSError:
            return None
        digest, archive = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if hashlib.sha256(archive).digest() != digest:
            return None
        with np.load(BytesIO(archive), allow_pickle=False) as file:
            return tuple(unpacked(file)), float(file["error"]), int(file["total"])

    def save(self, fingerprint: str, blocks: Sequence[Block], error: float, total: int) -> None:
        """Store a strategy; a directory that cannot be written to is no reason to fail."""
        arrays = packed(blocks) | {"error": np.float64(error), "total": np.int64(total)}
        content = BytesIO()
        np.savez_compressed(content, **arrays)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.directory) as aside:
                file = Path(aside) / "strategy"
                file.write_bytes(hashlib.sha256(content.getvalue()).digest() + content.getvalue())
                file.replace(self._path(fingerprint))
        except OSError:
            return

    def forget(self, fingerprints: Iterable[str]) -> None:
        """Remove what is stored for some fingerprints, if there is anything."""
        for fingerprint in fingerprints:
            with suppress(OSError):
                self._path(fingerprint).unlink(missing_ok=True)


def packed(blocks: Sequence[Block]) -> dict[str, Any]:
    """Return blocks as a few arrays, however many there are: lists one after the other."""
    names = sorted({name for block in blocks for name in block.marginal.scope})
    columns = {name: number for number, name in enumerate(names)}
    partitions: dict[Partition, int] = {}
    scopes, weights, heights = [], [], []
    matrices: list[sparse.csr_array] = []
    for block in blocks:
        pairs = zip(block.marginal.scope, block.marginal.partitions, strict=True)
        scopes.append([(columns[n], partitions.setdefault(p, len(partitions))) for n, p in pairs])
        weights.append(block.weight if isinstance(block, CellBlock) else 0)
        none = np.zeros(0, dtype=np.int64)
        heights.append(block.heights if isinstance(block, KroneckerBlock) else none)
        if isinstance(block, KroneckerBlock):
            matrices.extend(block.factors)
        elif not isinstance(block, CellBlock):
            matrices.append(block.matrix)
    return {
        "names": np.array(names, dtype=np.str_),
        "labels": _joined([p.labels for p in partitions]),
        "label_ends": _ends([len(p.labels) for p in partitions]),
        "scopes": np.array([pair for s in scopes for pair in s], dtype=np.int64).reshape(-1, 2),
        "scope_ends": _ends([len(scope) for scope in scopes]),
        "weights": np.array(weights),
        "heights": _joined([each.reshape(-1) for each in heights]),
        "height_ends": _ends([each.size for each in heights]),
        "data": np.concatenate([np.zeros(0, dtype=np.int64), *(m.data for m in matrices)]),
        "indices": _joined([matrix.indices for matrix in matrices]),
        "data_ends": _ends([matrix.nnz for matrix in matrices]),
        "row_lengths": _joined([np.diff(matrix.indptr) for matrix in matrices]),
        "row_ends": _ends([matrix.shape[0] for matrix in matrices]),
    }


def unpacked(file: Any) -> Iterator[Block]:
    """Yield the blocks of a file."""
    names = [str(name) for name in file["names"]]
    partitions = [Partition(part) for part in _split(file["labels"], file["label_ends"])]
    data, indices = (_split(file[name], file["data_ends"]) for name in ("data", "indices"))
    parts = zip(data, indices, _split(file["row_lengths"], file["row_ends"]), strict=True)
    scopes = _split(file["scopes"], file["scope_ends"])
    heights = _split(file["heights"], file["height_ends"])
    for pairs, weight, own in zip(scopes, file["weights"], heights, strict=True):
        scope = tuple(names[column] for column, _ in pairs)
        marginal = Marginal(scope, tuple(partitions[number] for _, number in pairs))
        if weight:
            yield CellBlock(marginal, weight.item())
            continue
        if len(own):
            factors = [_matrix(*next(parts), size) for size in marginal.shape]
            shape = tuple(factor.shape[0] for factor in factors)
            yield KroneckerBlock(marginal, factors, own.reshape(shape))
        else:
            yield Block(marginal, _matrix(*next(parts), marginal.size))


def _matrix(values: NDArray[Any], places: Labels, lengths: Labels, size: int) -> sparse.csr_array:
    parts = (values, places, np.concatenate([[0], np.cumsum(lengths)]))
    return sparse.csr_array(parts, shape=(len(lengths), size))


def _joined(arrays: Sequence[Any]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays]).astype(np.int64)


def _ends(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.cumsum(lengths, dtype=np.int64)


def _split(joined: NDArray[Any], ends: NDArray[np.int64]) -> list[NDArray[Any]]:
    return [joined[start:end] for start, end in itertools.pairwise([0, *ends])]

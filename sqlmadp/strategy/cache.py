"""The cache of selected strategies on disk, one file a workload fingerprint.

Strategies are public and depend on nothing but the workload, so the cache may be shared and
deleted at will.  Files are written aside and moved into place, so a killed process leaves
no half a file.  A file starts with the hash of the rest; one that cannot be read, or whose
hash differs, counts as absent.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from sqlmadp.schema.marginal import Block, Marginal, Partition

VERSION = 3
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

    def load(self, fingerprint: str) -> tuple[tuple[Block, ...], float] | None:
        """Return the stored blocks and their certified error, or None."""
        try:
            content = self._path(fingerprint).read_bytes()
        except OSError:
            return None
        digest, packed = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if hashlib.sha256(packed).digest() != digest:
            return None
        with np.load(BytesIO(packed), allow_pickle=False) as file:
            blocks = tuple(_unpack(file, b) for b in range(int(file["count"])))
            return blocks, float(file["error"])

    def save(self, fingerprint: str, blocks: Sequence[Block], error: float) -> None:
        """Store a strategy; a directory that cannot be written to is no reason to fail."""
        arrays: dict[str, Any] = {"count": np.int64(len(blocks)), "error": np.float64(error)}
        for b, block in enumerate(blocks):
            arrays |= _pack(block, b)
        packed = BytesIO()
        np.savez_compressed(packed, **arrays)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.directory) as aside:
                file = Path(aside) / "strategy"
                file.write_bytes(hashlib.sha256(packed.getvalue()).digest() + packed.getvalue())
                file.replace(self._path(fingerprint))
        except OSError:
            return


def _pack(block: Block, number: int) -> dict[str, Any]:
    names = np.array(block.marginal.scope, dtype=np.str_)
    labels = {f"{number}.labels.{i}": p.labels for i, p in enumerate(block.marginal.partitions)}
    return labels | {
        f"{number}.scope": names,
        f"{number}.data": block.matrix.data,
        f"{number}.indices": block.matrix.indices,
        f"{number}.indptr": block.matrix.indptr,
        f"{number}.shape": np.array(block.matrix.shape),
    }


def _unpack(file: Any, number: int) -> Block:
    scope = tuple(str(name) for name in file[f"{number}.scope"])
    partitions = tuple(Partition(file[f"{number}.labels.{i}"]) for i in range(len(scope)))
    parts = (file[f"{number}.data"], file[f"{number}.indices"], file[f"{number}.indptr"])
    matrix = sparse.csr_array(parts, shape=tuple(file[f"{number}.shape"]))
    matrix.sum_duplicates()
    return Block(Marginal(scope, partitions), matrix)

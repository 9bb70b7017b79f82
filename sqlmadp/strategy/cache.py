"""The cache of selected strategies on disk, one file per workload fingerprint.

Strategies are public and depend on nothing but the workload, so the cache may be shared and
deleted at will.  Files are written aside and moved into place, so a killed process leaves
no half a file.

Nothing in a file is believed.  It holds numbers and names of columns, in a format that can neither
run anything nor ask for more memory than `MOST_BYTES`; every list is checked to be of the right
type and length before it is used; and then the strategy itself is checked against the workload:
integers whose columns all sum to ``total``, and the error that they have.  What does not pass
counts as absent, and is searched for and written anew.
"""

from __future__ import annotations

import itertools
import math
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.schema.kronecker import KroneckerBlock, along
from sqlmadp.schema.marginal import Block, CellBlock, Labels, Marginal, Partition
from sqlmadp.workload.solver import solver_for
from sqlmadp.workload.workload import Workload

VERSION = 9
"""Part of every file's name: raised whenever selection changes, so that old files are ignored."""

MOST_BYTES = 2**30
"""Ignore a file that would take more memory than this."""
MOST_CELLS = 2**27
"""Ignore a block over more cells than this, unless it measures each of them alone."""
CLOSE = 1e-6
"""The stored error is used while it differs from the recomputed one by at most this part.

It was worked out in another order of operations, and the same workload must give the same number,
stored or not.
"""

Stored = tuple[tuple[Block, ...], float, int]
"""The blocks of a strategy, its certified error and what its columns sum to."""


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
        return self.directory / f"strategy-{VERSION}-{fingerprint}"

    def load(self, fingerprint: str, workload: Workload) -> Stored | None:
        """Return what is stored under a fingerprint if it is a sound strategy, or None."""
        try:
            arrays = _decoded(self._path(fingerprint).read_bytes())
            error, total = float(arrays["error"][0]), int(arrays["total"][0])
            blocks = tuple(unpacked(arrays))
            sound = is_sound(blocks, error, total, workload)
        except Exception:  # Whatever is wrong with it: nothing is lost by searching anew.
            return None
        return (blocks, error, total) if sound else None

    def save(self, fingerprint: str, blocks: Sequence[Block], error: float, total: int) -> None:
        """Store a strategy; a directory that cannot be written to is no reason to fail."""
        arrays = packed(blocks) | {"error": np.array([error]), "total": np.array([total])}
        if any(array.dtype.kind not in "Ui" for name, array in arrays.items() if name != "error"):
            return
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.directory) as aside:
                file = Path(aside) / "strategy"
                file.write_bytes(_encoded(arrays))
                file.replace(self._path(fingerprint))
        except OSError:
            return

    def forget(self, fingerprints: Iterable[str]) -> None:
        """Remove what is stored for some fingerprints, if there is anything."""
        for fingerprint in fingerprints:
            with suppress(OSError):
                self._path(fingerprint).unlink(missing_ok=True)


def is_sound(blocks: Sequence[Block], error: float, total: int, workload: Workload) -> bool:
    """Return whether blocks are a strategy for a workload, with that error and column sum.

    Every cell of every column that the workload knows has its group, every entry is an integer,
    and every column of the stacked matrix sums to exactly ``total``.
    """
    cells = _cells(workload.by_scope)
    if _cells(blocks).items() - cells.items() or not _columns_sum_to(total, blocks):
        return False
    recomputed = total**2 * solver_for(blocks).total(workload.by_scope)
    return math.isclose(error, recomputed, rel_tol=CLOSE, abs_tol=CLOSE)


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


def unpacked(file: Mapping[str, Any]) -> Iterator[Block]:
    """Yield the blocks of a file; raises ValueError or IndexError if they are none."""
    names = [str(name) for name in file["names"]]
    partitions = [_partition(part) for part in _split(file["labels"], file["label_ends"])]
    data, indices = (_split(file[name], file["data_ends"]) for name in ("data", "indices"))
    parts = zip(data, indices, _split(file["row_lengths"], file["row_ends"]), strict=True)
    scopes = _split(file["scopes"].reshape(-1, 2), file["scope_ends"])
    heights = _split(file["heights"], file["height_ends"])
    for pairs, weight, own in zip(scopes, file["weights"], heights, strict=True):
        _require(pairs.size == 0 or pairs.min() >= 0)
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


class _Content(msgspec.Struct, kw_only=True):
    names: list[str]
    """Names of columns."""
    numbers: dict[str, bytes]
    """Whole numbers of 64 bits, one after the other; only the error is a floating-point number."""


def _encoded(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    names = [str(name) for name in arrays["names"]]
    numbers = {name: array.tobytes() for name, array in arrays.items() if name != "names"}
    return zlib.compress(msgspec.msgpack.encode(_Content(names=names, numbers=numbers)))


def _decoded(content: bytes) -> dict[str, Any]:
    """Return the arrays, each as long as there are bytes for it."""
    inflated = zlib.decompressobj()
    plain = inflated.decompress(content, MOST_BYTES)
    _require(inflated.eof and not inflated.unused_data)
    found = msgspec.msgpack.decode(plain, type=_Content)
    kinds = {name: "<f8" if name == "error" else "<i8" for name in found.numbers}
    arrays = {name: np.frombuffer(found.numbers[name], kinds[name]).copy() for name in kinds}
    return {"names": found.names, **arrays}


def _require(condition: object) -> None:
    if not condition:
        raise ValueError("the file holds no strategy")


def _partition(labels: Labels) -> Partition:
    """Return groups that are numbered by their first cell; no others are a partition."""
    partition = Partition.of(labels)
    _require(len(labels) and np.array_equal(partition.labels, labels))
    return partition


def _matrix(values: NDArray[Any], places: Labels, lengths: Labels, size: int) -> sparse.csr_array:
    """Return a sparse matrix; SciPy reads what places point to, so they must be inside."""
    _require(lengths.size == 0 or 0 <= lengths.min() <= lengths.max() <= len(values))
    _require(lengths.sum() == len(values) == len(places))
    _require(places.size == 0 or 0 <= places.min() <= places.max() < size)
    parts = (values, places, np.concatenate([[0], np.cumsum(lengths)]))
    matrix = sparse.csr_array(parts, shape=(len(lengths), size))
    matrix.check_format(full_check=True)
    return matrix


def _cells(blocks: Iterable[Block]) -> dict[str, int]:
    """Return the number of cells of every column; of different ones for one column, none."""
    cells: dict[str, int] = {}
    for block in blocks:
        for name, partition in zip(block.marginal.scope, block.marginal.partitions, strict=True):
            _require(cells.setdefault(name, len(partition.labels)) == len(partition.labels))
    return cells


def _columns_sum_to(total: int, blocks: Sequence[Block]) -> bool:
    """Return whether the absolute values of every column of all blocks, stacked, sum to ``total``.

    A block's sums are a function on the cells of its scope.  It is taken apart, exactly, into its
    value where every column is in its first cell, and for each set of columns the differences that
    these make together; so the sum of all functions is constant just where, for each set, the
    differences of all blocks cancel.
    """
    constant = 0
    differences: dict[tuple[str, ...], list[tuple[Marginal, NDArray[np.int64]]]] = {}
    for block in blocks:
        if isinstance(block, CellBlock):
            constant += abs(int(block.weight))
            continue
        pieces: dict[tuple[str, ...], NDArray[np.int64]] = {(): _column_sums(block)}
        for axis, name in enumerate(block.marginal.scope):
            for known, table in list(pieces.items()):
                first = table.take([0], axis=axis)
                pieces[known] = first
                pieces[(*known, name)] = table - first
        constant += int(pieces.pop(()).sum())
        for columns, table in pieces.items():
            if table.any():
                differences.setdefault(columns, []).append((block.marginal, table))
    return constant == total and not any(map(_differ, differences, differences.values()))


def _column_sums(block: Block) -> NDArray[np.int64]:
    """Return the sums of the absolute values of a block's columns, in the shape of its marginal."""
    shape = block.marginal.shape
    _require(block.marginal.size <= MOST_CELLS)
    if isinstance(block, KroneckerBlock):
        table = abs(block.heights.astype(np.int64))
        factors = [abs(factor.copy()) for factor in block.factors]
    else:
        table, factors = np.ones(block.rows, dtype=np.int64), [abs(block.matrix.copy())]
    rough = table.astype(np.float64)
    for axis, factor in enumerate(factors):
        rough = along(sparse.csr_array(factor.T.astype(np.float64)), rough, axis)
        table = along(sparse.csr_array(factor.T), table, axis)
        _require(rough.max(initial=0) < 2**62)  # So that no sum of integers goes around.
    return table.reshape(shape)


def _differ(columns: tuple[str, ...], pieces: Sequence[tuple[Marginal, NDArray[np.int64]]]) -> bool:
    """Return whether functions of the same columns add up to anything but 0."""
    placed = [dict(zip(m.scope, m.partitions, strict=True)) for m, _ in pieces]
    finest = []
    for name in columns:
        partition = placed[0][name]
        for place in placed[1:]:
            partition = partition.refine(place[name])
        finest.append(partition)
    _require(math.prod(partition.size for partition in finest) <= MOST_CELLS)
    summed = np.zeros([partition.size for partition in finest], dtype=np.int64)
    for (_, table), place in zip(pieces, placed, strict=True):
        groups = [place[n].coarsen(p) for n, p in zip(columns, finest, strict=True)]
        kept = table.reshape([place[name].size for name in columns])
        summed += kept[np.ix_(*groups)]
    return bool(summed.any())


def _joined(arrays: Sequence[Any]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *arrays]).astype(np.int64)


def _ends(lengths: Sequence[int]) -> NDArray[np.int64]:
    return np.cumsum(lengths, dtype=np.int64)


def _split(joined: NDArray[Any], ends: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Return the lists that were joined; together they must be all there is."""
    places = [0, *ends.tolist()]
    _require(places == sorted(places) and places[-1] == len(joined))
    return [joined[start:end] for start, end in itertools.pairwise(places)]

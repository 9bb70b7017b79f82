"""The cache of selected strategies on disk: one file per selection, found by its content's digest.

Strategies are public and depend on nothing but workloads, shares and the mechanism, so the cache
may be shared and deleted at will.  Files are written aside and moved into place: a killed process
leaves no half a file.

Nothing in a file is believed.  It holds whole numbers and names of columns, in a format that can
neither run anything nor take more than `MAX_BYTES`.  Every list is checked for type, length and
range, and every strategy for columns that all sum to its ``total``.  Errors are not stored: whoever
loads a strategy recomputes them from its integers, and checks with them whatever is promised.  What
does not pass counts as absent, and is searched for and written anew.
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sqlmadp.strategy.integers import Strategy
from sqlmadp.table.partition import Partition, common
from sqlmadp.table.products import Products, along_each
from sqlmadp.table.rows import Rows, Scope, lifting
from sqlmadp.table.runs import Floats, Integers, Runs

VERSION = 3
"""Part of every digest: raised whenever selection changes, so that old files are ignored."""

MAX_BYTES = 2**28
"""Ignore a file that would take more memory than this."""

MAX_SUMMED = 2**26
"""Ignore a strategy with an uneven block, or uneven blocks' common refinement, of more vertices."""

EVEN = 1e-12
"""Take column sums to be equal if they differ by at most this part: ramps are evaluated as
floating-point numbers.  Noise is scaled by the boundary's own sensitivity in any case."""


def default_directory() -> Path:
    """Return where strategies are kept: ``$SQLMADP_CACHE``, or the user's cache directory."""
    if named := os.environ.get("SQLMADP_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sqlmadp"


def digest(*content: bytes | str) -> str:
    """Return the name of what is selected for some content by this version of the selection."""
    found = hashlib.sha256(repr(VERSION).encode())
    for part in content:
        text = part.encode() if isinstance(part, str) else part
        found.update(len(text).to_bytes(8, "big") + text)
    return found.hexdigest()


@dataclass(frozen=True, eq=False)
class Entry:
    """Strategies that were chosen together, and words that say what they are."""

    strategies: tuple[Strategy, ...]
    """Their errors are unknown."""
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class StrategyCache:
    """Strategies on disk, found by digest."""

    directory: Path

    def path(self, name: str) -> Path:
        """Return the file of a digest."""
        return self.directory / f"strategy-{name}"

    def load(self, name: str, columns: Mapping[str, int]) -> Entry | None:
        """Return the entry stored under a digest if all of it is sound, or None.

        ``columns``: the number of values of every column that strategies may be about.
        """
        try:
            return _decoded(self.path(name).read_bytes(), columns)
        except Exception:  # Whatever is wrong with it: nothing is lost by searching anew.
            return None

    def save(self, name: str, entry: Entry) -> None:
        """Store strategies; a directory that cannot be written to is no reason to fail."""
        try:
            content = _encoded(entry)
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.directory) as aside:
                file = Path(aside) / "strategy"
                file.write_bytes(content)
                file.replace(self.path(name))
        except (OSError, OverflowError):  # Numbers of more than 64 bits are not stored.
            return


# The format: one structure of whole numbers; arrays are little-endian numbers of 64 bits.


class _Partition(msgspec.Struct, array_like=True):
    starts: bytes
    pieces: bytes
    steps: bytes
    slopes: bytes
    """Of every run."""
    degrees: bytes
    values: int
    unit: int


class _Matrix(msgspec.Struct, array_like=True):
    values: bytes
    places: bytes
    lengths: bytes
    """Of every row."""


class _Rows(msgspec.Struct, array_like=True):
    scope: list[int]
    parts: list[int]
    weight: int = 0
    matrices: list[_Matrix] = []
    """None: every vertex alone.  One: rows.  One per column, with heights: products."""
    heights: bytes = b""


class _Strategy(msgspec.Struct, array_like=True):
    total: int
    blocks: list[_Rows]


class _Content(msgspec.Struct, array_like=True):
    names: list[str]
    partitions: list[_Partition]
    strategies: list[_Strategy]
    words: list[str]


def _encoded(entry: Entry) -> bytes:
    blocks = [block for strategy in entry.strategies for block in strategy.blocks]
    names = sorted({name for block in blocks for name in block.scope})
    columns = {name: number for number, name in enumerate(names)}
    partitions: dict[bytes, tuple[int, Partition]] = {}
    strategies = []
    for strategy in entry.strategies:
        rows = []
        for block in strategy.blocks:
            for part in block.parts:
                partitions.setdefault(part.key, (len(partitions), part))
            places = [partitions[part.key][0] for part in block.parts]
            rows.append(_written([columns[name] for name in block.scope], places, block))
        strategies.append(_Strategy(strategy.total, rows))
    written = []
    for _, part in partitions.values():
        starts, pieces, steps, slopes = map(_bytes, part.runs.arrays)
        degrees = _bytes(part.degrees)
        written.append(_Partition(starts, pieces, steps, slopes, degrees, part.values, part.unit))
    content = _Content(names, written, strategies, list(entry.words))
    return zlib.compress(msgspec.msgpack.encode(content), level=1)


def _written(scope: list[int], parts: list[int], block: Rows) -> _Rows:
    if isinstance(block, Products):
        matrices = [_written_matrix(factor) for factor in block.factors]
        return _Rows(scope, parts, 0, matrices, _bytes(block.heights))
    if block.given is None:
        return _Rows(scope, parts, int(block.weight))
    return _Rows(scope, parts, 0, [_written_matrix(block.given)])


def _written_matrix(matrix: sparse.csr_array) -> _Matrix:
    return _Matrix(_bytes(matrix.data), _bytes(matrix.indices), _bytes(np.diff(matrix.indptr)))


def _bytes(numbers: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(numbers, dtype="<i8").tobytes()


def _numbers(content: bytes) -> Integers:
    return np.frombuffer(content, dtype="<i8").astype(np.int64)


def _require(condition: object) -> None:
    if not condition:
        raise ValueError("the file holds no strategy")


def _decoded(content: bytes, columns: Mapping[str, int]) -> Entry:
    inflated = zlib.decompressobj()
    plain = inflated.decompress(content, MAX_BYTES)
    _require(inflated.eof and not inflated.unused_data)
    found = msgspec.msgpack.decode(plain, type=_Content)
    partitions = [_read_partition(each) for each in found.partitions]
    strategies = []
    for each in found.strategies:
        blocks = tuple(_read(rows, found.names, partitions) for rows in each.blocks)
        for block in blocks:
            for name, part in zip(block.scope, block.parts, strict=True):
                _require(columns.get(name) == part.values)
        _require(each.total > 0 and columns_sum_to(each.total, blocks))
        strategies.append(Strategy(blocks, each.total))
    return Entry(tuple(strategies), tuple(found.words))


def _read_partition(given: _Partition) -> Partition:
    """Return pieces that are numbered by their first value; no others are a partition."""
    arrays = (given.starts, given.pieces, given.steps, given.slopes, given.degrees)
    starts, pieces, steps, slopes, degrees = map(_numbers, arrays)
    _require(len(starts) == len(pieces) == len(steps) == len(slopes) > 0)
    _require(starts[0] == 0 and (np.diff(starts, append=given.values) > 0).all())
    _require(1 <= given.unit < 2**62)
    numbers, first = np.unique(pieces, return_index=True)
    _require(np.array_equal(numbers, np.arange(len(degrees))) and (np.diff(first) > 0).all())
    _require(degrees.min() >= 0 and degrees.max() <= 2)
    runs = Runs(starts, pieces, steps, slopes, given.values)
    last = steps.astype(object) + slopes.astype(object) * (runs.lengths - 1)  # Of any size.
    _require(min(steps.min(), last.min()) >= 0 and max(steps.max(), last.max()) <= given.unit)
    flat = degrees[pieces] == 0
    _require(not (steps[flat].any() or slopes[flat].any()))
    found = Partition.of_runs(runs, degrees, given.unit)
    _require(found == Partition.of_runs(runs.longest, degrees, given.unit))
    return found


def _read(given: _Rows, names: Sequence[str], partitions: Sequence[Partition]) -> Rows:
    _require(all(number >= 0 for number in (*given.scope, *given.parts)))
    scope = tuple(names[number] for number in given.scope)
    parts = tuple(partitions[number] for number in given.parts)
    shape = [part.size for part in parts]
    if given.heights:
        _require(len(given.matrices) == len(parts) > 0)
        pairs = zip(given.matrices, shape, strict=True)
        factors = tuple(_read_matrix(each, size) for each, size in pairs)
        heights = _numbers(given.heights).reshape([factor.shape[0] for factor in factors])
        return Products(scope, parts, 0, None, factors, heights)
    if given.matrices:
        [matrix] = given.matrices
        return Rows(scope, parts, 0, _read_matrix(matrix, math.prod(shape)))
    _require(given.weight > 0)
    return Rows(scope, parts, given.weight)


def _read_matrix(given: _Matrix, size: int) -> sparse.csr_array:
    """Return a sparse matrix; SciPy reads what places point to, so they must be inside."""
    values, places, lengths = (_numbers(n) for n in (given.values, given.places, given.lengths))
    _require(lengths.size == 0 or 0 <= lengths.min() <= lengths.max() <= len(values))
    _require(lengths.sum() == len(values) == len(places))
    _require(places.size == 0 or 0 <= places.min() <= places.max() < size)
    _require(values.size == 0 or values.min() > -(2**62))
    parts = (values, places, np.concatenate([[0], np.cumsum(lengths)]))
    matrix = sparse.csr_array(parts, shape=(len(lengths), size))
    matrix.check_format(full_check=True)
    return matrix


def columns_sum_to(total: int, blocks: Sequence[Rows]) -> bool:
    """Return whether the absolute values of every column of all blocks, stacked, sum to ``total``.

    A block's sums are a function on its scope.  It is taken apart into its value where every column
    has its first value, and for each set of columns the differences that these make together; so
    the sum of all functions is constant just where, for each set, the differences cancel.
    """
    constant = 0.0
    differences: dict[Scope, list[tuple[list[Partition], Floats]]] = {}
    for block in blocks:
        if block.plain:
            constant += float(block.weight)
            continue
        sums = _column_sums(block)
        if (sums == sums.flat[0]).all():
            constant += float(sums.flat[0])
            continue
        pieces: dict[Scope, Floats] = {(): sums}
        parts = dict(zip(block.scope, block.parts, strict=True))
        for axis, name in enumerate(block.scope):
            at_first = parts[name].functions_at(np.zeros(1, np.int64)).toarray()[:, 0]
            for known, table in list(pieces.items()):
                first = np.expand_dims(np.tensordot(table, at_first, (axis, 0)), axis)
                pieces[known] = first
                pieces[(*known, name)] = table - first
        constant += float(pieces.pop(()).sum())
        for names, table in pieces.items():
            if table.any():
                differences.setdefault(names, []).append(([parts[n] for n in names], table))
    return abs(constant - total) <= EVEN * total and all(
        _cancel(names, own, EVEN * total) for names, own in differences.items()
    )


def _column_sums(block: Rows) -> Floats:
    _require(block.size <= MAX_SUMMED)
    if isinstance(block, Products):
        factors = [sparse.csr_array(abs(f.astype(np.float64)).T) for f in block.factors]
        sums = along_each(abs(block.heights.astype(np.float64))[None], factors)
    else:
        sums = np.asarray(abs(block.matrix.astype(np.float64)).sum(axis=0))
    _require(sums.max(initial=0) < 2**62)
    return np.asarray(sums, dtype=np.float64).reshape(block.shape)


def _cancel(names: Scope, pieces: Sequence[tuple[list[Partition], Floats]], most: float) -> bool:
    """Return whether functions of the same columns add up to nothing."""
    finest = [common([parts[axis] for parts, _ in pieces]) for axis in range(len(names))]
    _require(math.prod(part.size for part in finest) <= MAX_SUMMED)
    summed = np.zeros(math.prod(part.size for part in finest))
    for parts, table in pieces:
        summed += table.reshape(-1) @ lifting(names, parts, names, finest)
    return bool(np.abs(summed).max(initial=0.0) <= most)

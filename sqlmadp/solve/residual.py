"""Residual spaces: A^T A as a direct sum of small matrices, each repeated many times.

Per column there are the constant, a coarse basis, and the fine residual (see `column`).  Let F be
the set of columns in whose fine residual a function lies.  On that *space* every strategy treats
the fine residuals alike, so with I the identity on them

    A^T A = (+)_F  X_F (x) I,      trace(W (A^T A)^- W^T) = sum_F trace(M_F X_F^-),

M_F the partial trace of W^T W over the fine residuals.  Plain marginals have X_F of one number,
which is ResidualPlanner's closed form; arbitrary rows have F = {} and one dense matrix, which is
the matrix mechanism; everything between is the same code.

[XHZK23] Xiao, He, Zhang, Kifer, "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under
Convex Loss Functions", NeurIPS 2023.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from sqlmadp.errors import NotCoveredError
from sqlmadp.solve.column import Column, column_of
from sqlmadp.solve.marginals import Marginals
from sqlmadp.table.joint import is_joint, realised
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Exceptions, Rows, Scope, kronecker
from sqlmadp.table.runs import Floats, Integers

NEGLIGIBLE = 1e-9
"""Take a coefficient to be rounding below this part of the largest."""

OUTSIDE = 1e-16
"""Take what lies outside all measured coordinates to be rounding below this part of a query's
square."""


FIRST = np.zeros((), dtype=np.int64)
"""The number of the constant, where it is the first coordinate of a space."""

UNKNOWN = np.full((), -1)
"""The number of a coordinate that was not measured."""


@dataclass(eq=False, slots=True)
class Space:
    """The coordinates of one set F of fine columns."""

    multiplicity: int
    """Dimensions of the product of the fine residuals."""
    places: dict[Scope, Integers] = field(default_factory=dict)
    """By the columns that are not constant: the number of every combination of basis vectors."""
    size: int = 0


@dataclass(frozen=True, eq=False)
class Piece:
    """Part of a Gram matrix: its partial trace at some coordinates of one space."""

    fine: Scope
    place: Integers
    trace: Floats


@dataclass(frozen=True, eq=False)
class Gram:
    """A Gram matrix in residual spaces, summed over fine residuals."""

    numbers: Floats
    """Over spaces of one coordinate."""
    pieces: tuple[Piece, ...]
    """In the other spaces."""

    def times(self, factor: float) -> Gram:
        """Return the Gram matrix of rows whose squares are multiplied by one number."""
        scaled = tuple(Piece(p.fine, p.place, factor * p.trace) for p in self.pieces)
        return Gram(factor * self.numbers, scaled)


@dataclass(frozen=True, eq=False)
class SimpleEntries:
    """The information of many marginals."""

    places: Integers
    """The numbers of spaces of one coordinate."""
    rows: Integers
    """The marginals' numbers."""
    shares: Floats
    """The information on every dimension of such a space."""
    pieces: list[Piece]
    """In the other spaces."""
    owners: list[int]
    """The marginal of every piece."""


class Residuals:
    """The coordinates that a strategy's rows span."""

    def __init__(
        self, blocks: Sequence[Rows], exceptions: Sequence[tuple[Exceptions, ...]] | None = None
    ) -> None:
        """``exceptions``: exceptional vertices of each block's columns, if not those it has now."""
        used: dict[str, set[Partition]] = {}
        unlike: dict[tuple[str, Partition], set[int]] = {}
        for number, block in enumerate(blocks):
            own = block.exceptions if exceptions is None else exceptions[number]
            for column, part, vertices in zip(block.scope, block.parts, own, strict=True):
                used.setdefault(column, set()).add(part)
                if vertices:
                    unlike.setdefault((column, part), set()).update(vertices)
        self.columns: dict[str, Column] = {}
        self._exceptions: dict[str, set[int]] = {}
        for column, parts in used.items():
            found = column_of(frozenset(parts))
            apart = self._exceptions[column] = unlike.get((column, found.main), set())
            if apart:
                found = column_of(frozenset(parts), tuple(sorted(apart)))
            self.columns[column] = found
        self.spaces: dict[Scope, Space] = {}
        self.marginals = Marginals(self.columns)
        simple, others = self.told_apart(blocks)
        for block in {blocks[number].layout: blocks[number] for number in others}.values():
            for fine in self.fine_sets(block):
                self.place(block, fine, add=True)
        codes = np.unique(self.marginals.entries([blocks[n] for n in simple]).codes)
        dimensions = self.marginals.multiplicities(codes).tolist()
        for fine, many in zip(self.marginals.scopes(codes), dimensions, strict=True):
            if fine in self.spaces:
                self._subset(self.spaces[fine], (), (), add=True)
            else:
                self.spaces[fine] = Space(int(many), {(): FIRST}, 1)
        sizes = {fine: space.size for fine, space in self.spaces.items()}
        self.numbers = {f: n for n, f in enumerate(f for f, size in sizes.items() if size == 1)}
        self.large = {f: n for n, f in enumerate(f for f, size in sizes.items() if size > 1)}
        self.multiplicities = np.array([self.spaces[f].multiplicity for f in self.numbers], float)
        self._codes, self._code_numbers = (np.zeros(0, dtype=np.int64) for _ in range(2))
        self._learn(codes)
        self._grams: dict[bytes, Gram] = {}
        self._units: dict[tuple[Scope, tuple[bytes, ...]], list[Piece]] = {}

    def fits(self, blocks: Sequence[Rows]) -> bool:
        """Return whether blocks of the same partitions have no more exceptional vertices."""
        return all(
            self._exceptions[column].issuperset(vertices)
            for block in blocks
            for column, part, vertices in zip(
                block.scope, block.parts, block.exceptions, strict=True
            )
            if vertices and self.columns[column].fine and part == self.columns[column].main
        )

    def told_apart(self, rows: Sequence[Rows]) -> tuple[list[int], list[int]]:
        """Return the numbers of the rows that are worked on together, and of all others."""
        parts: tuple[list[int], list[int]] = [], []
        for number, each in enumerate(rows):
            parts[0 if self.marginals.covers(each) else 1].append(number)
        return parts

    def fine_sets(self, rows: Rows) -> Iterator[Scope]:
        """Yield the sets of columns in whose fine residuals the rows lie."""
        pairs = zip(rows.scope, rows.parts, strict=True)
        fine = [c for c, part in pairs if self.known(c).coordinates(part).holds_fine]
        for count in range(len(fine) + 1):
            yield from itertools.combinations(fine, count)

    def known(self, column: str) -> Column:
        """Return the basis of a column; NotCoveredError if no block depends on it."""
        if column not in self.columns:
            raise NotCoveredError(f"column {column!r} is not part of what was measured")
        return self.columns[column]

    def place(self, rows: Rows, fine: Scope, *, add: bool = False) -> Integers:
        """Return the numbers of the coordinates that rows use in a space; -1 for unknown ones."""
        space = self.spaces.get(fine) or Space(math.prod(self.columns[c].fine for c in fine))
        if add:
            self.spaces[fine] = space
        others = [
            (c, self.columns[c].coordinates(part).used)
            for c, part in zip(rows.scope, rows.parts, strict=True)
            if c not in fine
        ]
        varying = [(c, used) for c, used in others if len(used) > 1 or used[0] > 0]
        if not varying:
            return self._subset(space, (), (), add=add).reshape(1)
        found = np.full([len(used) for _, used in varying], -1)
        for chosen in itertools.product((False, True), repeat=len(varying)):
            here = [
                used > 0 if yes else used == 0
                for (_, used), yes in zip(varying, chosen, strict=True)
            ]
            if not all(h.any() for h in here):
                continue
            subset = tuple(c for (c, _), yes in zip(varying, chosen, strict=True) if yes)
            inside = [
                used[used > 0] - 1 for (_, used), yes in zip(varying, chosen, strict=True) if yes
            ]
            numbers = self._subset(space, subset, inside, add=add)
            found[np.ix_(*[np.flatnonzero(h) for h in here])] = numbers.reshape(
                [int(h.sum()) for h in here]
            )
        return found.reshape(-1)

    def _subset(
        self, space: Space, subset: Scope, inside: Sequence[Integers], *, add: bool
    ) -> Integers:
        """Return the numbers of combinations of basis vectors of some columns, none constant."""
        numbers = space.places.get(subset)
        if numbers is None:
            shape = tuple(self.columns[c].dimensions - 1 for c in subset)
            numbers = space.places[subset] = np.full(shape, -1)
        where = np.ix_(*inside) if subset else ()
        part = numbers[where]
        if add and (part < 0).any():
            new = part < 0
            part = np.array(part)
            part[new] = space.size + np.arange(int(new.sum()))
            space.size += int(new.sum())
            numbers[where] = part
        return np.asarray(part)

    def resolved(self, rows: Rows) -> Rows:
        """Return rows over partitions whose functions are known; NotCoveredError otherwise.

        A query may tell values apart that were measured together, and yet be a combination of what
        was measured: on four values, two of them apart from the other two is a parabola.
        """
        if not all(column in self.columns for column in rows.scope):
            rows = rows.simplified()  # It may not depend on every column that it names.
        if any(is_joint(column) and column not in self.columns for column in rows.scope):
            rows = realised(rows)
        for axis, (column, part) in enumerate(zip(rows.scope, rows.parts, strict=True)):
            known = self.known(column)
            if (missed := known.missed(part)) is None:
                continue
            before, after = math.prod(rows.shape[:axis]), math.prod(rows.shape[axis + 1 :])

            def along(factor: sparse.csr_array) -> sparse.csr_array:
                left = sparse.kron(sparse.eye_array(before), factor)  # noqa: B023
                return sparse.csr_array(sparse.kron(left, sparse.eye_array(after)))  # noqa: B023

            outside = rows.matrix @ along(missed)
            if outside.nnz and abs(outside).max() > NEGLIGIBLE * abs(rows.matrix).max():
                raise NotCoveredError("the query tells values apart that were measured together")
            parts = (*rows.parts[:axis], known.finest, *rows.parts[axis + 1 :])
            lifted = sparse.csr_array(rows.matrix @ along(part.over(known.finest)))
            rows = Rows(rows.scope, parts, 0, lifted)
        return rows

    # Coordinates of functions.

    def coordinates(self, rows: Rows, fine: Scope, values: Floats) -> Floats:
        """Return functions, as coefficients of vertices, in one space.

        The axes are the functions, the fine residuals (every vertex of their main partitions)
        flattened, and the coarse coordinates flattened.
        """
        tensor = values.reshape(len(values), *rows.shape)
        for axis, (column, part) in enumerate(zip(rows.scope, rows.parts, strict=True), start=1):
            known = self.columns[column]
            if column in fine:
                tensor = known.fine_part(tensor, axis, part)
            else:
                tensor = np.moveaxis(
                    np.tensordot(tensor, known.coordinates(part).coarse, (axis, 0)), -1, axis
                )
        first = [axis for axis, c in enumerate(rows.scope, start=1) if c in fine]
        last = [axis for axis, c in enumerate(rows.scope, start=1) if c not in fine]
        size = math.prod(tensor.shape[axis] for axis in last)
        return np.asarray(tensor.transpose([0, *first, *last])).reshape(len(values), -1, size)

    def at_vertices(self, rows: Rows, fine: Scope, coordinates: Floats) -> Floats:
        """Return coordinates of one space at the vertices: the transpose.

        ``coordinates`` has the axes of what `coordinates` returns; so has the result of its values.
        """
        first = [axis for axis, c in enumerate(rows.scope, start=1) if c in fine]
        last = [axis for axis, c in enumerate(rows.scope, start=1) if c not in fine]
        columns = [self.columns[c] for c in rows.scope]
        shape = [columns[axis - 1].count for axis in first]
        shape += [len(columns[axis - 1].coordinates(rows.parts[axis - 1]).used) for axis in last]
        tensor = coordinates.reshape(len(coordinates), *shape)
        tensor = tensor.transpose([0, *(1 + np.argsort(first + last)).tolist()])
        for axis, (column, part) in enumerate(zip(columns, rows.parts, strict=True), start=1):
            if axis in first:
                tensor = column.from_fine(tensor, axis, part)
            else:
                coarse = column.coordinates(part).coarse
                tensor = np.moveaxis(np.tensordot(tensor, coarse, (axis, 1)), -1, axis)
        return np.asarray(tensor).reshape(len(coordinates), rows.size)

    # Gram matrices.

    def gram(self, rows: Iterable[Rows]) -> Gram:
        """Return the Gram matrix of rows; NotCoveredError if they are not spanned."""
        rows = list(rows)
        simple, others = self.told_apart(rows)
        found = self.simple_entries([rows[number] for number in simple])
        sums = np.bincount(found.places, found.shares, minlength=len(self.numbers))
        numbers = np.asarray(sums * self.multiplicities)
        pieces = list(found.pieces)
        for number in others:
            own = self._one(rows[number])
            numbers += own.numbers
            pieces += own.pieces
        return Gram(numbers, tuple(pieces))

    def _learn(self, codes: Integers) -> None:
        """Look up the spaces of new codes; NotCoveredError if nothing was measured in one."""
        numbers = []
        for fine in self.marginals.scopes(codes):
            space = self.spaces.get(fine)
            if space is None or space.places.get((), UNKNOWN) < 0:
                raise NotCoveredError("the query is not a combination of what was measured")
            numbers.append(self.numbers.get(fine, -1))
        at = np.searchsorted(self._codes, codes)
        self._code_numbers = np.insert(self._code_numbers, at, np.array(numbers, np.int64))
        self._codes = np.insert(self._codes, at, codes)

    def simple_entries(self, rows: Sequence[Rows]) -> SimpleEntries:
        """Return the information of rows that are worked on together."""
        found = self.marginals.entries(rows)
        self._learn(np.setdiff1d(found.codes, self._codes))
        at = np.searchsorted(self._codes, found.codes)
        places = self._code_numbers[at]
        pieces, owners = [], []
        for number in np.flatnonzero(places < 0):
            [fine] = self.marginals.scopes(found.codes[[number]])
            place = self.spaces[fine].places[()].reshape(1)
            trace = found.shares[number] * self.spaces[fine].multiplicity
            pieces.append(Piece(fine, place, np.full((1, 1), trace)))
            owners.append(int(found.rows[number]))
        inside = places >= 0
        return SimpleEntries(
            places[inside], found.rows[inside], found.shares[inside], pieces, owners
        )

    def _one(self, rows: Rows) -> Gram:
        if rows.fingerprint not in self._grams:
            numbers = np.zeros(len(self.numbers))
            pieces = []
            for piece in self.pieces(rows):
                if piece.fine in self.numbers:
                    numbers[self.numbers[piece.fine]] += piece.trace.item()
                else:
                    pieces.append(piece)
            self._grams[rows.fingerprint] = Gram(numbers, tuple(pieces))
        return self._grams[rows.fingerprint]

    def pieces(self, rows: Rows) -> Iterator[Piece]:
        """Yield the parts of the rows' Gram matrix, space by space."""
        if not rows.plain:
            yield from self._worked_out(rows)
            return
        if rows.layout not in self._units:  # Once for all multiples.
            one = Rows(rows.scope, rows.parts, 1.0)
            self._units[rows.layout] = list(self._worked_out(one))
        for piece in self._units[rows.layout]:
            yield Piece(piece.fine, piece.place, float(rows.weight) ** 2 * piece.trace)

    def _worked_out(self, rows: Rows) -> list[Piece]:
        rows = self.resolved(rows)
        found, total, outside = [], 0.0, 0.0
        for fine in self.fine_sets(rows):
            place, gram = self.place(rows, fine), self._partial_trace(rows, fine)
            total += float(np.trace(gram))
            inside = np.flatnonzero(place >= 0)
            outside += float(np.trace(gram)) - float(np.diag(gram)[inside].sum())
            if len(inside):
                found.append(Piece(fine, place[inside], gram[np.ix_(inside, inside)]))
        if outside > OUTSIDE * total:
            raise NotCoveredError("the query is not a combination of what was measured")
        return found

    def _partial_trace(self, rows: Rows, fine: Scope) -> Floats:
        """Return the Gram matrix over coarse coordinates, summed over the fine residuals."""
        if rows.plain:
            return float(rows.weight) ** 2 * self._identity_trace(rows, fine)
        weights = np.asarray(rows.squares).reshape(rows.shape)
        for axis in reversed(range(len(rows.scope))):
            if rows.scope[axis] in fine:
                squares = self.columns[rows.scope[axis]].coordinates(rows.parts[axis]).fine
                weights = np.tensordot(weights, squares, (axis, 0))
        pairs = [pair for pair in zip(rows.scope, rows.parts, strict=True) if pair[0] not in fine]
        basis = kronecker(self.columns[column].coordinates(part).coarse for column, part in pairs)
        flat = weights.reshape(-1)
        heavy = np.flatnonzero(flat)
        gram = (basis[heavy].T * flat[heavy]) @ basis[heavy]
        if rows.across.shape[0]:
            found = self.coordinates(rows, fine, rows.across.toarray())
            found = found.reshape(-1, found.shape[-1])
            gram = gram + found.T @ found
        return np.asarray(gram)

    def _identity_trace(self, rows: Rows, fine: Scope) -> Floats:
        """Return the same for every vertex alone: a Kronecker product."""
        factors = []
        for column, part in zip(rows.scope, rows.parts, strict=True):
            own = self.columns[column].coordinates(part)
            if column in fine:
                factors.append(np.full((1, 1), own.fine.sum()))
            else:
                factors.append(own.coarse.T @ own.coarse)
        return kronecker(factors)

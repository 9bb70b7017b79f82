"""Which workloads no template is for, told from their sizes before anything is selected.

Plain marginals take weights alone, and a single scope that holds all others can be measured cell by
cell, as can the union of all columns if it is small.  Several scopes that overlap need common
coordinates: those of their groups, or those of products of their partitions.  A workload is refused
if there are too many of all these.

What takes memory are square matrices over groups, or over coordinates of all that is asked: some
`COPIES` of them at a time, never over more than `MOST_COORDINATES`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlmadp.schema.marginal import Block, Marginal
from sqlmadp.strategy import layout, products
from sqlmadp.strategy.marginals import PlainWorkload
from sqlmadp.workload.sizes import maximal_scopes, overlapping_cells
from sqlmadp.workload.solver import FEW_COORDINATES
from sqlmadp.workload.workload import Workload

COPIES = 16
"""Square matrices that selecting, and working errors out, hold at a time (measured: 14)."""


@dataclass(frozen=True)
class Entangled:
    """Queries over several scopes that take too many coordinates."""

    scopes: tuple[tuple[str, ...], ...]
    """The scopes that lie in no other one."""
    groups: int
    """Combinations of values that the queries of all scopes tell apart."""
    coordinates: int
    """Coordinates that products of their partitions would take."""
    most_groups: int = layout.MOST_COORDINATES
    most_coordinates: int = products.MOST_COORDINATES


def entangled(blocks: Sequence[Block]) -> Entangled | None:
    """Tell why no strategy can be selected for some queries; None if one can."""
    if overlapping_cells(blocks) <= layout.MOST_COORDINATES:
        return None
    workload = Workload.of(blocks)
    if PlainWorkload.of(workload.by_scope) is not None:
        return None
    groups = sum(scope.groups for scope in workload.scopes)
    count = coordinates(scope.marginal for scope in workload.scopes)
    if groups <= layout.MOST_COORDINATES or count <= products.MOST_COORDINATES:
        return None
    if layout.union_cells(workload.scopes) <= layout.WHOLE_CELLS:
        return None
    return Entangled(tuple(maximal_scopes(blocks)), groups, count)


def selection_bytes(groups: int) -> int:
    """Return about how much memory takes what is worked out over so many groups."""
    return COPIES * 8 * min(groups, layout.MOST_COORDINATES) ** 2


def dense_groups(blocks: Sequence[Block]) -> int:
    """Return over how many groups, or classes of them, square matrices are made for some queries.

    One plain marginal takes none, and several no more than a solver of few coordinates; groups that
    most queries treat alike are worked on by their classes.
    """
    workload = Workload.of(blocks)
    groups = sum(scope.groups for scope in workload.scopes)
    plain = PlainWorkload.of(workload.by_scope) is not None
    if plain and len(workload.scopes) == 1:
        return 0
    whole = layout.holds_all(workload)
    if whole is not None and whole.alike is not None:
        return len(whole.alike.sizes)
    if plain:
        return min(groups, FEW_COORDINATES)
    return min(groups, layout.MOST_COORDINATES)


def coordinates(marginals: Iterable[Marginal]) -> int:
    """Return about how many coordinates some marginals take: for every support its largest box."""
    largest: dict[tuple[str, ...], int] = {}
    for marginal in marginals:
        sides = dict(zip(marginal.scope, marginal.shape, strict=True))
        for count in range(len(marginal.scope) + 1):
            for support in itertools.combinations(marginal.scope, count):
                box = math.prod(sides[name] - 1 for name in support)
                largest[support] = max(largest.get(support, 0), box)
    return sum(largest.values())

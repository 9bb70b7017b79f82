"""How large the queries of a scope become once they are stacked, before anything is stacked.

Queries of one scope are stacked over the common refinement of their partitions.  Each may be small
where all together are not: cuts at different places multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmadp.schema.marginal import Block
from sqlmadp.workload.workload import common


@dataclass(frozen=True)
class ScopeSize:
    """The queries of one scope, stacked."""

    scope: tuple[str, ...]
    cells: int
    """Cells of the common refinement (exact, of any size)."""
    entries: int
    """Numbers that the queries are made of over those cells."""
    largest: int
    """The place, among the blocks given, of the one that tells most cells apart."""


def scope_sizes(blocks: Sequence[Block]) -> list[ScopeSize]:
    """Return the size of every scope of some blocks."""
    places: dict[tuple[str, ...], list[int]] = {}
    for place, block in enumerate(blocks):
        places.setdefault(block.marginal.scope, []).append(place)
    sizes = []
    for scope, inside in places.items():
        marginals = dict.fromkeys(blocks[place].marginal for place in inside)
        cells = common(list(marginals)).size
        entries = sum(
            blocks[place].entries * cells // max(1, blocks[place].marginal.size) for place in inside
        )
        largest = max(inside, key=lambda place: (blocks[place].marginal.size, -place))
        sizes.append(ScopeSize(scope, cells, entries, largest))
    return sizes


def maximal_scopes(blocks: Sequence[Block]) -> list[tuple[str, ...]]:
    """Return the scopes that lie in no other one, in order."""
    scopes = {block.marginal.scope for block in blocks}
    return [s for s in sorted(scopes) if not any(set(s) < set(other) for other in scopes)]


def overlapping_cells(blocks: Sequence[Block]) -> int:
    """Return the cells of all scopes, if no single scope holds all others; otherwise 0."""
    if len(maximal_scopes(blocks)) < 2:
        return 0
    return sum(size.cells for size in scope_sizes(blocks))

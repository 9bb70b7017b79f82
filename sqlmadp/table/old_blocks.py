"""Blocks over marginals as rows over vertices, and back, for callers that know only one of them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlmadp.schema.kronecker import KroneckerBlock
from sqlmadp.schema.marginal import Block, CellBlock, Marginal, Partition
from sqlmadp.table.products import Products
from sqlmadp.table.rows import Rows


def as_rows(block: Rows | Block) -> Rows:
    """Return a block as rows over flat partitions."""
    if isinstance(block, Rows):
        return block
    marginal = block.marginal
    if isinstance(block, KroneckerBlock):
        factors, heights = block.factors, block.heights
        return Products(marginal.scope, marginal.parts, 0, None, factors, heights)
    if isinstance(block, CellBlock):
        return Rows(marginal.scope, marginal.parts, block.weight)
    return Rows(marginal.scope, marginal.parts, 0, block.matrix)


def as_blocks(blocks: Iterable[Rows | Block]) -> tuple[Block, ...]:
    """Return rows over flat partitions as blocks."""
    return tuple(each if isinstance(each, Block) else _as_block(each) for each in blocks)


def _as_block(rows: Rows) -> Block:
    if not all(part.is_flat for part in rows.parts):
        raise ValueError("a block over a marginal has a cell for every vertex")
    marginal = Marginal(rows.scope, tuple(Partition(part.pieces) for part in rows.parts))
    if isinstance(rows, Products):
        return KroneckerBlock(marginal, rows.factors, rows.heights)
    if rows.given is None:
        return CellBlock(marginal, rows.weight)
    return Block(marginal, rows.given)

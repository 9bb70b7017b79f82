"""A resolved SELECT over records: predicates, group keys and aggregates over declared columns.

That is what a private block is made of.  Every name in it is a declared column, or a column of a
public table that is looked up by declared columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlmadp.sql.aggregates import Aggregate, Piece
from sqlmadp.sql.records import Lookup, Records
from sqlmadp.sql.syntax import Node, is_column, rebuild, unaliased


@dataclass(frozen=True)
class Resolved:
    """The parts of one private block, over declared columns only."""

    name: str
    """``__block0``, ``__block1``, ..."""
    where: tuple[Node, ...]
    """Predicates that a record of any group satisfies all of."""
    lookups: tuple[Lookup, ...]
    keys: tuple[Node, ...]
    sets: tuple[tuple[int, ...], ...]
    """The keys of every grouping set; one set for a plain GROUP BY, of no key for none."""
    groupings: tuple[tuple[int, ...], ...]
    """The keys of every distinct GROUPING()."""
    aggregates: tuple[Aggregate, ...]
    outer: Node
    """The SELECT over the block."""
    measures: tuple[int | None, ...]
    """For every result column, the aggregate that it is a bare copy of."""
    tracked: bool
    """Whether the outer SELECT can say which group a row comes from."""

    @property
    def pieces(self) -> list[Piece]:
        """Return what the aggregates are worked out from, each once."""
        unique = {piece.key: piece for a in self.aggregates for piece in a.pieces}
        return list(unique.values())

    def predicates(self) -> list[Node]:
        """Return every predicate over declared columns."""
        return [*self.where, *(node for piece in self.pieces for node in piece.where)]

    def values(self) -> list[Node]:
        """Return every expression that is summed or told apart."""
        return [piece.value for piece in self.pieces if piece.value is not None]


def private(node: Node, records: Records, alias: Callable[[Node], Node] | None = None) -> Node:
    """Return an expression over declared columns, in one spelling.

    A column of the records comes before an alias of the SELECT, which ``alias`` resolves.
    """
    if is_column(node):
        known = records.find(node["column_names"])
        if known is not None:
            # Where it stands in the text is kept, for messages.
            place = {name: node[name] for name in ("query_location", "query_location_length")}
            return {**known, **place}
        if alias is None:
            raise KeyError(node["column_names"])
        return alias(node)
    changed = rebuild(unaliased(node), lambda child: private(child, records, alias))
    if node["class"] == "FUNCTION":
        name = node["function_name"].lower()
        changed |= {"function_name": name, "qualified_name": {"path": [name]}}
    return changed

"""Names: what a FROM clause over the private table offers to the SELECT around it.

However it is written (an alias, a sub-select or CTE that filters and computes, a join with
a public table), such a FROM yields records of the one private table: every column is an
expression over declared columns, and a record is there only where some predicates hold.  So a
chain of sub-selects is resolved away, and nothing of it is left to run.

    JOIN states ON p.state = s.state     region  ->  (SELECT region FROM states WHERE ...)
                                         where   ->  EXISTS (SELECT ... FROM states WHERE ...)

A public table must have at most one row for each record, so that a record is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlmadp.sql.tree import Lookup, Node, column, integer, parts_of, placed, rebuild
from sqlmadp.table.domain import Domain, PublicTable


@dataclass(frozen=True)
class Field:
    """One column that a FROM clause offers."""

    qualifier: str
    name: str
    expression: Node
    """Over declared columns, resolved."""
    merged: bool = False
    """Whether USING made this column one with an earlier one, so that a star leaves it out."""
    size: int = 1
    """How many parts the expression has."""


@dataclass(frozen=True)
class Records:
    """The private table as one FROM clause shows it."""

    fields: tuple[Field, ...]
    where: tuple[Node, ...] = ()
    """Predicates that every record of it satisfies."""
    joined: tuple[Lookup, ...] = ()
    """For every public table that is joined, how many of its rows each record meets."""

    def field(self, names: list[str]) -> Field | None:
        """Return the column of a name; None if there is none."""
        *qualifier, name = (part.casefold() for part in names)
        for known in self.fields:
            if known.name.casefold() == name and (
                not qualifier or qualifier == [known.qualifier.casefold()]
            ):
                return known
        return None

    def find(self, names: list[str]) -> Node | None:
        """Return the expression of a name; None if there is none."""
        known = self.field(names)
        return None if known is None else known.expression

    @property
    def qualifiers(self) -> set[str]:
        """Return the names by which a column may be qualified."""
        return {known.qualifier for known in self.fields}

    @property
    def names(self) -> list[str]:
        """Return the names of all columns."""
        return [known.name for known in self.fields]

    def renamed(self, alias: str, names: Iterable[str] = ()) -> Records:
        """Return the same records under a table alias, with the first columns renamed."""
        renames = list(names)
        return replace(
            self,
            fields=tuple(
                Field(
                    alias or known.qualifier,
                    renames[place] if place < len(renames) else known.name,
                    known.expression,
                    size=known.size,
                )
                for place, known in enumerate(self.fields)
            ),
        )


def declared(domain: Domain) -> Records:
    """Return the private table itself."""
    return Records(tuple(Field(domain.table, c.name, column(c.name)) for c in domain.columns))


@dataclass(frozen=True)
class Public:
    """A public table in a FROM clause."""

    table: PublicTable
    number: int
    """Its place among the domain's public tables."""
    alias: str
    names: tuple[str, ...]
    """Its columns' names here."""
    node: Node
    """The FROM clause itself."""

    def fields(self, occurrence: int) -> tuple[Field, ...]:
        """Return its columns as the condition of a join sees them."""
        alias = f"__public{occurrence}"
        return tuple(
            Field(self.alias, name, column(alias, f"__p{place}"))
            for place, name in enumerate(self.names)
        )

    def lookup(self, occurrence: int, item: Node, where: Node, *, exists: bool = False) -> Lookup:
        """Return ``(SELECT item FROM table WHERE where)``, or whether there is such a row."""
        return Lookup(
            this=item.copy(),
            source=stored_name(self.number),
            alias=f"__public{occurrence}",
            where=where.copy(),
            exists=exists,
        )

    def joined(
        self,
        records: Records,
        kind: str,
        where: Node,
        *,
        using: set[str],
        place: Node,
        at: int,
    ) -> Records:
        """Return the records of a join: every column of this table becomes a lookup."""
        matched = self.lookup(at, integer(1), where, exists=True)
        kept = records.where
        if kind in ("INNER", "SEMI"):
            kept = (*kept, matched)
        elif kind == "ANTI":
            kept = (*kept, exp.Not(this=matched))
        if kind in ("SEMI", "ANTI"):
            return replace(records, where=kept)
        found = tuple(
            replace(
                known,
                expression=self.lookup(at, known.expression, where),
                merged=known.name.casefold() in using,
            )
            for known in self.fields(at)
        )
        count = self.lookup(at, exp.Anonymous(this="count", expressions=[exp.Star()]), where)
        return Records((*records.fields, *found), kept, (*records.joined, placed(count, place)))


def stored_name(number: int) -> str:
    """Return the name under which the sandbox keeps a public table for lookups."""
    return f"__public_table{number}"


def resolved(node: Node, records: Records, alias: Callable[[Node], Node] | None = None) -> Node:
    """Return an expression over declared columns, in one spelling.

    A column of the records comes before an alias of the SELECT, which ``alias`` resolves.
    """
    if isinstance(node, exp.Alias):
        node = node.this
    if isinstance(node, exp.Column):
        known = records.find(parts_of(node))
        if known is not None:
            # Its place in the text is kept, for messages.
            return placed(known.copy(), node)
        if alias is None:
            raise KeyError(node.name)
        return alias(node)
    changed = rebuild(node, lambda child: resolved(child, records, alias))
    if isinstance(changed, exp.Anonymous):
        name = changed.this if isinstance(changed.this, str) else changed.this.name
        changed.set("this", name.lower())
    return changed

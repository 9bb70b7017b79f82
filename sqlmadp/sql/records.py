"""Records: what a FROM clause over the private table offers to the SELECT around it.

However it is written (an alias, a sub-select or CTE that filters and computes, a join with
a public table), such a FROM yields records of the one private table: every column is an
expression over declared columns, and a record is there only where some predicates hold.  So a
chain of sub-selects is resolved away, and nothing of it is left to run.

    JOIN states ON p.state = s.state     region  ->  (SELECT region FROM states WHERE ...)
                                         where   ->  EXISTS (SELECT ... FROM states WHERE ...)

A public table must have at most one row for each record, so that a record is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlmadp.schema.domain import Domain, PublicTable
from sqlmadp.sql.syntax import Node, column, lookup, table


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
class Lookup:
    """A public table that is joined: how many of its rows each record meets."""

    source: Node
    where: Node
    place: tuple[int, int] | None
    """Where the join stands in the statement."""


@dataclass(frozen=True)
class Records:
    """The private table as one FROM clause shows it."""

    fields: tuple[Field, ...]
    where: tuple[Node, ...] = ()
    """Predicates that every record of it satisfies."""
    lookups: tuple[Lookup, ...] = ()

    def field(self, names: list[str]) -> Field | None:
        """Return the column that a name stands for; None if there is none."""
        *qualifier, name = (part.casefold() for part in names)
        for known in self.fields:
            if known.name.casefold() == name and (
                not qualifier or qualifier == [known.qualifier.casefold()]
            ):
                return known
        return None

    def find(self, names: list[str]) -> Node | None:
        """Return the expression that a name stands for; None if there is none."""
        known = self.field(names)
        return None if known is None else known.expression

    @property
    def qualifiers(self) -> set[str]:
        """Return the names that may stand before a column."""
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

    def source(self, occurrence: int) -> tuple[Node, str]:
        """Return the FROM clause that reads the table, and the alias it has there."""
        alias = f"__public{occurrence}"
        return table(stored_name(self.number), alias), alias


def stored_name(number: int) -> str:
    """Return the name under which the sandbox keeps a public table for lookups."""
    return f"__public_table{number}"


def looked_up(public: Public, source: Node, alias: str, where: Node) -> tuple[Field, ...]:
    """Return a joined table's columns as expressions; NULL where no row matches."""
    return tuple(
        Field(public.alias, name, lookup(column(alias, f"__p{place}"), source, where))
        for place, name in enumerate(public.names)
    )

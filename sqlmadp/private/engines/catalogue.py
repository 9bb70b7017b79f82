"""The catalogue check: whether the source is the table that the schema declares.

A column that is missing, or stored as a type that does not hold the declared one, is
refused here.  Were it only found while counting, the failure would depend on records.  The
columns of the privacy unit and its key are checked too, whether they are declared or not.

Guarantee  Reads no record; the messages depend on the schema and the catalogue only.
Requires   An engine whose catalogue lists the columns of the table.
Numerics   None.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlmadp.errors import Problem, SourceError
from sqlmadp.private.engines import PLAIN, Engine, Kind, SourceColumn
from sqlmadp.table.domain import Column, Domain

_INTEGERS: frozenset[Kind] = frozenset({"integer", "wide integer", "untyped text"})
_ACCEPTED: dict[str, frozenset[Kind]] = {
    "BOOLEAN": frozenset({"boolean", "untyped text"}),
    "BIGINT": _INTEGERS,
    "DATE": frozenset({"date", "timestamp", "untyped text"}),
    "TIMESTAMP": frozenset({"timestamp", "untyped text"}),
    "DOUBLE": _INTEGERS | {"real"},
    "VARCHAR": frozenset({"text", "untyped text"}),
}
_STORED_AS = {
    "BOOLEAN": "a BOOLEAN column",
    "BIGINT": "a column of an integer type",
    "DATE": "a DATE or TIMESTAMP column",
    "TIMESTAMP": "a TIMESTAMP column",
    "DOUBLE": "a column of a numeric type",
    "VARCHAR": "a VARCHAR or ENUM column",
}


def check_catalogue(engine: Engine, domain: Domain) -> None:
    """Raise SourceError naming every declared column that the source does not hold."""
    problems = catalogue_problems(engine, domain)
    if problems:
        raise SourceError("\n\n".join(str(problem) for problem in problems))


def catalogue_problems(engine: Engine, domain: Domain) -> tuple[Problem, ...]:
    """Return one problem for every column that the source does not hold as it should."""
    if len(engine.columns) == 1 < len(domain.columns) and engine.columns[0].kind == "untyped text":
        return (_single(engine.location, len(domain.columns)),)
    needed = [
        (
            column.name,
            _ACCEPTED[column.sql_type],
            _STORED_AS[column.sql_type],
            f"the schema declares {_declared(column)}",
        )
        for column in domain.columns
    ]
    if domain.unit is not None:
        uses = [(domain.unit.column, "values"), *((name, "a key") for name in domain.unit.key)]
        wanted = "a column of integers, text, dates or booleans"
        needed += [
            (name, PLAIN, wanted, f"the schema's unit needs {use} to compare") for name, use in uses
        ]
    problems = (_problem(engine, *each) for each in needed)
    return tuple(problem for problem in problems if problem is not None)


def _single(location: str, columns: int) -> Problem:
    return Problem(
        file=location,
        code="one-column",
        message=f"the file has a single column, but the schema declares {columns}",
        hint='Name the character that separates its fields: separator = ";" under [csv] in the '
        "plan, or --separator for 'sqlmadp schema'.",
    )


def source_columns(engine: Engine, domain: Domain) -> dict[str, SourceColumn]:
    """Return the source's column for every declared one, by declared name."""
    return {column.name: source_column(engine, column.name) for column in domain.columns}


def source_column(engine: Engine, name: str) -> SourceColumn:
    """Return the source's column of that name, in any case, as SQL does."""
    by_name = {column.name.casefold(): column for column in engine.columns}
    return by_name[name.casefold()]


def _problem(
    engine: Engine, name: str, kinds: frozenset[Kind], wanted: str, declared: str
) -> Problem | None:
    location, catalogue = engine.location, engine.columns
    matches = [each for each in catalogue if each.name.casefold() == name.casefold()]
    if not matches:
        return Problem(
            file=location,
            code="missing-column",
            message=f"the table has no column {name!r}, which the schema declares",
            hint=f"Add {wanted} of that name, or take it out of the schema.{_others(catalogue)}",
        )
    if len(matches) > 1:
        return Problem(
            file=location,
            code="ambiguous-column",
            message=f"the table has several columns {name!r} that differ only in case",
            hint="Rename all but one of them.",
        )
    if matches[0].kind in kinds:
        return None
    return Problem(
        file=location,
        code="column-type",
        message=f"column {name!r} is stored as {matches[0].native}, but {declared}",
        hint=f"Store it as {wanted}, or change the schema.",
    )


def _declared(column: Column) -> str:
    if column.type == "decimal":
        return f"type 'real' with decimals = {column.decimals}"
    if column.type != "category":
        return f"type {column.type!r}"
    return f"type 'category' with {'integer' if column.sql_type == 'BIGINT' else 'text'} values"


def _others(catalogue: Sequence[SourceColumn]) -> str:
    # The first line of a CSV file without a header is a record: never quote it.
    if any(column.kind == "untyped text" for column in catalogue):
        return " Is the first line of the file a header?"
    return f" The table has: {', '.join(repr(column.name) for column in catalogue)}."

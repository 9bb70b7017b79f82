"""Draft a schema file from a table's catalogue, and check one against it.

A draft names every column with the type that fits what is stored, and leaves out what only the
curator can say: values, bounds, who is protected.  Those lines are comments, so that a draft
is no schema before somebody has thought about it; ``schema check`` lists what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlmadp.errors import InputError, Problem, SourceError
from sqlmadp.private.catalogue import catalogue_problems
from sqlmadp.private.engines import Engine, Kind, Source, SourceColumn, open_engine
from sqlmadp.private.trusted_values import MOST_VALUES, Values, read_values
from sqlmadp.schema.declaration import read_schema
from sqlmadp.schema.domain import Domain
from sqlmadp.toml_file import dotted, show

_HEAD = """\
# Which values may exist, and who is protected.  Declare what you know without looking at the
# table: what is written here is public, and the promise does not cover it.
# Complete the lines that begin with '# declare', leave out columns that nobody asks about, and
# run: sqlmadp schema check FILE
"""
_WARNING = """\
# WARNING: the values and bounds below were read from the table, without noise.  Whoever sees this
# file, or answers made with it, learns them.  Replace them by what is publicly known.
"""
_TYPES: dict[Kind, str] = {
    "boolean": "boolean",
    "integer": "integer",
    "wide integer": "integer",
    "real": "real",
    "text": "category",
    "date": "date",
}
_EXAMPLES = {"integer": ("0", "99"), "real": ("0.0", "1e6"), "date": ("2020-01-01", "2029-12-31")}


def draft(source: Source, table: str, *, trusted_values: bool = False) -> str:
    """Return the text of a first schema file; reads no value unless the curator trusts all."""
    engine = open_engine(source, table=table)
    try:
        columns = engine.catalogue()
        if not trusted_values:
            parts = [_section(column, None) for column in columns]
        else:
            parts = [_section(column, _values(engine, column)) for column in columns]
    finally:
        engine.close()
    head = f"{_HEAD}{_WARNING if trusted_values else ''}\ntable = {show(table)}\n\n{_unit()}"
    return "\n".join([head, *parts])


def check_schema(path: Path, location: str | None) -> tuple[Domain | None, tuple[Problem, ...]]:
    """Return the domain of a schema file, and its mistakes, also beside a table's catalogue."""
    try:
        domain = read_schema(path)
    except InputError as error:
        return None, error.problems
    if location is None:
        return domain, ()
    try:
        engine = open_engine(Source(location=location, folder=Path()), table=domain.table)
    except SourceError as error:
        return domain, (Problem(file=str(path), code="source", message=str(error)),)
    try:
        return domain, catalogue_problems(engine, domain)
    finally:
        engine.close()


def _values(engine: Engine, column: SourceColumn) -> Values | None:
    return None if column.kind == "other" else read_values(engine, column)


def _unit() -> str:
    return (
        "# One record is protected. Where a person may own several, declare whose they are:\n"
        '# [unit]\n# column = "person_id"\n# max_records = 3\n# key = "visit_id"\n'
    )


def _section(column: SourceColumn, values: Values | None) -> str:
    name = dotted(("columns", column.name))
    if column.kind == "other":
        return f"# {column.name!r} is stored as {column.native}, which cannot be declared\n"
    lines = [f"[{name}]", *_lines(column, values)]
    if column.kind != "boolean":
        lines.append("# nullable = true    # if a record may lack it")
    return "\n".join(lines) + "\n"


def _lines(column: SourceColumn, values: Values | None) -> Iterator[str]:
    kind = _TYPES.get(column.kind)
    if kind is None:
        yield '# declare: type = "category", "boolean", "integer", "date" or "real"; it has none'
        kind = "category"
    else:
        yield f'type = "{kind}"    # stored as {column.native}'
    if kind == "category":
        yield _listed(values)
    elif kind in _EXAMPLES:
        ends = (None, None) if values is None else (values.low, values.high)
        for key, example, value in zip(("min", "max"), _EXAMPLES[kind], ends, strict=True):
            shown = int(value) if kind == "integer" and isinstance(value, float) else value
            yield f"# declare: {key} = {example}" if value is None else f"{key} = {show(shown)}"
        yield '# outside = "clamp"    # move values outside to the ends; "drop" leaves records out'


def _listed(values: Values | None) -> str:
    if values is None:
        return '# declare: values = ["first", "second"]'
    if not values.distinct:
        return f'# declare: values = ["first"]    # none, or more than {MOST_VALUES}'
    return f"values = [{', '.join(show(value) for value in values.distinct)}]"

"""Draft a schema file from a table's catalogue, and check one against it.

A draft names every column with the type that fits what is stored, what NOT NULL, ENUM and CHECK say
of it, and leaves out what only the curator can say: values, bounds, who is protected.  Those lines
are comments, so that a draft is no schema before somebody has thought about it; ``schema check``
lists what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from sqlmadp.errors import InputError, Problem, SourceError
from sqlmadp.files import NOTED_VALUES
from sqlmadp.files.schema import read_schema
from sqlmadp.files.toml import dotted, show
from sqlmadp.private.engines import Engine, Kind, Source, SourceColumn, open_engine
from sqlmadp.private.engines.catalogue import catalogue_problems
from sqlmadp.private.engines.trusted_values import MOST_VALUES, Values, kind_of_text, read_values
from sqlmadp.sql.constraints import Allowed, checked
from sqlmadp.table.csv_format import CsvFormat
from sqlmadp.table.domain import Domain, Value

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
_SINGLE = """\
# This file has a single column. If {separator} separates its fields, draft again
# with --separator {separator}, and write separator = {separator} under [csv] into the plan.
"""
_SEPARATORS = (";", "\t", "|")
_TYPES: dict[Kind, str] = {
    "boolean": "boolean",
    "integer": "integer",
    "wide integer": "integer",
    "real": "real",
    "text": "category",
    "date": "date",
    "timestamp": "date",
}
_EXAMPLES = {"integer": ("0", "99"), "real": ("0.0", "1e6"), "date": ("2020-01-01", "2029-12-31")}


def draft(source: Source, table: str, *, trusted_values: bool = False) -> str:
    """Return the text of a first schema file; reads no value unless the curator trusts all."""
    engine = open_engine(source, table=table)
    try:
        columns = engine.columns
        if not trusted_values:
            parts = [_section(column, None) for column in columns]
        else:
            parts = [_with_values(engine, column) for column in columns]
    finally:
        engine.close()
    single = _single(columns)
    head = (
        f"{_HEAD}{single}{_WARNING if trusted_values else ''}\ntable = {show(table)}\n\n{_unit()}"
    )
    return "\n".join([head, *parts])


def _single(columns: Sequence[SourceColumn]) -> str:
    """Return a note on a CSV file that has one column, which others than commas may separate."""
    if len(columns) != 1 or columns[0].kind != "untyped text":
        return ""
    found = next((each for each in _SEPARATORS if each in columns[0].name), ";")
    return _SINGLE.format(separator='"\\t"' if found == "\t" else f'"{found}"')


def check_schema(
    path: Path,
    location: str | None,
    csv: CsvFormat = CsvFormat(),  # noqa: B008 - Never changes.
) -> tuple[Domain | None, tuple[Problem, ...], tuple[Problem, ...]]:
    """Return the domain of a schema file, its mistakes and its notes beside a table's catalogue."""
    try:
        domain = read_schema(path)
    except InputError as error:
        return None, error.problems, ()
    if location is None:
        return domain, (), ()
    try:
        source = Source(location=location, folder=Path(), csv=csv)
        engine = open_engine(source, table=domain.table)
    except SourceError as error:
        return domain, (Problem(file=str(path), code="source", message=str(error)),), ()
    try:
        return domain, catalogue_problems(engine, domain), catalogue_notes(engine, domain, csv)
    finally:
        engine.close()


def _with_values(engine: Engine, column: SourceColumn) -> str:
    """Return a column's part of a draft with the values of the table, and types of text."""
    if column.kind == "other":
        return _section(column, None)
    column = replace(column, kind=kind_of_text(engine, column))
    return _section(column, read_values(engine, column))


def _unit() -> str:
    return (
        "# One record is protected. Where a person may own several, declare whose they are:\n"
        '# [unit]\n# column = "person_id"\n# max_records = 3\n# key = "visit_id"\n'
    )


def _section(column: SourceColumn, values: Values | None) -> str:
    name = dotted(("columns", column.name))
    if column.kind == "other":
        return f"# {column.name!r} is stored as {column.native}, which cannot be declared\n"
    return "\n".join([f"[{name}]", *_lines(column, values), _null(column, values)]) + "\n"


def _lines(column: SourceColumn, values: Values | None) -> Iterator[str]:
    kind = _TYPES.get(column.kind)
    if kind is None:
        yield '# declare: type = "category", "boolean", "integer", "date" or "real"'
        yield "# (CSV files and names of folders store no types)"
        kind = "category"
    else:
        kind = "category" if _is_listed(column) else kind
        more = ' and read as its day; or "timestamp", with every = "hour"'
        more = more if column.kind == "timestamp" else ""
        yield f'type = "{kind}"    # stored as {column.native}{more}'
    if kind == "category":
        yield _listed(column, values)
    elif kind in _EXAMPLES:
        low, high = _ends(column)
        if values is not None:
            low, high = (values.low if low is None else low, values.high if high is None else high)
        for key, example, value in zip(("min", "max"), _EXAMPLES[kind], (low, high), strict=True):
            shown = int(value) if kind == "integer" and isinstance(value, float) else value
            yield f"# declare: {key} = {example}" if value is None else f"{key} = {show(shown)}"
        if kind == "real" and (scale := re.search(r"\(\d+, ?([1-9])\)$", column.native)):
            yield f"# decimals = {scale[1]}    # reads it to these, and lets sums be asked"
        yield '# outside = "clamp"    # move values outside to the ends; else they are read as NULL'


def _is_listed(column: SourceColumn) -> bool:
    """Return whether an ENUM or a CHECK lists all values, and a category can have them."""
    kinds = {"text": str, "integer": int}
    values, kind = allowed_values(column).values, kinds.get(column.kind)
    return bool(values) and kind is not None and all(type(value) is kind for value in values or ())


def _ends(column: SourceColumn) -> tuple[Value, Value]:
    """Return the ends that a CHECK sets; None for one that it does not."""
    allowed = allowed_values(column)
    low, high = (_in_kind(end, column.kind) for end in (allowed.low, allowed.high))
    return low, high


def _in_kind(end: Value, kind: Kind) -> Value:
    if kind in {"date", "timestamp"} and isinstance(end, str):
        try:
            return date.fromisoformat(end[:10])
        except ValueError:
            return None
    days = dict.fromkeys(("date", "timestamp"), date)
    fitting = {**days, "real": int | float, "integer": int, "wide integer": int}
    return end if kind in fitting and isinstance(end, fitting[kind]) else None


def _null(column: SourceColumn, values: Values | None) -> str:
    """Return the line about NULL and undeclared values."""
    allowed, references = allowed_values(column), column.constraints.references
    if allowed.null:
        return "nullable = true    # the table allows NULL: GROUP BY shows it as a group"
    if allowed.null is None and values is not None and values.nulls:
        return "nullable = true    # the table has NULL: GROUP BY shows it as a group"
    if allowed.null is None:
        return "# nullable = true    # let GROUP BY show NULL as a group"
    if column.kind == "boolean" or _is_listed(column) or None not in _ends(column):
        return "complete = true    # the table's constraints exclude NULL and everything else"
    if references:
        return (
            f"# complete = true    # it is NOT NULL and refers to {references}: if all "
            "values there are declared"
        )
    return "# complete = true    # it is NOT NULL: if no record can have anything undeclared"


def _listed(column: SourceColumn, values: Values | None) -> str:
    if _is_listed(column):
        return (
            f"values = [{', '.join(show(value) for value in allowed_values(column).values or ())}]"
        )
    if values is None:
        return '# declare: values = ["first", "second"]'
    if not values.distinct:
        return f'# declare: values = ["first"]    # none, or more than {MOST_VALUES}'
    return f"values = [{', '.join(show(value) for value in values.distinct)}]"


def allowed_values(column: SourceColumn) -> Allowed:
    """Return the values that the catalogue's constraints let into a column."""
    known = column.constraints
    plain = Allowed(null=known.null, values=known.values)
    checks = checked(known.checks, known.dialect) if known.checks else {}
    return plain.narrowed(checks.get(column.name.casefold(), Allowed()))


def catalogue_notes(engine: Engine, domain: Domain, csv: CsvFormat) -> tuple[Problem, ...]:
    """Return notes on what may not be meant: a format, a type, or an incomplete column."""
    stored = {column.name.casefold(): column for column in engine.columns}
    found = _date_note(engine, domain, csv)
    single = len(stored) == 1 == len(domain.columns)
    if single and next(iter(stored.values())).kind == "untyped text":
        found.append(
            Problem(
                file=engine.location,
                code="one-column",
                message="the file has a single column",
                hint="If another character than a comma separates its fields, name it: separator "
                'under [csv] in the plan, such as separator = ";".',
            )
        )
    for column in domain.columns:
        source = stored.get(column.name.casefold())
        if source is not None and source.kind == "timestamp" and column.type == "date":
            found.append(
                Problem(
                    file=engine.location,
                    code="day-of-timestamp",
                    message=f"{column.name!r} is stored as {source.native} and is read as its day",
                    hint="Statements see a DATE, without the hour. To distinguish hours "
                    'apart, declare type = "timestamp" and every = "hour". With a time zone, days '
                    "and hours are those in UTC.",
                )
            )
        if source is None or not column.complete:
            continue
        allowed = allowed_values(source)
        others = ["NULL"] if allowed.null else []
        if column.type == "category":
            known: set[object] = set(column.values)
            others += [repr(value) for value in allowed.values or () if value not in known]
        if others:
            more = ", ..." if len(others) > NOTED_VALUES else ""
            found.append(
                Problem(
                    file=engine.location,
                    code="complete-column",
                    message=f"{column.name!r} may be {', '.join(others[:NOTED_VALUES])}{more} and "
                    "is declared complete",
                    hint="A record that has it is counted nowhere. Take complete = true out of "
                    "the schema, or let the table's constraints exclude it.",
                )
            )
    return tuple(found)


def _date_note(engine: Engine, domain: Domain, csv: CsvFormat) -> list[Problem]:
    """Return a note on the dates of a CSV file, unless the plan says how they are written."""
    untyped = {c.name.casefold() for c in engine.columns if c.kind == "untyped text"}
    dates = [c.name for c in domain.columns if c.type == "date" and c.name.casefold() in untyped]
    if not dates or csv.date_format is not None:
        return []
    return [
        Problem(
            file=engine.location,
            code="date-format",
            message=f"dates in {', '.join(map(repr, dates))} are read as 2025-03-28; whatever is "
            "written in another way is read as NULL",
            hint='If they are written as 28.03.2025, write date_format = "%d.%m.%Y" under [csv] in '
            'the plan; date_format = "%Y-%m-%d" says that this is right.',
        )
    ]

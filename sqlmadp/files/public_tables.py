"""Public tables of a schema file: what anybody may know, to be joined on declared columns.

    [public.states]                       # a lookup: state to region
    columns = ["state", "region"]
    rows    = [["CA", "West"], ["NY", "East"]]

    [public.prices]
    file = "prices.csv"                   # or .parquet, relative to the schema file

    [public.wards]
    table = "reference.wards"             # of the private table's own database: marked as public

Inline values are text, integers, numbers, booleans or dates, of one type per column; a file has the
types that DuckDB reads in it.  Nothing of a public table is private, so its values may be shown.
"""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb

from sqlmadp.files import MOST_PUBLIC_ROWS
from sqlmadp.files.toml import Table, is_name, show
from sqlmadp.table.domain import PublicTable, Value

_FORMATS = {".csv": "read_csv", ".parquet": "read_parquet"}
_TYPES: dict[type, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    date: "DATE",
}


def read_public(root: Table, folder: Path, private: str | None) -> tuple[PublicTable, ...]:
    """Return the public tables of a schema file; what is wrong with them is reported."""
    if "public" not in root.values:
        return ()
    declared = root.table("public", "a table per public table, such as [public.states]")
    if declared is None:
        return ()
    tables = []
    taken = {(private or "").casefold()}
    for name in declared.values:
        if not is_name(name) or name.startswith("__") or name.casefold() in taken:
            message = "cannot be used; write a name that no other table has, without __ in front"
            declared.report(name, message, code="bad-name")
        taken.add(name.casefold())
        table = declared.table(name, "a table with columns and rows, with a file, or with a table")
        if table is not None and (found := _public(name, table, folder)) is not None:
            tables.append(found)
    return tuple(tables)


def _public(name: str, table: Table, folder: Path) -> PublicTable | None:
    if "file" in table.values:
        return _from_file(name, table, folder)
    if "table" not in table.values:
        return _inline(name, table)
    table.only(("table",), "a public table of the source's database")
    other = table.text("table", 'a table of the source\'s database, such as "reference.wards"')
    return None if other is None else PublicTable(name=name, table=other)


def _inline(name: str, table: Table) -> PublicTable | None:
    table.only(("columns", "rows"), "a public table")
    columns: Any = table.values.get("columns")
    rows: Any = table.values.get("rows")
    sound = isinstance(columns, list) and bool(columns) and all(_is_column(c) for c in columns)
    if not sound or len({str(c).casefold() for c in columns}) < len(columns):
        table.refuse("columns", 'a list of different names, such as ["state", "region"]')
        return None
    width = len(columns)
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == width for r in rows):
        table.refuse("rows", f"a list of rows of {width} values each")
        return None
    kinds = []
    for place, column in enumerate(columns):
        found = {_kind(row[place]) for row in rows}
        if found <= {"BIGINT", "DOUBLE"} and len(found) == 2:
            found = {"DOUBLE"}
        if len(found) > 1 or None in found:
            message = f"has values of several or unknown types in column {show(column)}"
            table.report(
                "rows",
                f"{message}; write all text, all numbers, all booleans or all dates",
                code="mixed-values",
            )
            return None
        kinds.append(next(iter(found), "VARCHAR") or "VARCHAR")
    return PublicTable(
        name=name,
        columns=tuple(zip(columns, kinds, strict=True)),
        rows=tuple(tuple(row) for row in rows),
    )


def _is_column(name: object) -> bool:
    return isinstance(name, str) and is_name(name)


def _kind(value: object) -> str | None:
    return None if isinstance(value, datetime) else _TYPES.get(type(value))


def _from_file(name: str, table: Table, folder: Path) -> PublicTable | None:
    table.only(("file",), "a public table with a file")
    given = table.values["file"]
    path = folder / given if isinstance(given, str) and is_name(given) else None
    if path is None or path.suffix.lower() not in _FORMATS or not path.is_file():
        table.refuse("file", "a .csv or .parquet file that exists, relative to the schema file")
        return None
    try:
        columns, rows = _read(path)
    except duckdb.Error:
        table.refuse("file", "a .csv file with a header, or a .parquet file, that DuckDB can read")
        return None
    if len(rows) > MOST_PUBLIC_ROWS:
        table.refuse("file", f"a file of at most {MOST_PUBLIC_ROWS:,} rows")
        return None
    return PublicTable(name=name, columns=columns, rows=rows)


def _read(path: Path) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[Value, ...], ...]]:
    reader = _FORMATS[path.suffix.lower()]
    with duckdb.connect(":memory:") as connection:
        described = connection.execute(
            f"DESCRIBE SELECT * FROM {reader}(?)", [str(path)]
        ).fetchall()
        columns = tuple((str(column), _simple(str(kind))) for column, kind, *_ in described)
        quoted = [column.replace('"', '""') for column, _ in columns]
        casts = ", ".join(
            f'CAST("{column}" AS {kind})' for column, (_, kind) in zip(quoted, columns, strict=True)
        )
        rows = connection.execute(
            f"SELECT {casts} FROM {reader}(?) LIMIT {MOST_PUBLIC_ROWS + 1}", [str(path)]
        ).fetchall()
    return columns, tuple(rows)


def _simple(kind: str) -> str:
    """Return the type that statements see for a type in a file."""
    if kind in ("BOOLEAN", "DATE", "DOUBLE", "BIGINT"):
        return kind
    if kind in ("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"):
        return "BIGINT"
    return "DOUBLE" if kind == "FLOAT" or kind.startswith("DECIMAL") else "VARCHAR"

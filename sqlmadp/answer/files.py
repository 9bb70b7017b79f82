"""Result files: the rows of a query as CSV, Parquet or JSON.

CSV and Parquet hold exactly the columns of the statement, with DuckDB's types.  JSON holds
the expected errors too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from sqlmadp.answer.result import Result
from sqlmadp.errors import OperationalError

FORMATS = ("csv", "parquet", "json")


def as_json(result: Result) -> dict[str, Any]:
    """Return a result as plain values, in the form of ``release --json``."""
    return {
        "columns": [name for name, _ in result.columns],
        "rows": [list(row) for row in result.rows],
        "rmse": {name: list(errors) for name, errors in result.rmse.items()},
        **({"notes": list(result.notes)} if result.notes else {}),
    }


def encode(value: Any) -> bytes:
    """Return a value as JSON; what JSON does not know becomes text."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2)


def write_results(results: Mapping[str, Mapping[str, Result]], folder: Path, form: str) -> None:
    """Write all results of all analysts, each to ``folder/analyst/query.form``."""
    written: dict[int, Path] = {}
    with duckdb.connect(":memory:") as connection:
        for analyst, own in results.items():
            for name, result in own.items():
                path = folder / analyst / f"{name}.{form}"
                _write_result(result, path, connection, like=written.get(id(result)))
                written.setdefault(id(result), path)


def _write_result(
    result: Result, path: Path, connection: duckdb.DuckDBPyConnection, like: Path | None
) -> None:
    """Write a result to ``path`` in the format of its suffix, whole or not at all.

    ``like`` is a file that holds it already.
    """
    aside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if like is not None:
            shutil.copyfile(like, aside)
        elif path.suffix == ".json":
            aside.write_bytes(encode(as_json(result)) + b"\n")
        else:
            _copy(result.relation(connection), aside, path.suffix[1:])
        os.replace(aside, path)
    except (OSError, duckdb.IOException) as error:
        reason = error.strerror if isinstance(error, OSError) else "DuckDB cannot write there"
        message = f"cannot write {str(path)!r} ({reason}); the release is stored, so run it again"
    else:
        return
    aside.unlink(missing_ok=True)
    raise OperationalError(f"{message} with another --out: it spends nothing")


def _copy(rows: duckdb.DuckDBPyRelation, path: Path, form: str) -> None:
    if form == "csv":
        rows.write_csv(str(path), header=True)
    else:
        rows.write_parquet(str(path))

"""The files that a plan names: one by one, in a list, or by a glob; relative to its folder."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from sqlmadp.toml_file import Table, is_name, show

_QUERIES = 'a file, a list of files or a glob, such as "alice.sql" or "alice/*.sql"'


def files_at_queries(table: Table, folder: Path) -> tuple[Path, ...]:
    """Return an analyst's files of statements, each once."""
    if "queries" not in table.values:
        return ()  # Then the statements come from a connection.
    given = table.values["queries"]
    items = given if isinstance(given, list) else [given]
    names = [item for item in items if isinstance(item, str) and is_name(item)]
    if not names or len(names) < len(items):
        table.refuse("queries", _QUERIES)
        return ()
    files: dict[Path, Path] = {}
    for name in names:
        found = _find(name, folder)
        if not found:
            report_missing(table, "queries", name)
        for file in found:
            files.setdefault(file.resolve(), file)
    return tuple(files.values())


def _find(name: str, folder: Path) -> list[Path]:
    """Return the files that a name or glob stands for, in alphabetical order."""
    if os.path.isfile(folder / name):
        return [folder / name]
    matches = glob.glob(name, root_dir=folder, recursive=True)
    return [folder / match for match in sorted(matches) if os.path.isfile(folder / match)]


def report_missing(table: Table, key: str, name: str) -> None:
    """Note that a name, or a glob, stands for no file."""
    what = "matches no file" if glob.has_magic(name) else "is no file"
    message = f"names {show(name)}, which {what}; allowed: a file, relative to the plan's folder"
    table.report(key, message, code="missing-file")

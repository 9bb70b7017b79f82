"""The files that a plan names: one by one, in a list, or by a glob; relative to its folder.

Analysts may write into the plan's folder, and what is wrong in a statement is quoted back to them.
So a file stays where the curator named it: inside the plan's folder or, if the path is absolute,
inside the folder written there.  No link is followed out of it, and no glob walks the whole disk.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path

from sqlmadp.files.toml import Table, is_name, show

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
        for file in _named(table, name, folder):
            files.setdefault(file.resolve(), file)
    return tuple(files.values())


def _named(table: Table, name: str, folder: Path) -> list[Path]:
    """Return the files that a name or glob stands for; note it if there are none, or elsewhere."""
    absolute = os.path.isabs(name)
    base = _plain(Path(name)) if absolute else folder
    pattern = os.path.relpath(name, base) if absolute else name
    if not absolute and not _inside(folder / _plain(Path(name)), folder):
        _report_outside(table, name, "is outside the plan's folder")
        return []
    found = [base / pattern] if os.path.isfile(base / pattern) else []
    if not found and glob.has_magic(name):
        if ".." in Path(pattern).parts or (absolute and ("**" in name or base == Path("/"))):
            table.report(
                "queries",
                f"names {show(name)}, which would walk through folders that it does not name; "
                "allowed: ** in the plan's folder, or a glob without ** in a folder that is named",
                code="wide-glob",
            )
            return []
        found = _matches(base, pattern)
    if not found:
        report_missing(table, "queries", name)
    for file in found:
        if not _inside(file, base):
            where = "the folder that it names" if absolute else "the plan's folder"
            _report_outside(table, name, f"leads out of {where} by a link, {show(file.name)}")
            return []
    return found


def _matches(folder: Path, pattern: str) -> list[Path]:
    """Return the files that a glob stands for, in alphabetical order; hidden ones are not meant.

    Unlike `glob.glob`, which would follow links to folders wherever they lead.
    """
    parts = [part if part == "**" else part.replace("**", "*") for part in Path(pattern).parts]
    parts += ["*"] if parts[-1] == "**" else []
    hidden = any(part.startswith(".") for part in parts)
    return [
        file
        for file in sorted(folder.glob("/".join(parts)))
        if os.path.isfile(file)
        and (hidden or not any(p.startswith(".") for p in file.relative_to(folder).parts))
    ]


def _plain(path: Path) -> Path:
    """Return the folder of a file, or the last one before the first wildcard of a glob."""
    return next((each for each in path.parents if not glob.has_magic(str(each))), path)


def _inside(file: Path, folder: Path) -> bool:
    return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))


def _report_outside(table: Table, name: str, why: str) -> None:
    allowed = "a file inside it, or the file's own absolute path"
    message = f"names {show(name)}, which {why}; allowed: {allowed}"
    table.report("queries", message, code="outside-folder")


def report_missing(table: Table, key: str, name: str) -> None:
    """Note that a name, or a glob, stands for no file."""
    what = "matches no file" if glob.has_magic(name) else "is no file"
    message = f"names {show(name)}, which {what}; allowed: a file, relative to the plan's folder"
    table.report(key, message, code="missing-file")

"""The analysts of a plan: their names, files, parameters, and shares that sum to exactly 1.

Analysts may write into the plan's folder, and what is wrong in a statement is quoted back to them.
So a file stays where the curator named it: inside the plan's folder or, if the path is absolute,
inside the folder written there.  No link is followed out of it, and no glob walks the whole disk.
"""

from __future__ import annotations

import glob
import os
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from fractions import Fraction
from pathlib import Path

from sqlmadp.errors import ProgrammingError
from sqlmadp.files.toml import Table, dotted, exact, is_name, positive, show, suggest

_PARAMETER_TYPES = (str, int, float, date, datetime, time)


@dataclass(frozen=True, kw_only=True)
class Analyst:
    """A named party with SQL files and a share."""

    name: str
    files: tuple[Path, ...]
    """Files of statements, in the order of the plan; a glob's in alphabetical order.

    An analyst without any hands statements in from a connection.
    """
    share: Fraction
    """This analyst's part of the plan's epsilon."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """Values of ``$name`` in the analyst's statements."""
    dialect: str = "duckdb"
    """The dialect of SQL of files that name none themselves."""


def read_analysts(root: Table, folder: Path, epsilon: Fraction | None) -> tuple[Analyst, ...]:
    """Return the analysts in the order of the file; note every mistake about them."""
    declared = root.table("analysts", "a table per analyst, such as [analysts.alice]")
    if declared is None:
        return ()
    if not declared.values:
        root.report(
            "analysts",
            "is empty; write a table per analyst, such as [analysts.alice]",
            code="no-analysts",
        )
    _check_names(declared)
    files: dict[str, tuple[Path, ...]] = {}
    tables: list[Table] = []
    for name in declared.values:
        table = declared.table(name, "a table with queries and, if you like, a share")
        if table is not None:
            table.only(("queries", "share", "epsilon", "parameters", "dialect"), "an analyst")
            tables.append(table)
            files[name] = files_at_queries(table, folder)
    if any("epsilon" in table.values for table in tables):
        shares = _shares_of_epsilons(root, declared, tables, epsilon)
    else:
        shares = _shares(declared, tables)
    parameters = {table.key[-1]: _parameters(table) for table in tables}
    default = dialect_named(root)
    dialects = {table.key[-1]: dialect_named(table, default) for table in tables}
    return tuple(
        Analyst(
            name=name,
            files=files[name],
            share=share,
            parameters=parameters[name],
            dialect=dialects[name],
        )
        for name, share in shares.items()
    )


def no_analyst(name: str, known: Iterable[str]) -> ProgrammingError:
    """Return the error for a name that no analyst of a plan has."""
    names = list(known)
    listed = ", ".join(names)
    hint = suggest(name, names)
    message = f"no analyst {name!r} in this plan; there are {listed}. {hint}".rstrip(" .")
    return ProgrammingError(message, hint=hint)


def dialect_named(table: Table, default: str = "duckdb") -> str:
    """Return the dialect of SQL that a plan or an analyst names."""
    given = table.values.get("dialect", default)
    if given == default:
        return default
    from sqlmadp.sql.dialects import dialect_names  # noqa: PLC0415 - sqlglot is slow to import.

    names = dialect_names()
    if isinstance(given, str) and given in names:
        return given
    hint = suggest(given, names) if isinstance(given, str) else ""
    table.refuse("dialect", f"one of {', '.join(show(name) for name in names)}", hint=hint)
    return default


def epsilon_brought(root: Table) -> Fraction | None:
    """Return the sum of the analysts' own epsilons; None unless each of them has a sound one."""
    analysts = root.values.get("analysts")
    tables = list(analysts.values()) if isinstance(analysts, dict) else []
    given = [exact(table.get("epsilon")) for table in tables if isinstance(table, dict)]
    known = [each for each in given if each is not None and each > 0]
    return sum(known, Fraction(0)) if known and len(known) == len(tables) else None


def _parameters(analyst: Table) -> Mapping[str, object]:
    """Return the values of an analyst's ``$name`` parameters."""
    if "parameters" not in analyst.values:
        return {}
    table = analyst.table("parameters", "a table of values, such as { min_age = 18 }")
    if table is None:
        return {}
    for name, value in table.values.items():
        items = value if isinstance(value, list) else [value]
        if not name.isidentifier() or not all(isinstance(i, _PARAMETER_TYPES) for i in items):
            table.refuse(name, "text, a number, a boolean, a date, or a list of them, under a name")
    return table.values


def _check_names(declared: Table) -> None:
    """Note names that cannot name the folder of an analyst's answers, and names given twice."""
    names: dict[str, str] = {}
    for name in declared.values:
        unusable = not is_name(name) or name != name.strip() or len(name.encode()) > 200
        if unusable or name[0] == "." or name[-1] == "." or set(name) & set('/\\<>:"|?*'):
            message = (
                "has a name that the folder of its answers cannot have; write one of at most 200 "
                'bytes without / \\ < > : " | ? * and without a dot or a blank at its ends'
            )
            declared.report(name, message, code="bad-name")
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        first = names.setdefault(folded, name)
        if first != name:
            declared.report(
                name,
                f"has the same name as {dotted((*declared.key, first))}; "
                "write names that differ in more than case or the form of their letters",
                code="duplicate-analyst",
            )


def _shares_of_epsilons(
    root: Table, declared: Table, tables: list[Table], epsilon: Fraction | None
) -> dict[str, Fraction]:
    """Return every analyst's share from their epsilons; note what is given twice or missing."""
    brought = {
        table.key[-1]: positive(table, "epsilon") for table in tables if "epsilon" in table.values
    }
    others = [table for table in tables if "epsilon" not in table.values]
    without = [show(table.key[-1]) for table in others]
    if without:
        own = next(show(table.key[-1]) for table in tables if "epsilon" in table.values)
        message = f"has an epsilon for {own}, but none for {', '.join(without)}"
        hint = "Write an epsilon under everyone's name, and none at the top of the plan."
        if (given := exact(root.values.get("epsilon"))) is not None:
            shares = [
                exact(each.values.get("share")) or Fraction(1, len(others)) for each in others
            ]
            parts = (
                f'"{given * share}" for {name}' for share, name in zip(shares, without, strict=True)
            )
            hint += (
                f" To add {own} to a released plan of epsilon {given}, write what each of the "
                f"others had of it: epsilon = {', '.join(parts)}."
            )
        declared.file.report(declared.key, message, code="missing-epsilon", hint=hint)
    for table in tables:
        if "share" in table.values and "epsilon" in table.values:
            table.report("share", "is given, and so is epsilon; remove one of them", code="both")
    known = {name: each for name, each in brought.items() if each is not None}
    total = sum(known.values(), Fraction(0))
    if "epsilon" in root.values and not without and epsilon not in (None, total):
        message = f"is {epsilon}, but the analysts' own add up to {total}"
        hint = f'Write epsilon = "{total}", or remove the line.'
        root.report("epsilon", message, code="epsilon-not-sum", hint=hint)
    return {name: each / total for name, each in known.items()}


def _shares(declared: Table, tables: list[Table]) -> dict[str, Fraction]:
    """Return every analyst's share: as written by all, or equal when written by nobody."""
    without = [table.key[-1] for table in tables if "share" not in table.values]
    if len(without) == len(tables):
        return {name: Fraction(1, len(without)) for name in without}
    shares = {
        table.key[-1]: positive(table, "share") for table in tables if "share" in table.values
    }
    if without:
        names = ", ".join(show(name) for name in without)
        message = f"has shares, but none for {names}"
        hint = "Write a share for everyone, or remove all of them: then all shares are equal."
        declared.file.report(declared.key, message, code="missing-share", hint=hint)
        return {}
    known = {name: share for name, share in shares.items() if share is not None}
    if len(known) == len(shares) and (total := sum(known.values())) != 1:
        message = f"has shares that sum to {total}; write shares that sum to exactly 1"
        scaled = ", ".join(f'{show(name)} "{share / total}"' for name, share in known.items())
        hint = f"In the same proportions: {scaled}. Without any share, all are equal."
        declared.file.report(declared.key, message, code="shares-not-one", hint=hint)
    return known


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
    """Return the files of a name or glob; note it if there are none, or if they are elsewhere."""
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
                "write ** in the plan's folder only, or name the folder and leave out **",
                code="wide-glob",
            )
            return []
        found = _matches(base, pattern)
    if not found:
        report_missing(table, "queries", name, base)
    for file in found:
        if not _inside(file, base):
            where = "the folder that it names" if absolute else "the plan's folder"
            _report_outside(table, name, f"leads out of {where} by a link, {show(file.name)}")
            return []
    return found


def _matches(folder: Path, pattern: str) -> list[Path]:
    """Return the files that match a glob, in alphabetical order, without hidden ones.

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
    message = f"names {show(name)}, which {why}; write the file's own absolute path"
    table.report("queries", message, code="outside-folder")


def report_missing(table: Table, key: str, name: str, folder: Path) -> None:
    """Note that a name or a glob matches no file."""
    pattern = glob.has_magic(name)
    what = "matches no file" if pattern else "is no file"
    message = f"names {show(name)}, which {what}; write a file's path from the plan's folder"
    near = () if pattern else [each.name for each in (folder / name).parent.glob("*.*")]
    table.report(key, message, code="missing-file", hint=suggest(Path(name).name, near))

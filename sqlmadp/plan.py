"""The release plan: analysts, shares, schema, mechanism, epsilon.

    schema    = "../../schemas/people.toml"
    source    = "people.parquet"       # the private table
    epsilon   = "1"                    # exact: "1", "0.5", "1/3"
    mechanism = "waterfilling"         # this one if the line is left out
    nonnegative = true                 # optional: no count below zero
    consistent  = true                 # optional: counts are integers that add up

    [ledger]
    path   = "people.ledger"
    budget = "2"                       # the whole epsilon that the ledger may spend
    head   = "2c26..."                 # optional: a head that `sqlmadp ledger` printed before

    [analysts.alice]
    queries = "alice.sql"              # a file, a list of files, or a glob; not needed if
    share   = "1/3"                    # alice hands in from Python.  Equal shares if nobody has one

    [analysts.bob]                     # instead of shares, and of the epsilon above: everybody's
    epsilon = "1/2"                    # own epsilon, so that analysts can be added one by one

    [analysts.alice.parameters]        # values of $name in alice's statements
    min_age = 18

    [limits]                           # how large statements may be: see ``sql.limits``
    in_list = 50000

Paths are relative to the plan's folder.  Numbers are exact fractions, so they are written
as text: TOML's own 0.1 is not one tenth.  Reading a plan reads no data, and every mistake
of the file is reported at once.
"""

from __future__ import annotations

import glob
import os
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime, time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from sqlmadp.errors import PlanError
from sqlmadp.sql.limits import DEFAULT, Limits
from sqlmadp.toml_file import Table, TomlFile, dotted, is_name, show, suggest

if TYPE_CHECKING:
    from sqlmadp.preview import Previews
    from sqlmadp.release import Progress, Release

MECHANISMS = (
    "independent",
    "identity",
    "utilitarian",
    "weighted_utilitarian",
    "waterfilling",
    "pareto",
    "ratchet",
)
"""The mechanisms that a plan may name."""

DEFAULT_MECHANISM = "waterfilling"

_KEYS = (
    *("schema", "source", "epsilon", "mechanism", "nonnegative", "consistent", "late"),
    *("ledger", "analysts", "limits"),
)
_POSITIVE = 'a number above 0 in quotes, such as "1", "0.5" or "1/3", of at most 20 digits'
_QUERIES = 'a file, a list of files or a glob, such as "alice.sql" or "alice/*.sql"'

_PARAMETER_TYPES = (str, int, float, date, datetime, time)

# Bounded, so that the number also fits wherever floating point works out an expected error.
_NUMBER = re.compile(
    r"[+-]?([0-9]{1,20}(/[0-9]{1,20})?|[0-9]{0,20}\.?[0-9]{1,20}(e[+-]?[0-9]{1,2})?)"
)
_HEAD = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Analyst:
    """A named party with SQL files and a share."""

    name: str
    files: tuple[Path, ...]
    """Files of statements, in the order of the plan; a glob's in alphabetical order.

    An analyst without any hands statements in from a connection.
    """
    share: Fraction
    """The part of the plan's epsilon that this analyst brings."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """Values of ``$name`` in the analyst's statements."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one release is made of; shares sum to exactly 1."""

    path: Path
    schema_path: Path
    source: str = field(repr=False)
    """The private table, as the plan names it; a URL may hold a password."""
    epsilon: Fraction
    mechanism: str
    ledger_path: Path
    budget: Fraction
    """The whole epsilon that the ledger may spend; at least ``epsilon``."""
    head: str | None = None
    """A hash that the ledger's chain must hold, so that an older copy is noticed."""
    analysts: tuple[Analyst, ...]
    """In the order of the file."""
    limits: Limits = DEFAULT
    """How large statements and their cells may be."""
    nonnegative: bool = False
    """Whether answers come from an estimate with no cell below zero; no part of the release."""
    consistent: bool = False
    """Whether counts are integers that add up; no part of the release."""
    late: bool = True
    """Whether analysts who were added to a completed release only add what they bring."""

    @classmethod
    def open(cls, path: str | Path) -> Plan:
        """Return the plan in the file at ``path``; PlanError lists all of its mistakes."""
        file = TomlFile(Path(path), PlanError)
        root, folder = file.root, Path(path).parent
        root.only(_KEYS, "a plan")
        schema = root.text("schema", 'a schema file, such as "people.toml"')
        if schema is not None and not os.path.isfile(folder / schema):
            _report_missing(root, "schema", schema)
        source = root.text("source", 'the private table, such as "people.parquet"')
        mechanism = _mechanism(root)
        ledger_path, budget, head = _ledger(root)
        epsilon = _epsilon(root, budget)
        analysts = _analysts(root, folder, epsilon)
        limits = _limits(root)
        nonnegative, consistent = (_switch(root, name) for name in ("nonnegative", "consistent"))
        late = _switch(root, "late", default=True)
        file.finish()
        return cls(
            path=Path(path),
            schema_path=folder / (schema or ""),
            source=source or "",
            epsilon=epsilon or Fraction(0),
            mechanism=mechanism,
            ledger_path=folder / (ledger_path or ""),
            budget=budget or Fraction(0),
            head=head,
            analysts=analysts,
            limits=limits,
            nonnegative=nonnegative,
            consistent=consistent,
            late=late,
        )

    @property
    def folder(self) -> Path:
        """Return the folder that the plan's paths are relative to."""
        return self.path.parent

    def staged_path(self, analyst: str) -> Path:
        """Return the file, which need not exist, of what ``analyst`` handed in from Python."""
        return self.path.with_name(f"{self.path.stem}.staged") / f"{analyst}.sql"

    # The heavy parts are imported when they are used: they dominate start-up.

    def preview(self, *mechanisms: str, progress: Progress = lambda _: None) -> Previews:
        """Return what the named mechanisms, or all, would give everyone; reads no data."""
        from sqlmadp.preview import preview_plan  # noqa: PLC0415

        return preview_plan(self, mechanisms or MECHANISMS, progress)

    def release(
        self, *, progress: Progress = lambda _: None, notice: Progress = lambda _: None
    ) -> Release:
        """Spend epsilon once and return the release; a completed one again, free.

        ``notice`` is told, before anything is spent, what is about to be.
        """
        from sqlmadp.release import release  # noqa: PLC0415
        from sqlmadp.strategy.cache import StrategyCache, default_directory  # noqa: PLC0415

        return release(self, StrategyCache(default_directory()), progress, notice)

    def released(self) -> Release:
        """Return the completed release, or raise NotReleasedError; spends and reads nothing."""
        from sqlmadp.release import released  # noqa: PLC0415

        return released(self)


def _mechanism(root: Table) -> str:
    given = root.values.get("mechanism", DEFAULT_MECHANISM)
    if isinstance(given, str) and given in MECHANISMS:
        return given
    hint = suggest(given, MECHANISMS) if isinstance(given, str) else ""
    root.refuse("mechanism", ", ".join(show(name) for name in MECHANISMS), hint=hint)
    return DEFAULT_MECHANISM


def _switch(root: Table, name: str, *, default: bool = False) -> bool:
    given = root.values.get(name, default)
    if not isinstance(given, bool):
        root.refuse(name, "true or false, without quotes")
    return given is True


def _ledger(root: Table) -> tuple[str | None, Fraction | None, str | None]:
    ledger = root.table("ledger", "a table with path and budget, [ledger]")
    if ledger is None:
        return None, None, None
    ledger.only(("path", "budget", "head"), "the ledger")
    head = ledger.values.get("head")
    if head is not None and not (isinstance(head, str) and _HEAD.fullmatch(head)):
        ledger.refuse("head", "a head that 'sqlmadp ledger' printed: 64 digits and letters a-f")
    path = ledger.text("path", 'a file, such as "people.ledger"')
    return path, _positive(ledger, "budget"), head if isinstance(head, str) else None


def _epsilon(root: Table, budget: Fraction | None) -> Fraction | None:
    """Return the plan's epsilon, or the sum of what all analysts bring if they say so."""
    epsilon = _brought(root) if "epsilon" not in root.values else None
    epsilon = _positive(root, "epsilon") if epsilon is None else epsilon
    if epsilon is not None and budget is not None and epsilon > budget:
        root.report(
            "epsilon",
            f"is {epsilon}, above ledger.budget, which is {budget}; allowed: at most the budget",
            code="epsilon-above-budget",
            hint=f"Lower epsilon to at most {budget}; a ledger never spends more than its budget.",
        )
    return epsilon


def _brought(root: Table) -> Fraction | None:
    """Return the sum of the analysts' own epsilons; None unless each of them has a sound one."""
    analysts = root.values.get("analysts")
    tables = list(analysts.values()) if isinstance(analysts, dict) else []
    given = [exact(table.get("epsilon")) for table in tables if isinstance(table, dict)]
    known = [each for each in given if each is not None and each > 0]
    return sum(known, Fraction(0)) if known and len(known) == len(tables) else None


def _positive(table: Table, name: str) -> Fraction | None:
    """Return the exact positive number at ``name``, or None and a mistake noted."""
    given = table.values.get(name)
    if isinstance(given, float):
        hint = (
            f'In quotes it is exact: {name} = "{given}".' if _NUMBER.fullmatch(str(given)) else ""
        )
        table.refuse(name, _POSITIVE, hint=hint)
        return None
    number = exact(given)
    if number is None or number <= 0:
        table.refuse(name, _POSITIVE)
        return None
    return number


def exact(given: object) -> Fraction | None:
    """Return the number that a plan, or an option in its place, gives; None if it gives none."""
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) < 10**20:
        return Fraction(given)
    text = given if isinstance(given, str) else ""
    if not _NUMBER.fullmatch(text.lower()):
        return None
    try:
        return Fraction(text)
    except ZeroDivisionError:
        return None


def _analysts(root: Table, folder: Path, epsilon: Fraction | None) -> tuple[Analyst, ...]:
    declared = root.table("analysts", "a table an analyst, such as [analysts.alice]")
    if declared is None:
        return ()
    if not declared.values:
        root.report("analysts", "is empty; allowed: at least one analyst", code="no-analysts")
    _check_names(declared)
    files: dict[str, tuple[Path, ...]] = {}
    tables: list[Table] = []
    for name in declared.values:
        table = declared.table(name, "a table with queries and, if you like, a share")
        if table is not None:
            table.only(("queries", "share", "epsilon", "parameters"), "an analyst")
            tables.append(table)
            files[name] = _files(table, folder)
    if any("epsilon" in table.values for table in tables):
        shares = _shares_of_epsilons(root, declared, tables, epsilon)
    else:
        shares = _shares(declared, tables)
    parameters = {table.key[-1]: _parameters(table) for table in tables}
    return tuple(
        Analyst(name=name, files=files[name], share=share, parameters=parameters[name])
        for name, share in shares.items()
    )


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


def _limits(root: Table) -> Limits:
    """Return the limits, with those that the plan names changed."""
    if "limits" not in root.values:
        return DEFAULT
    table = root.table("limits", "a table of limits, such as [limits] in_list = 50000")
    if table is None:
        return DEFAULT
    known = [each.name for each in fields(Limits)]
    table.only(known, "limits")
    changed: dict[str, int] = {}
    for name, value in table.values.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**40:
            table.refuse(name, "a whole number above 0")
        elif name in known:
            changed[name] = value
    return replace(DEFAULT, **changed)


def _check_names(declared: Table) -> None:
    """Note names that cannot be folders, which hold an analyst's answers, and names twice."""
    names: dict[str, str] = {}
    for name in declared.values:
        unusable = not is_name(name) or name != name.strip() or len(name.encode()) > 200
        if unusable or name[0] == "." or name[-1] == "." or set(name) & set('/\\<>:"|?*'):
            allowed = 'a name that a folder can have: no / \\ < > : " | ? * and no dot at its ends'
            message = f"has a name that its answers' folder cannot have; allowed: {allowed}"
            declared.report(name, message, code="bad-name")
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        first = names.setdefault(folded, name)
        if first != name:
            declared.report(
                name,
                f"has the same name as {dotted((*declared.key, first))}; "
                "allowed: names that differ in more than case or the form of their letters",
                code="duplicate-analyst",
            )


def _files(table: Table, folder: Path) -> tuple[Path, ...]:
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
            _report_missing(table, "queries", name)
        for file in found:
            files.setdefault(file.resolve(), file)
    return tuple(files.values())


def _find(name: str, folder: Path) -> list[Path]:
    """Return the files that a name or glob stands for, in alphabetical order."""
    if os.path.isfile(folder / name):
        return [folder / name]
    matches = glob.glob(name, root_dir=folder, recursive=True)
    return [folder / match for match in sorted(matches) if os.path.isfile(folder / match)]


def _report_missing(table: Table, key: str, name: str) -> None:
    what = "matches no file" if glob.has_magic(name) else "is no file"
    message = f"names {show(name)}, which {what}; allowed: a file, relative to the plan's folder"
    table.report(key, message, code="missing-file")


def _shares_of_epsilons(
    root: Table, declared: Table, tables: list[Table], epsilon: Fraction | None
) -> dict[str, Fraction]:
    """Return every analyst's share from what each brings; note what is given twice or missing."""
    brought = {
        table.key[-1]: _positive(table, "epsilon") for table in tables if "epsilon" in table.values
    }
    without = [show(table.key[-1]) for table in tables if "epsilon" not in table.values]
    if without:
        message = f"has epsilons, but not for {', '.join(without)}; allowed: for everyone or nobody"
        declared.file.report(declared.key, message, code="missing-epsilon")
    for table in tables:
        if "share" in table.values and "epsilon" in table.values:
            table.report("share", "stands beside an epsilon; allowed: one of them", code="both")
    known = {name: each for name, each in brought.items() if each is not None}
    total = sum(known.values(), Fraction(0))
    if "epsilon" in root.values and not without and epsilon not in (None, total):
        message = f"is {epsilon}, but the analysts bring {total}; allowed: their sum, or no line"
        root.report("epsilon", message, code="epsilon-not-sum", hint=f'Write epsilon = "{total}".')
    return {name: each / total for name, each in known.items()}


def _shares(declared: Table, tables: list[Table]) -> dict[str, Fraction]:
    """Return every analyst's share: as written by all, or equal when written by nobody."""
    without = [table.key[-1] for table in tables if "share" not in table.values]
    if len(without) == len(tables):
        return {name: Fraction(1, len(without)) for name in without}
    shares = {
        table.key[-1]: _positive(table, "share") for table in tables if "share" in table.values
    }
    if without:
        names = ", ".join(show(name) for name in without)
        message = f"has shares, but not for {names}; allowed: a share for everyone or for nobody"
        declared.file.report(declared.key, message, code="missing-share")
        return {}
    known = {name: share for name, share in shares.items() if share is not None}
    if len(known) == len(shares) and (total := sum(known.values())) != 1:
        message = f"has shares that sum to {total}; allowed: shares that sum to exactly 1"
        declared.file.report(declared.key, message, code="shares-not-one")
    return known

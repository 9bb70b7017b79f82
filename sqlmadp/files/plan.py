"""The release plan: analysts, shares, schema, mechanism, epsilon.

    schema    = "../../schemas/people.toml"
    source    = "people.parquet"       # the private table
    epsilon   = "1"                    # exact: "1", "0.5", "1/3"
    mechanism = "waterfilling"         # this one if the line is left out
    nonnegative = true                 # optional: no count below zero
    consistent  = true                 # optional: counts are integers that add up
    measure     = "squared"            # optional: add up squared errors, as the paper does;
                                       # otherwise errors are relative to asking one by one
    late        = false                # optional: a plan with more analysts than one that was
                                       # released is a new release, not an addition to it
    skip_refused = true                # optional: go on without statements that are refused

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

    [csv]                              # if the source is a CSV file, how it is written
    separator   = ";"                  # "," if left out
    date_format = "%d.%m.%Y"           # as strptime takes it; 2025-03-28 if left out
    decimal     = ","                  # "." if left out

    [limits]                           # how large statements may be: see ``sql.limits``
    in_list = 50000

Paths are relative to the plan's folder.  Numbers are exact fractions, so they are written
as text: TOML's own 0.1 is not one tenth.  Reading a plan reads no data, and every mistake
of the file is reported at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sqlmadp.errors import PlanError, Problem
from sqlmadp.files.analysts import (
    Analyst,
    dialect_named,
    epsilon_brought,
    read_analysts,
    report_missing,
)
from sqlmadp.files.toml import Table, TomlFile, positive, show, suggest
from sqlmadp.sql.limits import DEFAULT, Limits
from sqlmadp.table.csv_format import CsvFormat

if TYPE_CHECKING:
    from sqlmadp.private.engines import Source
    from sqlmadp.release.preview import Previews
    from sqlmadp.release.release import Progress, Release

DEFAULT_MECHANISM = "waterfilling"

_KEYS = (
    *("schema", "source", "epsilon", "mechanism", "nonnegative", "consistent", "late"),
    *("skip_refused", "ledger", "analysts", "limits", "dialect", "csv", "measure"),
)

Measure = Literal["relative", "squared"]
MEASURES: tuple[Measure, ...] = ("relative", "squared")
"""What is made small: errors relative to asking one by one, or the plain sum of squares."""


_HEAD = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one release is made of; shares sum to exactly 1."""

    path: Path
    schema_path: Path
    source: str = field(repr=False)
    """The private table, as the plan names it; a URL may have a password in it."""
    epsilon: Fraction
    mechanism: str
    ledger_path: Path
    budget: Fraction
    """The whole epsilon that the ledger may spend; at least ``epsilon``."""
    head: str | None = None
    """A hash that the ledger's chain must contain, so that an older copy is noticed."""
    analysts: tuple[Analyst, ...]
    """In the order of the file."""
    dialect: str = "duckdb"
    """The dialect of SQL of statements that nothing else names one for."""
    limits: Limits = DEFAULT
    """How large statements and their cells may be."""
    nonnegative: bool = False
    """Whether answers come from an estimate with no cell below zero; no part of the release."""
    consistent: bool = False
    """Whether counts are integers that add up; no part of the release."""
    measure: Measure = "relative"
    """How errors of different statements are made comparable."""
    late: bool = True
    """Whether analysts who were added to a completed release only add their own epsilon."""
    skip_refused: bool = False
    """Whether a release goes on without statements that are refused."""
    csv: CsvFormat = CsvFormat()  # noqa: RUF009 - It never changes.
    """How the source is written, if it is a CSV file."""

    @classmethod
    def open(cls, path: str | Path) -> Plan:
        """Return the plan in the file at ``path``; PlanError lists all of its mistakes."""
        plan, problems = cls.read(path)
        if problems:
            raise PlanError(problems)
        return plan

    @classmethod
    def read(cls, path: str | Path) -> tuple[Plan, tuple[Problem, ...]]:
        """Return the readable part of a plan and its mistakes; PlanError if it is no plan."""
        file = TomlFile(Path(path), PlanError)
        hint = f'Name the plan, which has the line schema = "{Path(path).name}".'
        file.refuse_other("a schema, not a plan", ("table", "columns"), hint)
        root, folder = file.root, Path(path).parent
        root.only(_KEYS, "a plan")
        schema = root.text("schema", 'a schema file, such as "people.toml"')
        if schema is not None and not os.path.isfile(folder / schema):
            report_missing(root, "schema", schema, folder)
        source = root.text("source", 'the private table, such as "people.parquet"')
        mechanism = _mechanism(root)
        ledger_path, budget, head = _ledger(root)
        epsilon = _epsilon(root, budget)
        analysts = read_analysts(root, folder, epsilon)
        dialect = dialect_named(root)
        limits = _limits(root)
        nonnegative, consistent = (_switch(root, name) for name in ("nonnegative", "consistent"))
        measure = _measure(root)
        late = _switch(root, "late", default=True)
        skip_refused = _switch(root, "skip_refused")
        csv = _csv_format(root)
        plan = cls(
            path=Path(path),
            schema_path=folder / (schema or ""),
            source=source or "",
            epsilon=epsilon or Fraction(0),
            mechanism=mechanism,
            ledger_path=folder / (ledger_path or ""),
            budget=budget or Fraction(0),
            head=head,
            analysts=analysts,
            dialect=dialect,
            limits=limits,
            nonnegative=nonnegative,
            consistent=consistent,
            measure=measure,
            late=late,
            skip_refused=skip_refused,
            csv=csv,
        )
        return plan, file.problems

    @property
    def table(self) -> Source:
        """Return where the private table is, and how it is read."""
        from sqlmadp.private.engines import Source  # noqa: PLC0415 - It is slow to load.

        return Source(
            location=self.source, folder=self.folder, memory=self.limits.memory, csv=self.csv
        )

    @property
    def folder(self) -> Path:
        """Return the folder that the plan's paths are relative to."""
        return self.path.parent

    def staged_path(self, analyst: str) -> Path:
        """Return the file, which need not exist, of what ``analyst`` handed in from Python."""
        return self.path.with_name(f"{self.path.stem}.staged") / f"{analyst}.sql"

    # The heavy parts are imported when they are used: they dominate start-up.

    def preview(self, *mechanisms: str, progress: Progress | bool = False) -> Previews:
        """Return the certificates of the plan's mechanism, or of those named; reads no data.

        ``progress`` is called with the name of each stage; True shows a bar, in notebooks too.
        """
        from sqlmadp.release.preview import preview_plan  # noqa: PLC0415

        return preview_plan(self, mechanisms or (self.mechanism,), progress)

    def release(
        self,
        *,
        progress: Progress | bool = False,
        notice: Progress = lambda _: None,
        confirm: Progress = lambda _: None,
    ) -> Release:
        """Spend epsilon once and return the release; a completed one again, free.

        ``progress`` is as in `preview`.  ``notice`` is called with what is about to be
        spent, before it is; then ``confirm`` with the same, and what it raises ends the release.
        """
        from sqlmadp.release.release import release  # noqa: PLC0415

        return release(self, progress, notice, confirm)

    def released(self, *, notice: Progress = lambda _: None) -> Release:
        """Return the completed release, or raise NotReleasedError; spends and reads nothing."""
        from sqlmadp.release.release import released  # noqa: PLC0415

        return released(self, notice)


def _mechanism(root: Table) -> str:
    given = root.values.get("mechanism", DEFAULT_MECHANISM)
    if given == DEFAULT_MECHANISM:
        return DEFAULT_MECHANISM
    from sqlmadp.mechanism import MECHANISMS  # noqa: PLC0415 - It is slow to load.

    if isinstance(given, str) and given in MECHANISMS:
        return given
    hint = suggest(given, MECHANISMS) if isinstance(given, str) else ""
    names = ", ".join(show(name) for name in MECHANISMS)
    root.refuse("mechanism", f"one of {names}", hint=hint)
    return DEFAULT_MECHANISM


def _measure(root: Table) -> Measure:
    given = root.values.get("measure", MEASURES[0])
    for known in MEASURES:
        if given == known:
            return known
    root.refuse("measure", " or ".join(show(name) for name in MEASURES))
    return MEASURES[0]


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
    return path, positive(ledger, "budget"), head if isinstance(head, str) else None


def _epsilon(root: Table, budget: Fraction | None) -> Fraction | None:
    """Return the plan's epsilon, or the sum of all analysts' own."""
    epsilon = epsilon_brought(root) if "epsilon" not in root.values else None
    epsilon = positive(root, "epsilon") if epsilon is None else epsilon
    if epsilon is not None and budget is not None and epsilon > budget:
        root.report(
            "epsilon",
            f"is {epsilon}, above ledger.budget, which is {budget}",
            code="epsilon-above-budget",
            hint=f"Lower epsilon to at most {budget}; a ledger never spends more than its budget.",
        )
    return epsilon


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


def _csv_format(root: Table) -> CsvFormat:
    """Return the format that the table [csv] names; what is wrong is reported."""
    if "csv" not in root.values:
        return CsvFormat()
    table = root.table("csv", "a table with separator, date_format or decimal, [csv]")
    if table is None:
        return CsvFormat()
    if table.values.get("encoding", "utf-8") != "utf-8":
        hint = "Convert the file first: iconv -f latin1 -t utf-8 old.csv > new.csv."
        table.refuse("encoding", '"utf-8"', hint=hint)
    table.only(("separator", "encoding", "date_format", "decimal"), "[csv]")
    form = CsvFormat(
        separator=_csv_text(table, "separator", ",", 'one character, such as ";"', is_separator),
        date_format=_csv_text(table, "date_format", "", 'a format, such as "%d.%m.%Y"', _is_format)
        or None,
        decimal=_csv_text(table, "decimal", ".", '"." or ","', (".", ",").__contains__),
    )
    if form.separator == form.decimal:
        table.refuse("decimal", "another character than separator")
    return form


def _csv_text(
    table: Table, name: str, default: str, allowed: str, right: Callable[[str], bool]
) -> str:
    given = table.values.get(name, default)
    if name in table.values and not (isinstance(given, str) and right(given)):
        table.refuse(name, allowed)
        return default
    return str(given)


def is_separator(text: str) -> bool:
    """Return whether a text can separate the fields of a CSV file."""
    return len(text) == 1 and text not in '\r\n"' and (text.isprintable() or text == "\t")


def _is_format(text: str) -> bool:
    return all(f"%{part}" in text for part in "dm") and ("%Y" in text or "%y" in text)

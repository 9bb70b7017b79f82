"""A TOML file that a person wrote: its tables, the line of every key, and its mistakes.

A mistake does not stop the reading.  The reader of the file reports what is wrong, key by
key, and `finish` raises everything that was reported as one error.

The parser gives no positions, and a second grammar of TOML here could disagree with it.
So the parser itself finds the lines: a *statement* (a table's header, or a key and its
value) is the fewest lines that parse on their own.

Epsilon, budget and shares are exact fractions, written as text: TOML's own 0.1 is not one tenth.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, time
from difflib import get_close_matches
from fractions import Fraction
from functools import cached_property
from pathlib import Path

from sqlmadp.errors import InputError, Problem
from sqlmadp.files import TOML_DEPTH

Key = tuple[str, ...]
"""A key with the tables around it: ``("columns", "age", "max")``."""


class TomlFile:
    """One file, the table at its root, and the mistakes found so far."""

    def __init__(self, path: Path, error: type[InputError]) -> None:
        """Read ``path``; raise ``error`` if it is no TOML, now, or for what is reported, later."""
        self.path = path
        self._error = error
        self._problems: list[Problem] = []
        self._text = self._read()
        self.root = Table(self, (), self._parse())

    def report(self, key: Key, message: str, *, code: str, hint: str = "") -> None:
        """Note a mistake; ``message`` goes on where the name of ``key`` ends."""
        line = next((self._lines[k] for k in _upwards(key) if k in self._lines), 0)
        message = f"{dotted(key)} {message}"
        self._problems.append(self._problem(message, code=code, hint=hint, line=line))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every mistake that was reported, in the order of the file."""
        return tuple(sorted(self._problems, key=lambda problem: problem.line))

    def finish(self) -> None:
        """Raise every mistake that was reported."""
        if self._problems:
            raise self._error(self.problems)

    def refuse_other(self, what: str, keys: Collection[str], hint: str) -> None:
        """Raise at once if the file has all keys of another kind of file."""
        if set(keys) <= self.root.values.keys():
            problem = self._problem(f"this is {what}", code="wrong-file", hint=hint)
            raise self._error([problem])

    def _problem(
        self, message: str, *, code: str, hint: str = "", line: int = 0, column: int = 0
    ) -> Problem:
        return Problem(
            file=str(self.path), message=message, code=code, hint=hint, line=line, column=column
        )

    def _read(self) -> str:
        try:
            # A byte order mark is no part of the text, though some editors write one.
            return self.path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            message = f"not UTF-8 text: byte {error.start} cannot be read"
            problem = self._problem(message, code="not-utf8")
        except FileNotFoundError:
            problem = self._problem(
                "there is no such file", code="missing-file", hint=self._files_near()
            )
        except IsADirectoryError:
            names = ", ".join(str(each) for each in sorted(self.path.glob("*.toml")))
            problem = self._problem(
                "this is a folder",
                code="missing-file",
                hint=f"Name a file in it: {names}." if names else "",
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            problem = self._problem(f"the file cannot be read: {reason}", code="unreadable-file")
        raise self._error([problem])

    def _files_near(self) -> str:
        """Return advice that names the TOML file with the nearest name in the same folder."""
        try:
            names = [each.name for each in self.path.parent.glob("*.toml")]
        except OSError:
            names = []
        return suggest(self.path.name, names)

    def _parse(self) -> dict[str, object]:
        try:
            return tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            problem = self._syntax_problem(str(error))
        except RecursionError:
            problem = self._problem("nested too deeply to be read", code="not-toml")
        except ValueError as error:  # A number of thousands of digits.
            problem = self._problem(f"not TOML: {error}", code="not-toml")
        raise self._error([problem])

    def _syntax_problem(self, reason: str) -> Problem:
        """Return why the parser gave up, plainly if the reason is a key given twice."""
        found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", reason)
        message = reason[: found.start()] if found else reason
        lines = self._text.split("\n")
        line, column = (int(found[1]), int(found[2])) if found and found[1] else (len(lines), 0)
        # The parser stops in the statement that repeats a key, so that one is the last.
        *before, (number, key, _) = [*_statements(lines[:line])] or [(0, (), [])]
        first = next((start for start, _, keys in before if key in keys), 0)
        if first and message.startswith(("Cannot declare", "Cannot overwrite")):
            return self._problem(
                f"{dotted(key)} is declared twice, first in line {first}",
                code="duplicate-key",
                hint="Remove one of the two, or give it another name.",
                line=number,
            )
        problem = self._problem(
            f"not TOML: {message[:1].lower()}{message[1:]}",
            code="not-toml",
            hint='Write text and exact numbers in quotes: key = "value".',
            line=line,
            column=column,
        )
        # Whoever names the private table in place of a plan is not shown a record of it.
        own = self.path.suffix.lower() == ".toml"
        return replace(problem, excerpt=_excerpt(lines[line - 1], column) if own else "")

    @cached_property
    def _lines(self) -> dict[Key, int]:
        lines: dict[Key, int] = {}
        for number, _, keys in _statements(self._text.split("\n")):
            for key in keys:
                lines.setdefault(key, number)
        return lines


@dataclass(frozen=True)
class Table:
    """One table of a file, and its key; reading a value that is not allowed reports it."""

    file: TomlFile
    key: Key
    values: Mapping[str, object]

    def report(self, name: str, message: str, *, code: str, hint: str = "") -> None:
        """Note a mistake at the key ``name`` of this table."""
        self.file.report((*self.key, name), message, code=code, hint=hint)

    def refuse(self, name: str, allowed: str, *, hint: str = "") -> None:
        """Note that ``name`` is missing or has a value that is not ``allowed``."""
        if name in self.values:
            shown = show(self.values[name])
            self.report(name, f"is {shown}; write {allowed}", code="bad-value", hint=hint)
        else:
            self.report(name, f"is missing; write {allowed}", code="missing-key", hint=hint)

    def only(self, known: Collection[str], where: str) -> None:
        """Note every key that is not ``known``, with the nearest one that is."""
        for name in self.values:
            if name not in known:
                self.report(
                    name,
                    f"is not a key of {where}; its keys are {', '.join(known)}",
                    code="unknown-key",
                    hint=suggest(name, known),
                )

    def table(self, name: str, allowed: str) -> Table | None:
        """Return the table at ``name``, or None and a mistake noted."""
        value = self.values.get(name)
        if isinstance(value, dict):
            return Table(self.file, (*self.key, name), value)
        self.refuse(name, allowed)
        return None

    def text(self, name: str, allowed: str) -> str | None:
        """Return the text at ``name``, or None and a mistake noted; never blank text."""
        value = self.values.get(name)
        if isinstance(value, str) and is_name(value):
            return value
        self.refuse(name, allowed)
        return None


def _excerpt(line: str, column: int) -> str:
    """Return a line with a mark below its column; nothing of a URL, which may have a password."""
    if not column or len(line) > 120 or "://" in line or not line.isprintable():
        return ""
    return f"{line}\n{' ' * (column - 1)}^"


def is_name(text: str) -> bool:
    """Return whether ``text`` can name something: not blank, no control characters."""
    return bool(text.strip()) and text.isprintable()


def dotted(key: Key) -> str:
    """Return ``key`` as TOML writes it."""
    return ".".join(k if re.fullmatch(r"[A-Za-z0-9_-]+", k) else show(k) for k in key)


def show(value: object) -> str:
    """Return a value as TOML writes it, or what kind of thing it is if that is long."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
            return text if text.isprintable() else ascii(value)
        case dict():
            return "a table"
        case []:
            return "an empty list"
        case list():
            return "a list"
        case int() if abs(value) >= 10**40:
            return "an integer of more than 40 digits"
        case date() | time():
            return value.isoformat()
        case _:
            return str(value)


def suggest(name: str, known: Collection[str]) -> str:
    """Return advice that names the known word nearest to ``name``; empty if none is near."""
    by_fold = {word.casefold(): word for word in known}
    near = get_close_matches(name.casefold(), by_fold, n=1)
    return f'Did you mean "{by_fold[near[0]]}"?' if near else ""


def _upwards(key: Key) -> Iterator[Key]:
    return (key[:length] for length in range(len(key), 0, -1))


def _statements(lines: list[str]) -> Iterator[tuple[int, Key, list[Key]]]:
    """Yield each statement's first line, its own key, and every key that it gives a place."""
    table: Key = ()
    start = 0
    for end, line in enumerate(lines):
        # Only these close a value of several lines; trying no other line keeps this linear.
        if start < end and not any(closing in line for closing in ("]", '"""', "'''")):
            continue
        try:
            tree = tomllib.loads("\n".join(lines[start : end + 1]))
        except tomllib.TOMLDecodeError:
            continue  # The value goes on in the next line.
        header = lines[start].lstrip().startswith("[")
        keys = list(_keys(tree, () if header else table))
        if keys:
            table = keys[-1] if header else table
            yield start + 1, keys[-1], keys
        start = end + 1


def _keys(tree: Mapping[str, object], around: Key) -> Iterator[Key]:
    for name, value in tree.items():
        yield (*around, name)
        if isinstance(value, dict) and len(around) < TOML_DEPTH:
            yield from _keys(value, (*around, name))


_POSITIVE = 'a number above 0 in quotes, such as "1", "0.5" or "1/3", of at most 20 digits'
# Bounded, so that the number also fits wherever floating point works out an expected error.
_NUMBER = re.compile(
    r"[+-]?([0-9]{1,20}(/[0-9]{1,20})?|[0-9]{0,20}\.?[0-9]{1,20}(e[+-]?[0-9]{1,2})?)"
)


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


def positive(table: Table, name: str) -> Fraction | None:
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

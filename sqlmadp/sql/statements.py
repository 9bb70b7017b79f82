"""Statements: an analyst's file, split into named pieces of SQL that know where they stand.

DuckDB's own tokenizer finds the semicolons, so strings and comments are read as DuckDB
reads them.  ``-- name: adults`` above a statement names it; a statement without a name is
``q1``, ``q2``, ... by its position in the file.  ``-- weight: 4`` above it makes its errors count
four times among the errors of its analyst.  ``-- dialect: postgres`` above it says what dialect of
SQL it is written in; in the first line of a file that of all of it, whose tokenizer then finds the
semicolons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

import duckdb
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sqlmadp.errors import Problem, SqlError
from sqlmadp.sql.limits import DEFAULT, Limits, advice

MAX_NAME = 100
"""The longest name of a statement; names become file names."""

_EXCERPT = 100
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+", re.IGNORECASE)
_HAND_IN = re.compile(r"\s*HAND\s+IN\b\s*(?:AS\s+(?!(?:SELECT|WITH)\b)(\S+)\s+)?", re.IGNORECASE)
_WITHDRAW = re.compile(r"\s*WITHDRAW\b\s*(\S*)\s*", re.IGNORECASE)
_NAME_COMMENT = re.compile(r"^--[ \t]*name:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_WEIGHT_COMMENT = re.compile(r"^--[ \t]*weight:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_DIALECT_COMMENT = re.compile(r"^--[ \t]*dialect:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_WEIGHT = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}|/[0-9]{1,6})?")
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}")

Span = tuple[int, int]
"""Start and length inside a statement's text, in characters."""


@dataclass(frozen=True)
class Statement:
    """One statement of an analyst, and where it stands in its file."""

    file: str
    name: str
    text: str
    start: int = 0
    """Where the text begins in ``source``, in characters."""
    source: str = field(default="", repr=False)
    """The whole file, for excerpts; the text alone when empty."""
    weight: Fraction = Fraction(1)
    """How much the query counts inside its workload."""
    dialect: str = "duckdb"
    """The dialect of SQL that it is written in, by sqlglot's name of it."""

    @property
    def key(self) -> tuple[str, str]:
        """Return what is equal just when two statements ask the same in the same words."""
        return self.dialect, self.text

    def problem(
        self, code: str, message: str, *, hint: str = "", span: Span | None = None
    ) -> Problem:
        """Return a mistake in this statement, underlined at ``span`` or else at its first line."""
        first, length = span if span is not None else (0, len(self.text))
        source, shift = (self.source, self.start) if self.source else (self.text, 0)
        line, column, excerpt = _locate(source, shift + first, shift + first + length)
        return Problem(
            file=self.file,
            message=message,
            code=code,
            hint=hint,
            line=line,
            column=column,
            excerpt=excerpt,
        )

    def refuse(
        self, code: str, message: str, *, hint: str = "", span: Span | None = None
    ) -> SqlError:
        """Return the error that refuses this statement for one mistake."""
        return SqlError([self.problem(code, message, hint=hint, span=span)])


def characters(text: str, place: Span) -> Span:
    """Return a place in characters that DuckDB gives in UTF-8 bytes."""
    encoded = text.encode()
    first, length = place
    begin = len(encoded[:first].decode(errors="ignore"))
    return begin, len(encoded[: first + length].decode(errors="ignore")) - begin


def split(
    text: str, *, file: str, limits: Limits = DEFAULT, dialect: str = "duckdb"
) -> list[Statement]:
    """Return the statements of a file in order, or raise an SqlError with every mistake.

    ``dialect`` is that of a file which names none itself.
    """
    statements, problems = split_each(text, file=file, limits=limits, dialect=dialect)
    if problems:
        raise SqlError(problems)
    return statements


def split_each(
    text: str, *, file: str, limits: Limits = DEFAULT, dialect: str = "duckdb"
) -> tuple[list[Statement], list[Problem]]:
    """Return the statements of a file that can be looked at further, and every mistake."""
    problems: list[Problem] = []
    statements: list[Statement] = []
    names: set[str] = set()
    first, _, _ = text.lstrip("\ufeff").partition("\n")
    dialect = next((name.lower() for name in _DIALECT_COMMENT.findall(first.rstrip())), dialect)
    for start, end, given, weight, own in _ranges(text, dialect):
        if len(statements) == limits.statements:
            message = f"the file holds more than {limits.statements:,} statements"
            problem = Problem(
                file=file, code="too-many-statements", message=message, hint=advice("statements")
            )
            return [], [problem]
        name = f"q{len(statements) + 1}" if given is None else given
        written = text[start:end].rstrip()
        statement = Statement(file, name, written, start, text, dialect=own or dialect)
        problems.extend(_name_problems(statement, names))
        if weight is not None:
            if (number := _weight(weight)) is None:
                problems.append(_bad_weight(statement, weight))
            else:
                statement = replace(statement, weight=number)
        names.add(name.casefold())
        statements.append(statement)
    problems.extend(_too_long(each, limits) for each in statements if _is_long(each, limits))
    if not statements:
        problems.append(
            Problem(
                file=file,
                code="no-statement",
                message="the file holds no statement",
                hint="Write at least one SELECT with COUNT(*), ended by a semicolon.",
            )
        )
    return [each for each in statements if not _is_long(each, limits)], problems


def explained(statement: Statement) -> Statement | None:
    """Return the statement that EXPLAIN asks about; None if this is no EXPLAIN."""
    found = _EXPLAIN.match(statement.text)
    if found is None:
        return None
    return replace(
        statement, text=statement.text[found.end() :], start=statement.start + found.end()
    )


def handed_in(statement: Statement) -> Statement | None:
    """Return the statement that HAND IN hands in, with its name; None if this is no HAND IN.

    Comments that name or weigh it may be above HAND IN or after it.
    """
    found = _HAND_IN.match(statement.text)
    if found is None:
        return None
    rest = statement.text[found.end() :]
    begin, end, name, weight, dialect = next(
        _ranges(rest, statement.dialect), (0, 0, None, None, None)
    )
    asked = replace(
        statement,
        name=found[1] or name or statement.name,
        text=rest[begin:end].rstrip(),
        start=statement.start + found.end() + begin,
        dialect=dialect or statement.dialect,
    )
    problems = list(_name_problems(asked, set()))
    if weight is not None and (number := _weight(weight)) is not None:
        asked = replace(asked, weight=number)
    elif weight is not None:
        problems.append(_bad_weight(asked, weight))
    if problems:
        raise SqlError(problems)
    return asked


def withdrawn(statement: Statement) -> str | None:
    """Return the name of the statement that WITHDRAW takes back; None if this is no WITHDRAW."""
    found = _WITHDRAW.fullmatch(statement.text)
    return None if found is None else found[1]


def is_explain(sql: str) -> bool:
    """Tell whether a text is EXPLAIN, with comments or none in front of it."""
    return any(_EXPLAIN.match(sql[start:]) for start, *_ in _of_duckdb(sql))


def is_of_an_analyst(sql: str) -> bool:
    """Tell whether a text is HAND IN or WITHDRAW, which say nothing without an analyst."""
    return any(
        _HAND_IN.match(sql[start:]) or _WITHDRAW.fullmatch(sql[start:end])
        for start, end, *_ in _of_duckdb(sql)
    )


def _weight(text: str) -> Fraction | None:
    """Return the weight that a comment gives, above 0; None if it gives none."""
    if not _WEIGHT.fullmatch(text) or re.search(r"/0+$", text):
        return None
    return Fraction(text) or None


def _bad_weight(statement: Statement, text: str) -> Problem:
    return statement.problem(
        "bad-weight",
        f"{text!r} cannot be the weight of a statement",
        hint="Write a number above 0, such as '-- weight: 4' or '-- weight: 1/2'.",
        span=(0, 1),
    )


def _is_long(statement: Statement, limits: Limits) -> bool:
    return len(statement.text) > limits.characters


def _too_long(statement: Statement, limits: Limits) -> Problem:
    return statement.problem(
        "too-long",
        f"the statement has {len(statement.text):,} characters; "
        f"at most {limits.characters:,} are read",
        hint=advice("characters"),
        span=(0, 1),
    )


def _name_problems(statement: Statement, taken: set[str]) -> Iterator[Problem]:
    name = statement.name
    if not _NAME.fullmatch(name):
        yield statement.problem(
            "bad-name",
            f"{name!r} cannot name a statement",
            hint=f"Names become file names: up to {MAX_NAME} letters, digits, '_' and '-'.",
            span=(0, 1),
        )
    if name.casefold() in taken:
        yield statement.problem(
            "duplicate-name",
            f"the name {name!r} is used twice in this file",
            hint="Give every statement a '-- name: ...' of its own; unnamed ones are q1, q2, ...",
            span=(0, 1),
        )


_Range = tuple[int, int, str | None, str | None, str | None]
"""Where a statement begins and ends, in characters, its name, weight and dialect."""


def _ranges(text: str, dialect: str) -> Iterator[_Range]:
    """Yield where the statements of a text are, and what the comments above them say."""
    grammar = Dialect.get(dialect)
    if dialect == "duckdb" or grammar is None:  # Reading says that there is no such dialect.
        yield from _of_duckdb(text)
        return
    try:
        tokens = grammar().tokenize(text)
    except SqlglotError:  # A text without an end; reading says so.
        yield 0, len(text), None, None, None
        return
    begin: int | None = None
    last, above = 0, ""
    for token in tokens:
        if begin is None:
            begin, above = token.start, text[last : token.start]
        if token.token_type == TokenType.SEMICOLON:
            if token.start > begin:
                yield begin, token.start, *_said(above)
            begin, last = None, token.end + 1
    if begin is not None:
        yield begin, len(text), *_said(above)


def _of_duckdb(text: str) -> Iterator[_Range]:
    encoded = text.encode()
    tokens = duckdb.tokenize(text)
    edges = [*(start for start, _ in tokens), len(encoded)]
    to_character = _character_offsets(encoded, edges)
    begin: int | None = None
    above: list[str] = []
    for (start, kind), end in zip(tokens, edges[1:], strict=True):
        if kind == duckdb.token_type.comment:
            if begin is None:
                above.append(encoded[start:end].decode())
        elif encoded[start : start + 1] == b";":
            if begin is not None:
                yield to_character[begin], to_character[start], *_said("\n".join(above))
            begin, above = None, []
        elif begin is None:
            begin = start
    if begin is not None:
        yield to_character[begin], to_character[len(encoded)], *_said("\n".join(above))


def _said(above: str) -> tuple[str | None, str | None, str | None]:
    """Return the name, weight and dialect that the comments above a statement give it."""
    patterns = (_NAME_COMMENT, _WEIGHT_COMMENT, _DIALECT_COMMENT)
    name, weight, dialect = ((found.findall(above) or [None])[-1] for found in patterns)
    return name, weight, dialect.lower() if dialect else None


def _character_offsets(encoded: bytes, offsets: list[int]) -> dict[int, int]:
    """Return the character offset of each byte offset, in one pass over the text."""
    characters: dict[int, int] = {}
    last, count = 0, 0
    for offset in sorted(set(offsets)):
        count += len(encoded[last:offset].decode())
        characters[offset] = count
        last = offset
    return characters


def _locate(source: str, begin: int, end: int) -> tuple[int, int, str]:
    """Return line and column of ``begin``, and the line with the span underlined."""
    line_start = source.rfind("\n", 0, begin) + 1
    line_end = source.find("\n", begin)
    line_end = len(source) if line_end < 0 else line_end
    line, column = source.count("\n", 0, begin) + 1, begin - line_start + 1
    # A very long line is shown from a little before the span.
    shown_start = line_start if begin - line_start < _EXCERPT else begin - _EXCERPT // 2
    shown = source[shown_start : min(line_end, shown_start + 2 * _EXCERPT)].rstrip()
    indent = "".join("\t" if mark == "\t" else " " for mark in source[shown_start:begin])
    width = max(1, min(end, shown_start + len(shown)) - begin)
    return line, column, f"{shown}\n{indent}{'^' * width}"

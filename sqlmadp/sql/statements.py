"""Statements: an analyst's file, split into named pieces of SQL that know their place.

DuckDB's own tokenizer finds the semicolons, so strings and comments are read as DuckDB
reads them.  ``-- name: adults`` above a statement names it; a statement without a name is
``q1``, ``q2``, ... by its position in the file.  ``-- weight: 4`` above it makes its errors count
four times among the errors of its analyst.  ``-- dialect: postgres`` above it says what dialect of
SQL it is written in; in the first line of a file that of all of it, whose tokenizer then finds the
semicolons.
"""

from __future__ import annotations

import datetime
import numbers
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import duckdb
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sqlmadp.errors import Problem, SqlError
from sqlmadp.sql.grammar import grammar_of
from sqlmadp.sql.limits import DEFAULT, EXCERPT_CHARACTERS, NAME_CHARACTERS, Limits, advice
from sqlmadp.sql.tree import Node, Span, span

_EXPLAIN = re.compile(r"\s*EXPLAIN\s+", re.IGNORECASE)
_HAND_IN = re.compile(r"\s*HAND\s+IN\b\s*(?:AS\s+(?!(?:SELECT|WITH)\b)(\S+)\s+)?", re.IGNORECASE)
_WITHDRAW = re.compile(r"\s*WITHDRAW\b\s*(\S*)\s*", re.IGNORECASE)
_NAME_COMMENT = re.compile(r"^--[ \t]*name:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_WEIGHT_COMMENT = re.compile(r"^--[ \t]*weight:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_DIALECT_COMMENT = re.compile(r"^--[ \t]*dialect:[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_WEIGHT = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}|/[0-9]{1,6})?")
_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARACTERS}}}")


@dataclass(frozen=True)
class Statement:
    """One statement of an analyst, and its place in its file."""

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
        """The dialect and text: equal just when two statements ask the same in the same words."""
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


class RefusedError(Exception):
    """A reason to refuse a statement, raised where only a part of it is at hand."""

    def __init__(
        self, code: str, message: str, *, hint: str = "", node: Node | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.node = code, message, hint, node

    def of(self, statement: Statement) -> SqlError:
        """Return the error that refuses a statement for this reason, underlined at the node."""
        return statement.refuse(self.code, self.message, hint=self.hint, span=span(self.node))


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
        problems.extend(_problems(statement, weight, names))
        statement = replace(statement, weight=_weight(weight) or statement.weight)
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
    if problems := list(_problems(asked, weight, set())):
        raise SqlError(problems)
    return replace(asked, weight=_weight(weight) or asked.weight)


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


def _weight(text: str | None) -> Fraction | None:
    """Return the weight that a comment gives, above 0; None if it gives none."""
    if text is None or not _WEIGHT.fullmatch(text) or re.search(r"/0+$", text):
        return None
    return Fraction(text) or None


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


def _problems(statement: Statement, weight: str | None, taken: set[str]) -> Iterator[Problem]:
    """Yield what is wrong with the name and weight that comments give a statement."""
    name = statement.name
    if not _NAME.fullmatch(name):
        yield statement.problem(
            "bad-name",
            f"{name!r} cannot name a statement",
            hint=f"Names become file names: up to {NAME_CHARACTERS} letters, digits, '_' and '-'.",
            span=(0, 1),
        )
    if name.casefold() in taken:
        yield statement.problem(
            "duplicate-name",
            f"the name {name!r} is used twice in this file",
            hint="Give every statement a '-- name: ...' of its own; unnamed ones are q1, q2, ...",
            span=(0, 1),
        )
    if weight is not None and _weight(weight) is None:
        yield statement.problem(
            "bad-weight",
            f"{weight!r} cannot be the weight of a statement",
            hint="Write a number above 0, such as '-- weight: 4' or '-- weight: 1/2'.",
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
    shown_start = (
        line_start if begin - line_start < EXCERPT_CHARACTERS else begin - EXCERPT_CHARACTERS // 2
    )
    shown = source[shown_start : min(line_end, shown_start + 2 * EXCERPT_CHARACTERS)].rstrip()
    indent = "".join("\t" if mark == "\t" else " " for mark in source[shown_start:begin])
    width = max(1, min(end, shown_start + len(shown)) - begin)
    return line, column, f"{shown}\n{indent}{'^' * width}"


# Bind parameters: values written into a statement in place of ``?``, ``$1`` and ``$name``.  A value
# becomes a literal of its own type before the statement is parsed again: it is never read as SQL,
# and binding, messages and the hash of a release see the statement with its values.

Parameters = Sequence[object] | Mapping[str, object]


def with_parameters(statement: Statement, values: Parameters) -> Statement:
    """Return a statement with its parameters replaced by literals of ``values``.

    A sequence gives the values of ``?`` and ``$1``, ``$2``, ...; a mapping those of ``$name``.
    Further values of a mapping are left out; a sequence must fit exactly.
    """
    places = _places(statement.text, statement.dialect)
    given = (
        {str(key): value for key, value in values.items()}
        if isinstance(values, Mapping)
        else {str(place): value for place, value in enumerate(values, start=1)}
    )
    by_fold = {name.casefold(): value for name, value in given.items()}
    wanted = {name.casefold() for name, _, _ in places}
    if not isinstance(values, Mapping) and len(wanted) != len(values):
        given_words = "1 parameter value was" if len(values) == 1 else f"{len(values)} values were"
        has = f"{len(wanted)} placeholders" if wanted else "no placeholders"
        has = "1 placeholder" if len(wanted) == 1 else has
        raise statement.refuse(
            "parameter",
            f"{given_words} passed, but the statement has {has}",
            hint="Placeholders are ?, $1 or $name (not %s or :name).",
        )
    text = statement.text
    for name, start, length in sorted(places, key=lambda place: -place[1]):
        if name.casefold() not in by_fold:
            raise statement.refuse(
                "parameter",
                f"no value is given for the parameter {_shown(name)}",
                hint="Give values in the plan, under [analysts.NAME.parameters], or in Python.",
                span=(start, length),
            )
        value = literal(by_fold[name.casefold()])
        if value is None:
            raise statement.refuse(
                "parameter",
                f"the value of {_shown(name)} cannot become a SQL value",
                hint="Use text, a number, a boolean, a date, a time, bytes, a UUID, None or a "
                "list of them.",
                span=(start, length),
            )
        text = text[:start] + value + text[start + length :]
    return _replaced(statement, text)


def _replaced(statement: Statement, text: str) -> Statement:
    """Return a statement with another text, at the same place of a file that holds it."""
    if not statement.source:
        return replace(statement, text=text)
    end = statement.start + len(statement.text)
    source = statement.source[: statement.start] + text + statement.source[end:]
    return replace(statement, text=text, source=source)


@lru_cache(maxsize=1000)  # A statement is often executed again with other values.
def _places(text: str, dialect: str) -> tuple[tuple[str, int, int], ...]:
    """Return name, start and length of every parameter; none if the text has no tokens."""
    if "?" not in text and "$" not in text:
        return ()
    try:
        tokens = grammar_of(dialect).tokenize(text)
    except SqlglotError:
        return ()
    found: list[tuple[str, int, int]] = []
    asked = 0
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type == TokenType.PLACEHOLDER:
            asked += 1
            found.append((str(asked), token.start, token.end + 1 - token.start))
        elif (
            token.token_type == TokenType.PARAMETER
            and after is not None
            and after.start == token.end + 1  # A name or number follows directly.
        ):
            found.append((after.text, token.start, after.end + 1 - token.start))
    return tuple(found)


def _shown(name: str) -> str:
    return f"number {name}" if name.isdigit() else f"${name}"


# Values from Python as SQL that can be nothing but that value:
#
#     '...'                   text, which SQL also reads as a date or a number where it needs one
#     CAST('...' AS type)     all else, of the type that DuckDB gives the same Python value
#
# with every quote doubled: not SQL of another kind, and not the number of a column in ORDER BY.


def literal(value: object) -> str | None:
    """Return a value as a literal of its own type; None if DuckDB has none for it."""
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        items = [literal(item) for item in value]
        known = [item for item in items if item is not None]
        return f"[{', '.join(known)}]" if len(known) == len(items) else None
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'" if is_sql_text(value) else None
    typed = _typed(value)
    return None if typed is None else f"CAST('{typed[0]}' AS {typed[1]})"


def is_sql_text(text: str) -> bool:
    """Tell whether text can be part of a statement: UTF-8 without zero characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _typed(value: object) -> tuple[str, str] | None:
    """Return the text, which holds no quote, and the DuckDB type of a value."""
    match value:
        case bool():
            return str(value).lower(), "BOOLEAN"
        case numbers.Integral():
            return _integer(int(value))
        case Decimal():
            return _decimal(value)
        case numbers.Real():
            return repr(float(value)), "DOUBLE"
        case datetime.datetime():
            zone = " WITH TIME ZONE" if value.tzinfo else ""
            return value.isoformat(sep=" "), f"TIMESTAMP{zone}"
        case datetime.date():
            return value.isoformat(), "DATE"
        case datetime.time():
            zone = " WITH TIME ZONE" if value.tzinfo else ""
            return value.isoformat(), f"TIME{zone}"
        case datetime.timedelta():
            microseconds = value // datetime.timedelta(microseconds=1)
            return f"{microseconds} microseconds", "INTERVAL"
        case bytes() | bytearray() | memoryview():
            return "".join(f"\\x{byte:02X}" for byte in bytes(value)), "BLOB"
        case uuid.UUID():
            return str(value), "UUID"
    if type(value).__name__ in {"bool", "bool_"} and hasattr(value, "item"):
        return _typed(value.item())  # numpy's truth values are no numbers to Python.
    return None


def _integer(value: int) -> tuple[str, str] | None:
    for bits, kind in ((31, "INTEGER"), (63, "BIGINT"), (127, "HUGEINT")):
        if -(2**bits) <= value < 2**bits:
            return str(value), kind
    return None


def _decimal(value: Decimal) -> tuple[str, str] | None:
    if not value.is_finite():
        return repr(float(value)), "DOUBLE"
    text = format(value, "f")
    digits, scale = sum(mark.isdigit() for mark in text), len(text.partition(".")[2])
    return (text, f"DECIMAL({digits},{scale})") if digits <= 38 else None

"""Reading: a statement's text becomes sqlglot's tree, and DuckDB agrees that nothing was lost.

    text -> tokens bounded -> sqlglot's tree -> written back -> DuckDB reads both texts alike

DuckDB's own parser reads the statement first, so a mistake is told in its words; sqlglot then
reads it with the grammar of ``grammar`` and writes it back.  If DuckDB's trees of the two texts
are not the same tree, something was lost, and the statement is refused as *unfaithful* at the
smallest expression that reads differently.  DuckDB's tree is only ever compared, never looked into,
so a new version of it changes nothing here.  Texts that DuckDB reads differently are not run and
compared instead: of 21,171 queries of DuckDB's own tests 446 are refused here, 421 of them for
constructs that are refused anyway, and sqlglot lost something of all the others but 3
(``a[1+1-1]``, ``m[2::TINYINT]``, digits in groups); see ``benchmarks/sql_reading.py``.

A statement in another dialect is translated first (see ``dialects``).
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import duckdb
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError

from sqlmadp.errors import SqlError
from sqlmadp.sql import hints
from sqlmadp.sql.dialects import not_a_select, other_readings, place_of_error, translated
from sqlmadp.sql.grammar import BROKEN, DUCKDB, GRAMMAR, Node
from sqlmadp.sql.limits import FRAMES_PER_LEVEL, READ_AT_ONCE, Limits, advice
from sqlmadp.sql.statements import Statement, characters
from sqlmadp.sql.tree import Span, span, text
from sqlmadp.table.domain import Domain

_SAME = (
    "regexp_replace(json_serialize_sql({}), "
    # Places, and a spelling: LIKE ... ESCAPE is also a function.  A quote
    # inside a text of the statement has a backslash before it in JSON, so no text looks like this.
    """'"(query_location(_length)?":[0-9]+|is_operator":(true|false)),?', '', 'g')"""
)
_SIDES = ("this", "expression")
_PARENTHESES = frozenset({"(", "[", "{"})
_PREFIXES = frozenset({"NOT", "-", "+", "~", "@", "CASE"})


_NO_MEMORY = {"error_type": "memory"}
Item = TypeVar("Item")
Pair = tuple[str, str]


def _batches(items: Sequence[Item], size: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield items in order, as many at once as DuckDB can read in little memory."""
    batch: list[Item] = []
    held = 0
    for item in items:
        if batch and held + size(item) > READ_AT_ONCE:
            yield batch
            batch, held = [], 0
        batch.append(item)
        held += size(item)
    if batch:
        yield batch


@dataclass(frozen=True)
class Reading:
    """A statement as it was read."""

    tree: Node
    sql: str
    """The same in DuckDB's SQL: the statement's own text, or its translation."""


_recursion = threading.Lock()
_deep: list[int] = []
"""The recursion limits to go back to: one for each reading that is under way."""


@contextmanager
def deep_recursion(limits: Limits) -> Iterator[None]:
    """Let Python nest calls as deep as statements may nest expressions."""
    with _recursion:
        _deep.append(sys.getrecursionlimit())
        sys.setrecursionlimit(max(_deep[-1], 1000 + FRAMES_PER_LEVEL * limits.nesting))
    try:
        yield
    finally:
        with _recursion:
            before = _deep.pop()
            if not _deep:  # Nobody else is reading.
                sys.setrecursionlimit(before)


class Reader:
    """Reads statements; DuckDB's parser is that of a locked connection."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, limits: Limits, domain: Domain
    ) -> None:
        self._connection, self._limits, self._domain = connection, limits, domain

    def read(self, statements: Iterable[Statement]) -> list[Reading | SqlError]:
        """Return every statement as it was read, or why it cannot be."""
        with deep_recursion(self._limits):
            return self._read(list(statements))

    def _read(self, statements: Sequence[Statement]) -> list[Reading | SqlError]:
        found: dict[int, Reading | SqlError] = {}
        texts: dict[int, str] = {}
        for place, statement in enumerate(statements):
            try:
                self._require_few_tokens(statement)
                texts[place] = translated(statement, self._domain)
            except SqlError as error:
                found[place] = error
            except RecursionError:
                found[place] = too_deep(statement, self._limits)
        refused = self._refused(sorted(set(texts.values())))
        trees: dict[int, Node] = {}
        for place, sql in texts.items():
            try:
                if sql in refused:
                    raise self._syntax_error(statements[place], refused[sql])
                trees[place] = self._parsed(statements[place], sql)
            except SqlError as error:
                found[place] = error
        written: dict[int, str] = {}
        for place, tree in list(trees.items()):
            try:
                written[place] = text(tree)
            except BROKEN:
                found[place] = self._unreadable(statements[place], ParseError(""))
                del trees[place]
        lost, large = self._lost([(texts[place], sql) for place, sql in written.items()])
        for place, tree in trees.items():
            if (texts[place], written[place]) in large:
                found[place] = self._too_much_memory(statements[place])
            elif (texts[place], written[place]) in lost:
                found[place] = self._unfaithful(statements[place], tree, texts[place])
            else:
                found[place] = self._finished(statements[place], tree, texts[place])
        return [found[place] for place in range(len(statements))]

    # DuckDB's own reading.

    def _require_few_tokens(self, statement: Statement) -> None:
        """Refuse a text with too many tokens to be parsed in reasonable time."""
        # Nearly all texts have fewer characters than that.
        if len(statement.text) > self._limits.parts < len(duckdb.tokenize(statement.text)):
            raise statement.refuse(
                "too-large",
                f"the statement has more than {self._limits.parts:,} parts",
                hint=advice("parts"),
                span=(0, 1),
            )

    def _refused(self, texts: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return DuckDB's reasons not to parse some of the texts, or not as one SELECT."""
        found: dict[str, dict[str, Any]] = {}
        for few in _batches(texts, len):
            try:
                rows = self._connection.execute(
                    "SELECT text, CASE WHEN tree.error THEN tree::VARCHAR ELSE '' END FROM ("
                    "SELECT text, json_serialize_sql(text) AS tree FROM ("
                    "SELECT unnest(?::VARCHAR[]) AS text)) WHERE tree.error "
                    "OR json_array_length(tree.statements) <> 1",
                    [few],
                ).fetchall()
            except duckdb.OutOfMemoryException:
                found |= dict.fromkeys(few, _NO_MEMORY)
            else:
                found |= {sql: json.loads(reason) if reason else {} for sql, reason in rows}
        return found

    def _syntax_error(self, statement: Statement, reason: dict[str, Any]) -> SqlError:
        if not reason:
            return statement.refuse("syntax", "exactly one statement was expected here")
        if reason is _NO_MEMORY:
            return self._too_much_memory(statement)
        message = str(reason["error_message"])
        if "expression depth" in message:
            return too_deep(statement, self._limits)
        if reason["error_type"] == "not implemented":
            return not_a_select(statement, self._domain)
        if statement.dialect != DUCKDB:
            return statement.refuse(
                "syntax", f"its translation cannot be read: {message}", hint="Write it for DuckDB."
            )
        place = place_of(reason)
        at = None if place is None else characters(statement.text, place)
        hint = hints.of_syntax(statement.text, at or (0, 0), self._domain)
        for dialect, sql in () if hint else other_readings(statement.text):
            if not self._refused([sql]):
                hint = (
                    f"It reads as {dialect}: write '-- dialect: {dialect}' as the first line of "
                    f'the file, or dialect = "{dialect}" in the plan.'
                )
                break
        return statement.refuse("syntax", message, hint=hint, span=at)

    def _lost(self, pairs: Sequence[Pair]) -> tuple[set[Pair], set[Pair]]:
        """Return the pairs of texts that DuckDB reads as different trees, and those too large."""
        differ = [pair for pair in pairs if pair[0] != pair[1]]
        found: set[Pair] = set()
        large: set[Pair] = set()
        for few in _batches(differ, lambda pair: len(pair[0])):
            try:
                rows = self._connection.execute(
                    "SELECT a, b FROM (SELECT unnest(?::VARCHAR[]) AS a, unnest(?::VARCHAR[]) AS b)"
                    f" WHERE {_SAME.format('a')} <> {_SAME.format('b')}",
                    [[a for a, _ in few], [b for _, b in few]],
                ).fetchall()
            except duckdb.OutOfMemoryException:
                large |= set(few)
            else:
                found |= set(rows)
        return found, large

    def _too_much_memory(self, statement: Statement) -> SqlError:
        return statement.refuse(
            "too-large",
            f"reading the statement takes more than {self._limits.sql_memory:,} MB of memory",
            hint=advice("sql_memory"),
            span=(0, 1),
        )

    def _unfaithful(self, statement: Statement, tree: Node, sql: str) -> SqlError:
        """Refuse what reads differently once it is written back, at its smallest expression."""
        smallest: Node | None = None
        for node in tree.walk():
            place = span(node) if isinstance(node, exp.Condition) else None
            if place is None:
                continue
            own = sql[place[0] : place[0] + place[1]]
            with suppress(*BROKEN):
                if any(self._lost([(f"SELECT {own}", f"SELECT {text(node)}")])):
                    smallest = node  # The walk goes from the outside in.
        return statement.refuse(
            "unfaithful",
            "this would not mean the same once it is taken apart",
            hint="Put parentheses around its operands, or write it as a function call.",
            span=span(smallest) if statement.dialect == DUCKDB else None,
        )

    # sqlglot's reading.

    def _parsed(self, statement: Statement, sql: str) -> Node:
        try:
            tokens = GRAMMAR.tokenize(sql)
        except BROKEN:
            raise statement.refuse("syntax", "a text or a comment of it has no end") from None
        deepest = nesting([token.text.upper() for token in tokens])
        if deepest > self._limits.nesting:
            raise too_deep(statement, self._limits)
        try:
            parsed = GRAMMAR.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, sql)
        except RecursionError:
            raise too_deep(statement, self._limits) from None
        except ParseError as error:
            raise self._unreadable(statement, error) from None
        except BROKEN:
            raise self._unreadable(statement, ParseError("")) from None
        tree = parsed[0] if len(parsed) == 1 else None
        if isinstance(tree, exp.Values):
            raise statement.refuse("no-table", "the statement does not read the private table")
        if not isinstance(tree, exp.Query):
            raise not_a_select(statement, self._domain)
        if any(not node.args.get(side) for node in tree.find_all(exp.Binary) for side in _SIDES):
            # DuckDB reads "/ 2" as an operator of one operand, which none has.
            raise self._unreadable(statement, ParseError(""))
        self._require_small(statement, tree)
        return tree

    def _unreadable(self, statement: Statement, error: ParseError) -> SqlError:
        """Refuse what DuckDB reads and sqlglot does not."""
        return statement.refuse(
            "construct",
            "this construct is not supported",
            hint="Names are written in double quotes, not in backquotes."
            if "`" in statement.text
            else "Write it as a function call, or more plainly.",
            span=place_of_error(statement, error) if statement.dialect == DUCKDB else None,
        )

    def _require_small(self, statement: Statement, tree: Node) -> None:
        depth, widest, longest = _extent(tree)
        if depth > self._limits.nesting:
            raise too_deep(statement, self._limits)
        most, terms = self._limits.in_list, self._limits.terms
        if widest > most:
            message = f"a list of the statement has {widest:,} values; at most {most:,} are read"
            hint = f"Use ranges, or join a public table. {advice('in_list')}"
            raise statement.refuse("in-list", message, hint=hint)
        if longest > terms:
            message = f"an AND or OR has {longest:,} terms; at most {terms:,} are read"
            hint = f"Use IN for values, or ranges. {advice('terms')}"
            raise statement.refuse("in-list", message, hint=hint)

    def _finished(self, statement: Statement, tree: Node, sql: str) -> Reading | SqlError:
        """Return the reading in the plain form that all else works on."""
        names = [f"${name}" for name in placeholders(tree)]
        if names:
            return statement.refuse(
                "parameter",
                f"no value is given for {', '.join(dict.fromkeys(names))}",
                hint="Give values in the plan, under [analysts.NAME.parameters], or in Python.",
            )
        tree = plain(tree)
        if statement.dialect != DUCKDB:
            _place_leaves(tree, statement)
        return Reading(tree, sql)


def placeholders(tree: Node) -> list[str]:
    """Return the names of the parameters of a statement; ``?`` are numbered."""
    found = list(tree.find_all(exp.Placeholder, exp.Parameter, bfs=False))
    names = [each.name for each in found]
    return [str(n) if name in ("", "?") else name for n, name in enumerate(names, start=1)]


def nesting(words: Iterable[str]) -> int:
    """Return how deep parentheses and prefixes nest."""
    depth = deepest = prefixes = 0
    for word in words:
        if word in _PREFIXES:
            prefixes += 1
        elif word in _PARENTHESES:
            depth, prefixes = depth + 1, 0
        elif word in (")", "]", "}"):
            depth, prefixes = depth - 1, 0
        elif word != "WHEN":
            prefixes = 0
        deepest = max(deepest, depth + prefixes)
    return deepest


def _extent(tree: Node) -> tuple[int, int, int]:
    """Return how deep expressions nest, and the length of the longest list and AND or OR."""
    deepest, widest, longest, pending = 0, 0, 0, [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        if isinstance(node, exp.Connector):
            # A chain of ANDs or ORs is one list, however sqlglot nests it.
            parts = list(node.flatten(unnest=False))
            longest, deepest = max(longest, len(parts)), max(deepest, depth + 1)
            pending.extend((part, depth + 1) for part in parts)
            continue
        plain_node = isinstance(node, (exp.Paren, exp.Subquery, exp.If))
        depth += not plain_node and isinstance(node, (exp.Condition, exp.Query))
        deepest = max(deepest, depth)
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                pending.append((value, depth))
            elif isinstance(value, list):
                widest = max(widest, len(value))
                pending.extend((part, depth) for part in value if isinstance(part, exp.Expr))
    return deepest, widest, longest


def plain(tree: Node) -> Node:
    """Return a tree without parentheses, with chains of ANDs and ORs balanced, windows written out.

    What is written from it has parentheses wherever they could matter.
    """
    tree.meta.pop("sql", None)
    nodes = list(tree.walk())
    for node in nodes:
        if isinstance(node, exp.Paren):
            if node is tree:
                tree = node.this
            node.replace(node.this)
    kinds: tuple[type[exp.Connector], ...] = (exp.And, exp.Or)
    for kind in kinds:
        for chain in nodes:
            if isinstance(chain, kind) and not isinstance(chain.parent, kind):
                parts = list(chain.flatten(unnest=False))
                if len(parts) > 2:
                    chain.replace(_balanced(kind, parts, chain))
    for select in nodes:
        if isinstance(select, exp.Select) and select.args.get("windows"):
            _write_windows_out(select)
    return tree


def _balanced(kind: type[exp.Connector], parts: Sequence[Node], at: Node) -> Node:
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    halves = [_balanced(kind, half, at) for half in (parts[:middle], parts[middle:])]
    made = kind(this=halves[0], expression=halves[1])
    made.meta["start"], made.meta["end"] = at.meta.get("start", 0), at.meta.get("end", 0)
    return made


def _write_windows_out(select: exp.Select) -> None:
    """Replace OVER w by what WINDOW w says; one that builds on another stays, and is refused."""
    known = {window.name.casefold(): window for window in select.args.get("windows") or ()}
    if any(window.args.get("alias") for window in known.values()):
        return
    for window in list(select.find_all(exp.Window)):
        name = window.args.get("alias")
        if name is None or window.find_ancestor(exp.Select) is not select:
            continue
        meant = known.get(name.name.casefold())
        bare = not any(window.args.get(part) for part in ("partition_by", "order", "spec"))
        if meant is not None and bare:
            for part in ("partition_by", "order", "spec"):
                value = meant.args.get(part)
                copied = [v.copy() for v in value] if isinstance(value, list) else value
                window.set(part, copied.copy() if isinstance(copied, exp.Expr) else copied)
            window.set("alias", None)
    select.set("windows", None)


def _place_leaves(tree: Node, statement: Statement) -> None:
    """Give what was translated its place in the analyst's own text, by its names and constants."""
    for node in tree.walk():
        for name in ("start", "end"):
            node.meta.pop(name, None)
    used: dict[str, int] = {}
    for node in tree.find_all(exp.Identifier, exp.Literal, exp.Anonymous, bfs=False):
        name = node.name
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
        found = pattern.search(statement.text, used.get(name.casefold(), 0)) or pattern.search(
            statement.text
        )
        if name and found:
            used[name.casefold()] = found.end()
            node.meta["start"], node.meta["end"] = found.start(), found.end() - 1


def too_deep(statement: Statement, limits: Limits) -> SqlError:
    """Return the refusal of a statement that nests too deep."""
    return statement.refuse(
        "too-deep",
        f"the statement nests expressions deeper than {limits.nesting} levels",
        hint="Use IN for long lists of values, and AND or OR, which do not nest. "
        + advice("nesting"),
    )


def place_of(details: dict[str, Any]) -> Span | None:
    """Return the place that a message of DuckDB speaks of, in bytes."""
    if "location" in details:
        start, length = json.loads(details["location"])
        return int(start), int(length)
    return (int(details["position"]), 1) if "position" in details else None

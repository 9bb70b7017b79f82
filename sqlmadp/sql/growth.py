"""Growth: how long text an expression can make.

A call that would take very long or fill the memory must never begin: repeat('x', 1000000000),
nested REPLACE, a long chain of ||, a LIKE pattern with many wildcards over long text.  The bound is
worked out from the statement's own constants.  (Not in `limits`, which every plan loads: this needs
sqlglot, which is slow to load.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from sqlmadp.sql.tree import Node, call_of, children, constant, is_constant, span, walk
from sqlmadp.table.domain import Domain

if TYPE_CHECKING:
    from sqlmadp.sql.check import ExpressionChecker

LONGEST = 20_000
"""Characters that an expression may make of one record or one row of answers."""
GATHERED = 1_000
"""Characters of each row that an aggregate over answers may put together to one text."""
MOST_STEPS = 10**7
"""Steps that matching one pattern or comparing two texts may take."""

_COLUMN = 200
"""Characters that a value of a column is taken to have, if the domain declares no longer one."""
_REPEATED = frozenset({"repeat", "lpad", "rpad", "to_base", "left", "right"})
_REPLACED = frozenset({"replace", "regexp_replace", "translate"})
_LIKE = frozenset(
    {"like", "ilike", "glob"}
    | {"like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"}
)
_DISTANCE = frozenset(
    {"levenshtein", "editdist3", "damerau_levenshtein", "jaccard", "hamming"}
    | {"jaro_similarity", "jaro_winkler_similarity"}
)
_JOINED = frozenset({"||", "concat", "concat_ws", "list_value", "overlay"})
_DIGITS = frozenset({"hex", "to_hex", "bin", "to_binary", "base64", "regexp_escape"})
_GATHERED = frozenset({"string_agg", "group_concat", "listagg", "list", "array_agg", "histogram"})
"""Aggregates over answers whose value grows with the number of rows."""
_GROWING = _REPEATED | _REPLACED | _JOINED | _DIGITS | {"format", "printf"}
_BOUNDED = _GROWING | _LIKE | _DISTANCE | _GATHERED
_WIDTH = re.compile(r"\d{3,}|\*|\{[^}]*\{")


def check_growth(node: Node, checker: ExpressionChecker) -> None:
    """Refuse an expression that could make very long text or take very many steps."""
    calls = [(_name(part), part) for part in walk(node)]
    calls = [(name, part) for name, part in calls if name in _BOUNDED]
    column = _longest_value(checker.domain) if calls else 0
    for name, part in calls:
        if name in _GROWING and length(part, column) > LONGEST:
            checker.refuse(
                "too-long-text",
                f"{name} could make text of more than {LONGEST:,} characters",
                "Use smaller constants.",
                span(part),
            )
            return
        if name in _GATHERED and _gathered(part, column):
            checker.refuse(
                "too-long-text",
                f"{name} would put text of more than {GATHERED:,} characters per row together",
                "Shorten what is put together, for example with left(..., 100).",
                span(part),
            )
            return
        if name in _LIKE | _DISTANCE and _steps(name, _operands(part), column) > MOST_STEPS:
            checker.refuse(
                "slow-pattern",
                f"{name} could take more than {MOST_STEPS:,} steps on one value",
                "Use fewer wildcards, or contains(), starts_with() and ends_with().",
                span(part),
            )
            return


def overgrown(tree: Node, keys: Iterable[Node], domain: Domain) -> Node | None:
    """Return an expression that makes very long text of what sub-selects over answers make.

    ``keys`` are those of the private blocks; None if nothing does.
    """
    column = _longest_value(domain)
    answers = max((length(key, column) for key in keys), default=column)
    return _Outer(max(answers, column)).overgrown(tree)


class _Outer:
    """Follows how long the columns of nested queries over answers can get."""

    def __init__(self, answers: float) -> None:
        self._answers = answers
        self._found: Node | None = None

    def overgrown(self, tree: Node) -> Node | None:
        self._query(tree, {})
        return self._found

    def _query(self, node: Node, ctes: Mapping[str, float]) -> float:
        """Return how many characters the longest column of a query can have."""
        known = dict(ctes)
        given = node.args.get("with_")
        for cte in given.expressions if given is not None else ():
            known[cte.alias.casefold()] = self._query(cte.this, known)
        if isinstance(node, exp.SetOperation):
            return max(self._query(side, known) for side in (node.this, node.expression))
        if not isinstance(node, exp.Select):
            return self._relation(node.this, known) if node.this is not None else self._answers
        reads = node.args.get("from_")
        tables = [] if reads is None else [reads.this]
        tables += [join.this for join in node.args.get("joins") or ()]
        here = max((self._relation(table, known) for table in tables), default=self._answers)
        inner = (q for item in node.expressions for q in walk(item) if isinstance(q, exp.Query))
        here = max([here, *(self._query(query, known) for query in inner)])
        aliases: dict[str, float] = {}
        for item in node.expressions:
            named = [aliases[c.name] for c in item.find_all(exp.Column) if c.name in aliases]
            made = length(item.unalias(), max([here, *named]))
            if made > max(LONGEST, here, *named) and self._found is None:
                self._found = item
            if item.alias:
                aliases[item.alias] = made
        return max([here, *aliases.values()])

    def _relation(self, table: Node, ctes: Mapping[str, float]) -> float:
        if isinstance(table, exp.Table):
            own = ctes.get(table.name.casefold(), self._answers)
        else:
            own = self._query(table, ctes) if isinstance(table, exp.Query) else self._answers
        joins = table.args.get("joins") or ()
        return max([own, *(self._relation(join.this, ctes) for join in joins)])


def _name(node: Node) -> str:
    """Return the name of a function or of LIKE and its kin; empty for anything else."""
    if isinstance(node, (exp.Like, exp.ILike, exp.Glob)):
        return type(node).__name__.lower()
    if isinstance(node, exp.DPipe):
        return "||"
    call = call_of(node)
    return "" if call is None else call.name


def _gathered(node: Node, column: float) -> bool:
    call = call_of(node)
    first = call.arguments[:1] if call is not None else ()
    return any(length(value, column) > max(GATHERED, column) for value in first)


def _operands(node: Node) -> list[Node]:
    call = call_of(node)
    return children(node) if call is None else list(call.arguments)


def _longest_value(domain: Domain) -> int:
    """Return how many characters a value of any column can have."""
    declared = [value for column in domain.columns for value in column.values]
    public = [value for table in domain.public for row in table.rows for value in row]
    texts = [len(value) for value in (*declared, *public) if isinstance(value, str)]
    return max([*texts, _COLUMN])


def length(node: Node, column: float = _COLUMN) -> float:
    """Return how many characters an expression can have, if a value of a column has ``column``."""
    if is_constant(node):
        return len(constant(node))
    if isinstance(node, exp.Column):
        return column
    operands = _operands(node)
    parts = [length(operand, column) for operand in operands]
    if isinstance(node, exp.DPipe):
        return sum(parts) + 40
    if isinstance(node, exp.Window):
        return length(node.this, column)
    name = _name(node)
    if name in _GATHERED:
        return LONGEST / 4  # However many rows there are; it must not be doubled often.
    if not isinstance(node, exp.Anonymous):
        return max([*parts, 40.0])
    if name == "repeat" and len(parts) > 1:
        return parts[0] * _number(operands[1])
    if name in _REPEATED:
        return max([parts[0] if parts else 0.0, *map(_number, operands[1:2]), *parts[2:3], 40.0])
    if name in _REPLACED and len(parts) > 2:
        return max(parts[0], 1) * max(parts[2], 1)
    if name in ("format", "printf") and parts:
        first = operands[0]
        wide = not is_constant(first) or _WIDTH.search(constant(first))
        return math.inf if wide else 100 * parts[0] + sum(parts)
    return 8 * sum(parts) + 40 if name in _DIGITS else sum(parts) + 40


def _number(node: Node) -> float:
    """Return a constant count; anything else has no bound."""
    try:
        return abs(float(constant(node)))
    except ValueError:
        return math.inf


def _steps(name: str, operands: list[Node], column: float) -> float:
    if len(operands) < 2:
        return 0
    first, second = (length(operand, column) for operand in operands[:2])
    if name in _DISTANCE:
        return first * second
    pattern = operands[1]
    if not is_constant(pattern):
        return first**4
    wildcards = len(re.findall(r"[%*]+", constant(pattern)))
    backtracks = "_" in constant(pattern) or "?" in constant(pattern)
    # Without single-character wildcards DuckDB matches the pieces one after the other.
    return math.comb(int(min(first, 10**6)) + wildcards, wildcards) if backtracks else first

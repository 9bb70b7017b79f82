"""Growth: how long text a statement can make, and how many steps its patterns can take.

A call that would take very long or fill the memory must never begin: repeat('x', 1000000000),
nested REPLACE, a long chain of ||, a LIKE pattern with many wildcards over long text.  The bound is
worked out from the statement's own constants, in one walk over the private blocks and the queries
around them, through aliases, sub-selects and CTEs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from sqlglot import exp

from sqlmadp.bind.resolve import Resolved
from sqlmadp.sql.limits import COLUMN_TEXT, GATHERED_TEXT, LONGEST_TEXT, MATCHING_STEPS
from sqlmadp.sql.statements import RefusedError
from sqlmadp.sql.tree import Node, call_of, children, constant, is_constant, is_star
from sqlmadp.table.domain import Domain

_REPEATED = frozenset({"repeat", "lpad", "rpad", "to_base", "left", "right"})
_REPLACED = frozenset({"replace", "regexp_replace", "translate"})
_PATTERNS = frozenset(
    {"like", "ilike", "glob"}
    | {"like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"}
)
_DISTANCES = frozenset(
    {"levenshtein", "editdist3", "damerau_levenshtein", "jaccard", "hamming"}
    | {"jaro_similarity", "jaro_winkler_similarity"}
)
_JOINED = frozenset({"||", "concat", "concat_ws", "list_value", "overlay", "array"})
_SPELLED = frozenset({"hex", "to_hex", "bin", "to_binary", "base64", "regexp_escape", "strftime"})
"""Functions that write several characters for one."""
_FORMATS = frozenset({"format", "printf"})
_GATHERED = frozenset({"string_agg", "group_concat", "listagg", "list", "array_agg", "histogram"})
"""Aggregates over answers whose value grows with the number of rows."""
_GROWING = _REPEATED | _REPLACED | _JOINED | _SPELLED | _FORMATS
_WIDTH = re.compile(r"\d{3,}|\*|\{[^}]*\{")
_CLAUSES = ("where", "group", "having", "qualify", "order", "distinct")
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.Glob: "glob",
    exp.DPipe: "||",
    exp.Array: "array",
}


def check_growth(tree: Node, blocks: Iterable[Resolved], domain: Domain) -> None:
    """Refuse a statement over its blocks that could make very long text or take very long."""
    column = answers = _longest_value(domain)
    for block in blocks:
        for part in (*block.predicates(), *block.values()):
            _length(part, column)
        answers = max([answers, *(_length(key, column) for key in block.keys)])
    _query(tree, answers, {})


def _query(node: Node, answers: float, ctes: Mapping[str, float]) -> float:
    """Return how many characters the longest column of a query over answers can have."""
    known = dict(ctes)
    given = node.args.get("with_")
    for cte in given.expressions if given is not None else ():
        known[cte.alias.casefold()] = _query(cte.this, answers, known)
    if isinstance(node, exp.SetOperation):
        return max(_query(side, answers, known) for side in (node.this, node.expression))
    if isinstance(node, exp.Table):
        own = known.get(node.name.casefold(), answers)
    elif isinstance(node, exp.Subquery) and node.this is not None:
        own = _query(node.this, answers, known)
    else:
        own = answers
    reads = node.args.get("from_")
    joins = node.args.get("joins") or ()
    tables = [] if reads is None else [reads.this]
    here = max(
        [own, *(_query(each.this, answers, known) for each in joins)]
        + [_query(table, answers, known) for table in tables]
    )
    if not isinstance(node, exp.Select):
        return here
    inner = [query for part in node.iter_expressions() for query in _queries(part)]
    here = max([here, *(_query(query, answers, known) for query in inner)])
    aliases: dict[str, float] = {}
    for item in node.expressions:
        made = _length(item.unalias(), here, aliases)
        aliases[item.alias.casefold()] = made
    conditions = [join.args["on"] for join in joins if join.args.get("on") is not None]
    for clause in (*(node.args.get(name) for name in _CLAUSES), *conditions):
        if clause is not None:
            _length(clause, here, aliases)
    return max([here, *aliases.values()])


def _length(node: Node, column: float, aliases: Mapping[str, float] | None = None) -> float:
    """Return how many characters an expression can have; a column's values have ``column``."""
    if is_constant(node):
        return len(constant(node))
    if isinstance(node, exp.Column):
        return (aliases or {}).get(node.name.casefold(), column)
    if isinstance(node, exp.Query) or is_star(node):
        return column
    parts = {id(child): _length(child, column, aliases) for child in children(node)}
    if isinstance(node, exp.Window):
        return _length(node.this, column, aliases)
    call = call_of(node)
    name = _OPERATORS.get(type(node), "" if call is None else call.name)
    operands = children(node) if call is None else list(call.arguments)
    lengths = [parts.get(id(operand), 0.0) for operand in operands]
    made = _made(name, operands, lengths)
    if name in _GROWING and made > LONGEST_TEXT:
        message = f"{name} could make text of more than {LONGEST_TEXT:,} characters"
        raise RefusedError(
            "too-long-text", message, hint="Use smaller constants, or fewer parts.", node=node
        )
    if name in _GATHERED and any(each > max(GATHERED_TEXT, column) for each in lengths[:1]):
        message = f"{name} would gather text of more than {GATHERED_TEXT:,} characters per row"
        hint = "Shorten what is put together, for example with left(..., 100)."
        raise RefusedError("too-long-text", message, hint=hint, node=node)
    if _steps(name, operands, lengths) > MATCHING_STEPS:
        message = f"{name} could take more than {MATCHING_STEPS:,} steps on one value"
        hint = "Use fewer wildcards, or contains(), starts_with() and ends_with()."
        raise RefusedError("slow-pattern", message, hint=hint, node=node)
    return made


def _queries(node: Node) -> list[Node]:
    """Return the queries directly inside an expression or a clause."""
    if isinstance(node, exp.Query):
        return [node]
    if isinstance(node, (exp.From, exp.Join, exp.With)):
        return []
    return [query for child in node.iter_expressions() for query in _queries(child)]


def _longest_value(domain: Domain) -> float:
    """Return how many characters a value of any column can have."""
    declared = [value for column in domain.columns for value in column.values]
    public = [value for table in domain.public for row in table.rows for value in row]
    texts = [len(value) for value in (*declared, *public) if isinstance(value, str)]
    return max([*texts, COLUMN_TEXT])


def _made(name: str, operands: list[Node], lengths: list[float]) -> float:
    """Return how many characters a function can make of operands of these lengths."""
    if name in _GATHERED:
        return LONGEST_TEXT / 4  # However many rows there are; it must not be doubled often.
    if name == "repeat" and len(lengths) > 1:
        return lengths[0] * _number(operands[1])
    if name in _REPEATED:
        return max([*lengths[:1], *map(_number, operands[1:2]), *lengths[2:3], 40.0])
    if name in _REPLACED and len(lengths) > 2:
        return max(lengths[0], 1) * max(lengths[2], 1)
    if name in _FORMATS and lengths:
        wide = not is_constant(operands[0]) or _WIDTH.search(constant(operands[0]))
        return math.inf if wide else 100 * lengths[0] + sum(lengths)
    if name in _SPELLED:
        return 8 * sum(lengths) + 40
    return sum(lengths) + 40 if name in _JOINED else max([*lengths, 40.0])


def _number(node: Node) -> float:
    """Return a constant count; anything else has no bound."""
    try:
        return abs(float(constant(node)))
    except ValueError:
        return math.inf


def _steps(name: str, operands: list[Node], lengths: list[float]) -> float:
    """Return how many steps matching a pattern or comparing two texts can take."""
    if len(operands) < 2 or name not in _PATTERNS | _DISTANCES:
        return 0
    first, pattern = lengths[0], operands[1]
    if name in _DISTANCES:
        return first * lengths[1]
    if not is_constant(pattern):
        return first**4
    wildcards = len(re.findall(r"[%*]+", constant(pattern)))
    backtracks = "_" in constant(pattern) or "?" in constant(pattern)
    # Without single-character wildcards DuckDB matches the pieces one after the other.
    return math.comb(int(min(first, 10**6)) + wildcards, wildcards) if backtracks else first

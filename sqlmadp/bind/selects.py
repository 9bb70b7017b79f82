"""SELECTs over records: what they may say, and the records that one without aggregates yields.

A SELECT without aggregates only filters and computes; it is resolved away into the SELECT around it
(see ``names``).  A SELECT with aggregates is a private block, and is checked whole here before
``resolve`` takes it apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from sqlglot import exp

from sqlmadp.sql import hints
from sqlmadp.sql.check import QUERIES, ExpressionChecker, has_only_known_arguments
from sqlmadp.sql.limits import ALIAS_PARTS, Limits, advice
from sqlmadp.sql.names import Field, Records, resolved
from sqlmadp.sql.sandbox import Sandbox
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.tree import Node, is_star, parts_of, placed, span, text, walk
from sqlmadp.table.domain import Domain

Made = TypeVar("Made", bound=exp.Expr)


class SelectChecker(ExpressionChecker):
    """Collects the mistakes in SELECTs over records."""

    def __init__(
        self, statement: Statement, domain: Domain, sandbox: Sandbox, limits: Limits
    ) -> None:
        super().__init__(statement, domain, sandbox.functions)
        self._sandbox, self._limits = sandbox, limits

    def is_block(self, node: exp.Select) -> bool:
        """Return whether a SELECT over records is a private block."""
        if any(node.args.get(part) is not None for part in ("group", "having", "distinct")):
            return True
        return any(self.is_any_aggregate(part) for item in expressions(node) for part in walk(item))

    def yielded_records(self, node: exp.Select, source: Records) -> Records | None:
        """Return the records that a SELECT without aggregates yields."""
        before = len(self.problems)
        self.records = source
        aliases = {item.alias.casefold(): item for item in node.expressions if item.alias}
        self.aliases = set(aliases)
        if node.args.get("qualify") is not None:
            self.refuse("window", "QUALIFY over records would look at single records")
        limit = node.args.get("limit") or node.args.get("offset")
        if limit is not None:
            self.refuse(
                "limit-records",
                "LIMIT over records keeps some of them by their order, "
                "which depends on other records",
                f"LIMIT groups instead: {hints.counts(self.domain)} LIMIT 2.",
                span(limit),
            )
        where = node.args["where"].this if node.args.get("where") else None
        for item in (*node.expressions, where):
            if item is not None and not is_star(item):
                self.check_expression(item, "records")
        self._check_size(node, source)
        if len(self.problems) > before:
            return None
        fields = [field for item in node.expressions for field in self._fields(item, source)]
        if len(self.problems) > before:
            return None

        def alias(reference: Node) -> Node:
            return resolved(aliases[reference.name.casefold()], source)

        try:
            conditions = () if where is None else (resolved(where, source, alias),)
        except KeyError:
            self.refuse("ambiguous-name", "an alias of this SELECT stands for another alias")
            return None
        return Records(tuple(fields), (*source.where, *conditions), source.joined)

    def _fields(self, item: Node, source: Records) -> Iterable[Field]:
        if not is_star(item):
            try:
                expression = resolved(item, source)
            except KeyError:
                self.refuse(
                    "ambiguous-name",
                    "an alias cannot stand for another alias here",
                    "Write the expression itself.",
                    span(item),
                )
                return
            yield Field("", self.result_name(item), expression, size=_size(item, source))
            return
        star = item.this if isinstance(item, exp.Column) else item
        relation = item.table.casefold() if isinstance(item, exp.Column) else ""
        excluded = {part.name.casefold() for part in star.args.get("except_") or ()}
        replaced = {part.alias.casefold(): part.this for part in star.args.get("replace") or ()}
        for new in replaced.values():
            self.check_expression(new, "records")
        if star.args.get("rename") or star.args.get("ilike"):
            self.refuse_rows(span(item))
        for known in source.fields:
            if known.name.casefold() in excluded or (known.merged and not relation):
                continue
            if relation and known.qualifier.casefold() != relation:
                continue
            if known.name.casefold() in replaced:
                new = replaced[known.name.casefold()]
                yield Field("", known.name, resolved(new, source), size=_size(new, source))
            else:
                yield Field("", known.name, known.expression, size=known.size)

    def result_name(self, item: Node) -> str:
        """Return the name that DuckDB gives to a result column."""
        if item.alias:
            return str(item.alias)
        return item.name if isinstance(item, exp.Column) else self._sandbox.name_of(text(item))

    def check_block(self, node: exp.Select, source: Records) -> None:
        """Note every mistake in a SELECT with aggregates."""
        self.records = source
        items = node.expressions
        self.aliases = {item.alias.casefold() for item in items if item.alias}
        for item in items:
            self.check_expression(item, "block")
        where = node.args.get("where")
        for part in (where.this if where else None, *group_parts(node)):
            self.check_expression(part, "records")
        for name in ("having", "qualify"):
            if node.args.get(name) is not None:
                self.check_expression(node.args[name].this, "block")
        for part in (*ordered(node), *distinct_on(node)):
            self.check_expression(part, "block")
        self.check_limit(node)
        if any(isinstance(part, exp.Star) for item in items for part in walk(item)):
            return
        self._check_size(node, source)

    def check_limit(self, node: Node) -> None:
        """Note every mistake in LIMIT and OFFSET."""
        for name, key in (("limit", "expression"), ("offset", "expression")):
            clause = node.args.get(name)
            if clause is None:
                continue
            if not has_only_known_arguments(clause, QUERIES):
                self.refuse("syntax", "this form of LIMIT is not supported", "", span(clause))
                continue
            part = clause.args.get("count" if isinstance(clause, exp.Fetch) else key)
            if part is None or isinstance(part, exp.Var):
                continue
            if any(isinstance(each, (exp.Column, exp.Query)) for each in walk(part)):
                self.refuse("limit", "LIMIT and OFFSET are constants", "", span(part))
            else:
                self.check_expression(part, "records")

    def _check_size(self, node: exp.Select, source: Records) -> None:
        """Refuse aliases of aliases that grow without end when they are replaced."""
        sizes: dict[str, int] = {}
        total = written = 0
        for part in expressions(node):
            grown = _size(part, source, sizes)
            total += grown
            written += sum(1 for _ in walk(part))
            if part.alias:
                sizes[part.alias.casefold()] = grown
        if (total - written) * ALIAS_PARTS > self._limits.parts:
            self.refuse(
                "too-large",
                f"{total - written:,} parts are added to the statement when aliases are replaced "
                f"by what they stand for; each counts {ALIAS_PARTS} times, and at most "
                f"{self._limits.parts:,} are supported",
                advice("parts"),
            )


def with_parts(node: Made, **parts: object) -> Made:
    """Return a copy of a node with some of its arguments replaced."""
    copy = node.__class__()
    for name, value in (node.args | parts).items():
        copy.set(name, value if name in parts else _copied(value))
    return placed(copy, node)


def _copied(value: object) -> object:
    if isinstance(value, list):
        return [_copied(each) for each in value]
    return value.copy() if isinstance(value, exp.Expr) else value


def expressions(select: exp.Select) -> list[Node]:
    """Return every expression of a SELECT, the select list first."""
    clauses = [select.args.get(name) for name in ("where", "having", "qualify")]
    where, having, qualify = ([] if clause is None else [clause.this] for clause in clauses)
    return [*select.expressions, *where, *group_parts(select), *having, *qualify, *ordered(select)]


def group_parts(select: exp.Select) -> list[Node]:
    """Return the keys of a SELECT, whatever the grouping sets."""
    group = select.args.get("group")
    found: list[Node] = []
    pending = list(reversed(group.expressions)) if group is not None else []
    while pending:
        part = pending.pop()
        if isinstance(part, (exp.Cube, exp.Rollup, exp.GroupingSets, exp.Tuple)):
            pending.extend(reversed(part.expressions))
        else:
            found.append(part)
    return found


def ordered(select: exp.Select) -> list[Node]:
    """Return the expressions of ORDER BY, but for ALL."""
    order = select.args.get("order")
    parts = [each.this for each in order.expressions] if order is not None else []
    return [part for part in parts if not isinstance(part, exp.Var)]


def distinct_on(select: exp.Select) -> list[Node]:
    """Return the expressions of DISTINCT ON."""
    distinct = select.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    return list(on.expressions) if isinstance(on, exp.Tuple) else [on] if on is not None else []


def _size(node: Node, source: Records, aliases: Mapping[str, int] | None = None) -> int:
    """Return how many parts an expression has once names are replaced."""
    total = 0
    for part in walk(node):
        if not isinstance(part, exp.Column) or isinstance(part.this, exp.Star):
            total += 1
            continue
        known = source.field(parts_of(part))
        name = part.name.casefold()
        total += known.size if known is not None else (aliases or {}).get(name, 1)
    return total

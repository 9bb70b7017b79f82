"""Splitting: a statement's tree, checked and split into private blocks and what runs around.

Every SELECT reads either *records* (the private table, through aliases, sub-selects, CTEs and
joins with public tables) or *answers* (private blocks, public tables, constants), never both:

    SELECT over records, with aggregates       a private block; it becomes a SELECT over
                                               the block's answers
    SELECT over records, without               resolved away into the SELECT around it
    SELECT over answers                        stays as it is, but for what it reads

All mistakes are collected, so that an analyst mends a statement once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlmadp.bind.growth import check_growth
from sqlmadp.bind.resolve import PENDING, Resolved, Resolver
from sqlmadp.bind.selects import SelectChecker, with_parts
from sqlmadp.errors import Problem, SqlError
from sqlmadp.sql import hints
from sqlmadp.sql.check import QUERIES, has_only_known_arguments
from sqlmadp.sql.limits import Limits
from sqlmadp.sql.names import Field, Public, Records, declared, resolved
from sqlmadp.sql.sandbox import Sandbox
from sqlmadp.sql.statements import RefusedError, Statement
from sqlmadp.sql.tree import Node, Span, binary, conjunction, rebuild, span
from sqlmadp.table.domain import Domain

_SAMPLED = "sampling is not supported: it is not the same every time"
_ALL_RECORDS = "Leave it out: all records are counted."


@dataclass(frozen=True)
class Answers:
    """A part of a FROM clause over released answers, public tables or constants."""

    node: Node


Source = Records | Public | Answers
Sources = Mapping[str, Source]


@dataclass(frozen=True)
class Divided:
    """A statement over its private blocks."""

    tree: Node
    """The whole statement, reading ``__block0``, ``__block1``, ... and public tables."""
    blocks: tuple[Resolved, ...]
    top: Resolved | None
    """The block whose outer SELECT is the whole statement, if there is one."""
    problems: tuple[Problem, ...]
    """Mistakes that matter only if DuckDB itself accepts the statement."""


def divide(
    tree: Node, statement: Statement, domain: Domain, sandbox: Sandbox, limits: Limits
) -> Divided:
    """Return a statement over its private blocks, or an SqlError with every mistake."""
    return _Divider(statement, domain, sandbox, limits).divide(tree)


class _Divider(SelectChecker):
    def __init__(
        self, statement: Statement, domain: Domain, sandbox: Sandbox, limits: Limits
    ) -> None:
        super().__init__(statement, domain, sandbox, limits)
        self._blocks: list[Resolved] = []
        self._late: list[Problem] = []
        self._joined = 0

    def divide(self, tree: Node) -> Divided:
        result = self._query(tree, {}, top=True)
        if isinstance(result, Records):
            self.refuse_rows(_first_item(tree))
        if not self.problems and not self._late and not self._blocks:
            known = f"The private table is {hints.shown_name(self.domain.table)}."
            self.refuse("no-table", "the statement does not read the private table", known)
        if self.problems:
            raise SqlError(self.problems)
        top = next((block for block in self._blocks if block.outer is result), None)
        whole = result if isinstance(result, exp.Expr) else exp.Select()
        check_growth(whole, self._blocks, self.domain)
        return Divided(whole, tuple(self._blocks), top, tuple(self._late))

    # Queries.

    def _query(self, node: Node, ctes: Sources, *, top: bool = False) -> Node | Records | None:
        """Return a query over answers, or the records it yields; None if it has mistakes."""
        if not self._is_supported(node):
            return None
        known, kept = self._ctes(node.args.get("with_"), ctes)
        if isinstance(node, exp.Subquery):
            return self._wrapped(node, known, kept, top=top)
        if isinstance(node, exp.Select):
            return self._select(node, known, kept, top=top)
        sides = [self._answers(side, known) for side in (node.this, node.expression)]
        if any(side is None for side in sides):
            return None
        changed = with_parts(
            node, this=_in_parentheses(sides[0]), expression=_in_parentheses(sides[1]), with_=kept
        )
        return self._with_modifiers(changed, node, known)

    def _is_supported(self, node: Node) -> bool:
        if node.args.get("sample"):
            self.refuse("sample", _SAMPLED, _ALL_RECORDS)
        elif isinstance(node, exp.Query) and has_only_known_arguments(node, QUERIES):
            return True
        elif node.args.get("pivots"):
            self.refuse(
                "pivot", "PIVOT is not supported", hints.pivoted(self.domain, self.statement.text)
            )
        else:
            self.refuse("syntax", "this form of query is not supported")
        return False

    def _wrapped(
        self, node: exp.Subquery, ctes: Sources, kept: exp.With | None, *, top: bool
    ) -> Node | Records | None:
        """Return a query in parentheses, maybe with an ORDER BY or LIMIT outside of them."""
        modified = any(node.args.get(name) for name in ("order", "limit", "offset"))
        if not modified and kept is None:
            return self._query(node.this, ctes, top=top)
        inner = self._answers(node.this, ctes)
        if inner is None:
            return None
        return self._with_modifiers(with_parts(node, this=inner, with_=kept), node, ctes)

    def _with_modifiers(self, changed: Node, node: Node, ctes: Sources) -> Node:
        """Return a query over answers with its ORDER BY and LIMIT checked."""
        self.check_limit(node)
        order = node.args.get("order")
        if order is not None:
            changed.set("order", self._over_answers(order, ctes))
        return changed

    def _answers(self, node: Node, ctes: Sources) -> Node | None:
        """Return a query that must be over answers."""
        result = self._query(node, ctes)
        if isinstance(result, Records):
            self.refuse_rows(_first_item(node))
            return None
        return result

    def _ctes(
        self, given: exp.With | None, ctes: Sources
    ) -> tuple[dict[str, Source], exp.With | None]:
        """Return the sources that WITH names, and the WITH clause that stays in the statement."""
        known, kept = dict(ctes), []
        if given is not None and given.recursive:
            self.refuse("recursive-cte", "recursive CTEs are not supported")
            return known, None
        for cte in given.expressions if given is not None else ():
            if not has_only_known_arguments(cte, QUERIES):
                self.refuse("syntax", "this form of WITH is not supported", "", span(cte))
                continue
            name = cte.alias.casefold()
            if isinstance(cte.this, exp.Values):
                self._values(cte.this)
                known[name] = Answers(exp.Table())
                kept.append(cte.copy())
                continue
            query = self._query(cte.this, known)
            if isinstance(query, Records):
                known[name] = query.renamed(cte.alias, cte.alias_column_names)
                continue
            known[name] = Answers(exp.Table())
            if query is not None:
                kept.append(with_parts(cte, this=query))
        return known, exp.With(expressions=kept) if kept else None

    def _select(
        self, node: exp.Select, ctes: Sources, kept: exp.With | None, *, top: bool
    ) -> Node | Records | None:
        before = len(self.problems)
        source, joins = self._from(node, ctes)
        if source is None or len(self.problems) > before:
            return None
        if isinstance(source, Records):
            if self.is_block(node):
                outer = self._block(node, source, ctes, top=top)
                if outer is not None and kept is not None:
                    outer.set("with_", kept)  # In place: the block's outer SELECT is this one.
                return outer
            return self.yielded_records(node, source)
        return self._around(node, source, joins, ctes, kept)

    # A SELECT over answers.

    def _around(
        self,
        node: exp.Select,
        source: Public | Answers,
        joins: list[Node],
        ctes: Sources,
        kept: exp.With | None,
    ) -> Node | None:
        before = len(self.problems)
        reads = node.args.get("from_")
        copy = with_parts(node, with_=kept, joins=joins)
        if reads is not None:
            copy.set("from_", exp.From(this=source.node.copy()))
        copy.set("expressions", [self._over_answers(item, ctes) for item in node.expressions])
        for name in ("where", "having", "qualify", "group", "distinct"):
            part = node.args.get(name)
            if part is not None:
                copy.set(name, self._over_answers(part, ctes))
        changed = self._with_modifiers(copy, node, ctes)
        return changed if len(self.problems) == before else None

    def _over_answers(self, node: Node, ctes: Sources) -> Node:
        """Return an expression, or a clause of several, checked, with its queries rewritten."""
        self.records = None
        for part in expressions_of(node):
            self.check_expression(part, "answers")
        return self._with_subqueries(node, ctes)

    def _with_subqueries(self, node: Node, ctes: Sources) -> Node:
        """Return an expression over answers with the queries inside it rewritten."""
        if isinstance(node, exp.Query):
            return self._subquery(node, ctes)
        return rebuild(node, lambda child: self._with_subqueries(child, ctes))

    def _subquery(self, node: Node, ctes: Sources) -> Node:
        """Return a query inside an expression over answers."""
        if isinstance(node, exp.Subquery) and not node.args.get("alias"):
            inner = self._answers(node.this, ctes)
            return node.copy() if inner is None else with_parts(node, this=inner)
        changed = self._answers(node, ctes)
        return node.copy() if changed is None else changed

    # A private block.

    def _block(
        self, node: exp.Select, source: Records, ctes: Sources, *, top: bool
    ) -> exp.Select | None:
        """Return the outer SELECT of a private block."""
        before = len(self.problems)
        self.check_block(node, source)
        if len(self.problems) > before:
            return None
        number = len(self._blocks)
        resolver = Resolver(
            node,
            source,
            f"__block{number}",
            lambda subquery: self._subquery(subquery, ctes),
            limits=self._limits,
        )
        names = [item.alias if top else self.result_name(item) for item in node.expressions]
        self._blocks.append(PENDING)
        try:
            found = resolver.resolve(names, top=top)
        except RefusedError as error:
            self._late.extend(error.of(self.statement).problems)
            return exp.Select()
        self._blocks[number] = found
        return found.outer

    # FROM.

    def _from(self, node: exp.Select, ctes: Sources) -> tuple[Source | None, list[Node]]:
        """Return the source of a FROM clause, and its joins if it reads answers."""
        reads = node.args.get("from_")
        if reads is None:
            return Answers(exp.Table()), []
        return self._folded(self._relation(reads.this, ctes), node.args.get("joins") or (), ctes)

    def _folded(
        self, left: Source | None, joins: Iterable[exp.Join], ctes: Sources
    ) -> tuple[Source | None, list[Node]]:
        """Return the source that a relation and its joins make, from left to right."""
        kept: list[Node] = []
        for join in joins:
            right = self._relation(join.this, ctes)
            if left is None or right is None:
                left = None  # What else is joined is looked at all the same.
                continue
            if not has_only_known_arguments(join, QUERIES):
                self.refuse(
                    "join", "this form of JOIN is not supported", self._join_hint, span(join)
                )
                return None, []
            if isinstance(left, Records) or isinstance(right, Records):
                left = self._join_public(join, left, right)
                continue
            changed = with_parts(join, this=right.node.copy())
            if join.args.get("on") is not None:
                changed.set("on", self._over_answers(join.args["on"], ctes))
            kept.append(changed)
            left = Answers(left.node)
        return left, kept

    def _relation(self, table: Node, ctes: Sources) -> Source | None:
        """Return the source that one table of a FROM clause is; None if it has mistakes."""
        at = span(table)
        if table.args.get("sample") or isinstance(table, exp.TableSample):
            self.refuse("sample", _SAMPLED, _ALL_RECORDS, at)
        elif table.args.get("pivots"):
            self.refuse(
                "pivot",
                "PIVOT is not supported",
                hints.pivoted(self.domain, self.statement.text),
                at,
            )
        elif isinstance(table, exp.Table) and isinstance(table.this, exp.Func):
            self.refuse(
                "table-function", "table functions are not supported", self._known_tables(), at
            )
        elif isinstance(table, exp.Table) and (table.args.get("db") or table.args.get("catalog")):
            known = self._known_tables()
            self.refuse("unknown-table", "tables are named without a schema", known, at)
        elif not has_only_known_arguments(table, QUERIES):
            self.refuse("construct", "this FROM is not supported", self._known_tables(), at)
        else:
            return self._joined_relation(table, ctes)
        return None

    def _joined_relation(self, table: Node, ctes: Sources) -> Source | None:
        joins = table.args.get("joins")
        if isinstance(table, exp.Subquery) and not isinstance(table.this, exp.Query):
            source = self._relation(table.this, ctes)  # A join in parentheses.
            if isinstance(source, Records) and table.alias:
                source = source.renamed(table.alias, table.alias_column_names)
            elif source is not None and not isinstance(source, Records):
                source = Answers(with_parts(table, this=source.node.copy(), joins=None))
        elif isinstance(table, exp.Subquery):
            source = self._sub_select(table, ctes)
        elif isinstance(table, exp.Values):
            self._values(table)
            source = Answers(table)
        else:
            source = self._table(table, ctes)
        if not joins:
            return source
        found, kept = self._folded(source, joins, ctes)
        if found is None or isinstance(found, Records):
            return found
        return Answers(with_parts(found.node, joins=kept))

    def _values(self, table: exp.Values) -> None:
        """Note every mistake in a list of constants."""
        self.records = None
        for row in table.expressions:
            for value in row.expressions if isinstance(row, exp.Tuple) else [row]:
                self.check_expression(value, "answers")

    def _known_tables(self) -> str:
        public = ", ".join(hints.shown_name(table.name) for table in self.domain.public)
        listed = f" Public tables: {public}." if public else ""
        return f"The declared table is {hints.shown_name(self.domain.table)}.{listed}"

    @property
    def _join_hint(self) -> str:
        known = hints.join(self.domain)
        if known is None:
            return "Public tables that the schema declares can be joined."
        return f"Join a public table: {known}."

    def _table(self, table: Node, ctes: Sources) -> Source | None:
        name, renames = table.name, table.alias_column_names
        found = ctes.get(name.casefold())
        if isinstance(found, Records):
            return found.renamed(table.alias or name, renames)
        if found is not None:
            return Answers(with_parts(table, joins=None))
        if name.casefold() == self.domain.table.casefold():
            return declared(self.domain).renamed(table.alias or self.domain.table, renames)
        for number, public in enumerate(self.domain.public):
            if name.casefold() == public.name.casefold():
                names = [column for column, _ in public.columns]
                names[: len(renames)] = renames
                plain = with_parts(table, joins=None)
                return Public(public, number, table.alias or public.name, tuple(names), plain)
        tables = [self.domain.table, *(p.name for p in self.domain.public), *ctes]
        hint = " ".join(filter(None, [hints.nearest(name, tables), self._known_tables()]))
        self.refuse("unknown-table", f"there is no table {name!r}", hint, span(table.this))
        return None

    def _sub_select(self, table: exp.Subquery, ctes: Sources) -> Source | None:
        inner = with_parts(table, alias=None, joins=None)
        query = self._query(inner, ctes)
        if isinstance(query, Records):
            return query.renamed(table.alias or "unnamed_subquery", table.alias_column_names)
        if query is None:
            return None
        alias = table.args.get("alias")
        plain = query.this if isinstance(query, exp.Subquery) and not query.alias else query
        if plain is not query and any(query.args.get(n) for n in ("order", "limit", "offset")):
            plain = query
        return Answers(exp.Subquery(this=plain.copy(), alias=alias.copy() if alias else None))

    # Joins of records with a public table.

    def _join_public(self, join: exp.Join, left: Source, right: Source) -> Records | None:
        """Return the records of a join with a public table; None if it has mistakes."""
        place = span(join)
        records, public = (left, right) if isinstance(left, Records) else (right, left)
        if not isinstance(records, Records) or not isinstance(public, Public):
            what = "each other" if isinstance(public, Records) else "answers"
            self.refuse(
                "join",
                f"records of the private table cannot be joined with {what}",
                f"{self._join_hint} Two private blocks are joined as sub-selects with GROUP BY.",
                place,
            )
            return None
        side, kind, method = (
            str(getattr(join, name)).upper() for name in ("side", "kind", "method")
        )
        kind = side or {"CROSS": "", "OUTER": ""}.get(kind, kind) or "INNER"
        allowed = ("INNER",) if public is left else ("INNER", "LEFT", "SEMI", "ANTI")
        if kind not in allowed or method:
            self.refuse(
                "join",
                f"records cannot be joined with a public table by {method or kind} JOIN in this "
                "order",
                "Write the private table first, and JOIN or LEFT JOIN after it. " + self._join_hint,
                place,
            )
            return None
        self._joined += 1
        using = [part.name for part in join.args.get("using") or ()]
        condition = self._condition(join, records, public, using)
        if condition is None:
            return None
        folded = {name.casefold() for name in using}
        return public.joined(records, kind, condition, using=folded, place=join, at=self._joined)

    def _condition(
        self, join: exp.Join, records: Records, public: Public, using: list[str]
    ) -> Node | None:
        fields: tuple[Field, ...] = public.fields(self._joined)
        terms: list[Node] = []
        for name in using:
            own, other = records.find([name]), Records(fields).find([name])
            if own is None or other is None:
                self.refuse("unknown-column", f"USING names {name!r}, which is not on both sides")
                return None
            terms.append(binary(exp.EQ, own, other))
        on = join.args.get("on")
        if on is not None:
            before = len(self.problems)
            self.records = Records((*records.fields, *fields))
            self.aliases = set()
            self.check_expression(on, "records")
            if len(self.problems) > before:
                return None
            terms.append(resolved(on, self.records))
        if not terms:
            self.refuse(
                "join",
                f"every record would meet every row of {public.table.name!r}",
                f"Say in the join which row belongs to a record. {self._join_hint}",
                span(join),
            )
            return None
        return conjunction(terms)


def expressions_of(node: Node) -> list[Node]:
    """Return the expressions of a clause; those of ORDER BY and GROUP BY one by one."""
    if isinstance(node, (exp.Where, exp.Having, exp.Qualify)):
        return [node.this]
    if isinstance(node, exp.Order):
        parts = [order.this for order in node.expressions]
        return [part for part in parts if not isinstance(part, exp.Var)]
    if isinstance(node, exp.Distinct):
        on = node.args.get("on")
        return list(on.expressions) if isinstance(on, exp.Tuple) else [on] if on else []
    if isinstance(node, (exp.Group, exp.Cube, exp.Rollup, exp.GroupingSets)):
        return [
            part
            for each in node.expressions
            for inner in (each.expressions if isinstance(each, exp.Tuple) else [each])
            for part in expressions_of(inner)
        ]
    return [node]


def _in_parentheses(side: Node | None) -> Node | None:
    """Return one side of a UNION, whose own ORDER BY must not be read as that of the whole."""
    own = ("with_", "order", "limit", "offset")
    if isinstance(side, exp.Select) and any(side.args.get(name) for name in own):
        return exp.Subquery(this=side)
    return side


def _first_item(node: Node) -> Span | None:
    items = node.args.get("expressions") or []
    return span(items[0]) if items else None

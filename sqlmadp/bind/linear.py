"""Which result columns are linear in the answers, by the statement alone.

    FREE      the same whatever the answers are: keys, constants, RANK() over keys
    LINEAR    a sum of answers, each times a number that is FREE: COUNT(*) - 2 * SUM(age),
              SUM(COUNT(*)) OVER (ORDER BY age), SUM(n) of an outer SELECT, a.n - b.n of a join
    OTHER     anything else: ratios, quantiles, RANK() over counts, CASE WHEN COUNT(*) > 10

The error of a LINEAR column is exact, and known before anything is measured.  Which rows there
are must be FREE too, so HAVING, QUALIFY, ORDER BY and LIMIT are left out at the top, where they
only choose among rows; a subquery whose rows depend on answers makes OTHER of what reads it.

What is not recognised here is OTHER, never LINEAR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from sqlglot import exp

from sqlmadp.sql.check import OUTER_AGGREGATES
from sqlmadp.sql.tree import Call, Node, call_of, children, is_integer, parts_of, walk


class Kind(IntEnum):
    """How a column depends on the answers; the larger one wins where two meet."""

    FREE = 0
    LINEAR = 1
    OTHER = 2


@dataclass(frozen=True)
class KindColumn:
    """A column of a relation, and how it depends on the answers."""

    qualifier: str
    name: str
    kind: Kind
    merged: bool = False
    """Whether USING made it one with a column of the left side."""


@dataclass(frozen=True)
class Relation:
    """The columns that a FROM clause offers."""

    columns: tuple[KindColumn, ...]
    fixed: bool
    """Whether the answers change nothing about which rows there are."""
    rows: int = 1
    """How many rows there are at most.  A join with a condition, or under a WHERE, is taken to have
    as many as its larger side; should it have more, the limit of time over answers ends it."""

    def renamed(self, alias: str, names: Iterable[str]) -> Relation:
        """Return the same columns under a table alias, the first ones renamed."""
        new = dict(enumerate(names))
        columns = (
            KindColumn(alias.casefold(), new.get(place, column.name).casefold(), column.kind)
            for place, column in enumerate(self.columns)
        )
        return replace(self, columns=tuple(columns))


_CASTS = frozenset(
    {"double", "double precision", "float", "float4", "float8", "real", "decimal", "numeric", "dec"}
)
_SUMS = frozenset({"sum", "avg", "mean", "fsum", "kahan_sum", "sumkahan", "favg"})
_COUNTS = frozenset({"count"})
_TAKEN = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})
_WHOLE = frozenset({"bigint", "hugeint", "integer", "int", "int8", "int4", "long"})


def is_aggregate(node: Node) -> bool:
    """Return whether an expression is an aggregate over answers."""
    call = call_of(node)
    return call is not None and call.name in OUTER_AGGREGATES


class Scope:
    """The expressions of one SELECT."""

    def __init__(self, source: Relation, subquery: Callable[[Node], Relation]) -> None:
        """Look at expressions over ``source``; ``subquery`` analyses the queries inside them."""
        self._source, self._query = source, subquery
        self.aliases: dict[str, Kind] = {}

    def is_free(self, node: Node) -> bool:
        """Return whether an expression is the same whatever the answers are."""
        return self.kind(node) == Kind.FREE

    def kind(self, node: Node) -> Kind:
        """Return how an expression depends on the answers."""
        if isinstance(node, exp.Alias):
            node = node.this
        if isinstance(node, exp.Column):
            return self._column(parts_of(node))
        if isinstance(node, exp.Query):
            return self._subquery(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if is_aggregate(node):
            return self._aggregate(node)
        kinds = [self.kind(child) for child in children(node)]
        largest = max(kinds, default=Kind.FREE)
        if largest != Kind.LINEAR:
            return largest
        return Kind.LINEAR if self._keeps_linear(node, kinds) else Kind.OTHER

    def _keeps_linear(self, node: Node, kinds: list[Kind]) -> bool:
        """Return whether an operation on LINEAR and FREE operands is LINEAR."""
        if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            name = str(node.args["to"].args.get("spelled", "")).partition("(")[0].strip().lower()
            return name in _CASTS or (name in _WHOLE and isinstance(node.this, exp.Column))
        if isinstance(node, exp.Case):
            # The values may be LINEAR; what chooses among them may not.
            choosing = [node.this] if node.this is not None else []
            choosing += [branch.this for branch in node.args["ifs"]]
            return all(self.is_free(part) for part in choosing)
        if isinstance(node, exp.Anonymous):
            # A LINEAR value is NULL in the same rows whatever the answers are.
            return node.name.lower() == "coalesce"
        if isinstance(node, (exp.Add, exp.Sub, exp.Neg)):
            return True
        if isinstance(node, exp.Mul):
            return Kind.FREE in kinds
        return isinstance(node, exp.Div) and kinds[-1] == Kind.FREE

    def _column(self, names: list[str]) -> Kind:
        *qualifier, name = (part.casefold() for part in names)
        found = [
            column.kind
            for column in self._source.columns
            if column.name == name and (not qualifier or qualifier == [column.qualifier])
        ]
        if not found and not qualifier and name in self.aliases:
            return self.aliases[name]
        return max(found, default=Kind.OTHER)

    def _subquery(self, node: Node) -> Kind:
        """Return the kind of a query inside an expression; only a scalar one may be LINEAR."""
        found = self._query(node)
        kinds = [column.kind for column in found.columns]
        if not found.fixed or not kinds:
            return Kind.OTHER
        scalar = not isinstance(node.parent, (exp.In, exp.Exists, exp.Any, exp.All))
        return max(kinds) if scalar or max(kinds) == Kind.FREE else Kind.OTHER

    def _aggregate(self, node: Node) -> Kind:
        """Return the kind of an aggregate over answers."""
        call = call_of(node)
        if call is None or not self._source.fixed or not self._around_is_free(call):
            return Kind.OTHER
        kinds = [self.kind(a) for a in call.arguments if not isinstance(a, exp.Star)]
        return _of_sums(call.name, kinds, distinct=call.distinct)

    def _around_is_free(self, call: Call) -> bool:
        others = [call.where, *(order.this for order in call.orders)]
        return all(self.is_free(part) for part in others if part is not None)

    def _window(self, node: exp.Window) -> Kind:
        call = call_of(node.this)
        if call is None or not self._source.fixed or not self._around_is_free(call):
            return Kind.OTHER
        values = {id(argument) for argument in call.arguments}
        around = [child for child in children(node) if id(child) not in values]
        if not all(self.is_free(part) for part in around):
            return Kind.OTHER
        kinds = [self.kind(a) for a in call.arguments if not isinstance(a, exp.Star)]
        if call.name in _TAKEN and all(kind == Kind.FREE for kind in kinds[1:]):
            return kinds[0]
        return _of_sums(call.name, kinds, distinct=call.distinct)


def _of_sums(name: str, kinds: list[Kind], *, distinct: bool) -> Kind:
    """Return the kind of an aggregate of values of the given kinds, over FREE rows."""
    largest = max(kinds, default=Kind.FREE)
    if largest != Kind.LINEAR or distinct:
        return largest if largest == Kind.FREE else Kind.OTHER
    if name in _COUNTS:
        return Kind.FREE
    return Kind.LINEAR if name in _SUMS else Kind.OTHER


@dataclass(frozen=True)
class Shape:
    """How the columns of a statement depend on the answers."""

    kinds: tuple[Kind, ...]
    local: tuple[bool, ...]
    """Whether a column reads nothing but its own row of a block: no window, no subquery."""
    fixed: bool
    """Whether the answers change nothing about which rows there are."""


Tables = Mapping[str, tuple[Sequence[tuple[str, Kind]], int]]
"""The columns and the number of rows of every table that a statement may read, by its name."""


def shape_of(tree: Node, width: int, tables: Tables) -> Shape:
    """Return the shape of an ``unchosen`` statement with ``width`` result columns."""
    relation = _Analysis(tables).query(tree, {})
    kinds = [column.kind for column in relation.columns]
    if len(kinds) != width:
        kinds = [Kind.OTHER] * width
    elif not relation.fixed:
        kinds = [Kind.FREE if kind == Kind.FREE else Kind.OTHER for kind in kinds]
    local = tuple(_is_local(item) for item in tree.args.get("expressions") or ())
    local = local if len(local) == width else (False,) * width
    return Shape(tuple(kinds), local, relation.fixed)


def crossed_rows(tree: Node, tables: Tables) -> int:
    """Return the most rows that any FROM clause of a query makes, known before it runs.

    Five blocks of a hundred groups each, one beside the other in FROM, make ten thousand million.
    """
    analysis = _Analysis(tables)
    analysis.query(tree, {})
    return analysis.most_rows


def unchosen(tree: Node) -> Node:
    """Return a statement without what only chooses among its rows and orders them.

    That is HAVING over a block, QUALIFY, ORDER BY and LIMIT.  A condition stays where a window or
    an aggregate counts on it.
    """
    dropped = [name for name in ("order", "limit", "offset", "qualify") if tree.args.get(name)]
    if isinstance(tree, exp.Select) and tree.args.get("where") is not None:
        counted = tree.args.get("group") is not None or any(
            isinstance(part, exp.Window) or is_aggregate(part)
            for item in tree.expressions
            for part in walk(item)
        )
        if not counted and tree.args.get("distinct") is None:
            dropped.append("where")
    if not dropped:
        return tree
    copy = tree.copy()
    for name in dropped:
        copy.set(name, None)
    copy.meta.pop("sql", None)
    return copy


def _is_local(item: Node) -> bool:
    return not any(isinstance(p, (exp.Window, exp.Query, exp.Star)) for p in walk(item)) and not (
        isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    )


_UNKNOWN = Relation((), fixed=False)

Relations = Mapping[str, Relation]


class _Analysis:
    def __init__(self, tables: Tables) -> None:
        self._tables = {}
        self.most_rows = 0
        for name, (columns, rows) in tables.items():
            own = (KindColumn("", column.casefold(), kind) for column, kind in columns)
            self._tables[name.casefold()] = Relation(tuple(own), fixed=True, rows=rows)

    # Queries.

    def query(self, node: Node, ctes: Relations) -> Relation:
        known = dict(ctes)
        given = node.args.get("with_")
        for cte in given.expressions if given is not None else ():
            found = self.query(cte.this, known)
            known[cte.alias.casefold()] = found.renamed(cte.alias, cte.alias_column_names)
        if isinstance(node, exp.Select):
            return self._select(node, known)
        if isinstance(node, exp.Subquery):
            found = self.query(node.this, known)
            scope = self._scope(found, known)
            return replace(found, fixed=found.fixed and _keep_rows(node, found.columns, scope))
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, known)
        return replace(_UNKNOWN, rows=len(node.expressions))  # A list of VALUES.

    def _set_operation(self, node: exp.SetOperation, ctes: Relations) -> Relation:
        parts = [self.query(child, ctes) for child in (node.this, node.expression)]
        rows = sum(part.rows for part in parts)
        if len({len(part.columns) for part in parts}) != 1 or node.args.get("by_name"):
            return replace(_UNKNOWN, rows=rows)
        columns = tuple(
            KindColumn("", together[0].name, max(column.kind for column in together))
            for together in zip(*(part.columns for part in parts), strict=True)
        )
        whole = isinstance(node, exp.Union) and not node.args.get("distinct")
        free = all(column.kind == Kind.FREE for column in columns)
        fixed = all(part.fixed for part in parts) and (whole or free)
        scope = self._scope(Relation(columns, fixed), ctes)
        return Relation(columns, fixed and _keep_rows(node, columns, scope), rows)

    def _select(self, node: exp.Select, ctes: Relations) -> Relation:
        source = self._from(node, ctes)
        self.most_rows = max(self.most_rows, source.rows)
        clauses = [node.args.get(name) for name in ("where", "having")]
        choosing = [clause.this for clause in clauses if clause is not None]
        group = node.args.get("group")
        choosing += [] if group is None else list(group.expressions)
        scope = self._scope(source, ctes)
        fixed = source.fixed and all(scope.is_free(part) for part in choosing)
        scope = self._scope(replace(source, fixed=fixed), ctes)
        columns: list[KindColumn] = []
        for item in node.expressions:
            if isinstance(item, exp.Star) or (
                isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
            ):
                columns.extend(_starred(item, source))
                continue
            kind = scope.kind(item)
            name = item.alias or (item.name if isinstance(item, exp.Column) else "")
            columns.append(KindColumn("", name.casefold(), kind))
            if item.alias:
                scope.aliases[item.alias.casefold()] = kind
        qualify = node.args.get("qualify")
        fixed &= qualify is None or scope.is_free(qualify.this)
        return Relation(tuple(columns), fixed and _keep_rows(node, columns, scope), source.rows)

    def _scope(self, source: Relation, ctes: Relations) -> Scope:
        return Scope(source, lambda query: self.query(query, ctes))

    # FROM.

    def _from(self, node: exp.Select, ctes: Relations) -> Relation:
        reads = node.args.get("from_")
        if reads is None:
            return Relation((), fixed=True)
        crossed = node.args.get("where") is None
        return self._joined(self._relation(reads.this, ctes, crossed), node, ctes, crossed)

    def _joined(self, left: Relation, node: Node, ctes: Relations, crossed: bool) -> Relation:
        for join in node.args.get("joins") or ():
            left = self._join(left, join, ctes, crossed)
        return left

    def _relation(self, table: Node, ctes: Relations, crossed: bool) -> Relation:
        if isinstance(table, exp.Table):
            name = table.name
            known = ctes.get(name.casefold()) or self._tables.get(name.casefold(), _UNKNOWN)
            found = known.renamed(table.alias or name, table.alias_column_names)
            return self._joined(found, table, ctes, crossed)
        if isinstance(table, exp.Subquery) and not isinstance(table.this, exp.Query):
            found = self._relation(table.this, ctes, crossed)
            return replace(_UNKNOWN, rows=found.rows) if table.alias else found
        return self.query(table, ctes).renamed(table.alias, table.alias_column_names)

    def _join(self, left: Relation, join: exp.Join, ctes: Relations, crossed: bool) -> Relation:
        right = self._relation(join.this, ctes, crossed)
        using = {part.name.casefold() for part in join.args.get("using") or ()}
        condition = join.args.get("on")
        free = crossed and not (join.method or using or condition is not None)
        rows = left.rows * right.rows if free else max(left.rows, right.rows)
        if join.method or join.kind in ("SEMI", "ANTI"):
            return replace(_UNKNOWN, rows=rows)
        matched = [c for c in (*left.columns, *right.columns) if c.name in using]
        columns = (*left.columns, *(replace(c, merged=c.name in using) for c in right.columns))
        both = Relation(columns, left.fixed and right.fixed, rows)
        free = all(column.kind == Kind.FREE for column in matched) and (
            condition is None or self._scope(both, ctes).is_free(condition)
        )
        return replace(both, fixed=both.fixed and free)


def _keep_rows(node: Node, columns: Sequence[KindColumn], scope: Scope) -> bool:
    """Return whether DISTINCT, ORDER BY and LIMIT leave the same rows whatever the answers are.

    The order counts too: ROW_NUMBER() OVER () of a SELECT around this one would number them by it.
    """
    free = all(column.kind == Kind.FREE for column in columns)
    if node.args.get("limit") is not None or node.args.get("offset") is not None:
        return False  # Which rows are first depends on the order.
    distinct = node.args.get("distinct")
    if isinstance(distinct, exp.Distinct) and (distinct.args.get("on") is not None or not free):
        return False
    order = node.args.get("order")
    return order is None or all(
        _orders_free(each.this, columns, scope, free) for each in order.expressions
    )


def _orders_free(node: Node, columns: Sequence[KindColumn], scope: Scope, free: bool) -> bool:
    if isinstance(node, exp.Var):
        return free
    if is_integer(node):
        number = int(node.this)
        return 0 < number <= len(columns) and columns[number - 1].kind == Kind.FREE
    return scope.is_free(node)


def _starred(item: Node, source: Relation) -> list[KindColumn]:
    """Return the columns that a star stands for."""
    star = item.this if isinstance(item, exp.Column) else item
    if star.args.get("replace") or star.args.get("rename") or star.args.get("ilike"):
        return []  # Then the number of columns does not fit, and nothing is LINEAR.
    relation = item.table.casefold() if isinstance(item, exp.Column) else ""
    excluded = {part.name.casefold() for part in star.args.get("except_") or ()}
    return [
        column
        for column in source.columns
        if (column.qualifier == relation if relation else not column.merged)
        and column.name not in excluded
    ]

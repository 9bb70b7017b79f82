"""Binding: one statement becomes private blocks over the domain and what runs around them.

    read      sqlglot's tree, faithful to what DuckDB reads              read, grammar, dialects
    check     every part is on the allow-list, every name is known       check, names, selects
    split     private blocks, and what runs around them                  split, resolve
    describe  names and types of the result, by DuckDB                   sandbox
    evaluate  predicates, keys and values over declared values, by DuckDB evaluate, predicate
    group     counts, sums and histograms as rows over vertices          blocks, groups, products
    surround  SQL over the answers, and which columns are linear in them linear

Nothing here sees data.  A statement that cannot be bound is refused with every reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import duckdb
from sqlglot import exp

from sqlmadp.bind.blocks import private_block
from sqlmadp.bind.bound import BoundQuery, PrivateBlock
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.bind.linear import Kind, Tables, crossed_rows, shape_of, unchosen
from sqlmadp.bind.predicate import conjuncts, cut_places, pieces
from sqlmadp.bind.resolve import Resolved
from sqlmadp.bind.split import Divided, divide
from sqlmadp.errors import Problem, SqlError
from sqlmadp.sql.aggregates import LINEAR
from sqlmadp.sql.grammar import DUCKDB
from sqlmadp.sql.hints import undeclared_values
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.read import Reading, deep_recursion
from sqlmadp.sql.sandbox import ResultColumns, explain
from sqlmadp.sql.statements import RefusedError, Statement
from sqlmadp.sql.tree import Made, Node, column_names, parts_of, text
from sqlmadp.table.domain import Domain

__all__ = ["Binder", "BoundQuery", "bind", "bind_all", "bind_each", "cuts"]


def cuts(
    statements: Iterable[Statement], domain: Domain, limits: Limits = DEFAULT
) -> dict[str, set[float]]:
    """Return the constants that statements compare each real column with.

    A statement with mistakes cuts nothing; binding it reports them.
    """
    found: dict[str, set[float]] = {c.name: set() for c in domain.columns if c.type == "real"}
    if not found:
        return found
    evaluator = Evaluator(domain, limits)
    statements = list(statements)
    with deep_recursion(limits):
        readings = evaluator.sandbox.read(statements)
        for statement, reading in zip(statements, readings, strict=True):
            with suppress(SqlError, RefusedError):
                divided, _ = _divide(statement, reading, evaluator)
                for column, value in cut_places(_expressions(divided), evaluator):
                    found[column].add(value)
    return found


def bind(statement: Statement, evaluator: Evaluator) -> BoundQuery:
    """Return a statement bound to the evaluator's domain, or raise an SqlError.

    The domain must already have the cuts of the statement (see ``cuts``).
    """
    (query,) = bind_all([statement], evaluator)
    return query


def bind_all(
    statements: Iterable[Statement], evaluator: Evaluator, *, entries: int = 0
) -> list[BoundQuery]:
    """Return every statement bound, or raise one SqlError with all mistakes of all of them.

    ``entries`` are those of the queries that the plan has already.
    """
    bound, problems = bind_each(statements, evaluator, entries=entries)
    if problems:
        raise SqlError(problem for place in sorted(problems) for problem in problems[place])
    return list(bound.values())


def bind_each(
    statements: Iterable[Statement], evaluator: Evaluator, *, entries: int = 0
) -> tuple[dict[int, BoundQuery], dict[int, tuple[Problem, ...]]]:
    """Return the statements that can be bound, and the mistakes of the others, by their place."""
    statements = list(statements)
    bound: dict[int, BoundQuery] = {}
    problems: dict[int, tuple[Problem, ...]] = {}
    with deep_recursion(evaluator.limits):
        readings = evaluator.sandbox.read(statements)
        for place, (statement, reading) in enumerate(zip(statements, readings, strict=True)):
            try:
                query = _bound(statement, reading, evaluator, entries)
            except SqlError as error:
                problems[place] = error.problems
                continue
            entries += query.entries
            bound[place] = query
    return bound, problems


def _bound(
    statement: Statement, reading: Reading | SqlError, evaluator: Evaluator, entries: int
) -> BoundQuery:
    """Return one statement bound; ``entries`` are those of all before it."""
    try:
        divided, columns = _divide(statement, reading, evaluator)
        _require_little_work(divided, evaluator)
        _require_cuts(divided, evaluator)
        blocks = tuple(private_block(part, evaluator) for part in divided.blocks)
        query = bound_query(statement, divided, columns, blocks, evaluator)
        entries += query.entries
        if entries > evaluator.limits.plan_cells:  # Before the memory is full.
            raise RefusedError(
                "too-many-entries",
                f"the queries of the plan up to this one are made of {entries:,} numbers; "
                f"at most {evaluator.limits.plan_cells:,} are supported",
                hint=f"Ask for less detail. {advice('plan_cells')}",
            )
    except RefusedError as error:
        raise error.of(statement) from None
    if isinstance(reading, Reading) and statement.dialect != DUCKDB:
        return replace(query, read_as=reading.sql)
    return query


def _expressions(divided: Divided) -> Iterator[Node]:
    """Yield every expression over declared columns."""
    for part in divided.blocks:
        yield from part.expressions()


def _require_little_work(divided: Divided, evaluator: Evaluator) -> None:
    """Refuse what would be evaluated too often, before the first of it is."""
    limits, domain = evaluator.limits, evaluator.domain
    if len(divided.blocks) > limits.blocks:
        raise RefusedError(
            "too-large",
            f"the statement holds {len(divided.blocks):,} SELECTs over the private table; at most "
            f"{limits.blocks:,} are supported",
            hint=f"Split it into several statements. {advice('blocks')}",
        )
    nodes = [
        node
        for part in divided.blocks
        for node in (*_predicate_pieces(part), *part.keys, *part.values())
    ]
    unique = {text(node): node for node in nodes}
    if len(unique) > limits.expressions:
        raise RefusedError(
            "too-large",
            f"the statement has {len(unique):,} different conditions, keys and values; at most "
            f"{limits.expressions:,} are supported",
            hint=f"Split it into several statements. {advice('expressions')}",
        )
    sizes = {column.name: column.size for column in domain.columns}
    each = [math.prod(sizes[name] for name in column_names(node)) for node in unique.values()]
    # A single one has a limit of its own.
    cells = sum(min(size, limits.predicate_cells) for size in each)
    if cells > limits.evaluated_cells:
        raise RefusedError(
            "too-many-cells",
            f"the statement has {len(unique):,} different conditions, keys and values, which must "
            f"be looked at on {cells:,} cells in all; at most {limits.evaluated_cells:,} are "
            "supported",
            hint="Split it into several statements, or make its columns coarser. "
            + advice("evaluated_cells"),
        )


def _predicate_pieces(resolved: Resolved) -> Iterator[Node]:
    """Yield every predicate that DuckDB evaluates for a block."""
    for nodes in (resolved.where, *(piece.where for piece in resolved.pieces)):
        yield from pieces([part for node in nodes for part in conjuncts(node)])


def _divide(
    statement: Statement, reading: Reading | SqlError, evaluator: Evaluator
) -> tuple[Divided, ResultColumns]:
    if isinstance(reading, SqlError):
        raise reading
    divided = divide(reading.tree, statement, evaluator.domain, evaluator.sandbox, evaluator.limits)
    columns = evaluator.sandbox.describe(statement, reading.sql)
    if divided.problems:
        raise SqlError(divided.problems)
    return divided, columns


def _require_cuts(divided: Divided, evaluator: Evaluator) -> None:
    for name, value in cut_places(_expressions(divided), evaluator):
        edges = evaluator.domain.column(name).edges
        if edges[0] < value < edges[-1] and value not in edges:
            raise RefusedError(
                "not-cut",
                f"the real column {name!r} was not cut at {value!r} when the domain was made",
                hint="Only constants that the release's own statements used can be compared.",
            )


MOST_STATEMENTS = 1000
"""Statements bound in one sandbox, which remembers a little of each."""


class Binder:
    """Binds statements one by one over one domain, keeping the sandbox between them.

    A statement that compares a real column with a constant at which the domain is not cut gets a
    finer domain, and a sandbox, of its own.  Belongs to one thread at a time.
    """

    def __init__(self, domain: Domain, limits: Limits = DEFAULT) -> None:
        self.domain, self.limits = domain, limits
        self._evaluator: Evaluator | None = None
        self._bound = 0

    def bind(self, statement: Statement) -> tuple[BoundQuery, Domain]:
        """Return a statement bound, and the domain it is bound to: this one, or a finer one."""
        domain = self.domain.with_cuts(cuts([statement], self.domain, self.limits))
        if domain != self.domain:
            return bind(statement, Evaluator(domain, self.limits)), domain
        if self._evaluator is None or self._bound >= MOST_STATEMENTS:
            self._evaluator, self._bound = Evaluator(self.domain, self.limits), 0
        self._bound += 1
        return bind(statement, self._evaluator), self.domain


def bound_query(
    statement: Statement,
    divided: Divided,
    columns: ResultColumns,
    blocks: tuple[PrivateBlock, ...],
    evaluator: Evaluator,
) -> BoundQuery:
    """Put a statement together from its blocks and what runs around them."""
    tables = _tables(blocks, evaluator.domain)
    _require_few_rows(divided, tables, evaluator.limits)
    top = divided.top
    tracked = top is not None and top.tracked
    every_row = unchosen(divided.tree)
    shape = shape_of(every_row, len(columns) + tracked, tables)
    lenient, untouched = _with_try_casts(divided.tree), _with_try_casts(every_row)
    return BoundQuery(
        statement=statement,
        blocks=blocks,
        outer=_outer(divided, columns, blocks, evaluator),
        columns=columns,
        tracked=tracked,
        top=next((n for n, b in enumerate(blocks) if top is not None and b.name == top.name), 0),
        untouched=text(untouched or every_row),
        lenient=None if lenient is None else text(lenient),
        measures=top.measures if top is not None and tracked else (None,) * len(columns),
        kinds=shape.kinds[: len(columns)],
        local=shape.local[: len(columns)] if tracked else (False,) * len(columns),
        fixed=shape.fixed,
        public=evaluator.domain.public,
        undeclared=tuple(
            dict.fromkeys(
                found
                for resolved in divided.blocks
                for found in undeclared_values(resolved.expressions(), evaluator.domain)
            )
        ),
    )


def _require_few_rows(divided: Divided, tables: Tables, limits: Limits) -> None:
    """Refuse a join without a condition that makes too many rows of answers."""
    rows = crossed_rows(divided.tree, tables)
    if rows > limits.groups:
        raise RefusedError(
            "too-many-groups",
            f"answers are joined without a condition to {rows:,} rows; at most {limits.groups:,} "
            "are supported",
            hint=f"Join them on their keys. {advice('groups')}",
        )


def _tables(blocks: tuple[PrivateBlock, ...], domain: Domain) -> Tables:
    """Return how the columns of all tables depend on the answers, and how many rows they have."""
    tables = {
        public.name: ([(name, Kind.FREE) for name, _ in public.columns], len(public.rows))
        for public in domain.public
    }
    for block in blocks:
        columns = [(name, Kind.FREE) for name in (*block.keys.names, "rowid")]
        for place, each in enumerate(block.aggregates):
            kind = Kind.LINEAR if each.function in LINEAR else Kind.OTHER
            columns.append((f"__a{place}", kind))
        tables[block.name] = columns, block.rows
    return tables


def _outer(
    divided: Divided,
    columns: ResultColumns,
    blocks: tuple[PrivateBlock, ...],
    evaluator: Evaluator,
) -> str:
    """Return the outer SQL as text: exactly the types of ``columns``, then maybe the group."""
    sql = text(divided.tree)
    kinds = _copied_types(divided.top, blocks)
    try:
        kinds = kinds or evaluator.sandbox.describe_outer(sql, {b.name: b.columns for b in blocks})
    except duckdb.Error as error:
        raise RefusedError(
            "outer",
            "what runs over the answers cannot be carried over: " + explain(error)[0],
            hint="A subquery cannot refer to columns of the SELECT around it here.",
        ) from None
    kinds = kinds[: len(columns)]
    for have, (name, want) in zip(kinds, columns, strict=True):
        if have != want:
            raise RefusedError(
                "type-changed",
                f"the result column {name!r} would become {have} instead of {want}",
                hint=f"CAST it to {want} in the statement.",
            )
    return sql


def _copied_types(top: Resolved | None, blocks: tuple[PrivateBlock, ...]) -> tuple[str, ...] | None:
    """Return the types of a SELECT of nothing but keys and aggregates; None for any other."""
    if (
        top is None
        or not top.tracked
        or any(not isinstance(item.unalias(), exp.Column) for item in top.outer.expressions)
    ):
        return None
    types = next(dict(block.columns) for block in blocks if block.name == top.name)
    names = [item.unalias().name for item in top.outer.expressions[:-1]]
    return tuple(types[name] for name in names)


# Casts of answers that may not fit.  CAST(COUNT(*) AS TINYINT) fails in DuckDB for a count above
# 127, and whether it does depends on noise.  What is charged is answered, so the rest of such a
# statement is run again with TRY_CAST.  A cast of nothing but constants and group keys is left
# alone: it fails whatever the answers are, and does so before anything is charged.


def _with_try_casts(tree: Made) -> Made | None:
    """Return a statement over answers with TRY_CAST for every CAST of them; None if it has none."""
    if tree.find(exp.Cast) is None:
        return None
    copy = tree.copy()
    for node in copy.walk():
        node.meta.pop("sql", None)  # Its text is about to change.
    casts = [
        node
        for node in copy.find_all(exp.Cast)
        if not isinstance(node, exp.TryCast) and not _is_public(node.this)
    ]
    for node in casts:
        node.replace(exp.TryCast(this=node.this, to=node.to))
    return copy if casts else None


def _is_public(node: Node) -> bool:
    """Tell whether an expression is made of constants and of the keys of a block alone."""
    columns = node.find_all(exp.Column)
    keys = all(parts_of(column)[-1].startswith(("__k", "__g")) for column in columns)
    return keys and node.find(exp.Query) is None

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
from dataclasses import replace

import duckdb
from sqlglot import exp

from sqlmadp.bind.blocks import private_block
from sqlmadp.bind.bound import BoundQuery, PrivateBlock
from sqlmadp.bind.evaluate import EvaluationError, Evaluator, ManyValuesError, SlowExpressionError
from sqlmadp.bind.groups import TooManyCellsError, TooManyGroupsError
from sqlmadp.bind.linear import Kind, Tables, crossed_rows, shape_of, unchosen
from sqlmadp.bind.predicate import conjuncts, cuts_of, pieces, uses
from sqlmadp.errors import Problem, SqlError
from sqlmadp.sql.aggregates import LINEAR
from sqlmadp.sql.grammar import DUCKDB
from sqlmadp.sql.growth import LONGEST, overgrown
from sqlmadp.sql.hints import undeclared_values
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.read import Reading, deep_recursion
from sqlmadp.sql.resolve import Resolved
from sqlmadp.sql.sandbox import ResultColumns, explain
from sqlmadp.sql.split import Divided, divide
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.tree import Made, Node, column_names, parts_of, span, text
from sqlmadp.table.domain import Domain

__all__ = ["Binder", "BoundQuery", "bind", "bind_all", "bind_each", "cuts"]


def cuts(
    statements: Iterable[Statement], domain: Domain, limits: Limits = DEFAULT
) -> dict[str, set[float]]:
    """Return the constants that statements compare each real column with.

    A statement with mistakes cuts nothing; binding it reports them.
    """
    found: dict[str, set[float]] = {
        column.name: set() for column in domain.columns if column.type == "real"
    }
    if not found:
        return found
    evaluator = Evaluator(domain, limits)
    statements = list(statements)
    with deep_recursion(limits):
        readings = evaluator.sandbox.read(statements)
        for statement, reading in zip(statements, readings, strict=True):
            try:
                for column, value in _cuts_of(statement, reading, evaluator):
                    found[column].add(value)
            except SqlError:
                continue
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
    with deep_recursion(evaluator.limits):
        return _bind_each(list(statements), evaluator, entries)


def _bind_each(
    statements: list[Statement], evaluator: Evaluator, entries: int
) -> tuple[dict[int, BoundQuery], dict[int, tuple[Problem, ...]]]:
    problems: dict[int, tuple[Problem, ...]] = {}
    parts: dict[int, tuple[Divided, ResultColumns]] = {}
    bound: dict[int, BoundQuery] = {}
    readings = evaluator.sandbox.read(statements)
    for place, (statement, reading) in enumerate(zip(statements, readings, strict=True)):
        try:
            divided, columns = _divide(statement, reading, evaluator)
            _require_little_work(divided, statement, evaluator)
            for resolved in divided.blocks:
                _require_cuts(resolved, statement, evaluator)
            parts[place] = divided, columns
        except SqlError as error:
            problems[place] = error.problems
    _prepare([divided for divided, _ in parts.values()], evaluator)
    for place, (divided, columns) in parts.items():
        try:
            query = _bind(statements[place], divided, columns, evaluator)
        except SqlError as error:
            problems.setdefault(place, error.problems)
            continue
        if entries + query.entries > evaluator.limits.plan_cells:  # Before the memory is full.
            whole = entries + query.entries
            problems[place] = (_too_many_entries(statements[place], whole, evaluator.limits),)
            continue
        entries += query.entries
        reading = readings[place]
        if isinstance(reading, Reading) and statements[place].dialect != DUCKDB:
            query = replace(query, read_as=reading.sql)
        bound[place] = query
    return bound, problems


def _require_little_work(divided: Divided, statement: Statement, evaluator: Evaluator) -> None:
    """Refuse what would be evaluated too often, before the first of it is."""
    limits, domain = evaluator.limits, evaluator.domain
    if len(divided.blocks) > limits.blocks:
        raise statement.refuse(
            "too-large",
            f"the statement holds {len(divided.blocks):,} SELECTs over the private table; at most "
            f"{limits.blocks:,} are supported",
            hint=f"Split it into several statements. {advice('blocks')}",
            span=(0, 1),
        )
    nodes = [
        node
        for part in divided.blocks
        for node in (*_predicate_pieces(part), *part.keys, *part.values())
    ]
    unique = {text(node): node for node in nodes}
    if len(unique) > limits.expressions:
        raise statement.refuse(
            "too-large",
            f"the statement has {len(unique):,} different conditions, keys and values; at most "
            f"{limits.expressions:,} are supported",
            hint=f"Split it into several statements. {advice('expressions')}",
            span=(0, 1),
        )
    sizes = {column.name: column.size for column in domain.columns}
    each = [math.prod(sizes[name] for name in column_names(node)) for node in unique.values()]
    # A single one has a limit of its own.
    cells = sum(min(size, limits.predicate_cells) for size in each)
    if cells > limits.evaluated_cells:
        raise statement.refuse(
            "too-many-cells",
            f"the statement has {len(unique):,} different conditions, keys and values, which must "
            f"be looked at on {cells:,} cells in all; at most {limits.evaluated_cells:,} are "
            "supported",
            hint="Split it into several statements, or make its columns coarser. "
            + advice("evaluated_cells"),
            span=(0, 1),
        )


def _too_many_entries(statement: Statement, entries: int, limits: Limits) -> Problem:
    return statement.problem(
        "too-many-entries",
        f"the queries of the plan up to this one are made of {entries:,} numbers; "
        f"at most {limits.plan_cells:,} are supported",
        hint=f"Ask for less detail. {advice('plan_cells')}",
    )


def _bind(
    statement: Statement, divided: Divided, columns: ResultColumns, evaluator: Evaluator
) -> BoundQuery:
    """Evaluate a statement, putting whatever goes wrong into words."""
    try:
        return _evaluate(statement, divided, columns, evaluator)
    except ManyValuesError as error:
        raise _too_many_groups(statement, error.count, evaluator.limits.groups) from None
    except EvaluationError as error:
        raise statement.refuse(
            "evaluation",
            error.message,
            hint=_remedy(error.message),
            span=span(error.node),
        ) from None
    except SlowExpressionError as error:
        raise statement.refuse(
            "too-slow",
            f"this takes longer than {evaluator.limits.seconds} s on the values that the schema "
            "declares",
            hint=f"Write it more simply, or over fewer columns at once. {advice('seconds')}",
            span=span(error.node),
        ) from None
    except TooManyCellsError as error:
        names = ", ".join(error.columns)
        raise statement.refuse(
            "too-many-cells",
            f"{names} must be looked at together and have {error.cells:,} cells together; "
            f"at most {error.limit:,} are supported",
            hint="Join conditions on different columns by AND, or make the columns coarser. "
            + advice(error.name),
        ) from None
    except TooManyGroupsError as error:
        raise _too_many_groups(statement, error.groups, error.limit) from None


def _too_many_groups(statement: Statement, groups: int, limit: int) -> SqlError:
    return statement.refuse(
        "too-many-groups",
        f"the domain allows {groups:,} groups; at most {limit:,} are returned",
        hint=f"Group by fewer columns or by coarser expressions. {advice('groups')}",
    )


def _remedy(message: str) -> str:
    """Return a remedy for an expression that fails."""
    if "date field" in message:
        return "Dates are written as '2024-01-31'."
    if "Could not convert string" in message:
        return (
            "Text is compared with text in quotes; TRY_CAST(... AS ...) gives NULL for a value "
            "that cannot be converted."
        )
    return "This happens on a value that the schema declares; TRY(...) or CASE avoids it."


def _prepare(divided: Iterable[Divided], evaluator: Evaluator) -> None:
    """Do in few steps what binding would otherwise do statement by statement."""
    evaluator.prepare(
        piece for whole in divided for part in whole.blocks for piece in _predicate_pieces(part)
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
    keys = [key for part in divided.blocks for key in part.keys]
    if (grown := overgrown(divided.tree, keys, evaluator.domain)) is not None:
        raise statement.refuse(
            "too-long-text",
            f"this could make text of more than {LONGEST:,} characters of what the queries inside "
            "it make",
            hint="Put less text together.",
            span=span(grown),
        )
    columns = evaluator.sandbox.describe(statement, reading.sql)
    if divided.problems:
        raise SqlError(divided.problems)
    return divided, columns


def _cuts_of(
    statement: Statement, reading: Reading | SqlError, evaluator: Evaluator
) -> list[tuple[str, float]]:
    divided, _ = _divide(statement, reading, evaluator)
    return [pair for part in divided.blocks for pair in _cut_places(part, statement, evaluator)]


def _cut_places(
    resolved: Resolved, statement: Statement, evaluator: Evaluator
) -> list[tuple[str, float]]:
    """Return where real columns are cut, or refuse an expression that differs everywhere."""
    if all(column.type != "real" for column in evaluator.domain.columns):
        return []
    found = [
        use
        for node in (*resolved.predicates(), *resolved.keys, *resolved.values())
        for use in uses(node, statement, evaluator.domain)
    ]
    evaluator.prepare_constants(use.expression for use in found if not use.steps)
    return [(use.column, at) for use in found for at in cuts_of(use, evaluator, statement)]


def _require_cuts(resolved: Resolved, statement: Statement, evaluator: Evaluator) -> None:
    for name, value in _cut_places(resolved, statement, evaluator):
        edges = evaluator.domain.column(name).edges
        if edges[0] < value < edges[-1] and value not in edges:
            raise statement.refuse(
                "not-cut",
                f"the real column {name!r} was not cut at {value!r} when the domain was made",
                hint="Only constants that the release's own statements used can be compared.",
            )


def _evaluate(
    statement: Statement, divided: Divided, columns: ResultColumns, evaluator: Evaluator
) -> BoundQuery:
    blocks = tuple(private_block(part, statement, evaluator) for part in divided.blocks)
    return bound_query(statement, divided, columns, blocks, evaluator)


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
    _require_few_rows(statement, divided, blocks, evaluator)
    top = divided.top
    tracked = top is not None and top.tracked
    every_row = unchosen(divided.tree)
    shape = shape_of(every_row, len(columns) + tracked, _tables(blocks, evaluator.domain))
    lenient, untouched = _with_try_casts(divided.tree), _with_try_casts(every_row)
    return BoundQuery(
        statement=statement,
        blocks=blocks,
        outer=_outer(statement, divided, columns, blocks, evaluator),
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
                for found in undeclared_values(resolved, evaluator.domain)
            )
        ),
    )


def _require_few_rows(
    statement: Statement,
    divided: Divided,
    blocks: tuple[PrivateBlock, ...],
    evaluator: Evaluator,
) -> None:
    """Refuse a join without a condition that makes too many rows of answers."""
    sizes = {public.name.casefold(): len(public.rows) for public in evaluator.domain.public}
    sizes |= {block.name: block.rows for block in blocks}
    rows, limit = crossed_rows(divided.tree, sizes), evaluator.limits.groups
    if rows > limit:
        raise statement.refuse(
            "too-many-groups",
            f"answers are joined without a condition to {rows:,} rows; at most {limit:,} are "
            "supported",
            hint=f"Join them on their keys. {advice('groups')}",
        )


def _tables(blocks: tuple[PrivateBlock, ...], domain: Domain) -> Tables:
    """Return how the columns of all tables depend on the answers."""
    tables: dict[str, list[tuple[str, Kind]]] = {
        public.name: [(name, Kind.FREE) for name, _ in public.columns] for public in domain.public
    }
    for block in blocks:
        tables[block.name] = [
            *((name, Kind.FREE) for name in (*block.keys.names, "rowid")),
            *(
                (f"__a{place}", Kind.LINEAR if each.function in LINEAR else Kind.OTHER)
                for place, each in enumerate(block.aggregates)
            ),
        ]
    return tables


def _outer(
    statement: Statement,
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
        raise statement.refuse(
            "outer",
            "what runs over the answers cannot be carried over: " + explain(error)[0],
            hint="A subquery cannot refer to columns of the SELECT around it here.",
        ) from None
    kinds = kinds[: len(columns)]
    for have, (name, want) in zip(kinds, columns, strict=True):
        if have != want:
            raise statement.refuse(
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

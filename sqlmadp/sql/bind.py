"""Binding: one statement becomes private blocks over the domain and what runs around them.

    parse     DuckDB's syntax tree                                       sandbox
    rewrite   every part is on the allow-list, every name is known; split rewrite, resolve
    describe  names and types of the result, by DuckDB                   sandbox
    evaluate  predicates, keys and values over declared values, by DuckDB evaluate, predicate
    group     rows over the cells of marginals                           groups

Nothing here sees data.  A statement that cannot be bound is refused with every reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np

from sqlmadp.errors import Problem, SqlError
from sqlmadp.schema.domain import Domain
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.aggregates import LINEAR, Aggregate, Piece
from sqlmadp.sql.bound import BoundAggregate, BoundPiece, BoundQuery, Keys, PrivateBlock
from sqlmadp.sql.evaluate import EvaluationError, Evaluator, KeyValues
from sqlmadp.sql.factor import TooManyCellsError
from sqlmadp.sql.groups import Groups, TooManyGroupsError, Values, block, form_groups, histogram
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.predicate import conjuncts, guarded, masks, pieces
from sqlmadp.sql.real import cuts_of, uses
from sqlmadp.sql.resolve import Resolved
from sqlmadp.sql.rewrite import Rewritten, rewrite
from sqlmadp.sql.sandbox import ResultColumns, UnfaithfulError, explain, quote
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.syntax import Node, column_names, function, lookup, span

__all__ = ["BoundQuery", "bind", "bind_all", "cuts"]

_NESTED = ("[", "STRUCT", "MAP", "UNION", "LIST")


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
    evaluator.sandbox.read_ahead(statement.text for statement in statements)
    for statement in statements:
        try:
            for column, value in _cuts_of(statement, evaluator):
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


def bind_all(statements: Iterable[Statement], evaluator: Evaluator) -> list[BoundQuery]:
    """Return every statement bound, or raise one SqlError with all mistakes of all of them."""
    statements = list(statements)
    problems: dict[int, tuple[Problem, ...]] = {}
    parts: dict[int, tuple[Rewritten, ResultColumns]] = {}
    bound: list[BoundQuery] = []
    evaluator.sandbox.read_ahead(statement.text for statement in statements)
    for place, statement in enumerate(statements):
        try:
            rewritten, columns = _rewrite(statement, evaluator)
            for resolved in rewritten.blocks:
                _require_cuts(resolved, statement, evaluator)
            parts[place] = rewritten, columns
        except SqlError as error:
            problems[place] = error.problems
    _prepare([rewritten for rewritten, _ in parts.values()], evaluator)
    for place, (rewritten, columns) in parts.items():
        try:
            bound.append(_bind(statements[place], rewritten, columns, evaluator))
        except SqlError as error:
            problems.setdefault(place, error.problems)
    problems |= _too_many_entries(bound, statements, evaluator.limits)
    if problems:
        raise SqlError(problem for place in sorted(problems) for problem in problems[place])
    return bound


def _too_many_entries(
    bound: list[BoundQuery], statements: list[Statement], limits: Limits
) -> dict[int, tuple[Problem, ...]]:
    """Return what is wrong with the first statement that is too much for one plan."""
    entries = 0
    for query in bound:
        entries += query.entries
        if entries > limits.plan_cells:
            problem = query.statement.problem(
                "too-many-entries",
                f"the queries up to this one are made of {entries:,} numbers; "
                f"at most {limits.plan_cells:,} are supported",
                hint=f"Ask for less detail. {advice('plan_cells')}",
            )
            return {statements.index(query.statement): (problem,)}
    return {}


def _bind(
    statement: Statement, rewritten: Rewritten, columns: ResultColumns, evaluator: Evaluator
) -> BoundQuery:
    """Evaluate a statement, putting whatever goes wrong into words."""
    try:
        return _evaluate(statement, rewritten, columns, evaluator)
    except EvaluationError as error:
        raise statement.refuse(
            "evaluation",
            error.message,
            hint="This happens on a value that the schema declares; TRY(...) or CASE avoids it.",
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
        raise statement.refuse(
            "too-many-groups",
            f"the domain allows {error.groups:,} groups; at most {error.limit:,} are returned",
            hint=f"Group by fewer columns or by coarser expressions. {advice('groups')}",
        ) from None
    except UnfaithfulError:
        raise statement.refuse(
            "unfaithful", "a construct in this statement cannot be carried over faithfully"
        ) from None


def _prepare(rewritten: Iterable[Rewritten], evaluator: Evaluator) -> None:
    """Do in few steps what binding would otherwise do statement by statement."""
    rewritten = list(rewritten)
    blocks = [block for whole in rewritten for block in whole.blocks]
    plain = [whole.untouched for whole in rewritten if whole.untouched is not None]
    evaluator.sandbox.print_ahead([*(whole.tree for whole in rewritten), *plain])
    evaluator.prepare(
        [
            piece
            for part in blocks
            for node in part.predicates()
            for conjunct in conjuncts(node)
            for piece in pieces(conjunct)
        ],
        [node for part in blocks for node in (*part.keys, *part.values())],
    )


def _rewrite(statement: Statement, evaluator: Evaluator) -> tuple[Rewritten, ResultColumns]:
    sandbox = evaluator.sandbox
    tree = sandbox.parse(statement)
    rewritten = rewrite(tree, statement, evaluator.domain, sandbox, evaluator.limits)
    columns = sandbox.describe(statement)
    if rewritten.problems:
        raise SqlError(rewritten.problems)
    return rewritten, columns


def _cuts_of(statement: Statement, evaluator: Evaluator) -> list[tuple[str, float]]:
    rewritten, _ = _rewrite(statement, evaluator)
    return [pair for part in rewritten.blocks for pair in _cut_places(part, statement, evaluator)]


def _cut_places(
    resolved: Resolved, statement: Statement, evaluator: Evaluator
) -> list[tuple[str, float]]:
    """Return where real columns are told apart, or refuse what tells them apart everywhere."""
    found = [
        use
        for node in (*resolved.predicates(), *resolved.keys, *resolved.values())
        for use in uses(node, statement, evaluator.domain)
    ]
    evaluator.prepare([], [use.expression for use in found])
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
    statement: Statement, rewritten: Rewritten, columns: ResultColumns, evaluator: Evaluator
) -> BoundQuery:
    blocks = tuple(_block(part, statement, evaluator) for part in rewritten.blocks)
    top, plain = rewritten.top, rewritten.untouched
    tracked = plain is not None
    return BoundQuery(
        statement=statement,
        blocks=blocks,
        outer=_outer(statement, rewritten, columns, blocks, evaluator, tracked=tracked),
        columns=columns,
        tracked=tracked,
        untouched=evaluator.sandbox.print(plain) if plain is not None else "",
        measures=top.measures if top is not None and tracked else (None,) * len(columns),
        depends=top.depends if top is not None and tracked else (True,) * len(columns),
        public=evaluator.domain.public,
    )


def _block(resolved: Resolved, statement: Statement, evaluator: Evaluator) -> PrivateBlock:
    """Return one private block with the rows of its pieces."""
    _require_single_matches(resolved, statement, evaluator)
    guards = [part for node in resolved.where for part in conjuncts(node)]
    where = masks(guards, evaluator)
    keys = [
        guarded(node, guards, lambda part: _key(part, statement, evaluator))
        for node in resolved.keys
    ]
    sets = [
        form_groups(
            where,
            [keys[place].factor for place in places],
            grouped=bool(places),
            limits=evaluator.limits,
        )
        for places in resolved.sets
    ]
    rows = sum(groups.size for groups in sets)
    if rows > evaluator.limits.groups:
        raise TooManyGroupsError(rows, evaluator.limits.groups)
    order = {piece.key: place for place, piece in enumerate(resolved.pieces)}
    asked = {p.key for a in resolved.aggregates if a.function in LINEAR for p in a.pieces}
    return PrivateBlock(
        name=resolved.name,
        rows=rows,
        keys=_keys(resolved, keys, sets),
        pieces=tuple(
            _scaled(bound) if piece.kind == "sum" and piece.key not in asked else bound
            for piece in resolved.pieces
            for bound in [_piece(piece, guards, sets, statement, evaluator)]
        ),
        aggregates=tuple(
            _aggregate(aggregate, order, statement, evaluator) for aggregate in resolved.aggregates
        ),
    )


def _require_single_matches(resolved: Resolved, statement: Statement, evaluator: Evaluator) -> None:
    """Refuse a public table with several rows for one record: it would be counted twice."""
    for joined in resolved.lookups:
        found = lookup(function("count_star"), joined.source, joined.where)
        for use in uses(found, statement, evaluator.domain):
            raise statement.refuse(
                "real-column", f"a join cannot depend on the real column {use.column!r}"
            )
        matches = evaluator.argument(found).numbers
        if matches.max(initial=0) > 1:
            raise statement.refuse(
                "join",
                f"a record could meet {int(matches.max())} rows of the public table, and would be "
                "counted as often",
                hint="Join on columns that have at most one row for each combination of values.",
                span=joined.place,
            )


def _keys(resolved: Resolved, keys: list[KeyValues], sets: list[Groups]) -> Keys:
    """Return keys and GROUPING() of all groups; a key outside a grouping set is NULL there."""
    columns: list[list[np.ndarray]] = [[] for _ in keys]
    marks: list[list[np.ndarray]] = [[] for _ in resolved.groupings]
    for places, groups in zip(resolved.sets, sets, strict=True):
        here = {place: number for number, place in enumerate(places)}
        for place, key in enumerate(keys):
            missing = np.full(groups.size, None, dtype=object)
            found = key.texts[groups.codes[:, here[place]]] if place in here else missing
            columns[place].append(found)
        for parts, grouping in zip(marks, resolved.groupings, strict=True):
            bits = "".join("0" if place in here else "1" for place in grouping)
            parts.append(np.full(groups.size, str(int(bits, 2)), dtype=object))
    return Keys(
        (
            *(f"__k{place}" for place in range(len(keys))),
            *(f"__g{place}" for place in range(len(marks))),
        ),
        (*(key.type for key in keys), *("BIGINT" for _ in marks)),
        tuple(np.concatenate(parts) for parts in (*columns, *marks)),
    )


def _piece(
    piece: Piece,
    guards: list[Node],
    sets: list[Groups],
    statement: Statement,
    evaluator: Evaluator,
) -> BoundPiece:
    own = [part for node in piece.where for part in conjuncts(node)]
    chosen = masks(own, evaluator, guards)
    if piece.value is None:
        return BoundPiece("count", tuple(block(groups, chosen) for groups in sets), None)
    argument = guarded(piece.value, [*guards, *own], evaluator.argument)
    values = Values(argument.factor, argument.numbers)
    if piece.kind == "histogram":
        return BoundPiece(
            "histogram", tuple(histogram(groups, chosen, values) for groups in sets), argument
        )
    if not np.isfinite(argument.numbers).all() or argument.type in ("DATE", "TIMESTAMP"):
        raise statement.refuse(
            "sum-type",
            f"a {argument.type} cannot be summed or averaged: its values are no finite numbers",
            hint="MEDIAN and QUANTILE_DISC work for every ordered type.",
            span=span(piece.value),
        )
    return BoundPiece("sum", tuple(block(groups, chosen, values) for groups in sets), argument)


def _scaled(piece: BoundPiece) -> BoundPiece:
    """Return a sum whose largest value lies between 1/2 and 1, by an exact factor."""
    numbers = piece.argument.numbers if piece.argument is not None else np.zeros(0)
    largest = float(np.abs(numbers).max(initial=0.0))
    scale = 2.0 ** math.ceil(math.log2(largest)) if largest > 0 else 1.0
    blocks = tuple(Block(part.marginal, part.matrix * (1 / scale)) for part in piece.blocks)
    return replace(piece, blocks=blocks, scale=scale)


def _aggregate(
    aggregate: Aggregate, order: dict[str, int], statement: Statement, evaluator: Evaluator
) -> BoundAggregate:
    fractions, listed = _fractions(aggregate, statement, evaluator)
    return BoundAggregate(
        function=aggregate.function,
        type=_type_of(aggregate, evaluator),
        pieces=tuple(order[piece.key] for piece in aggregate.pieces),
        fractions=fractions,
        listed=listed,
        descending=aggregate.descending,
    )


def _type_of(aggregate: Aggregate, evaluator: Evaluator) -> str:
    """Return the type that DuckDB gives to an aggregate."""
    if aggregate.function in ("count", "count_if"):
        return "BIGINT" if aggregate.function == "count" else "HUGEINT"
    call = evaluator.sandbox.print_expression(aggregate.call)
    table = quote(evaluator.domain.table)
    return evaluator.sandbox.type_of(f"SELECT {call} FROM {table}")


def _fractions(
    aggregate: Aggregate, statement: Statement, evaluator: Evaluator
) -> tuple[tuple[Fraction | float | None, ...], bool]:
    """Return the constants that say which quantiles are asked for, and whether as a list."""
    if aggregate.fraction is None:
        return ((Fraction(1, 2),), False) if aggregate.function == "median" else ((), False)
    if column_names(aggregate.fraction):
        raise statement.refuse(
            "quantile",
            "the fraction of a quantile is a constant",
            span=span(aggregate.fraction),
        )
    values, listed = evaluator.constants(aggregate.fraction)
    if any(value is None or not -1 <= value <= 1 for value in values):
        raise statement.refuse(
            "quantile",
            "the fraction of a quantile lies between 0 and 1",
            span=span(aggregate.fraction),
        )
    return tuple(values), listed


def _key(node: Node, statement: Statement, evaluator: Evaluator) -> KeyValues:
    key = evaluator.key(node)
    if any(mark in key.type for mark in _NESTED):
        raise statement.refuse(
            "key-type", f"groups cannot be formed by a {key.type}", span=span(node)
        )
    return key


def _outer(
    statement: Statement,
    rewritten: Rewritten,
    columns: ResultColumns,
    blocks: tuple[PrivateBlock, ...],
    evaluator: Evaluator,
    *,
    tracked: bool,
) -> str:
    """Return the outer SQL as text: exactly the types of ``columns``, then maybe the group."""
    text = evaluator.sandbox.print(rewritten.tree)
    kinds = _copied_types(rewritten.top, blocks) if tracked else None
    try:
        kinds = kinds or evaluator.sandbox.describe_outer(text, {b.name: b.columns for b in blocks})
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
    return text


def _copied_types(top: Resolved | None, blocks: tuple[PrivateBlock, ...]) -> tuple[str, ...] | None:
    """Return the types of a SELECT of nothing but keys and aggregates; None for any other."""
    if top is None or any(item["class"] != "COLUMN_REF" for item in top.outer["select_list"]):
        return None
    types = next(dict(block.columns) for block in blocks if block.name == top.name)
    names = [item["column_names"][-1] for item in top.outer["select_list"][:-1]]
    return tuple(types[name] for name in names)

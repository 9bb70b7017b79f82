"""Binding: one statement becomes private blocks over the domain and what runs around them.

    parse     DuckDB's syntax tree                                       sandbox
    rewrite   every part is on the allow-list, every name is known; split rewrite, selects, resolve
    describe  names and types of the result, by DuckDB                   sandbox
    evaluate  predicates, keys and values over declared values, by DuckDB evaluate, predicate
    group     rows over the cells of marginals                           blocks, groups
    surround  SQL over the answers, and which columns are linear in them outer, linear

Nothing here sees data.  A statement that cannot be bound is refused with every reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlmadp.errors import Problem, SqlError
from sqlmadp.schema.domain import Domain
from sqlmadp.sql.blocks import private_block
from sqlmadp.sql.bound import BoundQuery
from sqlmadp.sql.evaluate import EvaluationError, Evaluator, SlowExpressionError
from sqlmadp.sql.factor import TooManyCellsError
from sqlmadp.sql.groups import TooManyGroupsError
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.outer import bound_query
from sqlmadp.sql.predicate import conjuncts, pieces
from sqlmadp.sql.real import cuts_of, uses
from sqlmadp.sql.resolved import Resolved
from sqlmadp.sql.rewrite import Rewritten, rewrite
from sqlmadp.sql.sandbox import ResultColumns, UnfaithfulError
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.syntax import span

__all__ = ["BoundQuery", "bind", "bind_all", "cuts"]


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


def bind_all(
    statements: Iterable[Statement], evaluator: Evaluator, *, entries: int = 0
) -> list[BoundQuery]:
    """Return every statement bound, or raise one SqlError with all mistakes of all of them.

    ``entries`` are those of the queries that the plan has already.
    """
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
            continue
        entries += bound[-1].entries
        if entries > evaluator.limits.plan_cells:
            problems[place] = (_too_many_entries(statements[place], entries, evaluator.limits),)
            break  # Before the memory is full.
    if problems:
        raise SqlError(problem for place in sorted(problems) for problem in problems[place])
    return bound


def _too_many_entries(statement: Statement, entries: int, limits: Limits) -> Problem:
    return statement.problem(
        "too-many-entries",
        f"the queries of the plan up to this one are made of {entries:,} numbers; "
        f"at most {limits.plan_cells:,} are supported",
        hint=f"Ask for less detail. {advice('plan_cells')}",
    )


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
        raise statement.refuse(
            "too-many-groups",
            f"the domain allows {error.groups:,} groups; at most {error.limit:,} are returned",
            hint=f"Group by fewer columns or by coarser expressions. {advice('groups')}",
        ) from None
    except UnfaithfulError:
        raise statement.refuse(
            "unfaithful", "a construct in this statement cannot be carried over faithfully"
        ) from None


def _remedy(message: str) -> str:
    """Return what to do about an expression that fails."""
    if "date field" in message:
        return "Dates are written as '2024-01-31'."
    if "Could not convert string" in message:
        return (
            "Text is compared with text in quotes; TRY_CAST(... AS ...) gives NULL for a value "
            "that cannot be converted."
        )
    return "This happens on a value that the schema declares; TRY(...) or CASE avoids it."


def _prepare(rewritten: Iterable[Rewritten], evaluator: Evaluator) -> None:
    """Do in few steps what binding would otherwise do statement by statement."""
    rewritten = list(rewritten)
    blocks = [block for whole in rewritten for block in whole.blocks]
    evaluator.sandbox.print_ahead(
        tree for whole in rewritten for tree in (whole.tree, whole.untouched)
    )
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
    if all(column.type != "real" for column in evaluator.domain.columns):
        return []
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
    blocks = tuple(private_block(part, statement, evaluator) for part in rewritten.blocks)
    return bound_query(statement, rewritten, columns, blocks, evaluator)

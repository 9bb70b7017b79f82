"""Binding: one statement becomes private blocks over the domain and what runs around them.

    read      sqlglot's tree, faithful to what DuckDB reads              read, grammar, dialects
    check     every part is on the allow-list, every name is known       check, names, selects
    split     private blocks, and what runs around them                  split, resolve
    describe  names and types of the result, by DuckDB                   sandbox
    evaluate  predicates, keys and values over declared values, by DuckDB evaluate, predicate
    group     rows over the cells of marginals                           blocks, groups
    surround  SQL over the answers, and which columns are linear in them outer, linear

Nothing here sees data.  A statement that cannot be bound is refused with every reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlmadp.errors import Problem, SqlError
from sqlmadp.sql.blocks import private_block
from sqlmadp.sql.bound import BoundQuery
from sqlmadp.sql.dialects import DUCKDB
from sqlmadp.sql.evaluate import EvaluationError, Evaluator, ManyValuesError, SlowExpressionError
from sqlmadp.sql.factor import TooManyCellsError
from sqlmadp.sql.groups import TooManyGroupsError
from sqlmadp.sql.growth import LONGEST, overgrown
from sqlmadp.sql.limits import DEFAULT, Limits, advice
from sqlmadp.sql.locked import quote
from sqlmadp.sql.outer import bound_query
from sqlmadp.sql.predicate import conjuncts, pieces
from sqlmadp.sql.read import Reading, deep_recursion
from sqlmadp.sql.real import cuts_of, uses
from sqlmadp.sql.resolve import Resolved
from sqlmadp.sql.sandbox import ResultColumns
from sqlmadp.sql.split import Divided, divide
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.tree import Node, column_names, span, text
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
            problems[place] = tuple(
                _with_quotes(problem, statement, evaluator.domain) for problem in error.problems
            )
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
    """Return what to do about an expression that fails."""
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
    """Return where real columns are told apart, or refuse what tells them apart everywhere."""
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


def _with_quotes(problem: Problem, statement: Statement, domain: Domain) -> Problem:
    """Return a mistake in the syntax with the names that lack double quotes, if any do."""
    if problem.code != "syntax" or problem.hint:
        return problem
    declared = [domain.table, *(column.name for column in domain.columns)]
    text = statement.text.casefold()
    missing = [
        quote(name)
        for name in (*declared, *(table.name for table in domain.public))
        if not name.isidentifier() and name.casefold() in text.replace(quote(name).casefold(), "")
    ]
    hint = f"Such names are written in double quotes: {', '.join(missing)}." if missing else ""
    return replace(problem, hint=hint)


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

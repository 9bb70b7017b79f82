"""Binding: one statement becomes blocks over the domain and what runs around them.

    parse     DuckDB's syntax tree                                     sandbox
    check     every part is on the allow-list, every name is declared  check
    describe  names and types of the result, by DuckDB                 sandbox
    resolve   predicate, group keys and counts; the outer SELECT       resolve
    evaluate  predicates and keys over declared values, by DuckDB      evaluate, predicate
    group     rows over the cells of marginals                         groups

Nothing here sees data.  A statement that cannot be bound is refused with every reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlmadp.errors import Problem, SqlError
from sqlmadp.schema.domain import Domain
from sqlmadp.schema.marginal import Block
from sqlmadp.sql.check import check
from sqlmadp.sql.evaluate import EvaluationError, Evaluator, KeyValues, Texts
from sqlmadp.sql.factor import TooManyCellsError
from sqlmadp.sql.groups import MAX_GROUPS, TooManyGroupsError, block, form_groups
from sqlmadp.sql.predicate import conjuncts, mask, pieces
from sqlmadp.sql.real import comparisons, cut
from sqlmadp.sql.resolve import Resolved, resolve
from sqlmadp.sql.sandbox import ResultColumns, UnfaithfulError
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.syntax import Node, span

_NESTED = ("[", "STRUCT", "MAP", "UNION", "LIST")


@dataclass(frozen=True, eq=False)
class Keys:
    """The group keys: one row a group, one column a key."""

    types: tuple[str, ...]
    """The DuckDB type of ``__k0``, ``__k1``, ..."""
    columns: tuple[Texts, ...]
    """The values as text, which ``CAST(text AS type)`` reads back exactly; None for NULL."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return ``__k0``, ``__k1``, ..."""
        return tuple(f"__k{place}" for place in range(len(self.types)))


@dataclass(frozen=True, eq=False)
class BoundQuery:
    """A statement over the domain: what is counted, and what runs over the counts."""

    statement: Statement
    rows: int
    """The number of groups; 1 for a statement without GROUP BY."""
    keys: Keys
    aggregates: tuple[Block, ...]
    """One block for each distinct count: row i counts the records of group i."""
    outer: str
    """SQL over a table ``__block`` of ``__k0``, ... and the BIGINT counts ``__a0``, ...

    It must be a table, filled in the order of the groups, since that order (``rowid``)
    breaks ties; one more column of the result, the last, is the number of the group.
    """
    columns: ResultColumns
    """Name and DuckDB type of every result column, as DuckDB gives them to the statement."""
    measures: tuple[int | None, ...]
    """For every result column, the aggregate that it is a bare copy of."""

    @property
    def name(self) -> str:
        """Return the name of the statement."""
        return self.statement.name


def cuts(statements: Iterable[Statement], domain: Domain) -> dict[str, set[float]]:
    """Return the constants that statements compare each real column with.

    A statement with mistakes cuts nothing; binding it reports them.
    """
    found: dict[str, set[float]] = {
        column.name: set() for column in domain.columns if column.type == "real"
    }
    if not found:
        return found
    evaluator = Evaluator(domain)
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
    parts: dict[int, tuple[Resolved, ResultColumns]] = {}
    bound: list[BoundQuery] = []
    evaluator.sandbox.read_ahead(statement.text for statement in statements)
    for place, statement in enumerate(statements):
        try:
            resolved, columns = _resolve(statement, evaluator)
            _require_cuts(resolved, statement, evaluator)
            parts[place] = resolved, columns
        except SqlError as error:
            problems[place] = error.problems
    _prepare([resolved for resolved, _ in parts.values()], evaluator)
    for place, (resolved, columns) in parts.items():
        try:
            bound.append(_bind(statements[place], resolved, columns, evaluator))
        except SqlError as error:
            problems.setdefault(place, error.problems)
    if problems:
        raise SqlError(problem for place in sorted(problems) for problem in problems[place])
    return bound


def _bind(
    statement: Statement, resolved: Resolved, columns: ResultColumns, evaluator: Evaluator
) -> BoundQuery:
    """Evaluate a statement, putting whatever goes wrong into words."""
    try:
        return _evaluate(statement, resolved, columns, evaluator)
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
            hint="Join conditions on different columns by AND, or make the columns coarser.",
        ) from None
    except TooManyGroupsError as error:
        raise statement.refuse(
            "too-many-groups",
            f"the domain allows {error.groups:,} groups; at most {MAX_GROUPS:,} are returned",
            hint="Group by fewer columns or by coarser expressions.",
        ) from None
    except UnfaithfulError:
        raise statement.refuse(
            "unfaithful", "a construct in this statement cannot be carried over faithfully"
        ) from None


def _prepare(resolved: Iterable[Resolved], evaluator: Evaluator) -> None:
    """Do in few steps what binding would otherwise do statement by statement."""
    resolved = list(resolved)
    evaluator.sandbox.print_ahead(part.outer for part in resolved)
    evaluator.prepare(
        [
            piece
            for part in resolved
            for node in part.predicates()
            for conjunct in conjuncts(node)
            for piece in pieces(conjunct)
        ],
        [key for part in resolved for key in part.keys],
    )


def _resolve(statement: Statement, evaluator: Evaluator) -> tuple[Resolved, ResultColumns]:
    tree = evaluator.sandbox.parse(statement)
    check(tree, statement, evaluator.domain, evaluator.sandbox.functions)
    columns = evaluator.sandbox.describe(statement)
    return resolve(tree, statement, evaluator.domain, columns), columns


def _cuts_of(statement: Statement, evaluator: Evaluator) -> list[tuple[str, float]]:
    resolved, _ = _resolve(statement, evaluator)
    found = _compared(resolved, statement, evaluator)
    return [(column, value) for column, value in found if value is not None]


def _compared(
    resolved: Resolved, statement: Statement, evaluator: Evaluator
) -> list[tuple[str, float | None]]:
    """Return what real columns are compared with, or refuse every other use of them."""
    compared = [
        pair
        for node in (*resolved.predicates(), *resolved.keys)
        for pair in comparisons(node, statement, evaluator.domain)
    ]
    evaluator.prepare([], [constant for _, constant in compared])
    return [(column, cut(evaluator, statement, column, constant)) for column, constant in compared]


def _require_cuts(resolved: Resolved, statement: Statement, evaluator: Evaluator) -> None:
    for name, value in _compared(resolved, statement, evaluator):
        edges = evaluator.domain.column(name).edges
        if value is not None and edges[0] < value < edges[-1] and value not in edges:
            raise statement.refuse(
                "not-cut",
                f"the real column {name!r} was not cut at {value!r} when the domain was made",
                hint="Only constants that the release's own statements used can be compared.",
            )


def _evaluate(
    statement: Statement, resolved: Resolved, columns: ResultColumns, evaluator: Evaluator
) -> BoundQuery:
    where = [part for node in resolved.where for part in conjuncts(node)]
    counts = [[part for node in count for part in conjuncts(node)] for count in resolved.counts]
    keys = [_key(node, statement, evaluator) for node in resolved.keys]
    groups = form_groups(
        [mask(node, evaluator) for node in where],
        [key.factor for key in keys],
        grouped=resolved.grouped,
    )
    table = Keys(
        tuple(key.type for key in keys),
        tuple(key.texts[groups.codes[:, place]] for place, key in enumerate(keys)),
    )
    return BoundQuery(
        statement=statement,
        rows=groups.size,
        keys=table,
        aggregates=tuple(
            block(groups, [mask(node, evaluator) for node in count]) for count in counts
        ),
        outer=_outer(statement, resolved, columns, table, evaluator),
        columns=columns,
        measures=resolved.measures,
    )


def _key(node: Node, statement: Statement, evaluator: Evaluator) -> KeyValues:
    key = evaluator.key(node)
    if any(mark in key.type for mark in _NESTED):
        raise statement.refuse(
            "key-type", f"groups cannot be formed by a {key.type}", span=span(node)
        )
    return key


def _outer(
    statement: Statement,
    resolved: Resolved,
    columns: ResultColumns,
    keys: Keys,
    evaluator: Evaluator,
) -> str:
    """Return the outer SELECT as text: exactly the types of ``columns``, then the group."""
    block_columns = [
        *zip(keys.names, keys.types, strict=True),
        *((f"__a{place}", "BIGINT") for place in range(len(resolved.counts))),
    ]
    text = evaluator.sandbox.print(resolved.outer)
    kinds = evaluator.sandbox.describe_outer(text, block_columns)[:-1]
    for place, (have, (name, want)) in enumerate(zip(kinds, columns, strict=True)):
        if have != want:
            raise statement.refuse(
                "type-changed",
                f"the result column {name!r} would become {have} instead of {want}",
                hint=f"CAST it to {want} in the statement.",
                span=span(resolved.outer["select_list"][place]),
            )
    return text

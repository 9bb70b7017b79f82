"""What runs around the private blocks: SQL over the tables of their answers.

It must return exactly the columns, with the types, that DuckDB gives to the statement itself.
"""

from __future__ import annotations

import duckdb
from sqlglot import exp

from sqlmadp.sql.aggregates import LINEAR
from sqlmadp.sql.bound import BoundQuery, PrivateBlock
from sqlmadp.sql.evaluate import Evaluator
from sqlmadp.sql.kinds import Kind
from sqlmadp.sql.limits import advice
from sqlmadp.sql.linear import Tables, crossed_rows, shape_of
from sqlmadp.sql.resolve import Resolved
from sqlmadp.sql.sandbox import ResultColumns, explain
from sqlmadp.sql.split import Divided
from sqlmadp.sql.statements import Statement
from sqlmadp.sql.tree import Made, Node, parts_of, text
from sqlmadp.sql.undeclared import undeclared_values
from sqlmadp.table.domain import Domain


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
    unchosen = divided.untouched
    shape = shape_of(unchosen, len(columns) + tracked, _tables(blocks, evaluator.domain))
    lenient, untouched = _with_try_casts(divided.tree), _with_try_casts(unchosen)
    return BoundQuery(
        statement=statement,
        blocks=blocks,
        outer=_outer(statement, divided, columns, blocks, evaluator),
        columns=columns,
        tracked=tracked,
        top=next((n for n, b in enumerate(blocks) if top is not None and b.name == top.name), 0),
        untouched=text(untouched or unchosen),
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

"""Casts of answers that may not fit: the same SQL with NULL in place of an error.

``CAST(COUNT(*) AS TINYINT)`` fails in DuckDB for a count above 127, and whether it does depends on
noise.  What is charged is answered, so the rest of such a statement is run again with TRY_CAST.  A
cast of nothing but constants and group keys is left alone: it fails whatever the answers are, and
does so before anything is charged.
"""

from __future__ import annotations

from sqlglot import exp

from sqlmadp.sql.tree import Made, Node, parts_of


def with_try_casts(tree: Made) -> Made | None:
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

"""Who is protected, as a schema file declares it.

    neighbours = "add_remove"     # one unit more or less (default), or "replace": another one

    [unit]                        # without it every record is a unit of its own
    column      = "person_id"
    max_records = 3
    key         = "visit_id"      # or a list; the undeclared columns if it is left out
    nulls       = "drop"          # or "own"

What is wrong is reported to the file, with everything else that is.
"""

from __future__ import annotations

from typing import Any

from sqlmadp.files.toml import Table, is_name
from sqlmadp.table.domain import Neighbours, Unit

MOST_RECORDS = 1_000_000
"""The most records that a unit may own: the noise grows with them."""


def read_neighbours(root: Table) -> Neighbours:
    """Return which tables are neighbours; what is wrong is reported."""
    given = root.values.get("neighbours", "add_remove")
    if given not in ("add_remove", "replace"):
        root.refuse("neighbours", '"add_remove" or "replace"')
    return "replace" if given == "replace" else "add_remove"


def read_unit(root: Table) -> Unit | None:
    """Return the privacy unit, or None if the file declares none; what is wrong is reported."""
    if "unit" not in root.values:
        return None
    table = root.table("unit", "a table with column and max_records, [unit]")
    if table is None:
        return None
    table.only(("column", "max_records", "key", "nulls"), "a unit")
    column = table.text("column", 'the column that says whose a record is, such as "person_id"')
    most = table.values.get("max_records")
    if isinstance(most, bool) or not isinstance(most, int) or not 0 < most <= MOST_RECORDS:
        table.refuse("max_records", f"a whole number from 1 to {MOST_RECORDS:,}")
        most = 1
    nulls = table.values.get("nulls", "drop")
    if nulls not in ("drop", "own"):
        table.refuse("nulls", '"drop" or "own"')
    return Unit(
        column=column or "",
        max_records=most,
        nulls="own" if nulls == "own" else "drop",
        key=_key(table),
    )


def _key(table: Table) -> tuple[str, ...]:
    given: Any = table.values.get("key", [])
    names = given if isinstance(given, list) else [given]
    if not all(isinstance(name, str) and is_name(name) for name in names):
        table.refuse("key", 'a column or a list of columns, such as "visit_id"')
        return ()
    return tuple(names)

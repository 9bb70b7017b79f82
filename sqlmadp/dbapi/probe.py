"""Probes: how tools ask a database for the columns of a table.

Notebook magics and BI tools send ``SELECT * FROM t WHERE 1 = 0`` and read the names and types
of what comes back.  It returns no row of any table, so the schema alone answers it, before the
release and after, and it is no part of any workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlmadp.answer.result import Result

_NAME = r'(?:"((?:[^"]|"")+)"|([A-Za-z_]\w*))'
_PROBE = re.compile(
    rf"\s*SELECT\s+\*\s+FROM\s+{_NAME}\s+(?:WHERE\s+(?:1\s*=\s*0|0\s*=\s*1|FALSE)|LIMIT\s+0)\s*",
    re.IGNORECASE,
)


def probed(text: str, tables: Mapping[str, tuple[tuple[str, str, bool], ...]]) -> Result | None:
    """Return the empty result of a probe of a declared table; None if the text is no probe."""
    found = _PROBE.fullmatch(text)
    if found is None:
        return None
    name = found[1].replace('""', '"') if found[1] else found[2]
    for table, columns in tables.items():
        if table.casefold() == name.casefold():
            return Result(tuple((column, kind) for column, kind, _ in columns), (), {})
    return None

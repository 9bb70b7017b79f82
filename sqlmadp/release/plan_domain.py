"""The domain of a plan: its schema, with the public tables that lie in the source's database.

Such a table is read once a process: it is public, and every statement is bound against it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from sqlmadp.files.plan import Plan
from sqlmadp.files.schema import read_schema
from sqlmadp.private.engines import Source
from sqlmadp.private.engines.trusted_values import read_public
from sqlmadp.table.domain import Domain, PublicTable


def domain_of(plan: Plan) -> Domain:
    """Return the domain that the plan's schema declares; reads no record of the private table."""
    domain = read_schema(plan.schema_path)
    if all(table.table is None for table in domain.public):
        return domain
    source = replace(plan.table, folder=plan.folder.resolve())
    public = tuple(
        table if table.table is None else _read(table, source, domain.table)
        for table in domain.public
    )
    return replace(domain, public=public)


@lru_cache(maxsize=64)
def _read(table: PublicTable, source: Source, private: str) -> PublicTable:
    return read_public(table, source, private)

"""A plan whose names and values try to break out of the page, and its reports."""

from dataclasses import dataclass
from pathlib import Path

import duckdb

from sqlmadp.files.plan import Plan
from sqlmadp.show.report import write_report

VALUE = "</script><img src=x onerror=\"document.title='hacked'\">"
ALIAS = "<svg onload=document.title='hacked'>"
COMMENT = "</pre><script>document.title='hacked'</script>"
ANALYST = "o'Neil & 'sons"
TABLE = "visits <b>"

SCHEMA = f"""
table = '{TABLE}'

[columns.place]
type = "category"
values = ['''{VALUE}''', "a right-to-left mark: \\u202e", "plain", "{"long " * 40}"]
nullable = true

[columns.age]
type = "integer"
min = 0
max = 29
"""

GROUPS = f"""
-- name: places
SELECT place AS "{ALIAS}", COUNT(*) AS n FROM "{TABLE}" GROUP BY place; -- {COMMENT}

-- name: both
SELECT place, age >= 18 AS "of age", COUNT(*) AS n
FROM "{TABLE}" GROUP BY ALL;

-- name: ages
SELECT age, COUNT(*) AS n FROM "{TABLE}" GROUP BY age;
"""
TOTAL = f"""
-- name: the_secret_of_bob
SELECT COUNT(*) AS bobs_count FROM "{TABLE}" WHERE age < 17 /* {COMMENT} */;
"""

BESIDE = ("independent", "identity", "utilitarian")
"""Mechanisms to compare with that take no time."""


@dataclass(frozen=True)
class Pages:
    """The reports of one plan: before and after its release, and for each analyst."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.html"

    def text(self, name: str) -> str:
        return self.path(name).read_text(encoding="utf-8")


def make_pages(folder: Path) -> Pages:
    """Write a plan, and its reports before and after it is released."""
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "groups.sql").write_text(GROUPS)
    (folder / "total.sql").write_text(TOTAL)
    duckdb.execute(
        f"""COPY (
            SELECT CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN 'plain' ELSE ? END AS place,
                CAST(i * 7 % 30 AS BIGINT) AS age
            FROM range(900) AS t(i)
        ) TO '{folder / "table.parquet"}' (FORMAT parquet)""",
        [VALUE],
    )
    (folder / "plan.toml").write_text(
        f"""
        schema = "schema.toml"
        source = "table.parquet"
        epsilon = "1"
        [ledger]
        path = "table.ledger"
        budget = "3"
        [analysts."{ANALYST}"]
        queries = "groups.sql"
        share = "1/2"
        [analysts.bob]
        queries = "total.sql"
        share = "1/4"
        [analysts.carol]
        queries = "groups.sql"
        share = "1/4"
        """
    )
    plan, pages = Plan.open(folder / "plan.toml"), Pages(folder)
    write_report(plan, pages.path("preview"), mechanisms=BESIDE)
    plan.release()
    write_report(plan, pages.path("released"), mechanisms=BESIDE)
    for name in ("bob", "carol"):
        write_report(plan, pages.path(name), analyst=name, mechanisms=BESIDE)
    return pages

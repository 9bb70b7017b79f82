"""A plan whose tables are wider than any screen: many columns of groups, all with long names."""

from pathlib import Path

import duckdb
from show.report.hostile import BESIDE

from sqlmadp.files.plan import Plan
from sqlmadp.show.report import write_report

SWITCHES = [f"an_answer_that_takes_many_words_to_name_{n}" for n in range(7)]
PLACES = [f"A place with quite a long name, number {n}" for n in range(20)]
ANALYSTS = [f"office of statistics and long names {n}" for n in range(5)]

SCHEMA = 'table = "answers"\n' + "".join(
    [
        *(f'[columns.{name}]\ntype = "boolean"\n' for name in SWITCHES),
        *(f'[columns.{name}]\ntype = "category"\nvalues = {PLACES}\n' for name in ("home", "work")),
    ]
)
QUERIES = f"""
-- name: {"everything_at_once_" * 4}
SELECT {", ".join(SWITCHES)}, COUNT(*) AS how_many_people_gave_all_of_these_answers
FROM answers GROUP BY ALL;

-- name: loud
SELECT CASE home WHEN '{PLACES[0]}' THEN 'FEMALE' ELSE 'MALE' END AS who, COUNT(*) AS n
FROM answers GROUP BY who;

-- name: shouted
SELECT upper(work) AS place, COUNT(*) AS n FROM answers GROUP BY place;

-- name: commuters
SELECT home, work, COUNT(*) AS n FROM answers GROUP BY ALL;
"""


def make_wide_page(folder: Path) -> Path:
    """Write the plan, release it, and write its report; return where that is."""
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "queries.sql").write_text(QUERIES)
    switches = ", ".join(f"i & {1 << n} > 0 AS {name}" for n, name in enumerate(SWITCHES))
    duckdb.execute(
        f"""COPY (
            SELECT {switches}, list_extract(?, i % 20 + 1) AS home, list_extract(?, 7) AS work
            FROM range(500) AS t(i)
        ) TO '{folder / "table.parquet"}' (FORMAT parquet)""",
        [PLACES, PLACES],
    )
    analysts = "".join(f'[analysts."{name}"]\nqueries = "queries.sql"\n' for name in ANALYSTS)
    (folder / "plan.toml").write_text(
        'schema = "schema.toml"\nsource = "table.parquet"\nepsilon = "1"\n'
        f'[ledger]\npath = "table.ledger"\nbudget = "3"\n{analysts}'
    )
    plan, page = Plan.open(folder / "plan.toml"), folder / "wide.html"
    plan.release()
    write_report(plan, page, mechanisms=BESIDE)
    return page

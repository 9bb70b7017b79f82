"""How much of DuckDB's own SQL is read: the queries of DuckDB's tests, through the front door.

    git clone --depth 1 https://github.com/duckdb/duckdb
    python benchmarks/sql_reading.py duckdb/test/sql

Of every query that DuckDB parses as one SELECT, says whether sqlglot's tree of it is faithful.
What is refused is listed with --show; what needs one of the words in ``OUTSIDE`` is refused by the
allow-list anyway and counted apart.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from pathlib import Path

from sqlmadp.errors import SqlError
from sqlmadp.sql.limits import DEFAULT
from sqlmadp.sql.read import Reader
from sqlmadp.sql.sandbox import locked_connection
from sqlmadp.sql.statements import Statement
from sqlmadp.table.domain import Column, Domain

DOMAIN = Domain(table="t", columns=(Column(name="a", type="boolean"),))
OUTSIDE = re.compile(
    r"->|\blambda\b|export_state|recursive|\bcolumns\s*\(|\bsample\b|\bread_\w+|variant|macro"
    r"|\bpivot|positional|\basof\b|\bcopy\b|\bmap\s*\{|\bunnest\b|string_agg|\btuple\b|\brow\s*\(",
    re.IGNORECASE,
)


def queries(folder: Path) -> list[str]:
    """Return the queries of DuckDB's tests."""
    found = set()
    for path in sorted(folder.rglob("*.test")):
        text = path.read_text(errors="replace")
        for match in re.finditer(r"^query [^\n]*\n(.*?)\n----", text, re.MULTILINE | re.DOTALL):
            sql = match[1].strip().rstrip(";").strip()
            begins = re.match(r"\(?\s*(select|with|from)\b", sql, re.IGNORECASE)
            if begins and "${" not in sql and len(sql) < 3000:
                found.add(sql)
    connection = locked_connection()
    parsed = connection.execute(
        "SELECT sql FROM (SELECT sql, json_serialize_sql(sql) AS tree FROM ("
        "SELECT unnest(?::VARCHAR[]) AS sql)) WHERE NOT tree.error::BOOLEAN "
        "AND json_array_length(tree.statements) = 1 ORDER BY sql",
        [sorted(found)],
    ).fetchall()
    return [sql for (sql,) in parsed]


def main() -> None:
    """Print how many are read, and why the others are not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--show", action="store_true", help="list what is refused")
    given = parser.parse_args()
    all_queries, start = queries(given.folder), time.process_time()
    reader = Reader(locked_connection(), DEFAULT, DOMAIN)
    verdicts: Counter[str] = Counter()
    for sql in all_queries:
        (found,) = reader.read([Statement("duckdb.sql", "q1", sql)])
        if not isinstance(found, SqlError):
            verdicts["read"] += 1
            continue
        outside = " (outside the allow-list)" if OUTSIDE.search(sql) else ""
        verdicts[found.code + outside] += 1
        if given.show and not outside:
            print(f"{found.code}: {' '.join(sql.split())}")
    print(f"{len(all_queries):,} queries, {time.process_time() - start:.0f} s CPU")
    for verdict, count in verdicts.most_common():
        print(f"  {verdict:42} {count:6}  {100 * count / len(all_queries):6.2f}%")


if __name__ == "__main__":
    main()

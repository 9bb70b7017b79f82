"""The constructs of SQL that the documentation lists, each with a statement that uses it.

The table in ``docs/sql.md`` is made of this list by binding every statement, that of codes from
``sqlmadp.sql.hints``, that of limits from ``sqlmadp.sql.limits``; tests compare them, so none can go
stale.  Write them anew with ``python tests/constructs.py``.
"""

# ruff: noqa: E501 -- SQL reads better in one line.

from __future__ import annotations

import re
from pathlib import Path

from people_table import DOMAIN

from sqlmadp.bind.bind import bind, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import SqlError
from sqlmadp.sql import limits
from sqlmadp.sql.hints import CODES
from sqlmadp.sql.statements import split

PAGE = Path(__file__).parent.parent / "docs" / "sql.md"
Marks = tuple[str, str]
MARKS: Marks = ("<!-- constructs -->\n", "<!-- end of constructs -->\n")
CODE_MARKS: Marks = ("<!-- codes -->\n", "<!-- end of codes -->\n")
LIMIT_MARKS: Marks = ("<!-- limits -->\n", "<!-- end of limits -->\n")

CONSTRUCTS = {
    "COUNT(*)": "SELECT COUNT(*) FROM people",
    "COUNT of an expression": "SELECT COUNT(level + 1) FROM people",
    "COUNT_IF": "SELECT COUNT_IF(age > 2) FROM people",
    "COUNT(DISTINCT)": "SELECT COUNT(DISTINCT sex) FROM people",
    "SUM": "SELECT SUM(age) FROM people",
    "SUM(CASE ...)": "SELECT SUM(CASE WHEN income > 10 THEN age ELSE 0 END) FROM people",
    "SUM of a real column": "SELECT SUM(income) FROM people",
    "SUM of bins of a real column": "SELECT SUM(FLOOR(income / 10) * 10) FROM people",
    "AVG": "SELECT AVG(age) FROM people",
    "AVG of dates": "SELECT AVG(day) FROM people",
    "VAR_POP, VAR_SAMP, VARIANCE": "SELECT VAR_POP(age), VAR_SAMP(age), VARIANCE(age) FROM people",
    "STDDEV, STDDEV_POP, SEM": "SELECT STDDEV(age), STDDEV_POP(age), SEM(age) FROM people",
    "MEDIAN": "SELECT MEDIAN(age) FROM people",
    "MEDIAN of dates or text": "SELECT MEDIAN(day), MEDIAN(sex) FROM people",
    "QUANTILE_CONT": "SELECT QUANTILE_CONT(age, 0.9) FROM people",
    "QUANTILE_DISC": "SELECT QUANTILE_DISC(age, 0.9) FROM people",
    "several quantiles at once": "SELECT QUANTILE_CONT(age, [0.1, 0.9]) FROM people",
    "PERCENTILE_CONT/DISC WITHIN GROUP": "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age) "
    "FROM people",
    "APPROX_QUANTILE": "SELECT APPROX_QUANTILE(age, 0.5) FROM people",
    "MODE": "SELECT MODE(sex) FROM people",
    "COVAR_POP, COVAR_SAMP, CORR": "SELECT COVAR_POP(age, level), CORR(age, level) FROM people",
    "REGR_SLOPE and its kin": "SELECT REGR_SLOPE(age, level), REGR_R2(age, level) FROM people",
    "MIN, MAX": "SELECT MAX(age) FROM people",
    "LIST, STRING_AGG": "SELECT STRING_AGG(sex, ',') FROM people",
    "BOOL_AND, BOOL_OR": "SELECT BOOL_OR(member) FROM people",
    "FILTER": "SELECT AVG(age) FILTER (WHERE sex = 'm') FROM people",
    "DISTINCT in an aggregate": "SELECT SUM(DISTINCT age) FROM people",
    "GROUP BY columns": "SELECT sex, COUNT(*) FROM people GROUP BY sex",
    "GROUP BY expressions, alias, ordinal": "SELECT age // 2 AS k, COUNT(*) FROM people GROUP BY k",
    "GROUP BY ALL": "SELECT sex, COUNT(*) FROM people GROUP BY ALL",
    "ROLLUP": "SELECT sex, level, COUNT(*) FROM people GROUP BY ROLLUP (sex, level)",
    "CUBE": "SELECT sex, level, COUNT(*) FROM people GROUP BY CUBE (sex, level)",
    "GROUPING SETS": "SELECT sex, level, COUNT(*) FROM people "
    "GROUP BY GROUPING SETS ((sex, level), (sex), ())",
    "GROUPING()": "SELECT sex, GROUPING(sex), COUNT(*) FROM people GROUP BY ROLLUP (sex)",
    "SELECT DISTINCT over groups": "SELECT DISTINCT sex, COUNT(*) FROM people GROUP BY sex, age",
    "SELECT DISTINCT of keys alone": "SELECT DISTINCT sex, level FROM people",
    "GROUP BY without any aggregate": "SELECT sex FROM people GROUP BY sex",
    "rows of individuals": "SELECT age, sex FROM people",
    "WHERE: AND, OR, NOT, three-valued": "SELECT COUNT(*) FROM people WHERE NOT (age > 1 OR level = 2)",
    "BETWEEN, IN, LIKE, IS NULL": "SELECT COUNT(*) FROM people WHERE age IN (1, 2) AND sex LIKE 'm%'",
    "regular expressions": "SELECT COUNT(*) FROM people WHERE regexp_matches(sex, '^[a-z]')",
    "CASE, COALESCE, scalar functions": "SELECT COUNT(*) FROM people WHERE coalesce(sex, 'x') = 'x'",
    "column against column": "SELECT COUNT(*) FROM people WHERE age > level",
    "a condition guarded by another": "SELECT COUNT(*) FROM people WHERE age > 0 AND 10 // age > 2",
    "a failing expression": "SELECT COUNT(*) FROM people WHERE CAST(sex AS INTEGER) = 1",
    "EXTRACT, DATE_TRUNC, INTERVAL": "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) FROM people "
    "WHERE day > DATE '2020-02-01' - INTERVAL 1 DAY GROUP BY m",
    "real column compared with constants": "SELECT COUNT(*) FROM people WHERE income BETWEEN 10 AND 20",
    "real column in arithmetic, compared": "SELECT COUNT(*) FROM people WHERE 2 * income + 1 > 30",
    "bins of a real column": "SELECT FLOOR(income / 25) AS bin, COUNT(*) FROM people GROUP BY bin",
    "WIDTH_BUCKET": "SELECT WIDTH_BUCKET(income, 0, 100, 4) AS b, COUNT(*) FROM people GROUP BY b",
    "real column in other functions": "SELECT COUNT(*) FROM people WHERE sin(income) > 0",
    "random(), now(), current_date": "SELECT COUNT(*) FROM people WHERE random() < 0.5",
    "table alias": "SELECT COUNT(*) FROM people AS p WHERE p.age > 1",
    "sub-select over records": "SELECT older, COUNT(*) FROM (SELECT age + 1 AS older FROM people) "
    "GROUP BY older",
    "CTE over records": "WITH adults AS (SELECT * FROM people WHERE age > 1) SELECT COUNT(*) FROM adults",
    "LIMIT over records": "SELECT COUNT(*) FROM (SELECT * FROM people LIMIT 10)",
    "JOIN with a public table": "SELECT title, COUNT(*) FROM people JOIN levels USING (level) "
    "GROUP BY title",
    "LEFT JOIN with a public table": "SELECT l.title, COUNT(*) FROM people p LEFT JOIN levels l "
    "ON p.level = l.level GROUP BY l.title",
    "SEMI and ANTI JOIN with a public table": "SELECT COUNT(*) FROM people SEMI JOIN levels USING (level)",
    "FULL and RIGHT JOIN with a public table": "SELECT COUNT(*) FROM people FULL JOIN levels USING (level)",
    "joining records with records": "SELECT COUNT(*) FROM people a JOIN people b USING (age)",
    "comma join": "SELECT COUNT(*) FROM people, levels",
    "HAVING": "SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > 10",
    "ORDER BY, LIMIT, OFFSET": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex ORDER BY n DESC LIMIT 2",
    "arithmetic on aggregates": "SELECT 100.0 * COUNT_IF(member) / COUNT(*) FROM people",
    "window functions over groups": "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) FROM people GROUP BY age",
    "window functions over records": "SELECT ROW_NUMBER() OVER () FROM people",
    "QUALIFY": "SELECT sex, COUNT(*) FROM people GROUP BY sex "
    "QUALIFY RANK() OVER (ORDER BY COUNT(*)) = 1",
    "outer SELECT over a private block": "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM people GROUP BY sex)",
    "CTEs of private blocks, joined": "WITH a AS (SELECT age, COUNT(*) AS n FROM people GROUP BY age), "
    "b AS (SELECT age, SUM(level) AS s FROM people GROUP BY age) SELECT * FROM a JOIN b USING (age)",
    "UNION ALL, UNION, EXCEPT, INTERSECT": "SELECT COUNT(*) FROM people UNION ALL "
    "SELECT COUNT(*) FROM people WHERE age > 1",
    "scalar subquery that is a private block": "SELECT sex, COUNT(*) / (SELECT COUNT(*) FROM people) "
    "FROM people GROUP BY sex",
    "a condition on records by a subquery": "SELECT COUNT(*) FROM people WHERE age > "
    "(SELECT AVG(age) FROM people)",
    "recursive CTE": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) "
    "SELECT COUNT(*) FROM people",
    "TABLESAMPLE": "SELECT COUNT(*) FROM people TABLESAMPLE 10%",
    "table functions and files": "SELECT COUNT(*) FROM read_csv('people.csv')",
    "lambda functions": "SELECT COUNT(*) FROM people WHERE list_filter([1], lambda x: x > 1) = [1]",
    "COLLATE": "SELECT COUNT(*) FROM people WHERE sex COLLATE nocase = 'M'",
    "parameters without a value": "SELECT COUNT(*) FROM people WHERE age > $low",
    "PIVOT, DDL, INSERT, SET": "CREATE TABLE t AS SELECT COUNT(*) FROM people",
}


def verdict(sql: str) -> str:
    """Return whether a statement is accepted, or why not."""
    try:
        statements = split(sql, file="construct.sql")
        domain = DOMAIN.with_cuts(cuts(statements, DOMAIN))
        bind(statements[0], Evaluator(domain))
    except SqlError as error:
        return "refused: " + error.problems[0].message
    return "accepted"


def fragment() -> str:
    """Return the table as Markdown."""
    lines = ["| construct | example | |", "|---|---|---|"]
    for construct, sql in CONSTRUCTS.items():
        cells = [construct, f"`{re.sub(' +', ' ', sql)}`", verdict(sql)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    accepted = sum(line.endswith(" accepted |") for line in lines)
    lines.append(f"\n{len(CONSTRUCTS)} constructs, {accepted} of them accepted.")
    return "\n".join(lines) + "\n"


def codes_table() -> str:
    """Return the codes of refusals as Markdown."""
    lines = ["| code | refused is |", "|---|---|"]
    lines += [f"| `{code}` | {meaning} |" for code, meaning in CODES.items()]
    return "\n".join(lines) + "\n"


def limits_table() -> str:
    """Return the limits as Markdown, each with what stands below it in the code."""
    lines = ["| limit | default | bounds |", "|---|---|---|"]
    source = Path(limits.__file__).read_text()
    for name, value in vars(limits.DEFAULT).items():
        meaning = re.search(rf'    {name}: int = .*\n    """(.*?)"""', source)[1]
        begin = meaning[0] if meaning[1].isupper() else meaning[0].lower()
        lines.append(f"| `{name}` | {value:,} | {begin}{meaning[1:].rstrip('.')} |")
    return "\n".join(lines) + "\n"


def written(marks: Marks = MARKS, page: Path = PAGE) -> str:
    """Return the table that a page has now."""
    begin, end = marks
    return page.read_text().partition(begin)[2].partition(end)[0]


def write(marks: Marks, table: str, page: Path = PAGE) -> None:
    """Write a table into a page."""
    begin, end = marks
    head, _, rest = page.read_text().partition(begin)
    page.write_text(head + begin + table + end + rest.partition(end)[2])


if __name__ == "__main__":
    for page in (PAGE,):
        write(MARKS, fragment(), page)
    write(CODE_MARKS, codes_table())
    write(LIMIT_MARKS, limits_table())

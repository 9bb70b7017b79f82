"""What hostile and merely long statements cost before the release, each in a process of its own.

    python benchmarks/costly_statements.py [--only TEXT] [--profile]

Prints for every statement whether it is accepted or refused (with the code), the CPU seconds that
reading, binding and cutting take, and the peak memory above that of an empty statement.  At most
3 s and 300 MB are meant.  With --profile the functions that take longest are printed too.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import math
import pstats
import resource
import subprocess
import sys
import time
from datetime import date

from sqlmadp.bind.bind import bind_all, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import Error
from sqlmadp.sql.statements import split
from sqlmadp.table.domain import Column, Domain, PublicTable

SECONDS, MEGABYTES = 3, 300

DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="sex", type="category", values=("m", "f")),
        Column(name="age", type="integer", minimum=0, maximum=99),
        Column(name="born", type="date", minimum=date(1900, 1, 1), maximum=date(2024, 12, 31)),
        Column(name="income", type="real", minimum=0.0, maximum=1e9),
        Column(name="points", type="integer", minimum=0, maximum=10**6),
        Column(name="hours", type="integer", minimum=0, maximum=2**21 - 2),
    ),
    public=(
        PublicTable(
            name="grades",
            columns=(("age", "BIGINT"), ("grade", "VARCHAR")),
            rows=tuple((age, f"grade {age // 10}") for age in range(100)),
        ),
    ),
)
COUNT = "SELECT COUNT(*) FROM people WHERE "
BY_AGE = "(SELECT age, sex, COUNT(*) AS n FROM people GROUP BY ALL)"


def listed(count: int, text: str, between: str = ", ") -> str:
    """Return numbered texts, one after the other."""
    return between.join(text.format(n=n) for n in range(count))


def aliases(count: int, first: str = "age", end: str = "GROUP BY ALL") -> str:
    """Return a chain of aliases, each twice as long as the one before."""
    chain = ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(count))
    return f"SELECT COUNT(*), {first} AS a0, {chain} FROM people {end}"


STATEMENTS = {
    "nothing": "SELECT COUNT(*) FROM people",
    "CORR of two wide columns": "SELECT CORR(hours, points) FROM people",
    "VAR of a wide column": "SELECT VAR_POP(hours) FROM people",
    "MODE of a wide column": "SELECT MODE(hours) FROM people",
    "STDDEV and MEDIAN of a wide column": "SELECT STDDEV(hours), MEDIAN(hours) FROM people",
    "IN of 9,000 numbers, real": COUNT + f"income IN ({listed(9_000, '{n}')})",
    "IN of 9,000 numbers, integer": COUNT + f"age IN ({listed(9_000, '{n}')})",
    "IN of 9,000 expressions, real": COUNT + f"income IN ({listed(9_000, '{n} + 1')})",
    "IN of 9,000 texts": COUNT + "sex IN (" + listed(9_000, "'t{n}'") + ")",
    "IN of 9,000 columns": COUNT + f"age IN ({listed(9_000, 'points')})",
    "OR of 1,000 comparisons": COUNT + listed(1_000, "age = {n}", " OR "),
    "OR of 1,000, two columns": COUNT + listed(500, "age = {n} OR points = {n}", " OR "),
    "OR of 1,000, real": COUNT + listed(1_000, "income > {n}", " OR "),
    "OR of 9,000 comparisons": COUNT + listed(9_000, "age={n}", " OR "),
    "OR of 6,000, two columns": COUNT + listed(3_000, "age={n} OR points={n}", " OR "),
    "OR of 6,000, real": COUNT + listed(6_000, "income>{n}", " OR "),
    "AND of 9,000 comparisons": COUNT + listed(9_000, "age<{n}", " AND "),
    "AND of 6,000, two columns": COUNT + listed(3_000, "age<>{n} AND points<>{n}", " AND "),
    "OR of ANDs": COUNT + listed(2_000, "(age={n} AND points={n})", " OR "),
    "5,000 times COUNT(*)": f"SELECT {listed(5_000, 'COUNT(*)')} FROM people",
    "5,000 named COUNT(*)": f"SELECT {listed(5_000, 'COUNT(*) AS c{n}')} FROM people",
    "3,000 different sums": f"SELECT {listed(3_000, 'SUM(age + {n})')} FROM people",
    "20,000 empty grouping sets": "SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ("
    + listed(20_000, "()")
    + ")",
    "500 filters of a wide column": "SELECT "
    + listed(500, "COUNT(*) FILTER (points > {n})")
    + " FROM people",
    "300 sums of a wide column": f"SELECT {listed(300, 'SUM(points + {n})')} FROM people",
    "3,000 different filters": "SELECT "
    + listed(3_000, "COUNT(*) FILTER (age > {n})")
    + " FROM people",
    "2,000 medians": f"SELECT {listed(2_000, 'MEDIAN(age + {n})')} FROM people",
    "3,000 keys": f"SELECT {listed(3_000, 'age + {n}')}, COUNT(*) FROM people GROUP BY ALL",
    "2,000 grouping sets": "SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ("
    + listed(2_000, "(age, sex)")
    + ")",
    "2,000 small grouping sets": "SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ("
    + listed(2_000, "(sex)")
    + ")",
    "2,000 keys in grouping sets": "SELECT COUNT(*) FROM people GROUP BY GROUPING SETS ("
    + listed(2_000, "(age + {n})")
    + ")",
    "ROLLUP of 1,000": "SELECT COUNT(*) FROM people GROUP BY ROLLUP ("
    + listed(1_000, "age + {n}")
    + ")",
    "CUBE of 11": f"SELECT COUNT(*) FROM people GROUP BY CUBE ({listed(11, 'age // 1{n}')})",
    "CUBE of 22": f"SELECT COUNT(*) FROM people GROUP BY CUBE ({listed(22, 'age // {n}')})",
    "product of 20 ROLLUPs": "SELECT COUNT(*) FROM people GROUP BY "
    + listed(20, "ROLLUP (age, sex)"),
    "12 aliases": aliases(12),
    "14 aliases": aliases(14),
    "12 aliases, not grouped": aliases(12, end=""),
    "14 aliases, not grouped": aliases(14, end=""),
    "40 aliases, not grouped": aliases(40, end=""),
    "12 aliases in ORDER BY": aliases(12, end="GROUP BY ALL ORDER BY a12"),
    "9 aliases, grouped": aliases(9),
    "14 aliases of a count": aliases(14, "COUNT(*)", end=""),
    "9 aliases of a count": aliases(9, "COUNT(*)", end=""),
    "90 aliases, one each": "SELECT COUNT(*), age AS a0, "
    + ", ".join(f"a{n} + 1 AS a{n + 1}" for n in range(90))
    + " FROM people GROUP BY ALL",
    "sub-selects of sub-selects": "SELECT COUNT(*) FROM "
    + "(SELECT x + x AS x FROM " * 12
    + "(SELECT age AS x FROM people)"
    + ")" * 12
    + " WHERE x > 0",
    "CTEs of CTEs": "WITH c0 AS (SELECT age AS x FROM people), "
    + ", ".join(f"c{n + 1} AS (SELECT x + x AS x FROM c{n})" for n in range(12))
    + " SELECT COUNT(*) FROM c12 WHERE x > 0",
    "CTEs over answers": "WITH c0 AS (SELECT COUNT(*) AS x FROM people), "
    + ", ".join(f"c{n + 1} AS (SELECT a.x + b.x AS x FROM c{n} a, c{n} b)" for n in range(20))
    + " SELECT x FROM c20",
    "95 levels of calls": f"SELECT {'abs(' * 94}age{')' * 94}, COUNT(*) FROM people GROUP BY 1",
    "95 levels of parentheses": COUNT + "(" * 95 + "age = 1" + ")" * 95,
    "90 levels of CASE": COUNT + "CASE WHEN age > 1 THEN " * 40 + "TRUE" + " ELSE age = 1 END" * 40,
    "95 NOTs": COUNT + "NOT " * 95 + "(age = 1 AND sex = 'm')",
    "45 sub-selects": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 45 + "people" + ")" * 45,
    "90 sub-selects over answers": "SELECT n FROM "
    + "(SELECT n FROM " * 45
    + "(SELECT COUNT(*) AS n FROM people)"
    + ")" * 45,
    "90 scalar subqueries": "SELECT "
    + "(SELECT " * 45
    + "COUNT(*)"
    + ") + COUNT(*)" * 45
    + " FROM people",
    "500 UNIONs": " UNION ALL ".join(["SELECT COUNT(*) FROM people"] * 500),
    "95 UNIONs": " UNION ALL ".join(["SELECT COUNT(*) FROM people"] * 95),
    "500 joins of answers": "SELECT COUNT(*) FROM "
    + f"{BY_AGE} t "
    + " ".join(f"JOIN {BY_AGE} t{n} USING (age, sex)" for n in range(500)),
    "300 joins with a public table": "SELECT COUNT(*) FROM people p "
    + " ".join(f"JOIN grades g{n} ON g{n}.age = p.age" for n in range(300)),
    "CASE of 5,000 branches": COUNT
    + "CASE "
    + listed(5_000, "WHEN age={n} THEN 1", " ")
    + " END = 1",
    "CASE of 4,000, real": COUNT
    + "CASE "
    + listed(4_000, "WHEN income<{n} THEN 1", " ")
    + " END = 1",
    "1,000 real keys": f"SELECT {listed(1_000, 'FLOOR(income / 1e{n})')}, COUNT(*) FROM people "
    "GROUP BY ALL",
    "500 real bins": "SELECT "
    + listed(500, "COUNT(*) FILTER (FLOOR(income / {n}1000000) > 2)")
    + " FROM people",
    "sum of 90": COUNT + listed(90, "age", " + ") + " > 5",
    "|| of 90": COUNT + listed(90, "sex", " || ") + " = 'm'",
    "|| of 90 over 2 million cells": COUNT + listed(90, "hours", " || ") + " = 'm'",
    "concat of 9,000": COUNT + f"concat({listed(9_000, 'sex')}) = 'm'",
    "concat over 2 million cells": COUNT + f"concat({listed(500, 'hours')}) = 'm'",
    "concat of long text, 2 million": COUNT + f"concat('{'x' * 19_000}', hours) = 'm'",
    "concat as a key": f"SELECT concat('{'x' * 19_000}', points) AS k, COUNT(*) FROM people "
    "GROUP BY k",
    "lpad as a key": "SELECT lpad(points::VARCHAR, 19000, 'x'), COUNT(*) FROM people GROUP BY 1",
    "nested concat": COUNT + "concat(" * 40 + "sex" + ", sex, sex, sex)" * 40 + " = 'm'",
    "doubling by concat": COUNT + "concat(" * 14 + "sex" + ", repeat(sex, 999))" * 14 + " = 'm'",
    "doubling by sub-selects": "SELECT COUNT(*) FROM "
    + "(SELECT x || x || x || x || x || x || x || x AS x FROM " * 5
    + "(SELECT sex AS x FROM people)"
    + ")" * 5
    + " WHERE x = 'm'",
    "doubling over answers": "SELECT x FROM "
    + "(SELECT x || x || x || x || x || x || x || x AS x FROM " * 12
    + "(SELECT sex AS x, COUNT(*) FROM people GROUP BY sex)"
    + ")" * 12,
    "string_agg over answers": "SELECT string_agg(repeat(k, 9999), '') FROM "
    "(SELECT points AS k, COUNT(*) FROM people GROUP BY points)",
    "list of lists": "SELECT ["
    + ", ".join(["list_value(1, 2, 3)"] * 3_000)
    + "] AS k, COUNT(*) FROM people GROUP BY k",
    "a large key": "SELECT hours, COUNT(*) FROM people GROUP BY hours",
    "an average of 2 million": "SELECT AVG(hours * 2) FROM people",
    "a median of 2 million": "SELECT MEDIAN(hours * 2) FROM people",
    "md5 of 2 million": COUNT + "md5(hours::VARCHAR) LIKE 'a%'",
    "a key of 2 million": "SELECT md5(hours::VARCHAR)[1] AS k, COUNT(*) FROM people GROUP BY k",
    "a pair of 2 million": COUNT + "age + year(born) = 3",
    "a million groups": "SELECT points, COUNT(*) FROM people GROUP BY points",
    "100,000 groups": "SELECT points, SUM(age), AVG(age) FROM people WHERE points < 100000 "
    "GROUP BY points",
    "a long name": 'SELECT COUNT(*) AS "' + "n" * 90_000 + '" FROM people',
    "a long unknown column": COUNT + '"' + "n" * 90_000 + '" = 1',
    "9,000 unknown columns": COUNT + f"age IN ({listed(9_000, 'c{n}')})",
    "4,000 unknown functions": f"SELECT {listed(4_000, 'f{n}(age)')}, COUNT(*) FROM people",
    "a long text": COUNT + "sex = '" + "x" * 99_000 + "'",
    "a regular expression": COUNT + "regexp_matches(sex, '" + "(a*)*" * 10_000 + "')",
    "a repeated regular expression": COUNT + "regexp_matches(sex, '((a{99}){99}){99}')",
    "a large number": COUNT + "age = " + "9" * 90_000,
    "factorials": COUNT + "factorial(factorial(age)) > 3",
    "9,000 parameters": COUNT + f"age IN ({listed(9_000, '$p{n}')})",
    "2,000 windows": f"SELECT {listed(2_000, 'SUM(COUNT(*)) OVER (ORDER BY age)')} FROM people "
    "GROUP BY age",
    "1,000 different windows": "SELECT "
    + listed(1_000, "SUM(COUNT(*)) OVER (ORDER BY age + {n})")
    + " FROM people GROUP BY age",
}


def outcome(sql: str) -> str:
    """Bind a statement, and return its verdict."""
    try:
        statements = split(sql, file="a.sql")
        domain = DOMAIN.with_cuts(cuts(statements, DOMAIN)) if "income" in sql else DOMAIN
        bind_all(statements, Evaluator(domain))
    except Error as error:
        longest = max(len(str(problem)) for problem in getattr(error, "problems", [error]))
        return f"refused ({error.code}, {len(getattr(error, 'problems', ())):,} of {longest:,})"
    return "accepted"


def measured(name: str, *, profile: bool) -> dict[str, object]:
    """Bind one statement in this process, and return what it took."""
    begun, profiler = time.process_time(), cProfile.Profile()
    if profile:
        profiler.enable()
    verdict = outcome(STATEMENTS[name])
    taken = time.process_time() - begun
    if profile:
        profiler.disable()
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("cumulative").print_stats(30)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"verdict": verdict, "seconds": taken, "megabytes": peak}


def apart(name: str, *, profile: bool) -> dict[str, float | str]:
    """Measure the CPU time and memory of one statement in a process of its own."""
    command = [sys.executable, __file__, "--one", name, *(["--profile"] if profile else [])]
    done = subprocess.run(command, check=False, capture_output=True, text=True, preexec_fn=_bounded)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2][:60]
        return {"verdict": f"ended: {last}", "seconds": math.inf, "megabytes": math.inf}
    print(done.stderr, end="", file=sys.stderr)
    found: dict[str, float | str] = json.loads(done.stdout)
    return found


def _bounded() -> None:
    """End this process before it takes the machine down."""
    resource.setrlimit(resource.RLIMIT_CPU, (10 * SECONDS, 10 * SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))


def main() -> None:
    """Print what every statement takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only statements with this text in their name")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.one, profile=given.profile)))
        return
    base = float(apart("nothing", profile=False)["megabytes"])
    over = 0
    for name in STATEMENTS:
        if given.only not in name:
            continue
        found = apart(name, profile=given.profile)
        seconds, memory = float(found["seconds"]), float(found["megabytes"]) - base
        too_much = seconds > SECONDS or memory > MEGABYTES
        over += too_much
        mark = "  TOO MUCH" if too_much else ""
        print(f"{name:32} {seconds:6.2f} s {memory:6.0f} MB  {found['verdict']}{mark}", flush=True)
    print(f"{over} above {SECONDS} s or {MEGABYTES} MB; an empty process takes {base:.0f} MB")


if __name__ == "__main__":
    main()

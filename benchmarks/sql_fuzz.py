"""Fuzzing of the front end: only our own error types may come out.

    python benchmarks/sql_fuzz.py --inputs 200000 [--dialect postgres]

Inputs are random bytes, random tokens, and statements that are truncated, spliced or have bytes,
words and tokens changed.  Prints how many were accepted, refused, and how many did anything else.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from people_table import DOMAIN
from statement_generator import KEYS, PREDICATES, Generator

from sqlmadp.bind.bind import bind, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.errors import Error
from sqlmadp.sql.statements import split

ALLOWED = 2.0
"""Seconds of CPU that one input may take."""

WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "UNION",
    "ALL",
    "WITH",
    "AS",
    "JOIN",
    "LEFT",
    "USING",
    "ON",
    "people",
    "age",
    "sex",
    "level",
    "day",
    "income",
    "member",
    "levels",
    "COUNT(*)",
    "SUM",
    "AVG",
    "MEDIAN",
    "QUANTILE_CONT",
    "FILTER",
    "OVER",
    "(",
    ")",
    ",",
    ";",
    "*",
    "+",
    "-",
    "/",
    "//",
    "%",
    "=",
    "<>",
    "<",
    ">",
    "'m'",
    "0",
    "1",
    "0.5",
    "NULL",
    "TRUE",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS",
    "NOT",
    "AND",
    "OR",
    "DISTINCT",
    "ROLLUP",
    "CUBE",
    "GROUPING",
    "SETS",
    "QUALIFY",
    "PARTITION",
    "DATE",
    "INTERVAL",
    "CAST",
    "::",
    "[",
    "]",
    "{",
    "}",
    "$x",
    "?",
    "$1",
    "EXISTS",
    "ANY",
    "--",
    "/*",
    "*/",
    '"',
    "'",
    "\\",
    "random()",
    "now()",
    "read_csv('x')",
    "EXPLAIN",
    "PIVOT",
    "VALUES",
    "LATERAL",
    "unnest([1])",
    "#1",
    "COLUMNS(*)",
    "EXCLUDE",
    "REPLACE",
    "lambda",
    "x:",
    "x",
    "->",
    "COLLATE",
    "nocase",
    "TABLESAMPLE",
    "10%",
    "ASOF",
    "POSITIONAL",
]


SWAPS = [
    ["age", "sex", "level", "day", "income", "member", "nothing", "rowid", "__k0"],
    ["COUNT", "SUM", "AVG", "MAX", "MEDIAN", "MODE", "STDDEV", "LIST", "ROW_NUMBER", "UPPER"],
    ["people", "levels", "sexes", "chosen", "__block0", "duckdb_tables()", "(VALUES (1)) v"],
    ["0", "1", "-1", "0.5", "1e400", "NULL", "''", "'x'", "DATE '2020-01-01'", "[1]", "2147483648"],
    ["AND", "OR", "+", "-", "/", "//", "%", "<", "=", "||", "LIKE", "IS DISTINCT FROM"],
    ["ROLLUP", "CUBE", "GROUPING SETS", ""],
    ["JOIN", "LEFT JOIN", "FULL JOIN", "CROSS JOIN", "ASOF JOIN", "SEMI JOIN", "ANTI JOIN"],
    ["UNION ALL", "UNION", "EXCEPT ALL", "INTERSECT"],
]


def swapped(text: str, rng: random.Random) -> str:
    """Return a statement that still parses more often than not, with other words in it."""
    for words in rng.sample(SWAPS, 3):
        present = [word for word in words if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
        if present:
            old, new = rng.choice(present), rng.choice(words)
            return re.sub(
                rf"(?<!\w){re.escape(old)}(?!\w)",
                lambda _, new=new: new,
                text,
                count=rng.choice([0, 1]),
            )
    return text


def mutated(text: str, rng: random.Random) -> str:
    """Return a statement with something wrong in it, or not."""
    if rng.random() < 0.6:
        return swapped(text, rng)
    kind = rng.randrange(7)
    place = rng.randrange(len(text) + 1)
    if kind == 0:
        return text[:place]
    if kind == 1:
        return (
            text[:place]
            + chr(rng.choice([*range(32, 127), 0, 10, 233, 8364, 128512]))
            + text[place:]
        )
    if kind == 2:
        return text[:place] + text[place + rng.randint(1, 8) :]
    if kind == 3:
        return text[:place] + " " + rng.choice(WORDS) + " " + text[place:]
    words = text.split(" ")
    where = rng.randrange(len(words))
    if kind == 4:
        words[where] = rng.choice(WORDS)
    elif kind == 5:
        other = rng.randrange(len(words))
        words[where], words[other] = words[other], words[where]
    else:
        words[where:where] = words[rng.randrange(len(words)) :][: rng.randint(1, 6)]
    return " ".join(words)


def inputs(count: int, seed: int) -> Iterator[str]:
    """Yield the inputs of one seed."""
    rng = random.Random(seed)
    generator = Generator(seed)
    for _ in range(count):
        kind = rng.random()
        if kind < 0.1:
            yield bytes(rng.randrange(256) for _ in range(rng.randrange(60))).decode(
                errors="replace"
            )
        elif kind < 0.3:
            yield " ".join(rng.choice(WORDS) for _ in range(rng.randrange(1, 25)))
        else:
            text = generator.make().sql
            for _ in range(rng.randint(1, 3)):
                text = mutated(text, rng)
            yield text


def main() -> None:
    """Print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dialect", default="duckdb", help="the dialect that it is read in")
    given = parser.parse_args()
    sql = ";".join(f"SELECT COUNT(*) FROM people WHERE ({e}) IS NULL" for e in [*PREDICATES, *KEYS])
    domain = DOMAIN.with_cuts(cuts(split(sql, file="cuts.sql"), DOMAIN))
    evaluator = Evaluator(domain)
    seen, codes, start, slowest = Counter(), Counter(), time.process_time(), 0.0
    for number, text in enumerate(inputs(given.inputs, given.seed)):
        if number % 2_000 == 1_999:
            evaluator = Evaluator(domain)
        if number % 10_000 == 9_999:
            print(f"{number:,} inputs: {dict(seen)}; slowest {slowest:.2f} s CPU", flush=True)
        begun = time.process_time()
        try:
            for statement in split(text, file="fuzz.sql", dialect=given.dialect):
                bind(statement, evaluator)
            seen["accepted"] += 1
        except Error as error:
            seen["refused"] += 1
            codes.update({problem.code for problem in getattr(error, "problems", ())})
            str(error)
        except Exception as error:
            seen["crashed"] += 1
            print(f"CRASH {type(error).__name__}: {error}\n  {text!r}", flush=True)
        taken = time.process_time() - begun
        if taken > ALLOWED:
            print(f"SLOW {taken:.2f} s CPU\n  {text!r}", flush=True)
        slowest = max(slowest, taken)
    print(
        f"{given.inputs:,} inputs: {dict(seen)}; slowest {slowest:.2f} s CPU, "
        f"{time.process_time() - start:.0f} s CPU in all"
    )
    print(dict(codes.most_common()))


if __name__ == "__main__":
    main()

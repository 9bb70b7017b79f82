"""The everyday plans: schema, statements and a made-up table in a folder, ready for a command.

Each folder of `everyday_plans` is a plan: a schema, one SQL file per analyst, and `table.sql`, the
SELECT that makes up the table.  Three more are written here: a survey of 60 columns, ranges of two
columns of 256 values, and the census tables of `sf1.py`.
"""

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import large_scopes
import sf1

FOLDER = Path(__file__).parent / "everyday_plans"
PLAN = """schema = "schema.toml"
source = "table.parquet"
epsilon = "1"
mechanism = "waterfilling"
[ledger]
path = "plan.ledger"
budget = "1"
"""
QUESTIONS = [f"q{number:02}" for number in range(1, 61)]
TOPICS = ("health", "housing", "media", "mobility", "politics", "school", "trust", "work")
NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class Everyday:
    """A plan before it is written: every analyst's statements by name, and the table."""

    schema: str
    table: str
    """A SELECT that makes up the records."""
    analysts: Mapping[str, Mapping[str, str]]

    def without(self, refused: Mapping[str, list[str]]) -> "Everyday":
        """Return the plan without some statements, and without analysts who then have none."""
        kept = {
            analyst: {n: text for n, text in own.items() if n not in refused.get(analyst, ())}
            for analyst, own in self.analysts.items()
        }
        return Everyday(self.schema, self.table, {a: own for a, own in kept.items() if own})

    def write(self, folder: Path) -> Path:
        """Write the plan; return it.  Every statement starts at its name, on a line of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schema.toml").write_text(self.schema)
        plan = PLAN
        for analyst, own in self.analysts.items():
            text = "\n".join(f"-- name: {name}\n{sql};\n" for name, sql in own.items())
            (folder / f"{analyst}.sql").write_text(text)
            plan += f'[analysts.{analyst}]\nqueries = "{analyst}.sql"\n'
        (folder / "plan.toml").write_text(plan)
        return folder / "plan.toml"

    def write_table(self, folder: Path) -> None:
        """Write the made-up table, the same one every time."""
        with duckdb.connect() as connection:
            connection.execute("SET threads = 1; SELECT setseed(0.5)")
            connection.execute(f"COPY ({self.table}) TO '{folder / 'table.parquet'}'")


def stored(name: str) -> Everyday:
    """Return a plan that is written out in a folder."""
    folder = FOLDER / name
    files = sorted(path for path in folder.glob("*.sql") if path.name != "table.sql")
    return Everyday(
        (folder / "schema.toml").read_text(),
        (folder / "table.sql").read_text(),
        {path.stem: statements(path.read_text()) for path in files},
    )


def statements(text: str) -> dict[str, str]:
    """Return the statements of a file by name, without the semicolon."""
    parts = NAME.split(text)[1:]
    return {
        name: sql.strip().removesuffix(";")
        for name, sql in zip(parts[::2], parts[1::2], strict=True)
    }


def survey(columns: int = 60) -> Everyday:
    """Return a survey of questions with five answers each, two statements per question.

    Eight analysts share the questions by topic; every second question may be left unanswered.
    """
    questions = QUESTIONS[:columns]
    schema = 'table = "survey"\n'
    made = []
    for number, question in enumerate(questions):
        nullable = "nullable = true\n" if number % 2 else ""
        schema += f'[columns.{question}]\ntype = "integer"\nmin = 1\nmax = 5\n{nullable}'
        answer = f"1 + CAST(floor(5 * pow(random(), {0.6 + number % 7 / 5:.1f})) AS INTEGER)"
        made.append(
            f"CASE WHEN random() < 0.96 THEN {answer} END AS {question}"
            if number % 2
            else f"{answer} AS {question}"
        )
    analysts: dict[str, dict[str, str]] = {topic: {} for topic in TOPICS}
    for number, question in enumerate(questions):
        own = analysts[TOPICS[number * len(TOPICS) // len(questions)]]
        other = questions[(7 * number + 3) % len(questions)]
        own[question] = f"SELECT {question}, COUNT(*) AS people FROM survey GROUP BY {question}"
        own[f"{question}_more"] = (
            f"SELECT {other}, COUNT(*) AS people, SUM({question}) AS points FROM survey "
            f"WHERE {question} IS NOT NULL GROUP BY {other}",
            f"SELECT {question}, {other}, COUNT(*) AS people FROM survey "
            f"GROUP BY {question}, {other}",
            f"SELECT {other}, AVG({question}) AS mean FROM survey GROUP BY {other}",
            f"SELECT COUNT(*) AS people FROM survey WHERE {question} >= 4 AND {other} <= 2",
        )[number % 4]
    table = f"SELECT {', '.join(made)} FROM range(10000)"
    return Everyday(schema, table, {name: own for name, own in analysts.items() if own})


def ranges(values: int = large_scopes.VALUES, count: int = large_scopes.RANGES) -> Everyday:
    """Return two analysts' ranges of two columns."""
    column = f'type = "integer"\nmin = 0\nmax = {values - 1}\n'
    schema = f'table = "t"\n[columns.a]\n{column}[columns.b]\n{column}'
    table = (
        f"SELECT CAST(floor({values} * pow(random(), 1.5)) AS INTEGER) AS a, "
        f"CAST(floor({values} * random()) AS INTEGER) AS b FROM range(100000)"
    )
    asked = {n: large_scopes.ranges(k, values, count) for k, n in enumerate("xy")}
    return Everyday(schema, table, {name: _numbered(text) for name, text in asked.items()})


def census() -> Everyday:
    """Return the census tables, one analyst per table."""
    table = (
        "SELECT CAST(floor(115 * pow(random(), 1.4)) AS INTEGER) AS age, random() < 0.18 AS "
        "hispanic, CAST(pow(2, floor(6 * random())) AS INTEGER) AS race, CAST(floor(17 * "
        "pow(random(), 2)) AS INTEGER) AS relationship, CASE WHEN random() < 0.51 THEN 'female' "
        "ELSE 'male' END AS sex FROM range(300000)"
    )
    asked = {name: _numbered(";\n".join(own)) for name, own in sf1.tables().items()}
    return Everyday(sf1.SCHEMA, table, asked)


def _numbered(text: str) -> dict[str, str]:
    parts = [part.strip() for part in text.split(";\n") if part.strip()]
    return {f"q{number}": part for number, part in enumerate(parts, start=1)}


PLANS: dict[str, Callable[[], Everyday]] = {
    "flights": lambda: stored("flights"),
    "incomes": lambda: stored("incomes"),
    "web": lambda: stored("web"),
    "hospital": lambda: stored("hospital"),
    "survey": survey,
    "shop": lambda: stored("shop"),
    "pay": lambda: stored("pay"),
    "library": lambda: stored("library"),
    "bikes": lambda: stored("bikes"),
    "admissions": lambda: stored("admissions"),
    "ranges": ranges,
    "sf1": census,
}
"""How to make each plan, by name."""


def at(text: str, line: int) -> str:
    """Return the name of the statement that covers a line of a file."""
    before = "\n".join(text.splitlines()[:line])
    return NAME.findall(before)[-1]


if __name__ == "__main__":
    for plan, make in PLANS.items():
        with tempfile.TemporaryDirectory() as temporary:
            everyday = make()
            everyday.write(Path(temporary))
            everyday.write_table(Path(temporary))
        count = sum(map(len, everyday.analysts.values()))
        print(f"{plan}: {len(everyday.analysts)} analysts, {count} statements")

"""Whole plans, made at random and run through every command, and what must hold of each of them.

A plan is checked, previewed, released, released again, queried, reported, shown by its ledger and
read through a connection.  Nothing may raise anything but our own errors; nothing may fail after a
charge; and where the noise rounds to nothing, rows are DuckDB's.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
from click.testing import CliRunner
from people_table import same_rows
from plan_generator import MECHANISMS, Statement, World, toml

import sqlmadp
from sqlmadp.answer.errors import result_of
from sqlmadp.answer.processing import Processing, laplace
from sqlmadp.answer.reconstruct import Sums
from sqlmadp.answer.result import Result
from sqlmadp.answer.rows import Desk
from sqlmadp.bind.bind import bind_each, cuts
from sqlmadp.bind.evaluate import Evaluator
from sqlmadp.cli import main
from sqlmadp.errors import Error
from sqlmadp.files.plan import Plan
from sqlmadp.files.schema import read_schema
from sqlmadp.private import Ledger
from sqlmadp.sql.statements import split_each
from sqlmadp.table.domain import Domain
from sqlmadp.table.rows import Rows

EXACT = "1000000000000000"
"""An epsilon at which the noise rounds to nothing, in sums of squares of twelve analysts too."""

ANALYSTS = ["alice", "Dr. Müller", "b o b", "it's", "x" * 30, "ops-2", "年", "select", "A1", "z"]
ANALYSTS += ["city", "late one"]
UNFORESEEN = "nobody foresaw"


@dataclass
class Tally:
    """What happened in all runs."""

    plans: int = 0
    released: int = 0
    statements: int = 0
    answered: int = 0
    compared: int = 0
    commands: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    tracebacks: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    failed_after_charge: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not (self.tracebacks or self.differences or self.failed_after_charge)

    def compare(
        self, seed: int, statement: Statement, result: Result, raw: duckdb.DuckDBPyConnection
    ) -> None:
        """Compare rows with DuckDB's."""
        self.compared += 1
        rows, theirs = result.tuples(), raw.execute(statement.reference).fetchall()
        stated = [result.rmse.get(name, ()) for name, _ in result.columns]
        errors = [max((e for e in own if math.isfinite(e)), default=0.0) for own in stated]
        if not same_rows(rows, theirs, ordered=statement.ordered, errors=errors):
            self.differences.append(
                f"seed {seed}: {statement.kind}: {statement.sql}\n"
                f"  ours   {sorted(map(str, rows))[:8]}\n  DuckDB {sorted(map(str, theirs))[:8]}"
            )

    def figures(self) -> str:
        return (
            f"{self.plans:,} plans ({self.released:,} released), {self.statements:,} statements "
            f"({self.answered:,} answered, {self.compared:,} compared with DuckDB), "
            f"{sum(self.commands.values()):,} commands: {len(self.tracebacks)} tracebacks, "
            f"{len(self.differences)} differences, "
            f"{len(self.failed_after_charge)} failures after a charge"
        )


class Exact:
    """Answers from the records themselves, as a release without noise would give them."""

    noise_variance = 1.0
    processing = Processing()

    def __init__(self, world: World, domain: Domain) -> None:
        self._world, self._domain = world, domain

    def answers(self, rows: Rows) -> np.ndarray:
        return rows.matrix @ self._counts(rows)

    def simulated(self, rows: Rows) -> np.ndarray:
        noise = [np.rint(3 * laplace(draw, 0, rows.count)) for draw in range(2)]
        return self.answers(rows)[:, None] + np.column_stack(noise)

    def rmse(self, rows: Rows) -> np.ndarray:
        return np.ones(rows.count)

    def sum_rmse(self, parts: Sums) -> np.ndarray:
        return np.ones(parts[0][1].shape[0])

    def _counts(self, rows: Rows) -> np.ndarray:
        """Return, for every vertex, the sum over records of the products of their weights."""
        records = self._world.records
        weights = np.ones((1, len(records)))
        for name, part in zip(rows.scope, rows.parts, strict=True):
            place, cells = self._place(name)
            own = part.functions[:, [cells[record[place]] for record in records]].toarray()
            shape = (len(weights) * len(own), len(records))  # There may be no record.
            weights = (weights[:, None, :] * own[None, :, :]).reshape(shape)
        return weights.sum(axis=1)

    def _place(self, name: str) -> tuple[int, dict[object, int]]:
        """Return the place of a column in records, and the cell of each of its values."""
        place = [column.name for column in self._world.columns].index(name)
        column = self._domain.column(name)
        values = {record[place] for record in self._world.records} - {None}
        if column.type == "real":
            cells: dict[object, int] = {value: column.cell_of_real(value) for value in values}
        else:
            declared = {column.value(cell): cell for cell in range(column.declared)}
            cells = {value: declared[value] for value in values}
        return place, cells | ({None: column.null_cell} if column.null_cell is not None else {})


def run_statements(seed: int, count: int, folder: Path, tally: Tally) -> None:
    """Bind statements about one table, and compare their rows without noise with DuckDB's."""
    world = World.made(seed)
    (folder / "schema.toml").write_text(world.schema())
    domain = read_schema(folder / "schema.toml")
    made = [world.statement() for _ in range(count)]
    tally.statements += count
    parts = [split_each(each.sql, file="made.sql") for each in made]
    read = {n: own[0] for n, (own, _) in enumerate(parts) if len(own) == 1}
    domain = domain.with_cuts(cuts(read.values(), domain))
    numbers = list(read)
    bound, problems = bind_each(read.values(), Evaluator(domain))
    tally.refused.update(problem.code for own in problems.values() for problem in own)
    raw, desk, exact = world.connection(), Desk(), Exact(world, domain)
    for place, query in bound.items():
        statement = made[numbers[place]]
        try:
            result = result_of(query, exact, desk)
        except Error:
            if statement.kind != "failing":
                tally.failed_after_charge.append(f"seed {seed}: {statement.sql}")
            continue
        except Exception as error:
            tally.tracebacks.append(f"seed {seed}: {statement.sql}: {error!r}")
            continue
        tally.answered += 1
        if statement.compared:
            tally.compare(seed, statement, replace(result, rmse={}), raw)


class PlanRun:
    """One plan in a folder of its own."""

    def __init__(self, seed: int, folder: Path, tally: Tally) -> None:
        self.seed, self.folder, self.tally = seed, folder, tally
        self.random = random.Random(f"plan {seed}")
        self.world = World.made(seed)
        self.path = folder / "plan.toml"
        self.statements: dict[str, list[Statement]] = {}

    def run(self) -> None:
        """Write the plan and run every command."""
        self._write()
        self.tally.plans += 1
        mechanism = ["--mechanism", self.mechanism] if self._chance(0.9) else []
        self._command("check", *self._some(["--json"], ["--deep"], ["-q"], []))
        self._command("plan", "--skip-refused", *mechanism, *self._some(["--json"], []))
        if self._chance(0.2):
            self._command("release", "--dry-run", "--skip-refused")
        released = self._release(*self._some(["--skip-refused"], []))
        if not released:
            released = self._release("--skip-refused")
        self._command("report", *mechanism, "--out", self.folder / "report.html")
        self._query()
        self._command("ledger", after_path=True)
        if released:
            self.tally.released += 1
            self._command("ledger", "verify", after_path=True)
            self._compare()
            self._connect()

    # The plan.

    def _write(self) -> None:
        choose, world = self.random, self.world
        world.write_table(self.folder / "table.parquet")
        (self.folder / "schema.toml").write_text(world.schema())
        self.mechanism = choose.choice(MECHANISMS)
        self.epsilon = choose.choice([EXACT, EXACT, EXACT, "1", "1/3", "0.01"])
        count = choose.choice([1, 1, 1, 2, 2, 2, 3, 3, 4, 12])
        names = choose.sample(ANALYSTS, count)
        lines = [
            'schema = "schema.toml"',
            'source = "table.parquet"',
            f'epsilon = "{self.epsilon}"',
        ]
        lines.append(f'mechanism = "{self.mechanism}"')
        self.processed = self._chance(0.15)
        if self.processed:
            lines.append(choose.choice(["nonnegative = true", "consistent = true"]))
        lines.append(f'[ledger]\npath = "plan.ledger"\nbudget = "{EXACT}"')
        parts = [choose.randint(1, 5) for _ in names]
        shares = [Fraction(part, sum(parts)) for part in parts]
        shared = self._chance(0.5)
        for name, share in zip(names, shares, strict=True):
            own = [world.statement() for _ in range(choose.choice([0, 1, 1, 2, 2, 3, 4]))]
            self.statements[name] = own
            self.tally.statements += len(own)
            file = f"{names.index(name)}.sql"
            (self.folder / file).write_text("".join(f"{each.sql};\n" for each in own))
            lines.append(f"[analysts.{toml(name)}]\nqueries = {toml(file)}")
            if shared:
                lines.append(f'share = "{share}"')
        self.path.write_text("\n".join(lines) + "\n")

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _some(self, *options: list[str]) -> list[str]:
        return self.random.choice(options)

    # Commands.

    def _command(self, name: str, *options: object, after_path: bool = False) -> tuple[int, str]:
        """Run a command, and note whatever is no refusal with a message."""
        arguments = [*map(str, options), str(self.path)] if after_path else [str(self.path)]
        arguments = [name, *arguments] if after_path else [name, *arguments, *map(str, options)]
        result = CliRunner().invoke(main, arguments)
        self.tally.commands[name] += 1
        where = f"seed {self.seed}: {' '.join(arguments[:1])} {options}"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            self.tally.tracebacks.append(f"{where}: {result.exception!r}")
        elif UNFORESEEN in result.output or "Traceback" in result.output:
            self.tally.tracebacks.append(f"{where}: {result.output.strip()[-600:]}")
        elif result.exit_code not in (0, 1, 3):
            self.tally.tracebacks.append(f"{where}: exit code {result.exit_code}")
        elif result.exit_code == 1 and not result.stderr.strip() and "--json" not in options:
            self.tally.tracebacks.append(f"{where}: refused without a word")
        return result.exit_code, result.stdout

    def _charged(self) -> int:
        path = self.folder / "plan.ledger"
        if not path.exists():
            return 0
        with Ledger.read(path) as ledger:
            return len(ledger.charges)

    def _release(self, *options: str) -> bool:
        before = self._charged()
        output = self._some(["--json"], ["--error"], [], self._files())
        code, first = self._command("release", *options, *output)
        charged = self._charged() > before
        if charged and code != 0:
            self.tally.failed_after_charge.append(f"seed {self.seed}: release {options}: {code}")
        if code != 0:
            return False
        again, second = self._command("release", *options, *output)
        if again != 0 or second != first:
            self.tally.failed_after_charge.append(f"seed {self.seed}: released again: {again}")
        return True

    def _files(self) -> list[str]:
        form = self.random.choice(["csv", "parquet", "json"])
        return ["--out", str(self.folder / "out"), "--format", form]

    def _query(self) -> None:
        own = self.random.choice([*self.statements.values()])
        asked = [each.sql for each in own] or ["SELECT 1"]
        sql = self.random.choice([*asked, self.world.statement().sql])
        sql = self.random.choice([sql, sql, f"EXPLAIN {sql}"])
        code, _ = self._command("query", sql, *self._some(["--json"], ["--error"], []))
        assert code in (0, 1)

    # Rows.

    def _compare(self) -> None:
        """Compare all rows with DuckDB's, where noise and post-processing leave them alone."""
        done = Plan.open(self.path).released()
        results = done.results()
        for (analyst, name), error in results.failed.items():
            self.tally.failed_after_charge.append(f"seed {self.seed}: {analyst}.{name}: {error}")
        raw = self.world.connection()
        for analyst, own in results.items():
            for name, result in own.items():
                statement = self.statements[analyst][int(name.removeprefix("q")) - 1]
                self.tally.answered += 1
                if self.epsilon != EXACT or self.processed or not statement.compared:
                    continue
                self.tally.compare(self.seed, statement, result, raw)

    def _connect(self) -> None:
        """Read one analyst's rows through a connection."""
        analyst = self.random.choice([*self.statements])
        try:
            with sqlmadp.connect(self.path, analyst=analyst) as connection:
                for name in list(connection.queries)[:2]:
                    json.dumps([str(row) for row in connection.rows(name)])
                repr(connection.certificate)
        except Error as error:
            if UNFORESEEN in str(error):
                self.tally.tracebacks.append(f"seed {self.seed}: connection: {error}")
        except Exception as error:
            self.tally.tracebacks.append(f"seed {self.seed}: connection: {error!r}")

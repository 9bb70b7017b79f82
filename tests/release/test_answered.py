"""What is charged is answered: statements and plans that once failed after the charge."""

import json
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner
from people_table import same_rows

import sqlmadp
from sqlmadp.cli import main
from sqlmadp.dbapi import session
from sqlmadp.errors import NotSupportedError, SqlError, UnforeseenError
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.private import Ledger
from sqlmadp.release import release
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.history import History
from sqlmadp.release.trial import prepare
from sqlmadp.show.json import release_figures

EXACT = "1000000000"
"""An epsilon at which the noise rounds to nothing."""


def run(*arguments, code=0):
    """Run a command and return what it printed on standard output, checking its exit code."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture
def wards(plans):
    """A plan folder whose table has three wards and ages up to 89."""
    (plans.folder / "visits.toml").write_text(
        'table = "visits"\n[columns.ward]\ntype = "category"\nvalues = ["a", "b", "c"]\n'
        '[columns.age]\ntype = "integer"\nmin = 0\nmax = 89\n'
    )
    records = "SELECT ['a', 'b', 'c'][1 + i % 3] AS ward, i * 7 % 90 AS age FROM range(500) t(i)"
    path = plans.folder / "visits.parquet"
    duckdb.execute(f"COPY ({records}) TO '{path}' (FORMAT parquet)")
    return plans


class TestOneAnalyst:
    BY_WARD = "SELECT ward, AVG(age) FROM visits GROUP BY ward"

    @pytest.mark.parametrize("mechanism", ["waterfilling", "pareto", "ratchet", "identity"])
    def test_is_answered_certified_and_reported_like_several(self, wards, mechanism, tmp_path):
        path = wards.write({"alice": self.BY_WARD}, mechanism=mechanism)
        run("check", path)
        run("plan", path, "--mechanism", mechanism)
        released = json.loads(run("release", path, "--json", "-q"))
        assert [row[0] for row in released["analysts"]["alice"]["q1"]["rows"]] == ["a", "b", "c"]
        assert released["certificate"]["analysts"]["alice"]["ratio"] == pytest.approx(1)
        assert json.loads(run("release", path, "--json", "-q")) == released
        asked = json.loads(run("query", path, self.BY_WARD, "--json"))
        assert asked["result"]["rows"] == released["analysts"]["alice"]["q1"]["rows"]
        assert spent(wards) == 1
        run("report", path, "--mechanism", mechanism, "--out", tmp_path / "report.html")

    def test_who_remains_alone_is_previewed(self, wards):
        path = wards.write({"alice": self.BY_WARD, "bob": "SELECT COUNT(*) FROM visits"})
        figures = json.loads(run("plan", path, "--without", "bob", "--json", "-q"))
        assert set(figures["mechanisms"]["waterfilling"]["analysts"]) == {"alice"}


class TestRows:
    """Rows where there is nothing to count are DuckDB's."""

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT (SELECT SUM(age) FROM visits WHERE FALSE) AS a",
            "SELECT SUM(age) AS s, COUNT_IF(smoker), COUNT(*) AS n FROM visits WHERE age > 100",
            "SELECT SUM(age) FILTER (WHERE sex = 'x') AS s, COUNT(*) AS n FROM visits",
            "SELECT 'x' AS k, COUNT(*) AS n, SUM(age) AS s FROM visits WHERE 1 = 2 GROUP BY ALL",
            "SELECT 'all' AS k, COUNT(*) AS n FROM visits WHERE 1 = 2 GROUP BY k",
            "SELECT 'all' AS k, COUNT(*) AS n FROM visits GROUP BY k",
            "SELECT SUM(0 * age) AS nothing FROM visits",
        ],
    )
    def test_of_no_cell_are_those_of_duckdb(self, plans, sql):
        total = "SELECT COUNT(*) FROM visits"
        path = plans.write({"alice": f"{sql}; {total}"}, epsilon=EXACT, budget=EXACT)
        done = Plan.open(path).release()
        assert done.rows("alice", "q1").tuples() == plans.table().execute(sql).fetchall()


class TestNothingToMeasure:
    """Whoever asks only for what is 0 on every table is answered, alone and among others."""

    NOTHING = "SELECT COUNT(*) AS n FROM visits WHERE sex = 'F'"

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize(
        "others", [{}, {"bob": NOTHING}, {"bob": "SELECT AVG(age) FROM visits"}]
    )
    def test_is_answered_with_every_mechanism(self, plans, mechanism, others):
        path = plans.write({"alice": self.NOTHING, **others}, mechanism=mechanism)
        done = Plan.open(path).release()
        assert done.rows("alice", "q1").tuples() == [(0,)]
        assert done.certificate.analysts["alice"].now == 0


class TestShop:
    """Sums, weekly groups, a running total and a total of the same orders, of two analysts."""

    UNITS = "SELECT category, SUM(items) AS units FROM orders GROUP BY category ORDER BY 1"
    WEEKS = (
        "SELECT date_trunc('week', day) AS week, COUNT(*) AS n, SUM(items) AS units "
        "FROM orders GROUP BY week ORDER BY week"
    )
    RUNNING = (
        "SELECT day, SUM(COUNT(*)) OVER (ORDER BY day) AS so_far FROM orders GROUP BY day "
        "ORDER BY day"
    )
    ITEMS = "SELECT SUM(items) AS items FROM orders"
    RECORDS = (
        "SELECT DATE '2024-01-01' + (i * 11 % 28)::INTEGER AS day, "
        "['toys', 'books', 'food'][1 + i * 5 % 3] AS category, 1 + i * 7 % 9 AS items "
        "FROM range(700) t(i)"
    )

    @pytest.fixture
    def shop(self, plans):
        (plans.folder / "visits.toml").write_text(
            'table = "orders"\n[columns.day]\ntype = "date"\nmin = 2024-01-01\n'
            'max = 2024-01-28\n[columns.category]\ntype = "category"\n'
            'values = ["books", "food", "toys"]\n'
            '[columns.items]\ntype = "integer"\nmin = 1\nmax = 9\n'
        )
        path = plans.folder / "visits.parquet"
        duckdb.execute(f"COPY ({self.RECORDS}) TO '{path}' (FORMAT parquet)")
        return plans

    def asked(self):
        return {"buyer": f"{self.UNITS};\n{self.WEEKS}", "owner": f"{self.RUNNING};\n{self.ITEMS}"}

    @pytest.mark.parametrize("mechanism", ["waterfilling", "independent", "utilitarian"])
    def test_without_noise_rows_are_those_of_duckdb(self, shop, mechanism):
        path = shop.write(self.asked(), epsilon=EXACT, budget=EXACT, mechanism=mechanism)
        results = Plan.open(path).release().results()
        raw = duckdb.connect()
        raw.execute(f"CREATE TABLE orders AS {self.RECORDS}")
        statements = {"buyer": [self.UNITS, self.WEEKS], "owner": [self.RUNNING, self.ITEMS]}
        assert results.failed == {}
        for analyst, own in statements.items():
            for sql, found in zip(own, results[analyst].values(), strict=True):
                assert same_rows(found.tuples(), raw.execute(sql).fetchall(), ordered=True), sql

    def test_every_command_answers_and_a_rerun_is_free(self, shop, tmp_path):
        path = shop.write(self.asked())
        run("check", path, "--deep")
        run("plan", path, "--mechanism", "waterfilling")
        released = json.loads(run("release", path, "--json", "-q"))
        assert [len(each["rows"]) for each in released["analysts"]["buyer"].values()] == [3, 4]
        assert [len(each["rows"]) for each in released["analysts"]["owner"].values()] == [28, 1]
        assert json.loads(run("release", path, "--json", "-q")) == released
        run("query", path, self.ITEMS)
        run("report", path, "--mechanism", "waterfilling", "--out", tmp_path / "report.html")
        assert spent(shop) == 1


JOINED = (
    "(SELECT sex AS k, COUNT(*) AS n FROM visits GROUP BY 1) z {} JOIN labels p ON z.k = p.code"
)


class TestJoinsWithPublicTables:
    @pytest.fixture
    def labelled(self, plans):
        """A plan folder with a public table of which two rows match and two do not."""
        with open(plans.folder / "visits.toml", "a") as schema:
            schema.write(
                '[public.labels]\ncolumns = ["code", "label"]\n'
                'rows = [["f", "one"], ["m", "two"], ["q", "two"], ["r", "none"]]\n'
            )
        return plans

    @pytest.mark.parametrize("side", ["", "LEFT", "RIGHT", "FULL"])
    @pytest.mark.parametrize(
        "sql",
        [
            f"SELECT p.label, SUM(n) AS s FROM {JOINED} GROUP BY p.label",
            f"SELECT p.label, COUNT(n) AS c, MAX(n) AS m FROM {JOINED} GROUP BY p.label",
            f"SELECT z.k, n FROM {JOINED}",
            f"SELECT n + 1 AS more FROM {JOINED}",
            f"SELECT p.label, n, SUM(n) OVER (PARTITION BY p.label) AS w FROM {JOINED}",
        ],
    )
    def test_are_answered_in_all_directions(self, labelled, side, sql):
        sql = sql.format(side)
        path = labelled.write({"alice": sql}, epsilon=EXACT, budget=EXACT)
        found = Plan.open(path).release().rows("alice", "q1")
        raw = labelled.table()
        raw.execute(
            "CREATE TABLE labels AS FROM (VALUES ('f', 'one'), ('m', 'two'), ('q', 'two'), "
            "('r', 'none')) t(code, label)"
        )
        assert same_rows(found.tuples(), raw.execute(sql).fetchall())


TOTAL = "SELECT COUNT(*) AS n FROM visits"


class TestCasts:
    SMALL = "SELECT CAST(COUNT(*) AS TINYINT) AS n FROM visits"

    def test_that_do_not_fit_give_null_and_a_note_and_take_nobodys_rows_away(self, plans):
        path = plans.write({"alice": self.SMALL, "bob": TOTAL}, epsilon=EXACT, budget=EXACT)
        figures = json.loads(run("release", path, "--json", "-q"))["analysts"]
        assert figures["alice"]["q1"]["rows"] == [[None]]
        assert "did not fit" in figures["alice"]["q1"]["notes"][0]
        assert figures["bob"]["q1"]["rows"] == [[*plans.table().execute(TOTAL).fetchone()]]
        assert "did not fit" in run("release", path)

    def test_that_fit_are_those_of_duckdb(self, plans):
        sql = "SELECT CAST(COUNT(*) AS SMALLINT) AS n FROM visits"
        path = plans.write({"alice": sql}, epsilon=EXACT, budget=EXACT)
        result = Plan.open(path).release().rows("alice", "q1")
        assert result.tuples() == plans.table().execute(sql).fetchall()
        assert result.notes == ()

    def test_of_keys_that_fail_on_any_table_are_refused_before_the_charge(self, plans):
        sql = "SELECT CAST(sex AS INTEGER) AS s, COUNT(*) FROM visits GROUP BY sex"
        path = plans.write({"alice": sql})
        with pytest.raises(SqlError) as caught:
            Plan.open(path).release()
        assert caught.value.code == "fails-on-answers"
        assert spent(plans) == 0


def spent(plans):
    """Return how many charges the plan's ledger has."""
    path = plans.folder / "visits.ledger"
    if not path.exists():
        return 0
    with Ledger.read(path) as ledger:
        return len(ledger.charges)


class TestAnswerFirst:
    """What fails, fails before it is charged, and names its statement."""

    ROOT = "-- name: root\nSELECT factorial(COUNT(*)::INTEGER) AS r FROM visits"

    @pytest.mark.parametrize(
        "command", [["release"], ["check", "--deep"], ["release", "--dry-run"]]
    )
    def test_a_statement_that_fails_on_some_answers_is_refused_and_named(self, plans, command):
        path = plans.write({"alice": f"{TOTAL};\n{self.ROOT}", "bob": TOTAL})
        result = CliRunner().invoke(main, [*command, str(path)])
        assert result.exit_code == 1
        assert "alice.sql:3:1: statement 'root' of 'alice' fails on answers" in result.stderr
        assert "GREATEST(0, LEAST(20, n))" in result.stderr
        assert spent(plans) == 0

    def test_what_the_hint_says_is_accepted(self, plans):
        sql = "SELECT factorial(GREATEST(0, LEAST(20, COUNT(*)))::INTEGER) AS r FROM visits"
        path = plans.write({"alice": sql})
        assert len(Plan.open(path).release().rows("alice", "q1")) == 1

    def test_a_connection_refuses_it_when_it_is_handed_in(self, plans):
        path = plans.write({"alice": TOTAL, "bob": TOTAL})
        with sqlmadp.connect(path, analyst="bob") as connection:
            with pytest.raises(SqlError) as caught:
                connection.execute("HAND IN SELECT chr(COUNT(*)::INTEGER) AS r FROM visits")
            assert caught.value.code == "fails-on-answers"
            assert len(connection.staged()) == 1

    def test_the_trial_reads_no_record_and_leaves_no_file(self, plans, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "trial"))
        (tmp_path / "trial").mkdir()
        path = plans.write({"alice": TOTAL, "bob": "SELECT sex, AVG(age) FROM visits GROUP BY sex"})
        (plans.folder / "visits.parquet").rename(plans.folder / "away.parquet")
        asked = BoundPlan.bind(Plan.open(path))
        ready = prepare(asked, lambda _: History())
        assert len(ready.trial.results()["bob"]["q1"]) == 3
        assert list((tmp_path / "trial").iterdir()) == []

    def test_what_was_worked_out_without_data_is_kept_for_the_real_answers(self, plans):
        path = plans.write({"alice": TOTAL, "bob": "SELECT sex, AVG(age) FROM visits GROUP BY sex"})
        done = Plan.open(path).release()
        assert "certificate" in vars(done)
        again = Plan.open(path).released()
        assert release_figures(done, done.results()) == release_figures(again, again.results())


class TestOneStatementFails:
    """After the charge, what fails takes nothing else away."""

    @pytest.fixture
    def failing(self, plans):
        """A release of counts; what runs over one of them was changed since, and fails."""
        named = "-- name: bad\nSELECT {} AS r FROM visits;\n" + TOTAL
        path = plans.write({"alice": named.format("COUNT(*)"), "bob": TOTAL})
        Plan.open(path).release()
        bad = named.format("factorial(COUNT(*)::INTEGER - 100000)")  # The same question: stored.
        (plans.folder / "alice.sql").write_text(bad)
        return path

    def test_every_other_statement_is_shown_with_exit_code_3(self, failing):
        result = CliRunner().invoke(main, ["release", str(failing)])
        assert result.exit_code == 3
        assert "alice  bad\nno rows: what runs over the answers fails" in result.stdout
        assert "alice  q2" in result.stdout
        assert "bob  q1" in result.stdout
        assert "query 'bad' of 'alice' has no rows" in result.stderr
        assert "Nothing is lost" in result.stderr
        assert "running this again is free" in result.stderr

    def test_every_other_statement_is_written(self, failing, tmp_path):
        run("release", failing, "--out", tmp_path / "out", code=3)
        written = {
            path.relative_to(tmp_path / "out").as_posix() for path in tmp_path.rglob("*.csv")
        }
        assert written == {"alice/q2.csv", "bob/q1.csv"}

    def test_json_and_report_say_which(self, failing, tmp_path):
        figures = json.loads(run("release", failing, "--json", "-q", code=3))
        assert [(each["analyst"], each["query"]) for each in figures["failed"]] == [
            ("alice", "bad")
        ]
        assert set(figures["analysts"]["alice"]) == {"q2"}
        run("report", failing, "--mechanism", "waterfilling", "--out", tmp_path / "page.html")
        assert "This statement has no rows" in (tmp_path / "page.html").read_text()


class TestAllAtOnce:
    WRONG = "SELECT MAX(age) FROM visits"
    LARGE = "SELECT age, day, sex, COUNT(*) FROM visits GROUP BY ALL"
    LIMITS = "[limits]\nblock_cells = 100\n"

    def write(self, plans, extra="", **statements):
        path = plans.write(statements)
        path.write_text(extra + path.read_text() + self.LIMITS)
        return path

    def test_mistakes_and_sizes_of_all_analysts_are_listed_together(self, plans):
        two = "SELECT age, day, COUNT(*) FROM visits GROUP BY ALL"
        path = self.write(
            plans, alice=f"{self.WRONG};\n{two}", bob=f"{self.LARGE};\nSELECT nothing"
        )
        for command in (["check"], ["release"], ["check", "--deep"]):
            result = CliRunner().invoke(main, [*command, str(path)])
            assert result.exit_code == 1
            for place in ("alice.sql:1", "alice.sql:2", "bob.sql:1", "bob.sql:2"):
                assert place in result.stderr, (command, place)
        assert spent(plans) == 0

    @pytest.mark.parametrize("line", [True, False])
    def test_refused_statements_can_be_skipped_by_option_or_by_a_line_in_the_plan(
        self, plans, line
    ):
        path = self.write(
            plans,
            "skip_refused = true\n" if line else "",
            alice=f"{TOTAL};\n{self.WRONG}",
            bob=self.LARGE,
            carol=TOTAL,
        )
        options = [] if line else ["--skip-refused"]
        figures = json.loads(run("release", path, "--json", "-q", *options))
        assert set(figures["analysts"]) == {"alice", "carol"}
        assert set(figures["analysts"]["alice"]) == {"q1"}
        skipped = [(e["analyst"], e["query"], e["code"]) for e in figures["certificate"]["skipped"]]
        assert skipped == [("alice", "q2", "min-max"), ("bob", "q1", "too-many-cells")]
        # Bob is left with nothing, and his third of the plan's epsilon is not charged.
        assert figures["epsilon"] == "2/3"
        assert "bob.q1 (too-many-cells)" in run("release", path, *options)
        # What was released is found again, whoever asks.
        assert json.loads(run("query", path, TOTAL, "--json"))["epsilon"] == "2/3"
        run("report", path, "--mechanism", "waterfilling", "--out", plans.folder / "page.html")
        with sqlmadp.connect(path, analyst="carol") as connection:
            assert connection.released
        assert spent(plans) == 1

    def test_a_statement_that_fails_on_answers_is_skipped_too_and_found_again(self, plans):
        path = plans.write({"alice": f"{TOTAL};\n{TestAnswerFirst.ROOT}", "bob": TOTAL})
        figures = json.loads(run("release", path, "--json", "-q", "--skip-refused"))
        assert figures["certificate"]["skipped"] == [
            {"analyst": "alice", "query": "root", "code": "fails-on-answers"}
        ]
        assert json.loads(run("release", path, "--json", "-q", "--skip-refused")) == figures
        assert run("query", path, TOTAL)
        assert spent(plans) == 1

    def test_nobody_is_left_when_everything_is_refused(self, plans):
        path = plans.write({"alice": self.WRONG, "bob": self.WRONG})
        result = CliRunner().invoke(main, ["release", str(path), "--skip-refused"])
        assert result.exit_code == 1
        assert "alice.sql" in result.stderr
        assert "bob.sql" in result.stderr
        assert spent(plans) == 0

    def test_what_cannot_be_selected_for_names_a_statement(self, plans, monkeypatch):
        monkeypatch.setattr(History, "select", _never)
        path = plans.write({"alice": TOTAL, "bob": "SELECT sex, COUNT(*) FROM visits GROUP BY sex"})
        with pytest.raises(SqlError, match="too many combinations") as caught:
            Plan.open(path).release()
        assert caught.value.problems[0].file.endswith("bob.sql")
        assert spent(plans) == 0


def _never(*_):
    raise NotSupportedError("too many combinations")


def _broken(*found):
    return found[7]


class TestUnforeseen:
    """A mistake of ours is one line to send to the authors."""

    SECRET = "SELECT COUNT(*) AS n FROM visits WHERE age = 7"

    @pytest.fixture
    def broken(self, plans, monkeypatch):
        monkeypatch.setattr(release, "find_history", _broken)
        return plans.write({"alice": self.SECRET})

    def test_the_command_line_shows_a_report_and_no_traceback(self, broken):
        result = CliRunner().invoke(main, ["release", str(broken)])
        assert result.exit_code == 1
        assert "nobody foresaw: IndexError at " in result.stderr
        assert "release/release.py:" in result.stderr
        assert "Traceback" not in result.stderr
        assert f"sqlmadp {version('sqlmadp')}" in result.stderr
        assert "age = 7" not in result.stderr

    def test_debug_shows_the_traceback(self, broken):
        result = CliRunner().invoke(main, ["release", str(broken), "--debug"])
        assert "Traceback" in result.stderr
        assert "tuple index out of range" in result.stderr

    def test_python_raises_an_error_of_ours(self, broken):
        with pytest.raises(UnforeseenError) as caught:
            Plan.open(broken).release()
        assert isinstance(caught.value.__cause__, IndexError)
        assert caught.value.code == "unforeseen"

    def test_a_connection_raises_an_error_of_ours(self, plans, monkeypatch):
        path = plans.write({"alice": self.SECRET})
        with sqlmadp.connect(path, analyst="alice") as connection:
            monkeypatch.setattr(session.Session, "tables", _broken)
            with pytest.raises(UnforeseenError):
                connection.execute(TOTAL)


def test_everyone_together_has_a_strategy_where_weighing_all_scopes_is_too_much_work(tmp_path):
    web = Path(__file__).parents[2] / "benchmarks" / "everyday_plans" / "web"
    lines = [f'schema = "{web / "schema.toml"}"\nsource = "none.parquet"\nepsilon = "1"']
    lines.append('[ledger]\npath = "web.ledger"\nbudget = "1"')
    for file in sorted(web.glob("*.sql")):
        if file.stem != "table":
            lines.append(f'[analysts.{file.stem}]\nqueries = "{file}"')
    (tmp_path / "plan.toml").write_text("\n".join(lines))
    collective = BoundPlan.bind(Plan.open(tmp_path / "plan.toml")).collective
    found = collective.select(collective.together)
    assert np.isfinite(found.error)


@pytest.mark.parametrize("mechanism", ["waterfilling", "utilitarian"])
def test_a_plan_takes_no_longer_than_check_announced(plans, mechanism):
    ages = "SELECT age, COUNT(*) AS n FROM visits GROUP BY age"
    path = plans.write({"alice": ages, "bob": TOTAL}, mechanism=mechanism)
    announced = json.loads(run("check", path, "--json"))["most_seconds"]
    assert f"at most about {announced} s of processor time each" in run("check", path)
    for command in ("plan", "release"):
        before = time.process_time()
        run(command, path)
        assert time.process_time() - before < announced

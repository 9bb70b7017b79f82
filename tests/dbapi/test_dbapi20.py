"""The public PEP 249 compliance suite, dbapi-compliance.

Tests of the suite that make sense for a read-only counting database pass as they are.  Most
others fill tables first: here the table is there beforehand, holds each of the suite's samples
once, and is counted.  Every override says why it is needed, and tests the same thing.
"""

import inspect
import time

import dbapi20
import duckdb
import pytest

import sqlmadp

PLAN = """
schema = "booze.toml"
source = "booze.parquet"
epsilon = "1000000000"
[ledger]
path = "booze.ledger"
budget = "1000000000"
[analysts.tester]
queries = "tester.sql"
"""

NAMES = dbapi20.DatabaseAPI20Test.samples
TABLE = "dbapi20test_booze"
COUNTED = f"SELECT name, COUNT(*) AS n FROM {TABLE} WHERE name IS NOT NULL GROUP BY name"
NO_TABLES = "there is no DDL and no INSERT; the records are there before the first release"


@pytest.fixture(scope="module", autouse=True)
def _plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dbapi20")
    (folder / "booze.toml").write_text(
        f'table = "{TABLE}"\n[columns.name]\ntype = "category"\nnullable = true\nvalues = {NAMES}\n'
    )
    values = ", ".join(f"('{name}')" for name in NAMES)
    duckdb.execute(
        f"COPY (FROM (VALUES {values}, (NULL)) AS t(name)) TO '{folder / 'booze.parquet'}'"
        " (FORMAT parquet)"
    )
    (folder / "tester.sql").write_text(f"SELECT name, COUNT(*) FROM {TABLE} GROUP BY name;")
    (folder / "plan.toml").write_text(PLAN)
    sqlmadp.Plan.open(folder / "plan.toml").release()
    TestCompliance.connect_args = (folder / "plan.toml",)


class TestCompliance(dbapi20.DatabaseAPI20Test):
    driver = sqlmadp
    connect_kw_args = {"analyst": "tester"}  # noqa: RUF012 - The suite's own form.

    def _paraminsert(self, cur):
        # Why: NO_TABLES.  Parameters, beside text that looks like them, go into a WHERE.
        sql = f"SELECT COUNT(*) FROM {TABLE} WHERE name = ? OR name = 'thi%s :may ca%(u)se? t:1e'"
        cur.execute(sql, ("Redback",))
        assert cur.rowcount == 1
        assert cur.fetchall() == [(1,)]
        cur.execute(sql, ("Cooper's",))
        assert cur.fetchall() == [(0,)]

    def test_non_idempotent_close(self):
        # Why: the suite itself says that reasonable persons differ.  Blocks and pools close
        # what is closed already, so closing twice does nothing, as in sqlite3 and psycopg.
        con = self._connect()
        con.close()
        con.close()

    def test_cursor_isolation(self):
        # Why: NO_TABLES.  All cursors of all connections read the same release.
        one, other = self._connect(), self._connect()
        rows = one.cursor().execute(COUNTED).fetchall()
        assert one.cursor().execute(COUNTED).fetchall() == rows
        assert other.cursor().execute(COUNTED).fetchall() == rows

    def test_description(self):
        # Why: NO_TABLES.  A refused statement, which returns no rows, has no description.
        cur = self._connect().cursor()
        with pytest.raises(sqlmadp.Error):
            self.executeDDL1(cur)
        assert cur.description is None
        cur.execute(COUNTED)
        assert [len(column) for column in cur.description] == [7, 7]
        assert cur.description[0][0].lower() == "name"
        assert cur.description[0][1] == sqlmadp.STRING
        assert cur.description[1][1] == sqlmadp.NUMBER
        with pytest.raises(sqlmadp.Error):
            self.executeDDL2(cur)
        assert cur.description is None

    def test_rowcount(self):
        # Why: NO_TABLES.
        cur = self._connect().cursor()
        with pytest.raises(sqlmadp.Error):
            self.executeDDL1(cur)
        assert cur.rowcount == -1
        cur.execute(COUNTED)
        assert cur.rowcount == len(NAMES)

    def test_callproc(self):
        # Why: there are no stored procedures; PEP 249 has NotSupportedError for that.
        with pytest.raises(sqlmadp.NotSupportedError):
            self._connect().cursor().callproc(self.lower_func, ("FOO",))

    def test_executemany(self):
        # Why: NO_TABLES.  Each set of parameters has its own result instead of its own record.
        cur = self._connect().cursor()
        cur.executemany(f"SELECT COUNT(*) FROM {TABLE} WHERE name = ?", [("Redback",), ("Boag's",)])
        assert cur.fetchall() == [(1,)]
        assert cur.nextset()
        assert cur.fetchall() == [(0,)]

    def test_fetchone(self):
        # Why: NO_TABLES.
        cur = self._connect().cursor()
        with pytest.raises(sqlmadp.Error):
            cur.fetchone()
        with pytest.raises(sqlmadp.Error):
            self.executeDDL1(cur)
        with pytest.raises(sqlmadp.Error):
            cur.fetchone()
        cur.execute(f"{COUNTED} HAVING FALSE")
        assert cur.fetchone() is None
        assert cur.rowcount == 0
        cur.execute(f"{COUNTED} HAVING name = 'XXXX'")
        assert cur.fetchone() == ("XXXX", 1)
        assert cur.fetchone() is None
        assert cur.rowcount == 1

    def test_fetchmany(self):
        # Why: NO_TABLES.
        cur = self._connect().cursor()
        with pytest.raises(sqlmadp.Error):
            cur.fetchmany(4)
        cur.execute(COUNTED)
        assert len(cur.fetchmany()) == 1
        cur.arraysize = 10
        assert [len(cur.fetchmany(size)) for size in (3, 4, 4)] == [3, 2, 0]
        assert cur.rowcount == 6
        cur.arraysize = 4
        cur.execute(COUNTED)
        assert [len(cur.fetchmany()) for _ in range(3)] == [4, 2, 0]
        cur.arraysize = 6
        cur.execute(COUNTED)
        assert sorted(name for name, _ in cur.fetchmany()) == NAMES
        assert cur.fetchmany() == []
        cur.execute(f"{COUNTED} HAVING FALSE")
        assert cur.fetchmany() == []
        assert cur.rowcount == 0

    def test_fetchall(self):
        # Why: NO_TABLES.
        cur = self._connect().cursor()
        with pytest.raises(sqlmadp.Error):
            cur.fetchall()
        with pytest.raises(sqlmadp.Error):
            self.executeDDL1(cur)
        with pytest.raises(sqlmadp.Error):
            cur.fetchall()
        cur.execute(COUNTED)
        assert sorted(name for name, _ in cur.fetchall()) == NAMES
        assert cur.fetchall() == []
        assert cur.rowcount == 6
        assert cur.execute(f"{COUNTED} HAVING FALSE").fetchall() == []

    def test_mixedfetch(self):
        # Why: NO_TABLES.
        cur = self._connect().cursor().execute(COUNTED)
        rows = [cur.fetchone(), *cur.fetchmany(2), cur.fetchone(), *cur.fetchall()]
        assert sorted(name for name, _ in rows) == NAMES
        assert cur.rowcount == 6

    def test_nextset(self):
        # Why: the suite asks drivers to override it.
        cur = self._connect().cursor().execute(COUNTED)
        assert cur.nextset() is None
        cur.executemany(COUNTED, [(), ()])
        assert cur.nextset()
        assert len(cur.fetchall()) == 6
        assert cur.nextset() is None

    def test_setoutputsize(self):
        # Why: the suite asks drivers to override it.  No column is large, so nothing changes.
        cur = self._connect().cursor()
        cur.setoutputsize(1, 0)
        assert sorted(name for name, _ in cur.execute(COUNTED)) == NAMES

    def test_None(self):  # noqa: N802 - The suite's name.
        # Why: NO_TABLES.  The group without a name has None for its name.
        cur = self._connect().cursor()
        cur.execute(f"SELECT name, COUNT(*) FROM {TABLE} WHERE name IS NULL GROUP BY name")
        assert cur.fetchall() == [(None, 1)]


SUITE = {name for name in dir(dbapi20.DatabaseAPI20Test) if name.startswith("test")}
OVERRIDDEN = {name for name in vars(TestCompliance) if name.startswith("test")}


def test_twenty_tests_of_the_suite_run_unchanged_three_with_our_helper_and_13_are_ours():
    assert OVERRIDDEN <= SUITE
    sources = {
        name: inspect.getsource(getattr(dbapi20.DatabaseAPI20Test, name))
        for name in SUITE - OVERRIDDEN
    }
    helped = {name for name, source in sources.items() if "_paraminsert" in source}
    assert (len(sources) - len(helped), len(helped), len(OVERRIDDEN)) == (20, 3, 13)


@pytest.mark.parametrize("name", sorted(OVERRIDDEN))
def test_every_override_says_why(name):
    assert "# Why: " in inspect.getsource(getattr(TestCompliance, name))


def test_ticks_are_local_time():
    # The suite makes values from ticks and looks at none of them.
    ticks = time.mktime((2002, 12, 25, 13, 45, 30, 0, 0, -1))
    assert sqlmadp.DateFromTicks(ticks) == sqlmadp.Date(2002, 12, 25)
    assert sqlmadp.TimestampFromTicks(ticks) == sqlmadp.Timestamp(2002, 12, 25, 13, 45, 30)

"""SQLAlchemy, and what is built on it: reflection, pandas, polars, statements from Python."""

import warnings

import pandas
import polars
import pytest
import sqlalchemy
from conftest import PlanFolder
from sqlalchemy import exc, func, select

import sqlmadp

QUERIES = """
SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex;
SELECT day, COUNT(*) AS n FROM visits GROUP BY day;
SELECT age > 9, sex, COUNT(*) AS n FROM visits GROUP BY ALL;
"""
BY_SEX = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"
EXACT = {"epsilon": str(10**9), "budget": str(10**9)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = PlanFolder(tmp_path_factory.mktemp("sqlalchemy"))
    folder.write({"alice": QUERIES}, **EXACT)
    sqlmadp.Plan.open(folder.path).release()
    return folder


@pytest.fixture(scope="module")
def engine(folder):
    engine = sqlalchemy.create_engine(f"sqlmadp:///{folder.path}?analyst=alice", pool_pre_ping=True)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def visits(engine):
    return sqlalchemy.Table("visits", sqlalchemy.MetaData(), autoload_with=engine)


@pytest.fixture
def by_sex(folder):
    return folder.table().execute(f"{BY_SEX} ORDER BY sex").fetchall()


def test_tables_and_columns_are_reflected_from_the_schema(visits):
    assert [(c.name, type(c.type).__name__, c.nullable) for c in visits.columns] == [
        ("age", "BIGINT", True),
        ("sex", "VARCHAR", True),
        ("smoker", "BOOLEAN", False),
        ("day", "DATE", True),
        ("cost", "DOUBLE", True),
    ]
    assert list(visits.primary_key) == []


def test_has_table_is_truthful(engine):
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_table_names() == inspector.get_table_names("main") == ["visits"]
    assert inspector.has_table("visits")
    assert inspector.has_table("VISITS")
    assert inspector.has_table("visits", schema="main")
    assert not inspector.has_table("visits", schema="other")
    assert not inspector.has_table("people")
    assert not inspector.has_table(BY_SEX)
    assert inspector.get_view_names() == []
    assert inspector.get_schema_names() == ["main"]
    with pytest.raises(exc.NoSuchTableError):
        inspector.get_columns("people")


def test_statements_built_in_python_are_answered(engine, visits, folder):
    statement = (
        select(visits.c.sex, func.count().label("n"))
        .where(visits.c.age > 9, visits.c.sex.in_(["f", "m"]))
        .group_by(visits.c.sex)
        .order_by(visits.c.sex.desc())
        .limit(1)
    )
    sql = "SELECT sex, COUNT(*) FROM visits WHERE least(age, 19) > 9 AND sex = 'm' GROUP BY sex"
    with engine.connect() as connection:
        assert connection.execute(statement).all() == folder.table().execute(sql).fetchall()
        assert list(connection.execute(statement).keys()) == ["sex", "n"]


def test_a_qualified_table_is_the_same_table(engine, by_sex):
    table = sqlalchemy.Table("visits", sqlalchemy.MetaData(), schema="main", autoload_with=engine)
    statement = select(table.c.sex, func.count()).group_by(table.c.sex).order_by(table.c.sex)
    with engine.connect() as connection:
        assert connection.execute(statement).all() == by_sex


def test_dates_and_null_come_back_as_python_values(engine, visits):
    statement = select(visits.c.day, func.count()).group_by(visits.c.day).order_by(visits.c.day)
    with engine.connect() as connection:
        assert connection.execute(statement).first()[0].isoformat() == "2024-02-25"


def test_text_with_named_parameters_is_answered(engine, by_sex):
    statement = sqlalchemy.text(f"{BY_SEX} HAVING sex = :sex")
    with engine.connect() as connection:
        assert connection.execute(statement, {"sex": "f"}).all() == [by_sex[0]]


def test_rows_of_individuals_are_refused(engine, visits):
    with engine.connect() as connection, pytest.raises(exc.ProgrammingError, match="individuals"):
        connection.execute(select(visits.c.age))


def test_pandas_reads_through_the_engine(engine, by_sex):
    frame = pandas.read_sql(f"{BY_SEX} ORDER BY sex", engine)
    assert list(frame.columns) == ["sex", "n"]
    assert list(frame["n"]) == [n for _, n in by_sex]


def test_pandas_reads_through_a_plain_connection(folder, by_sex):
    connection = sqlmadp.connect(folder.path, analyst="alice")
    with pytest.warns(UserWarning, match="only supports SQLAlchemy"):  # Pandas' own advice.
        frame = pandas.read_sql(f"{BY_SEX} HAVING sex = ?", connection, params=("f",))
    assert list(frame["n"]) == [by_sex[0][1]]


def test_polars_reads_through_the_engine_and_through_a_plain_connection(engine, folder, by_sex):
    connection = sqlmadp.connect(folder.path, analyst="alice")
    for source in (engine, connection, connection.cursor()):
        frame = polars.read_database(f"{BY_SEX} ORDER BY sex", source)
        assert frame.rows() == by_sex


def test_frames_have_errors_where_the_address_asks_for_them(folder, by_sex):
    engine = sqlalchemy.create_engine(f"sqlmadp:///{folder.path}?analyst=alice&errors=true")
    for read in (pandas.read_sql, polars.read_database):
        frame = read(f"{BY_SEX} ORDER BY sex", engine)
        assert list(frame.columns) == ["sex", "n", "n_stderr", "n_low", "n_high"]
        assert list(frame["n"]) == [n for _, n in by_sex]
        low, n, high = (list(frame[name]) for name in ("n_low", "n", "n_high"))
        assert all(a < b < c for a, b, c in zip(low, n, high, strict=True))
    engine.dispose()


# Before the release: the same rule in every tool.

TOTAL = "SELECT COUNT(*) AS n FROM visits"


@pytest.fixture
def before(plans):
    path = plans.write({"alice": BY_SEX}, **EXACT)
    engine = sqlalchemy.create_engine(f"sqlmadp:///{path}?analyst=alice")
    yield engine, sqlmadp.Plan.open(path).staged_path("alice")
    engine.dispose()


def connections(engine):
    """An engine, and a plain connection to the same plan."""
    return engine, sqlmadp.connect(engine.url.database, analyst="alice")


SAYS = ("it is not handed in", "connection.commit() hands it in")
"""What each of the two says of a SELECT; both name HAND IN."""


def read_with_pandas(sql, source):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "pandas only supports SQLAlchemy")
        return list(pandas.read_sql(sql, source).itertuples(index=False, name=None))


def read_with_polars(sql, source):
    return polars.read_database(sql, source).rows()


@pytest.mark.parametrize("read", [read_with_pandas, read_with_polars])
def test_a_frame_of_a_select_says_what_hands_it_in(before, read):
    engine, staged = before
    for source, says in zip(connections(engine), SAYS, strict=True):
        with pytest.raises((exc.OperationalError, sqlmadp.OperationalError)) as refused:
            read(TOTAL, source)
        assert says in str(refused.value)
        assert "HAND IN" in str(refused.value)
        assert not staged.exists()


def test_a_person_may_commit_what_a_frame_of_a_plain_connection_staged(before):
    engine, staged = before
    for number, read in enumerate((read_with_pandas, read_with_polars)):
        connection = connections(engine)[1]
        sql = f"{TOTAL} WHERE age > {number}"
        with pytest.raises(sqlmadp.OperationalError):
            read(sql, connection)
        connection.commit()
        assert sql in staged.read_text()


@pytest.mark.parametrize("read", [read_with_pandas, read_with_polars])
def test_a_frame_of_hand_in_hands_in_and_one_of_withdraw_takes_it_back(before, read):
    engine, staged = before
    for source in connections(engine):
        (first, *_) = read(f"HAND IN AS total {TOTAL}", source)
        assert first == ("total", "handed in now", "plan.staged/alice.sql", TOTAL)
        assert TOTAL in staged.read_text()
        with pytest.raises((exc.OperationalError, sqlmadp.OperationalError), match="has been han"):
            read(TOTAL, source)
        assert len(read(f"EXPLAIN {TOTAL}", source)) == 1
        (first, *_) = read("WITHDRAW total", source)
        assert first[:2] == ("total", "withdrawn now")
        assert TOTAL not in staged.read_text()


def test_sqlalchemy_hands_in_what_is_typed_so_with_a_commit_or_without(before):
    engine, staged = before
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(TOTAL))
        assert "tools commit by themselves" in str(
            connection.execute(sqlalchemy.text(TOTAL)).cursor.messages[0][1]
        )
    assert not staged.exists()
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"HAND IN {TOTAL}"))
        connection.rollback()
    assert TOTAL in staged.read_text()


@pytest.mark.parametrize(("option", "name"), [("old", "old"), (True, "staged_1")])
def test_a_statement_built_in_python_is_handed_in_by_an_option(before, option, name):
    engine, staged = before
    visits = sqlalchemy.Table("visits", sqlalchemy.MetaData(), autoload_with=engine)
    statement = select(func.count().label("n")).where(visits.c.age > 9)
    with engine.connect() as connection:
        rows = connection.execute(statement, execution_options={"hand_in": option}).all()
        assert tuple(rows[0])[:2] == (name, "handed in now")
        with pytest.raises(exc.OperationalError, match="has been handed in"):
            connection.execute(statement).all()
    assert f"-- name: {name}" in staged.read_text()


def test_an_address_may_name_the_dialect_of_its_statements(folder):
    address = f"sqlmadp:///{folder.path}?analyst=alice"
    halves = []
    for own in (address, f"{address}&dialect=postgres"):
        engine = sqlalchemy.create_engine(own)
        with engine.connect() as connection:
            statement = sqlalchemy.text("SELECT COUNT(*) / 2 AS n FROM visits")
            halves.append(connection.execute(statement).scalar())
        engine.dispose()
    assert [type(half) for half in halves] == [float, int]


@pytest.mark.parametrize(
    "address",
    [
        "sqlmadp:///plan.toml",
        "sqlmadp://?analyst=alice",
        "sqlmadp://host/plan.toml?analyst=alice",
        "sqlmadp:///plan.toml?analyst=alice&analyst=bob",
        "sqlmadp:///plan.toml?analyst=alice&epsilon=9",
        "sqlmadp:///plan.toml?analyst=alice&errors=maybe",
        "sqlmadp:///plan.toml?analyst=alice&dialect=duckdb&dialect=postgres",
    ],
)
def test_an_address_that_names_no_plan_or_no_analyst_is_refused(address):
    with pytest.raises(exc.ArgumentError, match=r"sqlmadp:///plan\.toml\?analyst=alice"):
        sqlalchemy.create_engine(address)

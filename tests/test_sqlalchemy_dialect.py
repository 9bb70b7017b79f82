"""SQLAlchemy, and what is built on it: reflection, pandas, polars, statements from Python."""

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


def test_before_the_release_a_connection_stages_and_commits(plans):
    path = plans.write({"alice": BY_SEX}, **EXACT)
    engine = sqlalchemy.create_engine(f"sqlmadp:///{path}?analyst=alice")
    statement = sqlalchemy.text("SELECT COUNT(*) AS n FROM visits")
    staged = sqlmadp.Plan.open(path).staged_path("alice")
    with engine.connect() as connection:
        with pytest.raises(exc.OperationalError, match="pending"):
            connection.execute(statement).all()
        connection.rollback()
        assert not staged.exists()
        with engine.begin() as transaction:
            transaction.execute(statement)
    assert "SELECT COUNT(*) AS n FROM visits" in staged.read_text()
    engine.dispose()


@pytest.mark.parametrize(
    "address",
    [
        "sqlmadp:///plan.toml",
        "sqlmadp://?analyst=alice",
        "sqlmadp://host/plan.toml?analyst=alice",
        "sqlmadp:///plan.toml?analyst=alice&analyst=bob",
        "sqlmadp:///plan.toml?analyst=alice&epsilon=9",
    ],
)
def test_an_address_that_names_no_plan_or_no_analyst_is_refused(address):
    with pytest.raises(exc.ArgumentError, match=r"sqlmadp:///plan\.toml\?analyst=alice"):
        sqlalchemy.create_engine(address)

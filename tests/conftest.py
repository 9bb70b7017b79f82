"""Plans on disk for tests that go through a whole release."""

from collections.abc import Mapping
from pathlib import Path

import duckdb
import pytest
from hypothesis import settings

settings.register_profile("ours", deadline=None)  # A busy machine is no failure.
settings.load_profile("ours")

SCHEMA = """
table = "visits"

[columns.age]
type = "integer"
min = 0
max = 19
outside = "clamp"

[columns.sex]
type = "category"
values = ["f", "m"]
nullable = true

[columns.smoker]
type = "boolean"
complete = true

[columns.day]
type = "date"
min = 2024-02-25
max = 2024-03-05

[columns.cost]
type = "real"
min = 0.0
max = 1000.0
"""

RECORDS = """
SELECT
    CAST(i * 7 % 23 AS BIGINT) AS age,
    CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN 'x' ELSE ['f', 'm'][1 + i % 2] END AS sex,
    i % 3 = 0 AS smoker,
    DATE '2024-02-23' + CAST(i * 5 % 13 AS INTEGER) AS day,
    CASE i % 11 WHEN 0 THEN 'NaN'::DOUBLE WHEN 1 THEN -1.0 ELSE i * 37 % 1001 END AS cost
FROM range(600) AS t(i)
"""

AS_DECLARED = """
SELECT
    least(age, 19) AS age,
    CASE WHEN sex IN ('f', 'm') THEN sex END AS sex,
    smoker,
    CASE WHEN day BETWEEN '2024-02-25' AND '2024-03-05' THEN day END AS day,
    CASE WHEN cost BETWEEN 0 AND 1000 THEN cost END AS cost
FROM visits
"""


class PlanFolder:
    """A folder with a schema, a table, SQL files and a plan."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "plan.toml"
        (folder / "visits.toml").write_text(SCHEMA)
        duckdb.execute(f"COPY ({RECORDS}) TO '{folder / 'visits.parquet'}' (FORMAT parquet)")

    def write(
        self,
        statements: Mapping[str, str],
        *,
        epsilon: str = "1",
        budget: str = "2",
        mechanism: str = "waterfilling",
        shares: Mapping[str, str] | None = None,
        schema: str = "visits.toml",
        source: str = "visits.parquet",
    ) -> Path:
        """Write a plan with one SQL file per analyst, and return its path."""
        lines = [
            f'schema = "{schema}"',
            f'source = "{source}"',
            f'epsilon = "{epsilon}"',
            f'mechanism = "{mechanism}"',
            f'[ledger]\npath = "visits.ledger"\nbudget = "{budget}"',
        ]
        for name, sql in statements.items():
            (self.folder / f"{name}.sql").write_text(sql)
            share = f'\nshare = "{shares[name]}"' if shares else ""
            lines.append(f'[analysts.{name}]\nqueries = "{name}.sql"{share}')
        self.path.write_text("\n".join(lines) + "\n")
        return self.path

    def table(self) -> duckdb.DuckDBPyConnection:
        """Return a connection where ``visits`` holds the records with undeclared values as NULL."""
        connection = duckdb.connect()
        connection.execute(
            f"CREATE VIEW raw AS FROM '{self.folder / 'visits.parquet'}';"
            f"CREATE VIEW visits AS {AS_DECLARED.replace('FROM visits', 'FROM raw')}"
        )
        return connection


@pytest.fixture
def plans(tmp_path: Path) -> PlanFolder:
    return PlanFolder(tmp_path)


@pytest.fixture(autouse=True, scope="session")
def _strategies_and_notes_are_kept_aside(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SQLMADP_CACHE", str(tmp_path_factory.mktemp("strategies")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield

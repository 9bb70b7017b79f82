"""The examples run as they stand, on copies of their folders."""

import re
import runpy
import shutil
from pathlib import Path

import duckdb
import pytest
from quick import quick

from sqlmadp.cli import main
from sqlmadp.errors import SqlError
from sqlmadp.files.plan import Plan
from sqlmadp.files.schema import read_schema
from sqlmadp.release.release import release

ROOT = Path(__file__).parents[2]
PLANS = sorted(
    path.relative_to(ROOT)
    for path in ROOT.glob("examples/*/plan.toml")
    if path.parent.name != "notebook"  # Its analyst hands statements in from Python first.
)
COVID = [Path("examples/covid/plan.toml")]


def copied(plan: Path, folder: Path) -> Path:
    """Copy the example and the schemas aside, so that no ledger is left in the tree."""
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    ignored = shutil.ignore_patterns("*.ledger*")
    shutil.copytree(ROOT / plan.parent, folder / plan.parent, ignore=ignored)
    return folder / plan


@pytest.mark.parametrize("plan", quick(COVID, PLANS), ids=lambda path: path.parent.name)
def test_an_example_releases_rows_close_to_the_truth(plan, tmp_path):
    opened = Plan.open(copied(plan, tmp_path))
    done = release(opened)
    results = done.results()
    assert done.spent == opened.epsilon
    table = duckdb.connect()
    source = opened.folder / opened.source
    table.execute(f"CREATE VIEW {done.asked.domain.table} AS FROM '{source}'")
    for analyst, own in zip(opened.analysts, done.asked.queries, strict=True):
        for query in own:
            result = results[analyst.name][query.name]
            exact = table.execute(query.statement.text)
            described = tuple((name, str(kind)) for name, kind, *_ in exact.description)
            assert result.columns == described
            assert result.rows
    assert release(opened).results() == results


def test_there_is_an_example_of_every_kind():
    assert {path.parent.name for path in PLANS} >= {"covid", "census", "hospital", "web"}


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.parent.name)
def test_an_example_explains_itself_and_its_data_is_made_again_by_its_script(plan, tmp_path):
    folder = copied(plan, tmp_path).parent
    readme = (folder / "README.md").read_text()
    for command in re.findall(r"^(sqlmadp \w+)", readme, re.MULTILINE):
        assert command.split()[1] in main.commands
    opened = Plan.open(folder / "plan.toml")
    table = folder / opened.source
    before = table.read_bytes()
    table.unlink()
    runpy.run_path(str(folder / "make_data.py"), run_name="__main__")
    same = duckdb.execute(f"FROM '{table}'").fetchall()
    table.write_bytes(before)
    assert duckdb.execute(f"FROM '{table}'").fetchall() == same


def test_the_web_example_answers_the_further_query_of_its_readme(tmp_path):
    opened = Plan.open(copied(Path("examples/web/plan.toml"), tmp_path))
    readme = (opened.folder / "README.md").read_text()
    (sql,) = re.findall(r'sqlmadp query plan.toml "(.*?)"', readme)
    assert release(opened).query(sql).rows
    with pytest.raises(SqlError, match="cannot answer"):
        release(opened).query(sql.replace("60", "61"))


def test_the_hospital_protects_a_patient_with_all_stays():
    opened = Plan.open(ROOT / "examples/hospital/plan.toml")
    assert (
        "one 'patient' with all of its records (at most 3 of them are counted)"
        in read_schema(opened.schema_path).protection
    )


def test_carol_gets_the_total_to_within_its_error(tmp_path):
    opened = Plan.open(copied(Path("examples/covid/plan.toml"), tmp_path))
    result = release(opened).results()["carol"]["all_deaths"]
    exact = duckdb.execute(f"SELECT COUNT(*) FROM '{opened.folder / opened.source}'").fetchall()
    (error,) = result.rmse["deaths"]
    # Twenty standard deviations of noise with exponential tails: never by chance.
    assert abs(result.rows[0][0] - exact[0][0]) < 20 * error

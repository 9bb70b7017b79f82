"""The examples run as they stand, on copies of their folders."""

import shutil
from pathlib import Path

import duckdb
import pytest

from sqlmadp.plan import Plan
from sqlmadp.release import release

ROOT = Path(__file__).parent.parent
PLANS = sorted(
    path.relative_to(ROOT)
    for path in ROOT.glob("examples/*/plan.toml")
    if path.parent.name != "notebook"  # Its analyst hands statements in from Python first.
)


def copied(plan: Path, folder: Path) -> Path:
    """Copy the example and the schemas aside, so that no ledger is left in the tree."""
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    ignored = shutil.ignore_patterns("*.ledger*")
    shutil.copytree(ROOT / plan.parent, folder / plan.parent, ignore=ignored)
    return folder / plan


@pytest.mark.parametrize("plan", PLANS, ids=lambda path: path.parent.name)
def test_an_example_releases_rows_close_to_the_truth(plan, tmp_path):
    opened = Plan.open(copied(plan, tmp_path))
    done = release(opened, None)
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
    assert release(opened, None).results() == results


def test_there_are_the_paper_example_and_one_with_several_columns():
    assert {path.parent.name for path in PLANS} >= {"covid", "census"}


def test_carol_gets_the_total_to_within_its_error(tmp_path):
    opened = Plan.open(copied(Path("examples/covid/plan.toml"), tmp_path))
    result = release(opened, None).results()["carol"]["all_deaths"]
    exact = duckdb.execute(f"SELECT COUNT(*) FROM '{opened.folder / opened.source}'").fetchall()
    (error,) = result.rmse["deaths"]
    # Twenty standard deviations of noise with exponential tails: never by chance.
    assert abs(result.rows[0][0] - exact[0][0]) < 20 * error

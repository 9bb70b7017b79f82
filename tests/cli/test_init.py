"""``sqlmadp init``: files that run at once; and ``release --dry-run``: all but the release."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlmadp.cli import main

TOTAL = "-- name: all\nSELECT COUNT(*) AS n FROM visits"


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


class TestInit:
    def test_what_it_writes_is_in_order_and_can_be_released_at_once(self, tmp_path):
        folder = tmp_path / "new" / "study"
        made = run("init", folder)
        assert made.exit_code == 0
        assert [Path(line).name for line in made.stdout.splitlines()] == [
            *("plan.toml", "schema.toml", "hospital.sql", "city.sql", "visits.csv")
        ]
        assert "sqlmadp check" in made.stderr
        assert "2 analysts are in order" in run("check", folder / "plan.toml").stdout
        released = run("release", folder / "plan.toml")
        assert released.exit_code == 0, released.output
        assert "hospital  visits_by_ward" in released.stdout

    def test_every_record_is_in_the_declared_domain(self, tmp_path):
        run("init", tmp_path, "--quiet")
        plan = tmp_path / "plan.toml"
        plan.write_text(plan.read_text().replace('"1" ', '"1000" ').replace('"2" ', '"1000" '))
        (tmp_path / "city.sql").write_text("-- name: all\nSELECT COUNT(*) AS n FROM visits")
        released = run("release", plan)
        assert " 5000 " in released.stdout

    def test_nothing_is_overwritten(self, tmp_path):
        (tmp_path / "city.sql").write_text("mine")
        refused = run("init", tmp_path)
        assert refused.exit_code == 1
        assert "city.sql" in refused.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["city.sql"]
        assert (tmp_path / "city.sql").read_text() == "mine"

    def test_a_folder_that_cannot_be_made_is_refused(self, tmp_path):
        (tmp_path / "file").write_text("")
        refused = run("init", tmp_path / "file" / "below")
        assert refused.exit_code == 1
        assert "cannot write" in refused.stderr


class TestDryRun:
    def test_it_spends_nothing_and_writes_nothing(self, plans):
        path = plans.write({"alice": TOTAL})
        before = sorted(plans.folder.iterdir())
        shown = run("release", path, "--dry-run")
        assert shown.exit_code == 0, shown.output
        assert "would charge epsilon 1" in shown.stdout
        assert "1 left after it" in shown.stdout
        assert sorted(plans.folder.iterdir()) == before

    def test_it_reads_no_record(self, plans):
        path = plans.write({"alice": TOTAL}, source="visits.csv")
        (plans.folder / "visits.csv").write_text("age,sex,smoker,day,cost\nnot,one,good,record")
        assert run("release", path, "--dry-run").exit_code == 0

    def test_after_a_release_it_says_that_another_is_free(self, plans):
        path = plans.write({"alice": TOTAL})
        run("release", path)
        assert "releasing it again is free" in run("release", path, "--dry-run").stdout

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"epsilon": "3/2"}, "1/2 left"),
            ({"source": "gone.parquet"}, "gone.parquet"),
            ({"mechanism": "magic"}, "magic"),
        ],
    )
    def test_what_would_refuse_the_release_refuses_it(self, plans, change, reason):
        run("release", plans.write({"alice": GROUPS}, epsilon="3/2"))
        path = plans.write({"alice": TOTAL}, **change)
        refused = run("release", path, "--dry-run")
        assert refused.exit_code == 1
        assert reason in refused.stderr

    def test_a_table_that_is_charged_to_another_ledger_refuses_it(self, plans):
        run("release", plans.write({"alice": TOTAL}))
        path = plans.write({"alice": TOTAL})
        path.write_text(path.read_text().replace("visits.ledger", "other.ledger"))
        refused = run("release", path, "--dry-run")
        assert refused.exit_code == 1
        assert "to start a new budget" in refused.stderr
        assert not (plans.folder / "other.ledger").exists()

    def test_a_table_that_does_not_match_the_schema_refuses_it(self, plans):
        path = plans.write({"alice": TOTAL})
        schema = plans.folder / "visits.toml"
        schema.write_text(schema.read_text().replace("columns.smoker", "columns.smokes"))
        assert "smokes" in run("release", path, "--dry-run").stderr


GROUPS = "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex"

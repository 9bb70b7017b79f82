"""Before anything is spent: what is said, what is asked, and what is left behind by a refusal."""

import pytest
from click.testing import CliRunner
from terminals import on_a_terminal

from sqlmadp.cli import main
from sqlmadp.errors import BudgetExceededError, Error, LedgerError, OperationalError
from sqlmadp.files.plan import Plan

TOTAL = "-- name: total\nSELECT COUNT(*) AS n FROM visits"
AGES = "-- name: ages\nSELECT age, COUNT(*) AS n FROM visits GROUP BY age"


class StopError(OperationalError):
    pass


def refuse(_):
    raise StopError


def files(plans):
    return {path.name for path in plans.folder.iterdir()}


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.mark.parametrize("way", ["budget", "column", "no"])
def test_a_refused_release_leaves_no_ledger_and_no_note_behind(plans, way):
    path = plans.write({"alice": TOTAL}, epsilon="3" if way == "budget" else "1")
    if way == "column":
        schema = plans.folder / "visits.toml"
        schema.write_text(schema.read_text() + '[columns.height]\ntype = "boolean"\n')
    before, said = files(plans), []
    confirm = refuse if way == "no" else lambda _: None
    with pytest.raises((Error, StopError)):
        Plan.open(path).release(notice=said.append, confirm=confirm)
    assert {name for name in files(plans) - before if not name.startswith(".")} == set()
    charged = [line for line in said if "charges epsilon" in line]
    assert len(charged) == (way == "no")  # It is said when it is true, and not before.
    if way != "no":
        return
    Plan.open(path).release()
    assert (plans.folder / "visits.ledger").exists()


def test_what_a_release_charges_is_not_said_before_there_is_budget(plans):
    plans.write({"alice": TOTAL}, epsilon="2")
    Plan.open(plans.path).release()
    plans.write({"alice": AGES}, epsilon="1")
    said = []
    with pytest.raises(BudgetExceededError):
        Plan.open(plans.path).release(notice=said.append)
    assert said == []


def test_verify_compares_the_ledger_with_the_note_of_the_table(plans):
    plans.write({"alice": TOTAL})
    Plan.open(plans.path).release()
    assert run("ledger", "verify", plans.path).exit_code == 0
    (plans.folder / "visits.ledger").rename(plans.folder / "kept.ledger")
    other = plans.folder / "other"
    other.mkdir()
    empty = plans.path.read_text().replace('"visits.parquet"', '"other/visits.parquet"')
    (other / "visits.parquet").write_bytes((plans.folder / "visits.parquet").read_bytes())
    plans.path.write_text(empty)
    Plan.open(plans.path).release()  # A ledger of another table, where the first one was.
    plans.write({"alice": TOTAL})
    checked = run("ledger", "verify", plans.path)
    assert checked.exit_code == 1
    assert "sound" not in checked.output
    changed = Plan.open(plans.write({"alice": AGES}))
    with pytest.raises(LedgerError):
        changed.release()


def test_what_is_known_already_is_said_before_it_is_paid_for_again(plans):
    plans.write({"alice": AGES})
    first = Plan.open(plans.path).release()
    error = first.query("SELECT COUNT(*) AS n FROM visits").rmse["n"][0]
    plans.write(
        {"alice": f"{TOTAL};\n-- name: days\nSELECT day, COUNT(*) FROM visits GROUP BY day"}
    )
    said = []
    with pytest.raises(StopError):
        Plan.open(plans.path).release(notice=said.append, confirm=refuse)
    (known,) = [note for note in said if "already answer" in note]
    assert f"    alice.total  ± {error:.3g}  release of" in known
    assert "days" not in known
    assert "charges epsilon 1" in said[-1]
    assert f"sqlmadp query {plans.path} 'SELECT ...'" in known
    answered = run("query", plans.path, "SELECT COUNT(*) AS n FROM visits")
    assert answered.exit_code == 0
    assert "answered from the release of" in answered.stderr
    assert f"{first.query('SELECT COUNT(*) AS n FROM visits').rows[0][0]}" in answered.stdout
    uncovered = run("query", plans.path, "SELECT day, COUNT(*) FROM visits GROUP BY day")
    assert "is pending" in uncovered.stderr


def test_nothing_is_called_measuring_before_it_was_agreed_to(plans):
    stages = []
    with pytest.raises(StopError):
        Plan.open(plans.write({"alice": TOTAL})).release(progress=stages.append, confirm=refuse)
    assert "measuring" not in stages


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_a_terminal_asks_before_anything_is_spent(plans, answer, code):
    path = plans.write({"alice": TOTAL})
    found, shown = on_a_terminal("release", path, answer=answer)
    assert found == code, shown
    assert "it charges epsilon 1" in shown
    assert "Spend it?" in shown
    assert (plans.folder / "visits.ledger").exists() == (code == 0)
    assert ("nothing was read or spent" in shown) == (code == 1)


@pytest.mark.slow
def test_a_terminal_does_not_ask_after_yes_nor_for_what_was_paid(plans):
    path = plans.write({"alice": TOTAL})
    for further in (["--yes"], []):
        code, shown = on_a_terminal("release", path, *further, answer="n")
        assert code == 0
        assert "Spend it?" not in shown


def test_nothing_is_asked_where_there_is_no_terminal(plans):
    path = plans.write({"alice": TOTAL})
    done = run("release", path)
    assert done.exit_code == 0
    assert "Spend it?" not in done.output

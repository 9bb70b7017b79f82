"""A comparison with a value that no schema declares: accepted as DuckDB does, and noted."""

import json

import pytest
from click.testing import CliRunner

import sqlmadp
from sqlmadp.cli import main
from sqlmadp.files.plan import Plan
from sqlmadp.release.bound_plan import BoundPlan

SLIP = "SELECT COUNT(*) AS n\nFROM visits WHERE sex = 'F' AND smoker"
SOUND = "SELECT COUNT(*) AS n FROM visits WHERE sex = 'f' OR sex IS NULL OR age IN (3, 19)"


def run(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result


def notes(plans, sql):
    return [note.message for note in BoundPlan.bind(Plan.open(plans.write({"alice": sql}))).notes]


class TestWhatIsNoted:
    @pytest.mark.parametrize(
        "condition",
        ["sex = 'F'", "'F' <> sex", "sex IN ('m', 'F')", "sex NOT IN ('F')", "NOT sex = 'F'"],
    )
    def test_a_value_that_a_category_has_not(self, plans, condition):
        (noted,) = notes(plans, f"SELECT COUNT(*) FROM visits WHERE {condition}")
        assert "no value 'F' of 'sex'" in noted

    @pytest.mark.parametrize("number", ["20", "-1", "3000000000"])
    def test_an_integer_outside_the_bounds(self, plans, number):
        (noted,) = notes(plans, f"SELECT COUNT(*) FROM visits WHERE age = {number}")
        assert f"no value {number} of 'age'" in noted

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT COUNT(*) FILTER (WHERE sex = 'F'), AVG(age) FILTER (WHERE sex = 'F') "
            "FROM visits",
            "SELECT CASE sex WHEN 'F' THEN 1 END AS k, COUNT(*) FROM visits GROUP BY k",
            "SELECT SUM(CASE WHEN s = 'F' THEN 1 ELSE 0 END) FROM (SELECT sex AS s FROM visits)",
        ],
        ids=["filter", "key", "sum"],
    )
    def test_it_is_noted_once_per_place_wherever_that_is(self, plans, sql):
        assert len(set(notes(plans, sql))) == 1
        assert len(notes(plans, sql)) == sql.count("'F'")

    @pytest.mark.parametrize(
        "sql",
        [
            SOUND,
            "SELECT COUNT(*) FROM visits WHERE sex < 'x' AND age < 300 AND upper(sex) = 'F'",
            "SELECT COUNT(*) FROM visits WHERE sex LIKE 'F%' OR sex ILIKE 'F'",
        ],
    )
    def test_nothing_else(self, plans, sql):
        assert notes(plans, sql) == []


class TestWhoIsTold:
    @pytest.mark.parametrize(
        "command", [("check",), ("plan", "--mechanism", "identity"), ("release", "--dry-run")]
    )
    def test_the_command_says_where_and_what_was_meant(self, plans, command):
        path = plans.write({"alice": SLIP})
        result = run(command[0], path, *command[1:])
        place = f"note: {plans.folder / 'alice.sql'}:2:25: "
        assert result.stderr.startswith(place)
        assert "Did you mean 'f'?" in result.stderr
        assert "Did you mean" not in result.stdout
        assert run(command[0], path, *command[1:], "--quiet").stderr == ""

    def test_a_release_says_so_before_it_says_what_it_charges(self, plans):
        said = run("release", plans.write({"alice": SLIP})).stderr
        assert said.index("Did you mean 'f'?") < said.index("it charges epsilon")
        assert run("release", plans.path, "--quiet").stderr == ""

    def test_json_has_it_next_to_the_errors(self, plans):
        figures = json.loads(run("check", plans.write({"alice": SLIP}), "--json").stdout)
        (note,) = figures["notes"]
        assert figures["ok"]
        assert (note["code"], note["line"], note["column"]) == ("undeclared-value", 2, 25)

    def test_each_analysts_note_names_their_own_file(self, plans):
        asked = BoundPlan.bind(Plan.open(plans.write({"alice": SLIP, "bob": SLIP})))
        files = [str(plans.folder / name) for name in ("alice.sql", "bob.sql")]
        assert [note.file for note in asked.notes] == files

    def test_a_cursor_has_it_among_its_messages_until_the_next_statement(self, plans):
        plans.write({"alice": SOUND})
        with sqlmadp.connect(plans.path, analyst="alice") as connection:
            cursor = connection.cursor().execute(SLIP)
            (kind, message), (_, standing) = cursor.messages
            assert kind is sqlmadp.Warning
            assert "Did you mean 'f'?" in str(message)
            assert "This statement is staged" in str(standing)
            ((_, standing),) = cursor.execute(SOUND).messages
            assert "has been handed in" in str(standing)

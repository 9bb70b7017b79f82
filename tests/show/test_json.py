"""Every command's ``--json`` output is of the form that its JSON Schema documents."""

import json
from fractions import Fraction
from pathlib import Path

import click
import jsonschema
import pytest
from click.testing import CliRunner

from sqlmadp.audit.bound import Bound
from sqlmadp.audit.report import PLAIN_COUNT, Audited, Report, audit_figures
from sqlmadp.cli import main
from sqlmadp.show.json import versioned

SCHEMAS = Path(__file__).parents[2] / "schemas"
GROUPS = "SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY sex"
TOTAL = "-- name: all\nSELECT COUNT(*) AS n FROM visits"


def commands_with_json(group=main, path=()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands_with_json(command, (*path, name))
        elif any(parameter.name == "as_json" for parameter in command.params):
            yield (*path, name)


def validate(name, figures):
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(figures, schema)


def run(*arguments):
    result = CliRunner().invoke(main, [*map(str, arguments), "--json"])
    return json.loads(result.stdout)


@pytest.mark.parametrize("path", [*commands_with_json()], ids="-".join)
def test_every_command_that_prints_figures_has_a_schema(path):
    assert (SCHEMAS / f"{'-'.join(path)}.schema.json").is_file()


def test_what_the_commands_print_is_of_the_form_that_the_schemas_say(plans):
    path = plans.write({"alice": GROUPS, "bob": TOTAL})
    validate("check", run("check", path))
    validate("plan", run("plan", path, "--target-rmse", "all=10"))
    validate("release", run("release", path, "--dry-run"))
    validate("query", run("query", path, f"EXPLAIN {GROUPS}"))
    run("query", path, f"HAND IN AS again {GROUPS}", "--analyst", "bob")
    validate("staged", run("staged", path, "--analyst", "bob"))
    validate("query", run("query", path, "HAND IN SELECT COUNT(*) FROM visits", "--analyst", "bob"))
    validate("staged", run("staged", path, "--analyst", "bob", "--withdraw", "staged_1"))
    validate("release", run("release", path))
    validate("staged", run("staged", path, "--analyst", "bob"))
    validate("release", run("release", path, "--dry-run"))
    validate("query", run("query", path, GROUPS))
    validate("ledger-show", run("ledger", path))
    validate("ledger-verify", run("ledger", "verify", path))


def test_what_check_prints_about_mistakes_is_of_its_form(plans):
    validate("check", run("check", plans.write({"alice": "SELEC 1"})))
    noted = run("check", plans.write({"alice": f"{TOTAL} WHERE sex = 'F'"}))
    assert noted["notes"]
    validate("check", noted)


def test_what_a_check_of_a_schema_prints_is_of_its_form(plans):
    schema = plans.folder / "visits.toml"
    validate("schema-check", run("schema", "check", schema))
    schema.write_text(schema.read_text().replace("boolean", "colour"))
    mistaken = run("schema", "check", schema)
    assert not mistaken["ok"]
    validate("schema-check", mistaken)


def test_every_schema_is_listed_in_the_documents():
    listed = (SCHEMAS.parent / "docs" / "command_line.md").read_text()
    for path in SCHEMAS.glob("*.schema.json"):
        assert f"../schemas/{path.name}" in listed


def test_a_mechanism_that_cannot_serve_a_plan_is_of_the_form_of_plan(plans):
    schema = plans.folder / "visits.toml"
    schema.write_text(schema.read_text().replace("max = 19", "max = 99999"))
    figures = run("plan", plans.write({"alice": TOTAL}), "--mechanism", "identity")
    assert "unsupported" in figures["mechanisms"]["identity"]
    validate("plan", figures)


def test_an_audit_is_of_its_form():
    bound = Bound(epsilon=0.9, event="sum at least 1", more_likely=0.6, less_likely=0.2)
    audited = Audited(case=PLAIN_COUNT, claimed=Fraction(1), bound=bound, measurements=2_000)
    report = Report(audited=(audited,), confidence=0.99, repeated="", messages=("a message",))
    figures = json.loads(json.dumps(versioned(audit_figures(report)), default=str))
    validate("audit", figures)


def test_a_form_without_a_version_is_refused():
    with pytest.raises(jsonschema.ValidationError, match="version"):
        validate("ledger-verify", {"ok": True, "charges": 0, "head": ""})

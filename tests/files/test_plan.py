"""A plan file is a release in exact numbers, or a list of everything that is wrong with it."""

from fractions import Fraction
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlmadp.errors import PlanError
from sqlmadp.files.analysts import Analyst
from sqlmadp.files.plan import Plan
from sqlmadp.files.schema import read_schema
from sqlmadp.mechanism import MECHANISMS

EXAMPLES = Path(__file__).parents[2] / "examples"

HEAD = """\
schema = "people.toml"
source = "people.parquet"
epsilon = "1"

[ledger]
path = "people.ledger"
budget = "2"
"""
"""The first seven lines of a plan without mistakes."""

ALICE = '[analysts.alice]\nqueries = "alice.sql"\n'


@pytest.fixture
def folder(tmp_path):
    for name in ("people.toml", "alice.sql", "bob.sql", "more/a.sql", "more/b.sql", "odd[1].sql"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.fixture
def plan(folder):
    def plan(text):
        (folder / "plan.toml").write_text(text, encoding="utf-8")
        return Plan.open(folder / "plan.toml")

    return plan


@pytest.fixture
def problems(plan):
    def problems(text):
        with pytest.raises(PlanError) as error:
            plan(text)
        return error.value.problems

    return problems


def assert_only_problem(problems, line, parts):
    (problem,) = problems
    for part in parts:
        assert part in str(problem)
    assert problem.line == line


def test_a_plan_is_read_in_exact_numbers_and_with_paths_from_its_folder(plan, folder):
    read = plan(
        HEAD.replace('"1"', '"1/3"')
        + '[analysts.bob]\nqueries = ["bob.sql", "more/*.sql"]\nshare = "0.9"\n'
        + '[analysts.alice]\nqueries = "alice.sql"\nshare = "1/10"\n'
    )
    assert read == Plan(
        path=folder / "plan.toml",
        schema_path=folder / "people.toml",
        source="people.parquet",
        epsilon=Fraction(1, 3),
        mechanism="waterfilling",
        ledger_path=folder / "people.ledger",
        budget=Fraction(2),
        analysts=(
            Analyst(
                name="bob",
                files=(folder / "bob.sql", folder / "more/a.sql", folder / "more/b.sql"),
                share=Fraction(9, 10),
            ),
            Analyst(name="alice", files=(folder / "alice.sql",), share=Fraction(1, 10)),
        ),
    )
    assert read.folder == folder


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_can_be_named(plan, mechanism):
    assert plan(f'mechanism = "{mechanism}"\n{HEAD}{ALICE}').mechanism == mechanism


@pytest.mark.parametrize(
    ("written", "epsilon"),
    [
        ('"1"', Fraction(1)),
        ("1", Fraction(1)),
        ('"0.1"', Fraction(1, 10)),
        ('".5"', Fraction(1, 2)),
        ('"1/3"', Fraction(1, 3)),
        ('"1e9"', Fraction(10**9)),
        ('"1E-3"', Fraction(1, 1000)),
        ('"+2.5e1"', Fraction(25)),
    ],
)
def test_a_number_is_exact(plan, written, epsilon):
    text = HEAD.replace('epsilon = "1"', f"epsilon = {written}").replace('"2"', '"1e9"')
    assert plan(text + ALICE).epsilon == epsilon


@given(number=st.fractions(min_value=Fraction(1, 10**6), max_denominator=10**6))
def test_any_fraction_written_as_text_is_read_back(tmp_path_factory, number):
    folder = tmp_path_factory.mktemp("plan")
    (folder / "people.toml").touch()
    (folder / "alice.sql").touch()
    number = min(number, Fraction(10**12))
    text = HEAD.replace('"1"', f'"{number}"').replace('"2"', f'"{number}"') + ALICE
    (folder / "plan.toml").write_text(text)
    read = Plan.open(str(folder / "plan.toml"))
    assert (read.epsilon, read.budget) == (number, number)


@given(count=st.integers(1, 12))
def test_without_written_shares_everyone_has_the_same(tmp_path_factory, count):
    folder = tmp_path_factory.mktemp("plan")
    (folder / "people.toml").touch()
    (folder / "q.sql").touch()
    analysts = [f'[analysts.a{i}]\nqueries = "q.sql"\n' for i in range(count)]
    (folder / "plan.toml").write_text(HEAD + "".join(analysts))
    read = Plan.open(folder / "plan.toml")
    assert [analyst.share for analyst in read.analysts] == [Fraction(1, count)] * count


@pytest.mark.parametrize(
    ("written", "files"),
    [
        ('"alice.sql"', ["alice.sql"]),
        ('["bob.sql", "alice.sql"]', ["bob.sql", "alice.sql"]),
        ('"more/*.sql"', ["more/a.sql", "more/b.sql"]),
        ('"**/a*.sql"', ["alice.sql", "more/a.sql"]),
        ('["more/b.sql", "more/*.sql", "./more/../more/a.sql"]', ["more/b.sql", "more/a.sql"]),
        ('"odd[1].sql"', ["odd[1].sql"]),
    ],
)
def test_queries_are_a_file_a_list_or_a_glob_and_each_file_counts_once(
    plan, folder, written, files
):
    (analyst,) = plan(f"{HEAD}[analysts.alice]\nqueries = {written}\n").analysts
    assert analyst.files == tuple(folder / name for name in files)


def test_an_analyst_who_hands_in_from_python_needs_no_file(plan, folder):
    opened = plan(f"{HEAD}[analysts.alice]\n")
    assert opened.analysts[0].files == ()
    assert opened.staged_path("alice") == folder / "plan.staged" / "alice.sql"


def test_a_glob_does_not_take_folders(plan, folder):
    (analyst,) = plan(f'{HEAD}[analysts.alice]\nqueries = "[am]*"\n').analysts
    assert analyst.files == (folder / "alice.sql",)


def test_files_may_be_named_by_their_whole_path(plan, folder):
    text = HEAD.replace('"people.toml"', f'"{folder}/people.toml"')
    read = plan(f'{text}[analysts.alice]\nqueries = "{folder}/more/*.sql"\n')
    assert read.schema_path == folder / "people.toml"
    assert read.analysts[0].files == (folder / "more/a.sql", folder / "more/b.sql")


@pytest.mark.parametrize(
    "written",
    [
        *('"0"', "0", '"-1"', "-1", '"0/5"', '"nan"', '"inf"', '"one"', '""', '"1/0"', '" 1"'),
        *("true", "nan", "[1]", "0x" + "f" * 9000, '"1e999999999"', '"1e-400"', '"²"', '"1_0"'),
    ],
)
@pytest.mark.parametrize(("key", "line"), [("epsilon", 3), ("ledger.budget", 7)])
def test_a_number_that_is_not_positive_and_exact_is_refused(problems, key, line, written):
    old = '"1"' if key == "epsilon" else '"2"'
    found = problems(HEAD.replace(old, written) + ALICE)
    assert_only_problem(
        found, line, [f"{key} is ", 'write a number above 0 in quotes, such as "1"']
    )


def test_a_number_that_toml_stores_inexactly_must_be_quoted(problems):
    found = problems(HEAD.replace('"1"', "0.1") + ALICE)
    assert_only_problem(found, 3, ["epsilon is 0.1", 'In quotes it is exact: epsilon = "0.1".'])


def test_epsilon_above_the_budget_is_refused_with_both_numbers(problems):
    found = problems(HEAD.replace('"1"', '"5/2"') + ALICE)
    assert_only_problem(found, 3, ["epsilon is 5/2", "ledger.budget, which is 2", "at most 2"])


def test_epsilon_may_be_the_whole_budget(plan):
    read = plan(HEAD.replace('"1"', '"2"') + ALICE)
    assert read.epsilon == read.budget


@pytest.mark.parametrize(
    ("old", "new", "line", "parts"),
    [
        ('schema = "people.toml"\n', "", 0, ["schema is missing", "a schema file"]),
        ("people.toml", "peple.toml", 1, ['schema names "peple.toml", which is no file']),
        ('"people.toml"', "3", 1, ["schema is 3", "a schema file"]),
        ('source = "people.parquet"\n', "", 0, ["source is missing", "the private table"]),
        ('"people.parquet"', '""', 2, ['source is ""', "the private table"]),
        ('epsilon = "1"\n', "", 0, ["epsilon is missing", "above 0"]),
        ('epsilon = "1"', 'epsilon = "1"\nmechanism = 3', 4, ["mechanism is 3", '"identity"']),
        (
            'epsilon = "1"',
            'epsilon = "1"\nmechanism = "water-filling"',
            4,
            ['mechanism is "water-filling"', '"independent"', 'Did you mean "waterfilling"?'],
        ),
        (
            'epsilon = "1"',
            'epsilon = "1"\nmechansim = "identity"',
            4,
            ["mechansim is not a key of a plan", 'Did you mean "mechanism"?'],
        ),
        (
            '[ledger]\npath = "people.ledger"\nbudget = "2"\n',
            "",
            0,
            ["ledger is missing", "path and budget"],
        ),
        ('path = "people.ledger"\n', "", 5, ["ledger.path is missing", '"people.ledger"']),
        ('budget = "2"\n', "", 5, ["ledger.budget is missing", "above 0"]),
        (
            'budget = "2"',
            'budget = "2"\nbuget = "2"',
            8,
            ["ledger.buget is not a key of the ledger", 'Did you mean "budget"?'],
        ),
    ],
)
def test_a_mistake_in_the_head_names_its_key_its_line_and_what_is_allowed(
    problems, old, new, line, parts
):
    assert HEAD.count(old) == 1
    assert_only_problem(problems(HEAD.replace(old, new) + ALICE), line, parts)


@pytest.mark.parametrize(
    ("analysts", "line", "parts"),
    [
        ("", 0, ["analysts is missing", "[analysts.alice]"]),
        ("[analysts]", 8, ["analysts is empty", "write a table per analyst"]),
        ("[analysts]\nalice = 3", 9, ["analysts.alice is 3", "a table with queries"]),
        (ALICE + ALICE, 10, ["analysts.alice is declared twice, first in line 8"]),
        (
            ALICE + ALICE.replace("alice]", "Alice]"),
            10,
            ["analysts.Alice has the same name as analysts.alice"],
        ),
        (
            ALICE.replace("alice]", '"ｆiona"]') + ALICE.replace("alice]", "FIONA]"),
            10,
            ['analysts.FIONA has the same name as analysts."ｆiona"'],
        ),
        (ALICE.replace('"alice.sql"', "3"), 9, ["analysts.alice.queries is 3", "a file"]),
        (ALICE.replace('"alice.sql"', '""'), 9, ['analysts.alice.queries is ""', "a file"]),
        (ALICE.replace('"alice.sql"', "[]"), 9, ["analysts.alice.queries is an empty list"]),
        (ALICE.replace('"alice.sql"', '["alice.sql", 3]'), 9, ["queries is a list", "a file"]),
        (
            ALICE.replace("alice.sql", "gone.sql"),
            9,
            ['analysts.alice.queries names "gone.sql", which is no file', "the plan's folder"],
        ),
        (ALICE.replace("alice.sql", "more"), 9, ['names "more", which is no file']),
        (
            ALICE.replace('"alice.sql"', '[\n"alice.sql",\n"none/*.sql",\n]'),
            9,
            ['analysts.alice.queries names "none/*.sql", which matches no file'],
        ),
        (
            ALICE + 'shares = "1"',
            10,
            ["analysts.alice.shares is not a key of an analyst", 'Did you mean "share"?'],
        ),
        (ALICE + "share = 0.5", 10, ["share is 0.5", 'share = "0.5"']),
        (ALICE + 'share = "0"', 10, ['analysts.alice.share is "0"', "a number above 0"]),
        (ALICE + 'share = "-1"', 10, ['analysts.alice.share is "-1"', "a number above 0"]),
        (
            ALICE + 'share = "1/3"\n[analysts.bob]\nqueries = "bob.sql"\nshare = "1/2"',
            8,
            ["analysts has shares that sum to 5/6", "exactly 1"],
        ),
        (
            ALICE + 'share = "1"\n[analysts.bob]\nqueries = "bob.sql"',
            8,
            ['analysts has shares, but none for "bob"', "Write a share for everyone"],
        ),
    ],
)
def test_a_mistake_about_analysts_names_its_key_its_line_and_what_is_allowed(
    problems, analysts, line, parts
):
    assert_only_problem(problems(HEAD + analysts), line, parts)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "..",
        ".hidden",
        "a/b",
        "a\\b",
        "a:b",
        "a*",
        "dot.",
        " a",
        "tab\t",
        "n" * 201,
        "é" * 101,
    ],
)
def test_an_analyst_whose_name_no_folder_can_have_is_refused(problems, name):
    quoted = '"' + name.replace("\\", "\\\\").replace("\t", "\\t") + '"'
    found = problems(HEAD + ALICE.replace("alice]", f"{quoted}]"))
    assert_only_problem(found, 8, ["analysts.", "that the folder of its answers cannot have"])


@pytest.mark.parametrize("name", ["alice", "public health", "gesundheit-2", "Zoë", "健康", "a.b"])
def test_an_analyst_may_have_any_name_that_a_folder_can_have(plan, name):
    assert plan(HEAD + ALICE.replace("alice]", f'"{name}"]')).analysts[0].name == name


def test_all_mistakes_of_a_plan_are_reported_at_once_in_its_order(problems):
    found = problems(
        """schema = "gone.toml"
epsilon = "-1"
mechanism = "magic"
[ledger]
budget = 0.5
[analysts.alice]
queries = ["gone.sql", "gone/*.sql"]
share = "0"
[analysts.ALICE]
query = "alice.sql"
"""
    )
    assert [(problem.line, problem.message.split()[0]) for problem in found] == [
        (0, "source"),
        (1, "schema"),
        (2, "epsilon"),
        (3, "mechanism"),
        (4, "ledger.path"),
        (5, "ledger.budget"),
        (6, "analysts"),
        (7, "analysts.alice.queries"),
        (7, "analysts.alice.queries"),
        (8, "analysts.alice.share"),
        (9, "analysts.ALICE"),
        (10, "analysts.ALICE.query"),
    ]


def test_a_plan_that_is_no_toml_says_where(problems):
    (problem,) = problems('schema = "people.toml"\nepsilon = \n')
    assert str(problem).split("plan.toml")[1].startswith(":2:11: not TOML: invalid value")
    assert "\n    epsilon = \n              ^\n" in str(problem)


def test_a_missing_plan_is_named(tmp_path):
    with pytest.raises(PlanError, match=r"plan\.toml: there is no such file"):
        Plan.open(tmp_path / "plan.toml")


def test_reading_a_plan_does_not_look_at_the_data_or_make_a_ledger(plan, folder):
    before = {*folder.iterdir()}
    plan(HEAD + ALICE)
    assert {*folder.iterdir()} - before == {folder / "plan.toml"}


@pytest.mark.parametrize("example", ["covid", "census"])
def test_the_statements_of_an_example_run_on_its_data(example):
    plan = Plan.open(EXAMPLES / example / "plan.toml")
    table = read_schema(plan.schema_path).table
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE {table} AS FROM '{plan.folder / plan.source}'")
        statements = [
            statement
            for analyst in plan.analysts
            for file in analyst.files
            for statement in connection.extract_statements(file.read_text())
        ]
        assert len(statements) >= 3
        for statement in statements:
            assert connection.execute(statement).fetchall()


def test_the_values_in_an_examples_data_are_declared_and_their_types_match():
    plan = Plan.open(EXAMPLES / "census" / "plan.toml")
    domain = read_schema(plan.schema_path)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE people AS FROM '{plan.folder / plan.source}'")
        types = connection.execute("SELECT column_name, column_type FROM (DESCRIBE people)")
        assert types.fetchall() == [(column.name, column.sql_type) for column in domain.columns]
        for column in domain.columns:
            found = connection.execute(f"SELECT DISTINCT {column.name} FROM people").fetchall()
            declared = {column.value(cell) for cell in range(column.size)}
            assert {value for (value,) in found} == declared


WITHOUT_EPSILON = HEAD.replace('epsilon = "1"\n', "")


def test_a_table_that_is_taken_for_a_plan_shows_no_record(tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("Ann Secret;42\n")
    with pytest.raises(PlanError) as refused:
        Plan.open(table)
    assert "not TOML" in str(refused.value)
    assert "Secret" not in str(refused.value)


def brought(**epsilons):
    return "".join(
        f'[analysts.{name}]\nqueries = "alice.sql"\nepsilon = "{epsilon}"\n'
        for name, epsilon in epsilons.items()
    )


def test_analysts_may_each_have_an_epsilon_of_their_own(plan):
    read = plan(WITHOUT_EPSILON + brought(alice="1/2", bob="1/3"))
    assert read.epsilon == Fraction(5, 6)
    assert [analyst.share for analyst in read.analysts] == [Fraction(3, 5), Fraction(2, 5)]
    said = plan(HEAD.replace('"1"', '"5/6"') + brought(alice="1/2", bob="1/3"))
    assert said.analysts == read.analysts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            HEAD + brought(alice="1/2", bob="1/3"),
            ("epsilon is 1", "add up to 5/6", 'Write epsilon = "5/6"'),
        ),
        (WITHOUT_EPSILON + brought(alice="3"), ("epsilon is 3", "budget, which is 2")),
        (
            HEAD + brought(alice="1") + '[analysts.bob]\nqueries = "bob.sql"\n',
            ('for "alice", but none for "bob"', "under everyone's name", '"1" for "bob"'),
        ),
        (
            WITHOUT_EPSILON + brought(alice="1/2") + 'share = "1"\n',
            ("share is given, and so is epsilon", "remove one of them"),
        ),
    ],
)
def test_epsilons_that_do_not_fit_together_are_refused(problems, text, parts):
    (problem,) = problems(text)
    assert all(part in str(problem) for part in parts), str(problem)


def test_post_processing_and_late_analysts_are_switched_by_true_and_false(plan, problems):
    plain = plan(HEAD + ALICE)
    assert (plain.nonnegative, plain.consistent, plain.late) == (False, False, True)
    changed = plan("nonnegative = true\nconsistent = true\nlate = false\n" + HEAD + ALICE)
    assert (changed.nonnegative, changed.consistent, changed.late) == (True, True, False)
    (problem,) = problems("late = 1\n" + HEAD + ALICE)
    assert "true or false" in str(problem)


def test_errors_are_relative_unless_a_plan_says_squared(plan, problems):
    assert plan(HEAD + ALICE).measure == "relative"
    assert plan('measure = "squared"\n' + HEAD + ALICE).measure == "squared"
    found = problems('measure = "absolute"\n' + HEAD + ALICE)
    assert_only_problem(found, 1, ['measure is "absolute"', '"relative" or "squared"'])


def test_a_line_that_may_hold_a_password_is_not_shown(problems):
    (problem,) = problems("source = postgresql://me:secret@host/db\n")
    assert "not TOML" in str(problem)
    assert "secret" not in str(problem)


def test_a_file_of_another_kind_is_named_as_what_it_is(folder, problems):
    (folder / "people.toml").write_text('table = "people"\n[columns]\nsex = {type = "boolean"}\n')
    with pytest.raises(PlanError, match=r'a schema, not a plan\n.* schema = "people\.toml"'):
        Plan.open(folder / "people.toml")
    with pytest.raises(PlanError, match=r'no such file\nDid you mean "people\.toml"\?'):
        Plan.open(folder / "poeple.toml")
    with pytest.raises(PlanError, match=r"this is a folder\nName a file in it: .*people\.toml"):
        Plan.open(folder)


def test_advice_on_a_name_or_shares_can_be_copied(problems):
    text = (
        HEAD + '[analysts.a]\nqueries = "alcie.sql"\nshare = "1/3"\n[analysts.b]\nshare = "1/6"\n'
    )
    shares, name = problems(text)
    assert shares.hint.startswith('In the same proportions: "a" "2/3", "b" "1/3".')
    assert name.hint == 'Did you mean "alice.sql"?'

"""Nothing but the noise differs: every command, on neighbouring tables, says the same.

The noise source is swapped as a whole: on the first table it records the noisy answers that
it hands out, on the neighbour it hands out the same ones.  If all that depends on the table
goes through the noise, then everything that can be seen is the same, byte for byte.
"""

import re
import shlex
import sqlite3

import duckdb
import pytest
from click.testing import CliRunner

from sqlmadp.cli import main
from sqlmadp.private import noise

SCHEMA = """\
table = "people"
[columns.age]
type = "integer"
min = 0
max = 9
outside = "clamp"
[columns.word]
type = "category"
values = ["a", "b"]
nullable = true
[columns.size]
type = "real"
min = 0
max = 1
"""

PLAN = """\
schema = "people.toml"
source = "{source}"
mechanism = "identity"
[ledger]
path = "people.ledger"
budget = "1"
[analysts.alice]
queries = "alice.sql"
epsilon = "1/4"
[analysts.bob]
queries = "bob.sql"
epsilon = "1/4"
"""
LATE = """\
[analysts.carol]
queries = "carol.sql"
epsilon = "1/8"
"""

ALICE = "SELECT age, COUNT(*) AS n FROM people GROUP BY age HAVING n > 0 ORDER BY n;"
BOB = """\
SELECT COUNT(*) FROM people WHERE word = 'a';
SELECT COUNT(size) FROM people WHERE size > 0.5;
"""
CAROL = "SELECT word, COUNT(*) FROM people GROUP BY word"

COMMANDS = (
    ("check plan.toml", 0),
    ("plan --mechanism identity plan.toml", 0),
    ("plan plan.toml --without bob --json", 0),
    ("plan plan.toml --epsilon 1/4 --share alice=2/3 --share bob=1/3", 0),
    ("schema check people.toml", 0),
    ("schema draft {source} people", 0),
    ("report plan.toml --out before.html", 0),
    ("release --dry-run plan.toml", 0),
    ("query plan.toml 'SELECT COUNT(*) FROM people'", 1),
    ("ledger plan.toml", 1),
    ("query plan.toml --analyst bob 'EXPLAIN SELECT COUNT(*) FROM people WHERE size > 0.3'", 0),
    ("query plan.toml --analyst bob 'HAND IN AS it SELECT COUNT(*) FROM people WHERE age < 3'", 0),
    ("query plan.toml --analyst bob 'HAND IN SELECT * FROM people'", 1),
    ("staged plan.toml --analyst bob --json", 0),
    ("staged plan.toml --analyst bob --withdraw it", 0),
    ("release plan.toml", 0),
    ("staged plan.toml --analyst bob --withdraw it", 1),
    ("release plan.toml --json", 0),
    ("release plan.toml --out out --format json", 0),
    ("query plan.toml 'SELECT COUNT(*) FROM people WHERE age < 3'", 0),
    ("query plan.toml 'SELECT COUNT(*) FROM people WHERE size > 0.3'", 1),
    ("query plan.toml 'SELECT * FROM people'", 1),
    ("report plan.toml --out after.html", 0),
    ("report plan.toml --analyst bob --out bob.html", 0),
    ("release --dry-run late.toml", 0),
    ("release late.toml", 0),
    ("query --json late.toml 'SELECT COUNT(*) FROM people WHERE age < 3'", 0),
    ("release nonnegative.toml", 0),
    ("ledger plan.toml", 0),
    ("ledger --json people.ledger", 0),
    ("ledger verify plan.toml", 0),
    ("release greedy.toml", 1),
    ("release wrong.toml", 1),
)
"""Every command that sees a plan or a table, in the order of a release, with its exit code."""

TABLE = [(1, "'a'", "0.5"), (3, "'b'", "0.25"), (3, "NULL", "1")]
NEIGHBOURS = {
    "the first record of its group": ((7, "'b'", "0.75"), "parquet"),
    "a record outside the domain": (("9223372036854775807", "'zebra'", "'nan'"), "csv"),
}


@pytest.fixture
def recorded_noise(monkeypatch):
    """Record the noisy answers of the first table, and hand them out for its neighbour."""
    answers, right = [], noise.add_discrete_laplace

    def record(values, scale):
        answers.append(right(values, scale))
        return answers[-1]

    def replay(values, scale):
        assert len(values) == len(answers[0])
        return answers.pop(0)

    def swap(replaying):
        monkeypatch.setattr(noise, "add_discrete_laplace", replay if replaying else record)

    return swap


def make_folder(folder, records, kind):
    folder.mkdir()
    source = f"people.{kind}"
    (folder / "people.toml").write_text(SCHEMA)
    plan = PLAN.format(source=source)
    (folder / "plan.toml").write_text(plan)
    (folder / "late.toml").write_text(plan + LATE)
    (folder / "nonnegative.toml").write_text("nonnegative = true\n" + plan.replace("1/4", "1/8"))
    (folder / "alice.sql").write_text(ALICE)
    (folder / "bob.sql").write_text(BOB)
    (folder / "carol.sql").write_text(CAROL)
    greedy = plan.replace('"1/4"', '"3/8"')
    (folder / "greedy.toml").write_text(greedy)
    (folder / "wrong.toml").write_text(greedy.replace("identity", "Identity"))
    with duckdb.connect(str(folder / source) if kind == "duckdb" else ":memory:") as connection:
        connection.execute("CREATE TABLE people (age BIGINT, word VARCHAR, size DOUBLE)")
        for record in records:
            connection.execute(f"INSERT INTO people VALUES ({', '.join(map(str, record))})")
        if kind != "duckdb":
            connection.execute(f"COPY people TO '{folder / source}'")


def masked(text):
    """Return a text without times and without the hashes that are made of them."""
    text = re.sub(r"\d{4}-\d\d-\d\d[T ](at )?[\d:.+]+", "<time>", text)
    return re.sub(r"\b[0-9a-f]{64}\b", "<hash>", text)


def everything_seen(folder, monkeypatch, commands=COMMANDS):
    """Run every command, and return all that it left for anyone to see."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
    seen = []
    source = next(path.name for path in folder.iterdir() if path.suffix in {".parquet", ".csv"})
    for command, code in commands:
        result = CliRunner().invoke(main, shlex.split(command.format(source=source)))
        assert result.exit_code == code, (command, result.output)
        seen.append((command, masked(result.stdout), masked(result.stderr)))
        seen.append(repr(result.exception))
    with sqlite3.connect("people.ledger") as connection:
        seen += [masked(line) for line in connection.iterdump()]
    connection.close()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith("people."):
            seen.append((name, masked(path.read_text())))
        else:
            seen.append(name)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(("record", "kind"), NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_every_command_says_the_same_on_neighbouring_tables(
    tmp_path, monkeypatch, recorded_noise, record, kind
):
    # One place for both, since a ledger holds the name of the table that is charged to it.
    make_folder(tmp_path / "here", TABLE, kind)
    recorded_noise(replaying=False)
    one = everything_seen(tmp_path / "here", monkeypatch)
    (tmp_path / "here").rename(tmp_path / "before")
    make_folder(tmp_path / "here", [*TABLE, record], kind)
    recorded_noise(replaying=True)
    two = everything_seen(tmp_path / "here", monkeypatch)
    assert two == one


def test_the_comparison_sees_a_difference_where_the_noise_is_not_swapped(
    tmp_path, monkeypatch, recorded_noise
):
    make_folder(tmp_path / "one", TABLE, "parquet")
    make_folder(tmp_path / "two", TABLE, "parquet")
    recorded_noise(replaying=False)
    release = [("release plan.toml", 0)]
    one = everything_seen(tmp_path / "one", monkeypatch, release)
    assert everything_seen(tmp_path / "two", monkeypatch, release) != one

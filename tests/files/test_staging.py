"""The files of what was handed in, and the lock around them."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from sqlmadp.errors import OperationalError, ProgrammingError
from sqlmadp.files import staging
from sqlmadp.files.staging import hand_in, held, new_statements, staged_statements, withdraw
from sqlmadp.sql.statements import Statement


def statement(text, name=staging.UNNAMED):
    return Statement("query", name, text)


@pytest.fixture
def file(tmp_path) -> Path:
    return tmp_path / "plan.staged" / "alice.sql"


def test_nothing_was_handed_in_before_the_first_commit(file):
    assert staged_statements(file) == []


def test_statements_are_added_after_those_that_are_there(file):
    hand_in(file, [statement("SELECT 1"), statement("SELECT 2")], [])
    hand_in(file, [statement("SELECT 3", "three")], staged_statements(file))
    assert [(s.name, s.text) for s in staged_statements(file)] == [
        ("staged_1", "SELECT 1"),
        ("staged_2", "SELECT 2"),
        ("three", "SELECT 3"),
    ]
    assert list(file.parent.iterdir()) == [file]


def test_a_free_name_is_found_when_others_are_taken():
    known = [statement("SELECT 0", "staged_1"), statement("SELECT 9", "STAGED_2")]
    added = new_statements([statement("SELECT 1"), statement("SELECT 2")], known)
    assert [s.name for s in added] == ["staged_3", "staged_4"]


def test_the_same_words_under_another_name_are_another_query():
    added = new_statements([statement("SELECT 1", "b")], [statement("SELECT 1", "a")])
    assert [s.name for s in added] == ["b"]


def test_a_commit_with_one_name_too_many_adds_nothing(file):
    two = [statement("SELECT 1", "a"), statement("SELECT 2", "A")]
    with pytest.raises(ProgrammingError, match="the name 'A'"):
        hand_in(file, two, [])
    assert not file.exists()


def test_one_statement_is_withdrawn_and_the_others_stay_as_they_were(file):
    two = Statement("q", "two", "SELECT 2 -- a comment", weight=Fraction(1, 3), dialect="postgres")
    hand_in(file, [statement("SELECT 1"), two, statement("SELECT 3", "three")], [])
    assert withdraw(file, "Staged_1", []).text == "SELECT 1"
    left = [(s.name, s.text, s.weight, s.dialect) for s in staged_statements(file)]
    assert left == [
        ("two", "SELECT 2 -- a comment", Fraction(1, 3), "postgres"),
        ("three", "SELECT 3", 1, "duckdb"),
    ]


def test_all_statements_can_be_withdrawn_and_others_handed_in(file):
    hand_in(file, [statement("SELECT 1", "one")], [])
    withdraw(file, "one", [])
    assert staged_statements(file) == []
    with pytest.raises(ProgrammingError, match="can be withdrawn: none"):
        withdraw(file, "one", [])
    assert hand_in(file, [statement("SELECT 2")], []) == ["staged_1"]


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    (tmp_path / "plan.staged").write_text("a file where the folder should be")
    with pytest.raises(OperationalError, match="ask the curator to mend it"):
        hand_in(tmp_path / "plan.staged" / "alice.sql", [statement("SELECT 1")], [])


def test_a_staged_file_that_is_no_text_is_refused(file):
    file.parent.mkdir()
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(OperationalError, match="not UTF-8"):
        staged_statements(file)


def test_a_commit_that_is_killed_leaves_the_file_as_it_was(file):
    hand_in(file, [statement("SELECT 1")], [])
    code = (
        "import os, sys; from pathlib import Path; from sqlmadp.files import staging;"
        "from sqlmadp.sql.statements import Statement;"
        "os.replace = lambda *_: os._exit(9);"
        "staging.hand_in(Path(sys.argv[1]), [Statement('q', 'two', 'SELECT 2')], [])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(file)], check=False)
    assert done.returncode == 9
    assert [s.text for s in staged_statements(file)] == ["SELECT 1"]


def test_releases_share_the_lock_and_a_commit_does_not(tmp_path):
    one, other = held(tmp_path, shared=True), held(tmp_path, shared=True)
    refused = pytest.raises(OperationalError, match="under way for")
    with one, other, refused, held(tmp_path, seconds=0.05):
        pass
    with held(tmp_path), refused, held(tmp_path, shared=True, seconds=0.05):
        pass
    with held(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_ends_with_its_process(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from sqlmadp.files.staging import held;"
        "held(Path(sys.argv[1])).__enter__(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    with held(tmp_path):
        pass


def test_a_folder_that_is_not_there_cannot_be_locked(tmp_path):
    with pytest.raises(OperationalError, match="cannot be locked"), held(tmp_path / "gone"):
        pass

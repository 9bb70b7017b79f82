"""What the command line does on a terminal, and what it leaves out elsewhere."""

import contextlib
import io
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import IPython
import pytest
from click.testing import CliRunner
from interrupts import started, wait_until_heeding
from rich.console import Console
from terminals import on_a_terminal

import sqlmadp
from sqlmadp.answer.result import TextTable
from sqlmadp.cli import main
from sqlmadp.files.plan import Plan
from sqlmadp.release.release import STAGES
from sqlmadp.show.text import show_table

TOTAL = "-- name: all\nSELECT COUNT(*) AS n FROM visits"
GROUPS = "SELECT age, COUNT(*) AS n FROM visits GROUP BY age"
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
"""An escape that sets a colour of the text."""
PRESSED_WHILE_LOADING = """
import os, runpy, signal, sys

class Pressing:
    def find_spec(self, name, path=None, target=None):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Pressing())
sys.argv = ["sqlmadp", "--help"]
runpy.run_module("sqlmadp", run_name="__main__")
"""
"""The command line, with Ctrl-C while it imports what it needs."""


@pytest.fixture
def unfair(plans):
    """Write a plan where some mechanism violates the sharing incentive."""
    return plans.write({"alice": GROUPS, "bob": GROUPS, "carol": TOTAL})


def test_a_terminal_shows_stages_and_colours_and_no_line_wider_than_it(unfair):
    code, shown = on_a_terminal("plan", unfair)
    assert code == 0
    assert "mechanism waterfilling" in shown
    assert COLOUR.search(shown)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    after = plain[plain.index("epsilon 1,") :]
    assert max(len(line) for line in after.splitlines()) <= 80


@pytest.mark.slow
def test_what_waits_for_a_server_or_a_large_file_says_so(plans, unfair):
    assert CliRunner().invoke(main, ["release", str(unfair)]).exit_code == 0
    for stage, *command in (
        ("verifying the ledger", "ledger", "verify", unfair),
        ("reading the catalogue", "schema", "draft", plans.folder / "visits.parquet", "visits"),
        ("checking", "schema", "check", plans.folder / "visits.toml"),
    ):
        code, shown = on_a_terminal(*command)
        assert code == 0
        assert stage in shown
        assert stage not in on_a_terminal(*command, "--quiet")[1]


def test_no_color_takes_colours_away(unfair):
    _, shown = on_a_terminal("plan", unfair, "--mechanism", "utilitarian", "--quiet", NO_COLOR="1")
    assert "1." in shown
    assert not COLOUR.search(shown)


def test_quiet_shows_no_stage_and_no_notice(unfair):
    code, shown = on_a_terminal("release", unfair, "--quiet")
    assert code == 0
    assert "binding" not in shown
    assert "this is a new release" not in shown
    assert "spent 1 in all" in shown


def test_a_note_is_printed_on_a_line_of_its_own_above_the_bar(unfair):
    code, shown = on_a_terminal("release", unfair)
    assert code == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"[\r\n]this is a new release", plain)


def test_away_from_a_terminal_there_are_no_escapes_and_no_stages(unfair):
    done = subprocess.run(
        [sys.executable, "-m", "sqlmadp", "plan", unfair],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def shown(headers, row, width):
    screen = Console(file=io.StringIO(), width=width, color_system=None)
    show_table(TextTable.whole(headers, [row]), screen=screen)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


def test_a_wide_table_is_cut_into_pieces_with_its_keys_and_no_number_broken():
    headers = [("analyst", False), *((f"mechanism{n}", True) for n in range(6))]
    lines = shown(headers, ["alice", *(f"{n}2345.678" for n in range(6))], 40)
    assert max(map(len, lines)) <= 40
    assert sum("alice" in line for line in lines) == 3
    for n in range(6):
        assert sum(f"{n}2345.678" in line for line in lines) == 1


def test_an_error_stays_next_to_its_value():
    headers = [("key", False), ("a", True), ("±", True), ("b", True), ("±", True)]
    lines = shown(headers, ["x", "1234567890", "0.5", "2345678901", "0.6"], 26)
    first, second = (line for line in lines if line.startswith("x"))
    assert first.split() == ["x", "1234567890", "0.5"]
    assert second.split() == ["x", "2345678901", "0.6"]


def test_text_cannot_redraw_the_terminal_or_be_taken_for_markup():
    lines = shown([("[red]name[/red]", False)], ["\x1b[2J[bold]x[/bold]"], 80)
    assert lines == ["[red]name[/red]", "\\x1b[2J[bold]x[/bold]"]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("sqlmadp rel", "release"),
        ("sqlmadp plan x.toml --mechanism water", "waterfilling"),
        ("sqlmadp ledger ver", "verify"),
    ],
)
def test_the_shell_completes_commands_and_choices(words, completed):
    environment = {
        "_SQLMADP_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = CliRunner().invoke(main, prog_name="sqlmadp", env=environment)
    assert f"plain,{completed}" in result.stdout


def test_the_shell_completes_the_analysts_of_the_plan(unfair):
    words = f"sqlmadp report {unfair} --analyst b"
    environment = {
        "_SQLMADP_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = CliRunner().invoke(main, prog_name="sqlmadp", env=environment)
    assert result.stdout.splitlines() == ["plain,bob"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_what_a_start_up_file_loads_is_sound_for_its_shell(shell, tmp_path):
    loaded = CliRunner().invoke(
        main, prog_name="sqlmadp", env={"_SQLMADP_COMPLETE": f"{shell}_source"}
    )
    assert "_sqlmadp_completion" in loaded.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed, so that its completion cannot be tried")
    script = tmp_path / "completion"
    script.write_text(loaded.stdout)
    subprocess.run([shell, "-n", script], check=True)  # Parses it.


def test_a_mistyped_command_is_answered_with_the_right_one():
    result = CliRunner().invoke(main, ["relaese"])
    assert result.exit_code == 2
    assert "release" in result.stderr


def test_stages_say_how_much_of_them_is_left(plans):
    path = plans.write({"alice": f"{TOTAL};\n-- name: ages\n{GROUPS}", "bob": GROUPS})
    told = []
    Plan.open(path).preview(progress=told.append)
    assert "mechanism waterfilling: 1 of 4 steps" in told
    connection = sqlmadp.connect(path, analyst="alice", progress=told.append)
    assert connection.certificate.analysts["alice"].alone > 0
    assert "selecting a strategy: 1 of 2 analysts" in told
    told.clear()
    release = Plan.open(path).release(progress=told.append)
    assert "selecting a strategy: 1 of 2 analysts" in told
    assert "trying the answers: 8 of 9" in told
    names = list(dict.fromkeys(stage.partition(":")[0] for stage in told))
    assert len(names) == STAGES - 1  # The command line certifies once more.
    release.results(lambda done, total: told.append((done, total)))
    assert told[-1] == (2, 3)


def test_notebooks_show_a_bar(plans, monkeypatch):
    shown = []

    class Handle:
        def update(self, bundle, raw):
            assert raw
            shown.append(bundle)

    class Kernel:
        kernel = None

    monkeypatch.setattr(IPython, "get_ipython", Kernel)
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: Handle())
    Plan.open(plans.write({"alice": TOTAL})).preview(progress=True)
    assert shown[0]["text/plain"] == "binding statements"
    assert shown[-1] == {
        "text/html": '<progress value="2.00" max="2"></progress> done',
        "text/plain": "done",
    }


class TestInterrupts:
    def test_one_ends_a_command_at_once_and_says_only_that(self, plans):
        process = started(
            [sys.executable, "-m", "sqlmadp", "plan", "--compare", plans.write({"alice": GROUPS})],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until_heeding(process)
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert said.strip() in {"interrupted", ""}  # Nothing while it is being loaded.

    def test_one_that_was_swallowed_keeps_a_release_from_spending(self, plans, unfair, monkeypatch):
        opened = Plan.open

        def careless(path):
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
            return opened(path)

        monkeypatch.setattr("sqlmadp.cli.release.Plan.open", careless)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Workers ignore it.
        try:
            result = CliRunner().invoke(main, ["release", str(unfair)])
        finally:
            signal.signal(signal.SIGINT, before)
        assert result.exit_code == 130
        assert "interrupted" in result.stderr
        assert not (plans.folder / "visits.ledger").exists()
        monkeypatch.undo()
        assert CliRunner().invoke(main, ["release", str(unfair)]).exit_code == 0

    def test_one_that_duckdb_notices_is_no_traceback(self, unfair, monkeypatch):
        def noticed(path):
            raise RuntimeError("Query interrupted")

        monkeypatch.setattr("sqlmadp.cli.release.Plan.open", noticed)
        result = CliRunner().invoke(main, ["release", str(unfair)])
        assert result.exit_code == 130

    def test_one_while_the_command_line_is_being_loaded_is_no_traceback(self):
        process = started(
            [sys.executable, "-c", PRESSED_WHILE_LOADING],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        assert said == ""

    @pytest.mark.slow
    @pytest.mark.parametrize("seconds", [0.5, 3.0])
    def test_processes_that_share_the_work_die_without_a_word(self, tmp_path, seconds):
        command = ["experiment", "practical", "--jobs", "2", "--out", str(tmp_path / "out")]
        process = started(
            [sys.executable, "-m", "sqlmadp", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        wait_for(tmp_path / "out" / "practical.jsonl")
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)  # As a terminal does: to all of them.
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        kept = "what was done is kept: run it again to go on"
        assert said.splitlines()[1:] == [f"interrupted; {kept}"]


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_help_takes_less_than_three_tenths_of_a_second_of_cpu_time():
    least = min(_cpu_seconds("--help") for _ in range(5))
    assert least < 0.3


def _cpu_seconds(*arguments):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "sqlmadp", *arguments], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

"""Victims: real commands in real processes, started quickly so that many can be killed.

A server process imports everything once and forks a child for every command, so a command takes
a fifth of a second.  The child is a process like any other: it can be killed, starved of
disk space, or traced.
"""

import contextlib
import functools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from sqlmadp.private import Ledger

CANARY = "canary-7310"
TESTS = Path(__file__).parents[1]

SCHEMA = """\
table = "people"
[columns.age]
type = "integer"
min = 0
max = 4
[columns.word]
type = "category"
values = ["a", "b"]
"""

PLAN = """\
schema = "people.toml"
source = "people.parquet"
epsilon = "1"
mechanism = "identity"
[ledger]
path = "people.ledger"
budget = "{budget}"
[analysts.alice]
queries = "{queries}"
"""


class Victims:
    """A server that runs commands in forked children."""

    def __enter__(self):
        path = os.pathsep.join([str(TESTS), *sys.path])
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        return self

    def __exit__(self, *_):
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def start(self, folder, *arguments, output="output", **options):
        """Start a command in ``folder``; what it prints goes to ``output`` and ``output.err``."""
        return self._ask(arguments=arguments, folder=str(folder), output=output, **options)

    def wait(self, pid):
        """Return the exit code of a command; minus the signal if one killed it."""
        return os.waitstatus_to_exitcode(self._ask(wait=pid))

    def run(self, folder, *arguments, **options):
        """Run a command to its end and return its exit code."""
        return self.wait(self.start(folder, *arguments, **options))

    def kill(self, pid, after):
        """Kill a command after so many seconds, and return its exit code."""
        time.sleep(after)
        with contextlib.suppress(ProcessLookupError):  # Not waited for yet, so never another's.
            os.kill(pid, signal.SIGKILL)
        return self.wait(pid)

    def _ask(self, **question):
        self._server.stdin.write(json.dumps(question) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())


@functools.cache
def table():
    """Return the private table: sixty records, a third of them out of domain."""
    with duckdb.connect() as connection, tempfile.TemporaryDirectory() as folder:
        connection.execute(
            "COPY (SELECT range % 7 AS age, "
            f"CASE range % 3 WHEN 0 THEN 'a' WHEN 1 THEN 'b' ELSE '{CANARY}' END AS word, "
            f"'{CANARY}' AS name FROM range(60)) TO '{folder}/people.parquet'"
        )
        return Path(folder, "people.parquet").read_bytes()


class World:
    """A folder with a private table, in which a canary was planted, and plans."""

    def __init__(self, folder, *, budget, plans=1):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.plans = [f"plan{number}.toml" for number in range(plans)]
        (self.folder / "people.toml").write_text(SCHEMA)
        for number, plan in enumerate(self.plans):
            ages = [str(age) for age in range(5) if (number + 1) >> age & 1]
            sql = f"SELECT word, COUNT(*) FROM people WHERE age IN ({', '.join(ages)}) GROUP BY ALL"
            (self.folder / f"alice{number}.sql").write_text(sql)
            text = PLAN.format(budget=budget, queries=f"alice{number}.sql")
            (self.folder / plan).write_text(text)
        (self.folder / "people.parquet").write_bytes(table())

    @property
    def ledger(self):
        return self.folder / "people.ledger"

    def charges(self):
        """Return the charges of the ledger, verified; none if it was never made."""
        if not self.ledger.exists():
            return ()
        with Ledger.read(self.ledger) as ledger:
            assert ledger.spent <= ledger.budget
            return ledger.charges

    def printed(self, output="output"):
        """Return the results that a command printed, and all else."""
        files = [self.folder / output, self.folder / f"{output}.err"]
        return tuple(file.read_text() if file.exists() else "" for file in files)

    def files_with_canary(self):
        """Return every file that holds the canary, the table and its plan's folder included."""
        return [
            path.name
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and CANARY.encode() in path.read_bytes()
        ]


def serve():
    """Fork a child for every line of standard input, or wait for one."""
    # What a release imports on its way, so that attacks meet its own calls and no imports.
    import encodings.unicode_escape  # noqa: PLC0415
    import encodings.utf_8_sig  # noqa: F401, PLC0415

    import opendp._data  # noqa: PLC0415
    import opendp.prelude  # noqa: F401, PLC0415
    import rich._emoji_codes  # noqa: F401, PLC0415
    import sqlglot.dialects.duckdb  # noqa: F401, PLC0415

    from sqlmadp.cli import main  # noqa: PLC0415

    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            answer = os.waitpid(question["wait"], 0)[1]
        else:
            answer = os.fork()
            if answer == 0:
                become_victim(main, **question)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def become_victim(main, arguments, folder, output, at=None, gate=None, most_bytes=None):
    """Run one command, in its folder and with its output to files, and exit."""
    os.chdir(folder)
    os.environ.update(XDG_CACHE_HOME=str(Path(folder) / "cache"), TMPDIR=folder)
    for descriptor, name in ((0, os.devnull), (1, output), (2, f"{output}.err")):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(name, flags, 0o666), descriptor)
    code = 1
    try:
        if most_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        if gate is not None:
            os.close(os.open(gate, os.O_RDONLY))  # Waits until someone opens it for writing.
        if at is not None:
            time.sleep(max(0.0, at - time.time()))
        main(arguments)
    except SystemExit as end:
        code = end.code
    except BaseException:
        import traceback  # noqa: PLC0415

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve()

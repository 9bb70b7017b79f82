"""Leaks besides the answers: noise that repeats, and messages that depend on a record.

Two measurements with the same noise are one subtraction away from exact answers.  Counts are
measured with so little epsilon that two equal draws would be a wonder (below one in a
million), in this process and in two that are started from it; all draws must differ.

A canary is a record that no other table holds: text where a number is declared, or text in
a file that cannot be read to its end.  Two tables that differ by it are measured by the
whole of `private.measure`, once with the canary and once without; whether the measurement
succeeds must be the same, and the canary must be in no message, traceback or file.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import traceback
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb

from sqlmadp.audit.cases import Case, plain_count
from sqlmadp.private import Ledger, measure
from sqlmadp.private.engines import Source
from sqlmadp.private.measure import calibrate, noisy_answers
from sqlmadp.table.domain import Column, Domain
from sqlmadp.table.partition import Partition
from sqlmadp.table.rows import Rows

DRAWS = 200
"""Measurements that every process makes."""
CANARY = "canary-7310"

_EPSILON = Fraction(1, 2**48)
_DOMAIN = Domain(
    table="people",
    columns=(
        Column(name="age", type="integer", minimum=0, maximum=9),
        Column(name="word", type="category", values=("a", "b")),
    ),
)
_HEALTHY = "age,word\n1,a\n2,b\n"


def repeated_noise() -> str:
    """Return a sentence on noise that was drawn twice; empty if none was."""
    case = plain_count()
    # Before and after the others start: a state that they inherit would show in both.
    noise = _draws(case) + _in_two_processes(case) + _draws(case)
    repeated = len(noise) - len(set(noise))
    if repeated:
        return f"of {len(noise)} measurements, {repeated} have the noise of another one"
    return ""


def telling_messages() -> list[str]:
    """Return everything that a record changed besides the noise; empty if nothing."""
    found = []
    for name, record in (("a number", f"{CANARY},a\n"), ("a category", f"3,{CANARY}\n")):
        texts = [_measured(_HEALTHY), _measured(_HEALTHY + record)]
        if texts[0] != texts[1]:
            found.append(f"text in place of {name} changes what is said: {texts[1]!r}")
        found += _canaries(texts, f"a record with text in place of {name}")
    for healthy in (True, False):
        texts = [_measured_parquet(word, healthy=healthy) for word in (CANARY, "other-7310")]
        if texts[0] != texts[1]:
            found.append("what a damaged file says depends on its records")
        found += _canaries(texts, "a file" if healthy else "a damaged file")
    return found


def _draws(case: Case) -> list[int]:
    strategy = calibrate(case.blocks, domain=case.domain, epsilon=_EPSILON)
    noise = []
    for number in range(DRAWS):
        table = number % 2
        answers = noisy_answers(strategy, case.sums[table])
        noise.append(int(answers[0][0]) - int(case.exact(table)[0]))
    return noise


def _in_two_processes(case: Case) -> list[int]:
    # A forked process starts with the state of this one, which is what must not repeat.
    context = multiprocessing.get_context("fork")
    receivers = []
    for _ in range(2):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send_draws, args=(case, sender))
        process.start()
        sender.close()
        receivers.append((receiver, process))
    noise = []
    for receiver, process in receivers:
        noise += receiver.recv()
        process.join()
    return noise


def _send_draws(case: Case, sender: multiprocessing.connection.Connection) -> None:
    sender.send(_draws(case))
    sender.close()


def _canaries(texts: list[str], where: str) -> Iterator[str]:
    if any(CANARY in text for text in texts):
        yield f"a message or file names a value of {where}"


def _measured(table: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "people.csv").write_text(table)
        return _outcome(Path(folder), "people.csv")


def _measured_parquet(word: str, *, healthy: bool) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT 1 AS age, '{word}' AS word) TO '{path}'")
        if not healthy:
            whole = path.read_bytes()
            footer = int.from_bytes(whole[-8:-4], "little") + 8
            # The catalogue, in the footer, is left whole, and half of the records.
            middle = (len(whole) - footer) // 2
            path.write_bytes(
                whole[:middle] + b"\xff" * (len(whole) - footer - middle) + whole[-footer:]
            )
        return _outcome(Path(folder), "people.parquet")


def _outcome(folder: Path, location: str) -> str:
    """Return all that a measurement says, and whatever its files hold besides the table."""
    sizes = {column.name: column.size for column in _DOMAIN.columns}
    block = Rows(tuple(sizes), tuple(map(Partition.finest, sizes.values())), 1)
    said = "measured"
    with Ledger.open(folder / "audit.ledger", budget=Fraction(1)) as ledger:
        try:
            measure(
                [block],
                source=Source(location=location, folder=folder),
                domain=_DOMAIN,
                ledger=ledger,
                release="audit",
                epsilon=Fraction(1),
                analysts=[],
                mechanism="audit",
                metadata={},
            )
        except Exception as error:  # Whatever it is, it is what would be shown.
            last = traceback.format_exception_only(error)
            chained = [error.__cause__, error.__context__]
            said = "".join(last) + "".join(repr(each) for each in chained if each is not None)
    held = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()]
    leaks = sum(CANARY.encode() in each for each in held) - 1  # One is the table itself.
    return said + (f" {CANARY} is in a file" if leaks > 0 else "")

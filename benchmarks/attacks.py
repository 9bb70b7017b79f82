"""The long attacks: kills by the thousand, faults at every call to the disk, hostile records.

    python benchmarks/attacks.py kills --number 1000
    python benchmarks/attacks.py faults --fault KILL        (or EIO, ENOSPC; needs strace)
    python benchmarks/attacks.py order                      (needs strace)
    python benchmarks/attacks.py records                    (needs PostgreSQL and Spark)

`kills` kills releases at random moments.  `faults` lets strace kill a release, or fail one of
its calls with EIO or ENOSPC, at every file-system call on its own files, one call per run (it is
killed only at calls that change something: a kill at another is a kill at the next of those).
`order` looks at one release's calls: the commit must be synced before the first byte of an answer
is written.  After each attack the ledger must be sound, every answer that was seen must have its
charge, and running the plan again must give the same answers for that one charge.

`records` measures every kind of source with and without one hostile record, and prints whether all
that is printed, written and returned was equal but for the noise.
"""

import argparse
import collections
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).absolute().parents[1] / "tests"))

from attack.victims import CANARY, Victims, World

RECORDS = {
    "invalid UTF-8": ["invalid", "half a character", "another encoding"],
    "NaN": ["NaN", "a number that is none"],
    "infinities": ["infinity", "minus infinity"],
    "huge numbers": ["huge numbers", "negative numbers", "very many digits", "a number of 100,000"],
    "tiny numbers": ["tiny"],
    "dates out of range": ["the last date", "the first date", "an infinite date", "a date out of"],
    "quotes and line ends": ["quotes", "an open quote", "a quoted line end", "line ends"],
    "NUL bytes": ["NUL bytes"],
    "a very long field": ["a very long field"],
    "another number of fields": ["fewer fields", "one field", "very many fields", "an empty line"],
    "nothing but NULL": ["nothing but NULL"],
}
"""Kinds of hostile records, by how the names of the tests' records begin."""


def _words(text):
    return frozenset(text.split())


CALLS = _words("""
access close creat fallocate fchmod fchown fcntl fdatasync fstat fsync ftruncate
getdents64 link linkat lseek mkdir mkdirat mmap newfstatat open openat pread64
pwrite64 read readlink rename renameat renameat2 rmdir stat statx unlink unlinkat
utimensat write
""")
CHANGING = _words("""
fallocate fchown fdatasync fsync ftruncate link linkat mkdir mkdirat mmap openat
pwrite64 rename renameat rmdir unlink unlinkat write
""")
BY_DESCRIPTOR = _words("""
close fallocate fchmod fchown fcntl fdatasync fstat fsync ftruncate getdents64 lseek
mmap pread64 pwrite64 read write
""")
FULL = _words("""
fallocate fdatasync fsync ftruncate link linkat mkdir mkdirat openat pwrite64 rename
renameat write
""")
"""Calls that a full disk may fail."""


def rows(world, output):
    """Return the lines of answers that a command printed; what is spent in all goes on."""
    lines = world.printed(output)[0].splitlines()
    return [line for line in lines if not line.startswith("epsilon")]


def check_recovery(victims, world, plan, output, before):
    """Raise unless the ledger is sound and the attacked release comes out once, unchanged."""
    after = world.charges()
    assert after[: len(before)] == before, "a completed release was lost"
    assert len(after) <= len(before) + 1, "charged twice"
    seen = rows(world, output)
    if seen:
        assert len(after) == len(before) + 1, "an answer without its charge"
    assert victims.run(world.folder, "release", plan, output="live") == 0, world.printed("live")
    assert rows(world, "live")[: len(seen)] == seen, "two measurements of one release"
    final = world.charges()
    assert len(final) == len(before) + 1, "charged twice"
    assert final[: len(after)] == after, "a completed release was lost"
    return final, len(after) > len(before)


def kills(victims, folder, number):
    """Kill ``number`` releases, each at a random moment, at most sixty in a world."""
    counts = collections.Counter()
    for attempt in itertools.count():
        if counts["killed"] >= number:
            break
        world = World(folder / str(attempt), budget=30, plans=30)
        plans = iter(world.plans)
        for _ in range(2):  # The first one makes the ledger, so it takes longer than usual.
            started = time.monotonic()
            assert victims.run(world.folder, "release", next(plans)) == 0
            usual = time.monotonic() - started
        before = world.charges()
        plan = next(plans)
        for _ in range(60):
            # Or the victim may be killed before it empties what the last one printed.
            (world.folder / "dead").unlink(missing_ok=True)
            pid = victims.start(world.folder, "release", plan, output="dead")
            code = victims.kill(pid, random.SystemRandom().uniform(0.1 * usual, 1.1 * usual))
            counts["killed" if code == -9 else "finished before the kill"] += 1
            if world.charges() == before and not rows(world, "dead"):
                continue  # Nothing happened, so the same release can be killed again.
            before, charged = check_recovery(victims, world, plan, "dead", before)
            counts["killed, and charged by then"] += charged and code == -9
            plan = next(plans, None)
            if plan is None:
                break
        assert world.files_with_canary() == ["people.parquet"], "the canary escaped"
        print(f"kills: {dict(counts)}", flush=True)
    print("kills: nothing over-spent, lost, charged twice, shown unpaid or answered twice")


def traced(victims, world, options, output):
    """Run a release under strace with ``options``; return its exit code."""
    gate = world.folder / "gate"
    gate.unlink(missing_ok=True)
    os.mkfifo(gate)
    pid = victims.start(world.folder, "release", world.plans[0], output=output, gate=str(gate))
    log = world.folder.parent / "strace.log"
    strace = subprocess.Popen(
        ["strace", "-f", "-y", "-s", "80", "-o", str(log), *options, "-p", str(pid)],
        stderr=subprocess.PIPE,
        text=True,
    )
    strace.stderr.readline()  # "Process N attached": only then may it go on.
    opened = os.open(gate, os.O_RDWR)
    code = victims.wait(pid)
    os.close(opened)
    strace.communicate()
    return code, log.read_text(errors="replace")


def calls_of(victims, folder):
    """Return the file-system calls of a release on its own files: each call's name and number."""
    world = World(folder / "counting", budget=1)
    code, log = traced(victims, world, ["-e", f"trace={','.join(sorted(CALLS))}"], "output")
    assert code == 0
    main_thread = log.split(" ", 1)[0]
    made = collections.Counter()
    found = []
    for line in log.splitlines():
        thread, _, rest = line.partition(" ")
        call = re.match(r"\s*(\w+)\((.*)", rest)
        if thread != main_thread or not call:
            continue
        made[call[1]] += 1
        path = None if call[1] in BY_DESCRIPTOR else re.search(r'"([^"]*)"', call[2])
        place = path[1] if path else "".join(re.findall(r"<([^>]*)>", call[2])[:1])
        if place.endswith("/gate"):
            continue
        if place.startswith(str(world.folder)) or (path and not path[1].startswith("/")):
            found.append((call[1], made[call[1]]))
    return found


def faults(victims, folder, fault, only, skip):
    """Let every file-system call of a release go wrong in one way, one call per run."""
    found = calls_of(victims, folder)
    kinds = collections.Counter(call for call, _ in found)
    print(f"a release makes {len(found)} calls on its own files: {dict(kinds)}", flush=True)
    counts = collections.Counter()
    chosen = {"KILL": CHANGING, "EIO": CALLS, "ENOSPC": FULL}[fault]
    tasks = [(call, number) for call, number in found if call in (only or chosen)][skip:]
    injected = f"signal={fault}" if fault == "KILL" else f"error={fault}"
    for serial, (call, number) in enumerate(tasks):
        world = World(folder / f"fault{serial}", budget=1)
        options = ["-e", f"trace={call}", "-e", f"inject={call}:{injected}:when={number}"]
        code, log = traced(victims, world, options, "dead")
        text = "".join(world.printed("dead"))
        try:
            assert CANARY not in text, "the canary escaped"
            _, charged = check_recovery(victims, world, world.plans[0], "dead", ())
            assert world.files_with_canary() == ["people.parquet"], "the canary escaped"
        except AssertionError:
            print(f"FAILED: {fault} at {call} number {number}: exit {code}\n{text}", flush=True)
            raise
        outcome = {0: "done all the same", 1: "refused", -9: "killed"}.get(code, f"exit {code}")
        # The count of calls differs by one or two between runs: a neighbour may be hit instead.
        if re.search(r"[<\"]/(proc|sys)/[^\n]*INJECTED", log):
            outcome += " after a file of the kernel failed"
        counts[outcome] += 1
        counts["charged by then"] += charged
        if "Traceback" in text or code not in {0, 1, -9}:
            counts["with a traceback"] += "Traceback" in text
            print(f"look at {fault} at {call} number {number}: {text}", flush=True)
        if serial % 20 == 19:
            print(f"{serial + 1} of {len(tasks)}: {dict(counts)}", flush=True)
    print(f"{fault}: {len(tasks)} runs: {dict(counts)}")
    print(f"{fault}: nothing over-spent, lost, charged twice, shown unpaid or answered twice")


def order(victims, folder):
    """Show that the commit is synced before the first byte of an answer is written."""
    world = World(folder / "order", budget=1)
    trace = "trace=pwrite64,fdatasync,fsync,write,close"
    code, log = traced(victims, world, ["-e", trace], "output")
    assert code == 0
    lines = log.splitlines()
    answers = [i for i, line in enumerate(lines) if re.search(r"write\(1<[^>]*output>", line)]
    wal = "people.ledger-wal>"
    written = [i for i, line in enumerate(lines) if "pwrite64" in line and wal in line]
    synced = [i for i, line in enumerate(lines) if "sync(" in line and wal in line]
    assert answers
    assert written
    assert synced
    assert max(written) < max(synced) < min(answers)
    print(
        f"order: call {max(written)} is the last write to the write-ahead file, {max(synced)} its "
        f"last sync, {min(answers)} the first write of an answer"
    )


def records(folder):
    """Print how many hostile records of each kind changed nothing, for every kind of source."""
    from private.engines import test_hostile_records as hostile  # noqa: PLC0415

    tests = Path(hostile.__file__)
    command = [sys.executable, "-m", "pytest", "-q", tests, "-k", "one_hostile_record"]
    subprocess.run(
        [*command, f"--junitxml={folder}/found.xml"],
        check=False,
        stdout=subprocess.DEVNULL,
        cwd=tests.parents[3],
    )
    outcomes = {}
    for case in ElementTree.parse(folder / "found.xml").iter("testcase"):
        failed = any(child.tag in ("failure", "error", "skipped") for child in case)
        outcomes[case.get("name").partition("[")[2].removesuffix("]")] = not failed
    kinds = ["a CSV file", "a Parquet file", "a DuckDB file", "PostgreSQL", "Spark"]
    print("| record | " + " | ".join(kind.removeprefix("a ") for kind in kinds) + " |")
    print("|---|" + "---|" * len(kinds))
    for record, names in RECORDS.items():
        print(f"| {record} | " + " | ".join(_cell(outcomes, names, k, hostile) for k in kinds), "|")
    different = sorted(name for name, equal in outcomes.items() if not equal)
    print(
        f"\n{len(outcomes)} comparisons; different or not tried: {', '.join(different) or 'none'}"
    )


def _cell(outcomes, names, kind, hostile):
    """Return the outcome of the records of one kind in one kind of source."""
    if any(kind == source and name.startswith(tuple(names)) for name, source in hostile.REFUSED):
        return "refused by the source"
    own = [
        equal
        for name, equal in outcomes.items()
        if name.endswith(f" in {kind}") and name.startswith(tuple(names))
    ]
    if not own:
        return "not expressible"
    return f"equal ({len(own)})" if all(own) else f"DIFFERENT ({own.count(False)} of {len(own)})"


def main():
    """Run one of the attacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attack", choices=("kills", "faults", "order", "records"))
    parser.add_argument("--fault", choices=("KILL", "EIO", "ENOSPC"), default="KILL")
    parser.add_argument("--calls", nargs="*", help="only these calls, such as pwrite64 fsync")
    parser.add_argument("--skip", type=int, default=0, help="leave out this many of them")
    parser.add_argument("--number", type=int, default=1000, help="how many kills")
    options = parser.parse_args()
    if options.attack == "records":
        with tempfile.TemporaryDirectory() as folder:
            records(Path(folder))
        return
    with tempfile.TemporaryDirectory() as folder, Victims() as victims:
        match options.attack:
            case "kills":
                kills(victims, Path(folder), options.number)
            case "faults":
                faults(victims, Path(folder), options.fault, options.calls, options.skip)
            case "order":
                order(victims, Path(folder))


if __name__ == "__main__":
    main()

"""What plans that look like real ones cost: CPU time, memory and errors of every command.

    python benchmarks/everyday.py [PLAN ...] [--limit 120] [--json FILE] [--like FILE]
    python benchmarks/everyday.py --compare BEFORE [AFTER]

Each command is a process of its own: CPU seconds of it and what it starts, and their largest
resident memory.  `plan`, `plan all` and `release` start with an empty strategy cache each; `plan
again`, `report`, `report again` and `query` follow with what was cached.  A command is stopped
after --limit CPU seconds or --memory megabytes, and whatever needs it is left out; `plan all` is
not run where `plan` alone is over a limit.  Statements that `check` refuses are left out of the
plan after it was measured, and counted by the code of the refusal; --like leaves out those that
were refused in an earlier run, so that both ask the same.

Errors are total expected squared errors at epsilon 1 beside utilitarian's, and, by statement, the
mean over its answers of variance / variance of the plain Laplace mechanism (`naive_laplace.py`):
how many are above 1, the worst, and the geometric mean.  Only columns that are a COUNT or a SUM are
compared.  `DuckDB` runs the statements directly on the table.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
from everyday_layout import PLANS, Everyday, at
from naive_laplace import factors, summary

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
WAITING = 30
"""Give up on a command after this many times the limit in wall time, whatever it is waiting for."""
COMMANDS = ("check", "plan", "plan again", "plan all", "release", "report", "report again", "query")
Figures = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """Stop a command that takes more than this, with all that it starts."""

    seconds: float = 120.0
    megabytes: float = 6000.0


@dataclass(frozen=True)
class Run:
    """One command: its cost, and how it ended."""

    seconds: float
    megabytes: float
    code: int
    """The exit code."""
    over: str
    """The limit at which it was stopped, "time", "memory" or "waiting"; empty if it was not."""
    message: str = ""
    """The first line on standard error, if it was refused."""
    output: str = ""

    @property
    def stored(self) -> Figures:
        """The figures that are kept, without the output."""
        return {k: v for k, v in asdict(self).items() if k != "output"}


def run(arguments: list[str], folder: Path, cache: str, limits: Limits) -> Run:
    """Run a Python command, and stop it and whatever it started at the limits."""
    with tempfile.TemporaryFile(dir=folder) as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            env=os.environ | {"SQLMADP_CACHE": str(folder / cache)},
            stdout=output,
            stderr=errors,
        )
        started, over, megabytes = time.monotonic(), "", 0.0
        while True:
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if not over:
                family = _family(process.pid)
                megabytes = max(megabytes, sum(each.megabytes for each in family))
                if sum(each.seconds for each in family) > limits.seconds:
                    over = "time"
                elif megabytes > limits.megabytes:
                    over = "memory"
                elif time.monotonic() - started > WAITING * limits.seconds:
                    over = "waiting"
                if over:
                    _stop(family)
            time.sleep(0.2)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        text, said = output.read().decode(), errors.read().decode().splitlines()
    seconds, code = used.ru_utime + used.ru_stime, process.returncode
    megabytes = max(megabytes, used.ru_maxrss / 1024)
    message = said[0] if said and code and not over else ""
    return Run(seconds, megabytes, code, over, message, text)


@dataclass(frozen=True)
class Process:
    """A running process: its id, CPU seconds with those of ended children, and memory now."""

    pid: int
    seconds: float
    megabytes: float


def _family(first: int) -> list[Process]:
    """Return a process and all that it started, directly or not: workers may lead sessions."""
    found: dict[int, tuple[int, Process]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended since.
        seconds, pages = sum(map(int, fields[11:15])) / TICKS, int(fields[21])
        pid = int(path.parent.name)
        found[pid] = int(fields[1]), Process(pid, seconds, pages * PAGE / 2**20)
    family, added = [], {first} & found.keys()
    while added:
        family += [found[pid][1] for pid in added]
        added = {pid for pid, (parent, _) in found.items() if parent in added}
    return family


def _stop(family: list[Process]) -> None:
    """End these processes at once."""
    for each in family:
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)


def measured(everyday: Everyday, folder: Path, limits: Limits) -> Figures:
    """Return the figures of a plan: costs by command, errors, factors and refusals."""
    plan = everyday.write(folder)
    everyday.write_table(folder)
    found: Figures = {
        "analysts": len(everyday.analysts),
        "statements": sum(map(len, everyday.analysts.values())),
        "commands": {},
    }
    commands: dict[str, Figures] = found["commands"]

    def command(name: str, cache: str, *arguments: str) -> Run | None:
        done = run(["-m", "sqlmadp", *arguments, "--quiet"], folder, cache, limits)
        commands[name] = done.stored
        return done if done.code == 0 and not done.over else None

    checked = run(["-m", "sqlmadp", "check", str(plan), "--json"], folder, "checked", limits)
    commands["check"] = checked.stored
    asked, found["refused"] = _accepted(everyday, checked, plan, limits)
    asked.write(folder)
    one = command("plan", "plan", "plan", str(plan), "--mechanism", "waterfilling", "--json")
    if one is not None:
        command("plan again", "plan", "plan", str(plan), "--mechanism", "waterfilling", "--json")
        every = command("plan all", "all", "plan", str(plan), "--compare", "--json")
        found["errors"] = _errors(json.loads((every or one).output))
    elif commands["plan"]["over"]:  # All mechanisms include this one.
        commands["plan all"] = commands["plan"]
    released = command("release", "release", "release", str(plan), "--json")
    if released is not None:
        found["factors"] = _factors(asked, json.loads(released.output))
        page = ("report", str(plan), "--out", str(folder / "report.html"))
        command("report", "release", *page)
        command("report again", "release", *page)
        table = asked.schema.split('"')[1]
        command("query", "release", "query", str(plan), f"SELECT COUNT(*) FROM {table}")
    alone = run([__file__, "--direct", str(folder)], folder, "none", limits)
    commands["DuckDB"] = alone.stored | ({} if alone.over else {"seconds": float(alone.output)})
    return found


def _accepted(
    everyday: Everyday, checked: Run, plan: Path, limits: Limits
) -> tuple[Everyday, dict[str, dict[str, str]]]:
    """Return the plan without what is refused, and the code of each refusal by analyst and name."""
    refused: dict[str, dict[str, str]] = {}
    asked = everyday
    while checked.code == 1 and not checked.over:
        for error in json.loads(checked.output)["errors"]:
            file = plan.parent / Path(error["file"]).name
            refused.setdefault(file.stem, {})[at(file.read_text(), error["line"])] = error["code"]
        asked = everyday.without({analyst: list(own) for analyst, own in refused.items()})
        asked.write(plan.parent)
        arguments = ["-m", "sqlmadp", "check", str(plan), "--json"]
        checked = run(arguments, plan.parent, "checked", limits)
    return asked, refused


def _errors(figures: Figures) -> Figures:
    """Return total errors by mechanism, and everybody's."""
    found: Figures = {}
    for name, each in figures["mechanisms"].items():
        if "total_error" in each:
            found[name] = {
                "total": each["total_error"],
                "utilitarian": each["utilitarian_total_error"],
                "sharing_ratio": each["sharing_ratio"],
                "interference": each["interference"],
                "analysts": {analyst: own["error"] for analyst, own in each["analysts"].items()},
            }
    return found


def _factors(asked: Everyday, figures: Figures) -> dict[str, dict[str, float]]:
    """Return the mean factor to the naive variance, by analyst and statement."""
    share = 1 / len(asked.analysts)
    found: dict[str, dict[str, float]] = {}
    for analyst, own in asked.analysts.items():
        different = len(set(own.values()))
        for name, sql in own.items():
            rmse = figures["analysts"][analyst][name]["rmse"]
            if each := factors(sql, rmse, different, share, asked.schema):
                found.setdefault(analyst, {})[name] = statistics.fmean(each)
    return found


def direct(folder: Path) -> None:
    """Run every statement of a plan on its table, and print the CPU seconds of just that."""
    started = time.process_time()
    with duckdb.connect() as connection:
        table = (folder / "schema.toml").read_text().partition('table = "')[2].partition('"')[0]
        source = folder / "table.parquet"
        connection.execute(f"CREATE VIEW {table} AS FROM '{source}'")
        for path in sorted(folder.glob("*.sql")):
            for statement in connection.extract_statements(path.read_text()):
                connection.execute(statement).fetchall()
    print(time.process_time() - started)


def show(results: dict[str, Figures]) -> None:
    """Print the figures of every plan."""
    for name, found in results.items():
        refused = [code for own in found["refused"].values() for code in own.values()]
        codes = ", ".join(f"{refused.count(code)} {code}" for code in sorted(set(refused)))
        print(
            f"{name}: {found['analysts']} analysts, {found['statements']} statements"
            + (f"; refused: {codes}" if refused else "")
        )
        for command, cost in found["commands"].items():
            message = f"   {cost['message'][:100]}" if cost["message"] else ""
            print(f"  {command:14}{_cost(cost, found['limits']):>24}{message}")
        for mechanism, each in found.get("errors", {}).items():
            print(f"  {mechanism:22} total error {_total(each)}")
        if line := _naive(found):
            print(f"  / naive Laplace: {line}")
        print(end="", flush=True)


def _cost(cost: Figures | None, limits: Figures) -> str:
    if cost is None:
        return "-"
    if cost["over"] == "time":
        return f"> {limits['seconds']:g} s {cost['megabytes']:8,.0f} MB"
    if cost["over"] == "waiting":
        return "stopped, waiting"
    if cost["over"] == "memory":
        return f"> {limits['megabytes']:,.0f} MB after {cost['seconds']:.0f} s"
    ended = "" if cost["code"] == 0 else f" exit code {cost['code']}"
    return f"{cost['seconds']:.2f} s {cost['megabytes']:8,.0f} MB{ended}"


def _total(each: Figures | None) -> str:
    if each is None:
        return "-"
    beside = f", {each['total'] / each['utilitarian']:.3f} x" if each["utilitarian"] else ""
    return f"{each['total']:,.6g}{beside}"


def _naive(found: Figures) -> str:
    values = [value for own in found.get("factors", {}).values() for value in own.values()]
    if not values:
        return ""
    s = summary(values)
    return (
        f"{s['above_1']} of {s['statements']} above 1, worst {s['worst']:.2f}, "
        f"geometric mean {s['geometric_mean']:.2f}"
    )


def compare(before: dict[str, Figures], after: dict[str, Figures]) -> None:
    """Print two runs side by side."""
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        print(f"{name:38}{'before':>28}{'after':>28}")
        print(f"  {'refused statements':36}{_refused(old):>28}{_refused(new):>28}")
        for command in (*COMMANDS, "DuckDB"):
            costs = [_cost(one["commands"].get(command), one["limits"]) for one in (old, new)]
            print(f"  {command:36}{costs[0]:>28}{costs[1]:>28}")
        errors = [one.get("errors", {}) for one in (old, new)]
        alike = "" if _refused(old) == _refused(new) else "  (not the same statements)"
        for mechanism in errors[0] | errors[1]:
            totals = [_total(each.get(mechanism)) for each in errors]
            line = f"  total error, {mechanism:23}{totals[0]:>28}{totals[1]:>28}"
            print(f"{line}{alike}")
        print(f"  / naive Laplace, before: {_naive(old) or '-'}")
        print(f"  / naive Laplace, after:  {_naive(new) or '-'}")


def _refused(found: Figures) -> str:
    """Return the number of statements that were refused or left out."""
    return str(sum(map(len, found["refused"].values())))


def main() -> None:
    """Measure the plans and print their figures, or print two stored runs side by side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plans", nargs="*", metavar="PLAN", help=f"{', '.join(PLANS)}; or all")
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds per command")
    parser.add_argument("--memory", type=float, default=6000, help="megabytes per command")
    parser.add_argument("--json", type=Path, help="store the figures; plans not run are kept")
    parser.add_argument("--like", type=Path, help="leave out what was refused in this run")
    parser.add_argument("--compare", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--direct", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.direct is not None:
        direct(options.direct)
        return
    if unknown := [name for name in options.plans if name not in PLANS]:
        parser.error(f"no plan {unknown[0]!r}; plans: {', '.join(PLANS)}")
    if options.compare is not None and len(options.compare) == 2:
        compare(*map(_stored, options.compare))
        return
    limits = Limits(options.limit, options.memory)
    like = _stored(options.like) if options.like else {}
    results: dict[str, Figures] = {}
    for name in options.plans or PLANS:
        everyday = PLANS[name]().without(
            {analyst: list(own) for analyst, own in like.get(name, {}).get("refused", {}).items()}
        )
        with tempfile.TemporaryDirectory() as folder:
            found = measured(everyday, Path(folder), limits) | {"limits": asdict(limits)}
        if name in like:
            found["refused"] = like[name]["refused"] | found["refused"]
        show({name: found})
        results[name] = found
        if options.json is not None:
            kept = _stored(options.json) if options.json.exists() else {}
            options.json.write_text(json.dumps({"everyday": kept | results}, indent=1) + "\n")
    if options.compare is not None:
        compare(_stored(options.compare[0]), results)


def _stored(path: Path) -> dict[str, Figures]:
    """Return the figures of an earlier run."""
    return json.loads(path.read_text())["everyday"]


if __name__ == "__main__":
    main()

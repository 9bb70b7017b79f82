"""What it costs to answer first and pay then: a release with its trial, and without.

    python benchmarks/answer_first.py [PLAN ...]

Copies each plan (the examples, if none is named) to a folder of its own with an empty ledger and an
empty strategy cache, and releases it with files as a process: once as it is, and once with the
trial left out.  Prints the CPU seconds of both, the least of several runs each, and their ratio.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = [ROOT / "examples" / name / "plan.toml" for name in ("hospital", "web", "covid")]
WITHOUT = "from sqlmadp.release import trial; trial.try_out = lambda _: []; "
RUN = "import sys; from sqlmadp.__main__ import main; main()"


def seconds(plan: Path, *, trial: bool) -> float:
    """Return the CPU time of one release of a plan that was never released."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy = folder / "examples" / plan.parent.name
        shutil.copytree(plan.parent, copy)
        shutil.copytree(ROOT / "schemas", folder / "schemas")
        for stale in (*copy.glob("*.ledger*"), *copy.glob("*.ledger-head")):
            stale.unlink()
        environment = {
            **os.environ,
            "OPENBLAS_NUM_THREADS": "1",
            "SQLMADP_CACHE": str(folder / "cache"),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        arguments = ["release", str(copy / plan.name), "-q", "--out", str(folder / "out")]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code = ("" if trial else WITHOUT) + RUN
        command = [sys.executable, "-c", code, *arguments]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print both times and their ratio for every plan."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plans", nargs="*", type=Path, default=EXAMPLES)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    for plan in arguments.plans:
        first, alone = (
            min(seconds(plan, trial=trial) for _ in range(arguments.runs))
            for trial in (True, False)
        )
        times = f"{first:6.2f} s with, {alone:6.2f} s without"
        print(f"{plan.parent.name:12} {times}: {first / alone:.3f}")


if __name__ == "__main__":
    main()

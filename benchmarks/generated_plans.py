"""Whole plans made at random, through every command: what is charged is answered.

    python benchmarks/generated_plans.py --plans 2000
    python benchmarks/generated_plans.py --plans 500 --start 1500    # a part of it
    python benchmarks/generated_plans.py --plans 0 --statements 10000

Every plan has a table, analysts and statements of its own (``tests/plan_generator.py``).  It is
checked, previewed, released, released again, queried, reported, shown by its ledger and read
through a connection (``tests/plan_runs.py``).  Statements by themselves are bound and answered
without noise, twenty of each table.  Prints every traceback, difference from DuckDB and
failure after a charge, and the figures at the end; the exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from plan_runs import PlanRun, Tally, run_statements

OF_EACH = 20
"""Statements by themselves about each table."""


def main() -> int:
    """Run the plans of the seeds asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=int, default=2000)
    parser.add_argument("--statements", type=int, default=0, help="statements by themselves")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    tally, shown = Tally(), [0, 0, 0]
    before = time.process_time()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SQLMADP_CACHE"] = cache
        tables = -(-arguments.statements // OF_EACH)
        for seed in range(arguments.start, arguments.start + arguments.plans + tables):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["XDG_STATE_HOME"] = str(Path(folder) / "state")
                if seed < arguments.start + arguments.plans:
                    PlanRun(seed, Path(folder), tally).run()
                else:
                    run_statements(seed, OF_EACH, Path(folder), tally)
            wrong = (tally.tracebacks, tally.differences, tally.failed_after_charge)
            for kind, found in enumerate(wrong):
                for each in found[shown[kind] :]:
                    print(each, flush=True)
                shown[kind] = len(found)
            if seed % 50 == 0:
                print(tally.figures(), flush=True)
    print(tally.figures())
    print(f"commands: {dict(tally.commands)}; {time.process_time() - before:,.0f} s of CPU time")
    return 0 if tally.sound else 1


if __name__ == "__main__":
    sys.exit(main())

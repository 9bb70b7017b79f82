"""Total errors and CPU time beside those frozen in baseline.json, and where they are worse.

    python benchmarks/regression.py [REFERENCE] [--only practical sf1 ...] [--instances 20]
    python benchmarks/regression.py [REFERENCE] --freeze FILE

The paper's practical and marginal instances by mechanism (REFERENCE holds them, see
`paper_instances.py`; without it they are left out), marginals of up to three columns, the census
tables with everybody left out once, and large scopes.  Printed is, for each group of cases, the
median and the largest ratio of total errors to the baseline's, and CPU seconds of both; each case
whose error is more than --allowed above the baseline is listed, and the run fails if there is one.
--freeze writes the figures to a file, added to what it holds.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import large_scopes
import marginals_scale
import paper_instances
import sf1
from people import collective
from threadpoolctl import threadpool_limits

from sqlmadp.mechanism import MECHANISMS, mechanism
from sqlmadp.mechanism.collective import Collective
from sqlmadp.mechanism.fairness import outcome

BASELINE = Path(__file__).parent / "baseline.json"
Case = tuple[str, Callable[[], float]]
"""A name, and a function that returns the total error."""
Figures = dict[str, list[float]]
"""Total error and CPU seconds by case."""


def paper(experiment: str, reference: Path, count: int) -> Iterator[Case]:
    """Yield every instance with every mechanism, both fairness measures included."""
    results = json.loads((reference / paper_instances.RESULTS[experiment]).read_text())
    drawn = {"practical": paper_instances.practical, "marginals": paper_instances.marginals}
    instances = list(drawn[experiment](reference, results["instances"][:count]))
    for name in MECHANISMS:
        for number, instance in enumerate(instances):
            yield (
                f"{experiment} {name} {number}",
                lambda name=name, instance=instance: paper_instances.measured(name, *instance)[0],
            )


def scale() -> Iterator[Case]:
    """Yield all marginals of k of 8 binary columns, and of at most 3 of 20 columns of 10 values."""
    for columns, values, ways in ((8, 2, [1]), (8, 2, [2]), (8, 2, [3]), (20, 10, [0, 1, 2, 3])):
        blocks = marginals_scale.ways(columns, values, ways)
        label = f"scale {columns} columns of {values} {'+'.join(map(str, ways))}-way"
        yield label, lambda blocks=blocks: marginals_scale.total_error(blocks)


def census() -> Iterator[Case]:
    """Yield the census tables, with and without both fairness measures."""
    with tempfile.TemporaryDirectory() as folder:
        everyone = collective(sf1.write(Path(folder)))

    def left_out() -> float:
        found = outcome(mechanism("waterfilling"), fresh(everyone), Fraction(1))
        found.work_out()
        return found.total_error

    for name in sf1.MECHANISMS_SHOWN:
        yield f"sf1 {name}", lambda name=name: total_error(name, everyone)
    yield "sf1 waterfilling, everybody left out once", left_out


def large() -> Iterator[Case]:
    """Yield pairs of prefixes of two columns, and two analysts' ranges on 256 x 256."""
    for side in (64, 256):
        yield f"large prefixes {side} x {side}", lambda side=side: large_scopes.pairs_error(side)
    with tempfile.TemporaryDirectory() as folder:
        plan = large_scopes.lay_out(Path(folder), large_scopes.VALUES, large_scopes.RANGES)
        everyone = collective(plan)
    for name in ("identity", "utilitarian", "waterfilling"):
        yield f"large ranges {name}", lambda name=name: total_error(name, everyone)


def total_error(name: str, everyone: Collective) -> float:
    """Return a mechanism's total error at epsilon 1, with nothing known of other mechanisms."""
    return 2 * float(mechanism(name).select(fresh(everyone)).errors.sum())


def fresh(everyone: Collective) -> Collective:
    """Return the same analysts, without the strategies that were selected for them."""
    return Collective(everyone.workloads, everyone.shares, columns=everyone.columns)


def measure(cases: Iterator[Case], known: Figures, keep: Path | None) -> Figures:
    """Return total error and CPU seconds of every case; print each beside the baseline's."""
    found: Figures = {}
    for name, total_error in cases:
        started = time.process_time()
        with threadpool_limits(limits=1):
            error = total_error()
        found[name] = [error, time.process_time() - started]
        if keep is not None:
            freeze(keep, {name: found[name]})
        shown = f"{name:48} {error:16,.2f} {found[name][1]:8.2f} CPU s"
        if name in known:
            before, seconds = known[name]
            shown += f"   {error / before:8.4f} of {before:,.2f} in {seconds:.2f} CPU s"
        print(shown, flush=True)
    return found


def freeze(path: Path, figures: Figures) -> None:
    """Add figures to a file."""
    stored = json.loads(path.read_text()) if path.exists() else {}
    stored["core"] = stored.get("core", {}) | figures
    path.write_text(json.dumps(stored, indent=1) + "\n")


def judge(found: Figures, known: Figures, allowed: float) -> list[str]:
    """Print ratios by group, and return the cases whose error is higher than allowed."""
    groups: dict[str, list[str]] = {}
    for name in found.keys() & known.keys():
        groups.setdefault(" ".join(name.split()[:2]), []).append(name)
    print(f"\n{'group':34}{'cases':>6}{'median':>9}{'largest':>9}{'CPU s':>10}{'before':>10}")
    worse = []
    for group, names in sorted(groups.items()):
        ratios = [found[name][0] / known[name][0] for name in names]
        seconds = [sum(figures[name][1] for name in names) for figures in (found, known)]
        print(
            f"{group:34}{len(names):6}{statistics.median(ratios):9.4f}{max(ratios):9.4f}"
            f"{seconds[0]:10.2f}{seconds[1]:10.2f}"
        )
        worse += [n for n, ratio in zip(names, ratios, strict=True) if ratio > 1 + allowed]
    return sorted(worse)


def main() -> None:
    """Measure, and print what changed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reference", nargs="?", type=Path)
    names = ("practical", "marginals", "scale", "sf1", "large")
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--allowed", type=float, default=0.005)
    parser.add_argument("--freeze", type=Path)
    options = parser.parse_args()
    known = {} if options.freeze else json.loads(BASELINE.read_text())["core"]
    found: Figures = {}
    others = {"scale": scale, "sf1": census, "large": large}
    for name in options.only:
        if name in others:
            found |= measure(others[name](), known, options.freeze)
        elif options.reference is not None:
            cases = paper(name, options.reference, options.instances)
            found |= measure(cases, known, options.freeze)
    if options.freeze:
        return
    worse = judge(found, known, options.allowed)
    for name in worse:
        print(f"{name}: {found[name][0] / known[name][0]:.4f} of the baseline")
    sys.exit("errors are higher than in the baseline" if worse else 0)


if __name__ == "__main__":
    main()

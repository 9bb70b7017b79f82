"""How far Pareto is from the least total error that its caps allow, by a search from many starts.

    python benchmarks/capped_optimum.py [--instances 6] [--starts 6] [--analysts 9]

Random practical instances, as ``sqlmadp experiment practical`` draws them with another seed.  The
caps are the errors under waterfilling, and nothing else.  Each search moves all weights and rows
together, 1,500 steps in up to 12 rounds, from Pareto's own strategy, utilitarian's, waterfilling's,
mixtures of these and random rows.  Printed are Pareto's total in units of the least one that was
found, and in units of utilitarian's and waterfilling's; and how many analysts are at their cap.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from sqlmadp.experiment.instances import Settings, instance
from sqlmadp.mechanism import mechanism
from sqlmadp.mechanism.capped import Draft, draft_over, laid_over, least_capped, mixed, within
from sqlmadp.mechanism.collective import Collective, Joint
from sqlmadp.strategy import search

STEPS, ROUNDS = 1500, 12
SEED = 7
AT_CAP = 1e-3
"""An analyst is at the cap if the error is below it by less than this part."""


def main() -> None:
    """Print one line per instance, and the largest distance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=6)
    parser.add_argument("--starts", type=int, default=6)
    parser.add_argument("--analysts", type=int, default=9)
    parser.add_argument("--cells", type=int, default=64)
    options = parser.parse_args()
    settings = Settings(
        experiment="practical",
        seed=SEED,
        most_analysts=options.analysts,
        epsilon="1",
        mechanisms=(),
        cells=options.cells,
    )
    search.WORK = 2**36  # As long as it takes.
    far = []
    print(f"{'analysts':>9}{'/ found':>9}{'/ utilitarian':>14}{'/ waterfilling':>15}{'at cap':>8}")
    for number in range(options.instances):
        with threadpool_limits(limits=1):
            everyone = instance(settings, number).collective.arranged
            pareto, least = distance(everyone, options.starts)
            utilitarian = mechanism("utilitarian").select(everyone).errors.sum()
        far.append(pareto.errors.sum() / least.errors.sum())
        caps = everyone.poured.errors
        print(
            f"{len(everyone):9}{far[-1]:9.4f}{pareto.errors.sum() / utilitarian:14.4f}"
            f"{pareto.errors.sum() / caps.sum():15.4f}"
            f"{int((pareto.errors >= caps * (1 - AT_CAP)).sum()):8}",
            flush=True,
        )
    print(f"largest {max(far):.4f}, median {np.median(far):.4f}")


def distance(everyone: Collective, starts: int) -> tuple[Joint, Joint]:
    """Return Pareto's strategy, and the one of least total error found within the same caps."""
    pareto = mechanism("pareto").select(everyone)
    caps = everyone.poured.errors
    least = pareto
    for draft in drafts(everyone, pareto, starts):
        found = least_capped(everyone, draft, caps, steps=STEPS, rounds=ROUNDS)
        if found is not None and within(found.errors, caps):
            least = min(least, found, key=lambda joint: joint.errors.sum())
    return pareto, least


def drafts(everyone: Collective, pareto: Joint, starts: int) -> Iterator[Draft]:
    """Yield drafts to start from: strategies that are known, and then random ones."""
    asked = [rows for workload in everyone.workloads for rows in workload]
    layout = laid_over(asked, [("cell",)])
    assert layout is not None
    best, poured = everyone.select(everyone.together), everyone.poured
    halves = mixed([(poured.blocks, 1 / poured.total), (best.blocks, 1 / best.total)])
    for blocks in (pareto.blocks, best.blocks, poured.blocks, halves):
        yield draft_over(layout, blocks)
    random = np.random.default_rng(SEED)
    for count in np.resize([4, 8, 16], starts):
        rows = random.random((count, layout[0].size)) * random.random((count, 1))
        yield Draft(list(layout), np.ones(1), [rows])


if __name__ == "__main__":
    main()

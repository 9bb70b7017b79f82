"""Non-linear queries: means and percentiles of a column, whose errors depend on data.

The mean is a sum divided by a count, a percentile is read off the running counts.  Their expected
squared errors are worked out by simulated releases: Laplace noise on the strategy's exact answers,
least squares, then the statistic.  The data are a public column or a made-up one, and the noise
comes from a public seed: nothing here is private, and nothing private is measured here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.quantiles import running_counts
from sqlmadp.experiment.instances import Instance
from sqlmadp.experiment.settings import Settings
from sqlmadp.mechanism.base import JointStrategy, Mechanism
from sqlmadp.schema.marginal import Block
from sqlmadp.workload.solver import solver_for

Matrix = NDArray[np.float64]
Members = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Simulation:
    """One mechanism on one instance of non-linear queries."""

    settings: Settings
    instance: Instance
    mechanism: Mechanism
    number: int
    _known: dict[tuple[str, ...], dict[str, float]] = field(default_factory=dict)

    def measures(self) -> tuple[float, float, float]:
        """Return total error, maximum ratio error and interference."""
        names = self.instance.names
        everyone = tuple(range(len(names)))
        together = self._errors(everyone)
        alone = {name: self._errors((names.index(name),))[name] for name in set(names)}
        total = sum(together[name] for name in names)
        ratio = max(_ratio(together[name], alone[name]) for name in alone)
        worst = 0.0
        for name in sorted(alone):
            left_out = names.index(name)
            rest = tuple(member for member in everyone if member != left_out)
            without = self._errors(rest)
            worst = max([worst, *(_ratio(together[n], error) for n, error in without.items())])
        return total, ratio, worst

    def _errors(self, members: Members) -> dict[str, float]:
        """Return the mean squared error of each statistic that some of the members ask for."""
        names = [self.instance.names[member] for member in members]
        key = tuple(names)
        if key not in self._known:
            count = len(self.instance.names)
            workloads = [self.instance.workloads[member] for member in members]
            shares = [Fraction(1, count)] * len(members)
            strategy = self.mechanism.select(workloads, shares)
            epsilon = Fraction(self.settings.epsilon) * len(members) / count
            self._known[key] = {
                name: self._error(name, names.index(name), strategy, epsilon) for name in set(names)
            }
        return self._known[key]

    def _error(self, name: str, member: int, strategy: JointStrategy, epsilon: Fraction) -> float:
        """Return the mean squared error of a statistic, over simulated releases."""
        # The same numbers for every mechanism and collective, so that ratios are less noisy.
        random = np.random.default_rng([self.settings.seed, self.number, 1])
        counts = np.array(self.settings.counts, dtype=np.float64)
        scale = float(strategy.sensitivity / epsilon)
        blocks = strategy.read_by(member)
        values = []
        for block in blocks:
            exact = block.matrix @ _merged(counts, block)
            noise = random.laplace(scale=scale, size=(len(exact), self.settings.samples))
            values.append(exact[:, None] + noise)
        answer = solver_for(blocks).fit(values)
        (asked,) = self.instance.workloads[self.instance.names.index(name)].blocks
        exact = (asked.matrix @ _merged(counts, asked))[:, None]
        truth = statistic(name, exact, len(counts))
        return float(((statistic(name, answer(asked), len(counts)) - truth) ** 2).mean())


def _merged(counts: Matrix, block: Block) -> Matrix:
    """Return the records in every cell of a block over the one column that there is."""
    merged = np.zeros(block.marginal.size)
    cells = block.marginal.partitions[0].labels if block.marginal.scope else np.zeros(1, int)
    np.add.at(merged, np.broadcast_to(cells, counts.shape), counts)
    return merged


def statistic(name: str, answers: Matrix, cells: int) -> Matrix:
    """Return a statistic from the answers to its linear queries, one column a release.

    Where no record seems to be there it is the middle of the column's values.
    """
    if name == "mean":
        count, total = answers
        present = np.rint(count) > 0
        mean = np.clip(total / np.where(present, count, 1.0), 0, cells - 1)
        return np.where(present, mean, (cells - 1) / 2)
    part = {"median": 0.5, "percentile 25": 0.25, "percentile 75": 0.75}[name]
    running = running_counts(np.diff(answers, axis=0, prepend=0).T)
    found = (running >= part * running[:, -1:]).argmax(axis=1)
    return np.where(running[:, -1] > 0, found, (cells - 1) / 2)


def _ratio(error: float, reference: float) -> float:
    if reference == 0:
        return 1.0 if error == 0 else float("inf")
    return error / reference

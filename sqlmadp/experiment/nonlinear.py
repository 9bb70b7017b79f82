"""Non-linear queries: means and percentiles of a column, whose errors depend on data.

The mean is a sum divided by a count, a percentile is read off the running counts.  Their expected
squared errors are worked out by simulated releases: Laplace noise on the strategy's exact answers,
least squares, then the statistic.  The data are a public column or a made-up one, and the noise
comes from a public seed: nothing here is private, and nothing private is measured here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sqlmadp.answer.derived import running_counts
from sqlmadp.experiment.instances import Instance, Settings
from sqlmadp.mechanism import Mechanism
from sqlmadp.mechanism.collective import Joint
from sqlmadp.mechanism.waterfilling import ratio
from sqlmadp.solve.products import solution_of
from sqlmadp.table.rows import Rows

Matrix = NDArray[np.float64]
Members = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Simulation:
    """One mechanism on one instance of non-linear queries."""

    settings: Settings
    instance: Instance
    mechanism: Mechanism
    number: int

    def measures(self) -> tuple[float, float, float, float]:
        """Return total error, maximum ratio error and both interferences."""
        names = self.instance.names
        everyone = tuple(range(len(names)))
        settled = self.mechanism.settled(self.instance.collective)
        together = self._errors(everyone, settled)
        alone = {n: self._errors((names.index(n),), self.mechanism)[n] for n in sorted(set(names))}
        total = sum(together[name] for name in names)
        worst = max(ratio(together[name], alone[name]) for name in alone)
        anew = self._interference(together, self.mechanism)
        within = anew if settled is self.mechanism else self._interference(together, settled)
        return total, worst, anew, within

    def _interference(self, together: dict[str, float], rule: Mechanism) -> float:
        """Return the largest ratio by which an analyst's joining changes another's error."""
        names = self.instance.names
        worst = 0.0
        for name in sorted(set(names)):
            left_out = names.index(name)
            rest = tuple(member for member in range(len(names)) if member != left_out)
            without = self._errors(rest, rule)
            worst = max([worst, *(ratio(together[n], error) for n, error in without.items())])
        return worst

    def _errors(self, members: Members, rule: Mechanism) -> dict[str, float]:
        """Return the mean squared error of each statistic that some of the members ask for."""
        names = [self.instance.names[member] for member in members]
        joint = rule.select(self.instance.collective.of(members))
        epsilon = Fraction(self.settings.epsilon) * len(members) / len(self.instance.names)
        return {name: self._error(name, names.index(name), joint, epsilon) for name in set(names)}

    def _error(self, name: str, member: int, joint: Joint, epsilon: Fraction) -> float:
        """Return the mean squared error of a statistic, over simulated releases."""
        # The same numbers for every mechanism and collective, so that ratios are less noisy.
        random = np.random.default_rng([self.settings.seed, self.number, 1])
        counts = np.array(self.settings.counts, dtype=np.float64)
        scale = float(joint.total / epsilon)
        blocks = joint.read_by(member)
        values = []
        for block in blocks:
            exact = _exact(block, counts)
            noise = random.laplace(scale=scale, size=(len(exact), self.settings.samples))
            values.append(exact[:, None] + noise)
        estimate = solution_of(blocks).estimate(values)
        (asked,) = self.instance.workloads[self.instance.names.index(name)]
        truth = statistic(name, _exact(asked, counts)[:, None], len(counts))
        answers = statistic(name, estimate.answers(asked), len(counts))
        return float(((answers - truth) ** 2).mean())


def _exact(rows: Rows, counts: Matrix) -> Matrix:
    """Return the exact answers of rows over the one column that there is."""
    vertices = rows.parts[0].functions @ counts if rows.scope else np.array([counts.sum()])
    return np.asarray(rows.matrix @ vertices, dtype=np.float64)


def statistic(name: str, answers: Matrix, cells: int) -> Matrix:
    """Return a statistic from the answers to its linear queries, one column per release.

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

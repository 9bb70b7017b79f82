"""Certificates of late analysts: what each measurement gave to whom, join by join.

Everything is worked out from the rows of all measurements, each with its own noise, and from the
workloads: it is public and reads no data.  Who joins late can be held responsible for nothing but
what changed then, so interference is stated of later analysts on earlier ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from threadpoolctl import threadpool_limits

from sqlmadp.asked import Asked
from sqlmadp.certificate import Certificate, Join, Standing
from sqlmadp.late import known_rows
from sqlmadp.mechanism.bounds import bounds
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.complement import errors_from
from sqlmadp.mechanism.fairness import expected_errors, ratio
from sqlmadp.private import Measurement
from sqlmadp.schema.marginal import Block
from sqlmadp.strategy.cache import StrategyCache
from sqlmadp.workload.solver import solver_for
from sqlmadp.workload.workload import Workload


def certify_late(
    asked: Asked,
    measurements: Sequence[Measurement],
    reads: Sequence[Sequence[int]],
    cache: StrategyCache | None,
) -> Certificate:
    """Return the certificate of several measurements, each but the first of newcomers.

    ``reads`` numbers, for each analyst, the blocks of all measurements that they read.
    """
    plan = asked.plan
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        joins = joins_so_far(asked, measurements, reads)
        alone = errors_alone(asked, cache)
        compared = bounds(asked.workloads, asked.epsilon_per_record, cache)
    now = joins[-1].errors
    standings = {
        analyst.name: Standing(
            share=analyst.share,
            alone=alone[analyst.name],
            now=now[analyst.name],
            ratio=ratio(now[analyst.name], alone[analyst.name]),
            interference=changed_by(analyst.name, joins),
        )
        for analyst in plan.analysts
    }
    total = math.fsum(now.values())
    return Certificate(
        plan.mechanism,
        plan.epsilon,
        standings,
        total,
        compared,
        tuple(joins),
        asked.domain.protection,
        asked.domain.error_meaning,
    )


def joins_so_far(
    asked: Asked, measurements: Sequence[Measurement], reads: Sequence[Sequence[int]]
) -> list[Join]:
    """Return who came with each measurement, and everybody's error from then on."""
    names = [analyst.name for analyst in asked.plan.analysts]
    rows = known_rows(measurements, asked.domain)
    joins: list[Join] = []
    count = 0
    for measurement in measurements:
        count += len(measurement.blocks)
        inside = [n for n, name in enumerate(names) if name in measurement.metadata["members"]]
        workloads = [asked.workloads[n] for n in inside]
        each = _errors(workloads, rows[:count], [reads[n] for n in inside])
        errors = {names[n]: error for n, error in zip(inside, each, strict=True)}
        came = tuple(name for name in errors if not joins or name not in joins[-1].errors)
        joins.append(Join(came, measurement.epsilon, errors))
    return joins


def _errors(
    workloads: Sequence[Workload], known: Sequence[Block], reads: Sequence[Sequence[int]]
) -> list[float]:
    """Return each workload's error from those of the known rows that its analyst reads."""
    found: dict[int, float] = {}
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, numbers in enumerate(reads):
        inside = tuple(number for number in numbers if number < len(known))
        groups.setdefault(inside, []).append(place)
    for numbers, places in groups.items():
        solver = solver_for([known[number] for number in numbers])
        errors = errors_from(solver, [workloads[place] for place in places])
        found |= dict(zip(places, errors, strict=True))
    return [found[place] for place in range(len(workloads))]


def errors_alone(asked: Asked, cache: StrategyCache | None) -> dict[str, float]:
    """Return each analyst's error alone with what that analyst brings."""
    mechanism = MECHANISMS[asked.plan.mechanism](asked.columns, cache)
    alone = {}
    for analyst, workload in zip(asked.plan.analysts, asked.workloads, strict=True):
        strategy = mechanism.select([workload], [analyst.share])
        spent = asked.epsilon_per_record * analyst.share
        alone[analyst.name] = expected_errors(strategy, [workload], spent)[0]
    return alone


def changed_by(name: str, joins: Sequence[Join]) -> dict[str, float]:
    """Return by whom an error changed: everybody who came later."""
    changes: dict[str, float] = {}
    for before, join in itertools.pairwise(joins):
        if name in before.errors:
            change = ratio(join.errors[name], before.errors[name])
            changes |= dict.fromkeys(join.analysts, change)
    return changes

"""Outlook: what ``release`` would give the analysts of a plan, mechanism by mechanism.

A plan that is not released yet is measured at once.  A plan to which analysts were added after a
release keeps what was measured, whatever its mechanism; the newcomers' part is all that is chosen
and charged (`late`), so that is what is shown.  Reads the ledger, and no data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from sqlmadp.answer.reconstruct import weighed
from sqlmadp.asked import Asked
from sqlmadp.certificate import Join
from sqlmadp.errors import NotSupportedError, ProgrammingError
from sqlmadp.joining import changed_by, errors_alone, joins_so_far
from sqlmadp.late import Base, find_base, known_rows
from sqlmadp.mechanism.bounds import bounds
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import Outcome, noise_variance
from sqlmadp.plan import Plan
from sqlmadp.preview import Preview, Previews, preview, read_from
from sqlmadp.private import Ledger
from sqlmadp.release import added
from sqlmadp.strategy.cache import StrategyCache, default_directory


def preview_plan(
    plan: Plan, mechanisms: Sequence[str], progress: Callable[[str], None]
) -> Previews:
    """Return what a release with each mechanism would give the analysts of a plan."""
    if unknown := [name for name in mechanisms if name not in MECHANISMS]:
        raise ProgrammingError(f"no mechanism {unknown[0]!r}; there are {', '.join(MECHANISMS)}")
    progress("binding statements")
    asked = Asked.bind(plan)
    cache = StrategyCache(default_directory())
    previews = Previews(asked, _base(asked))
    if previews.base is None:
        previews |= preview(asked, mechanisms, cache, progress)
        return previews
    added_alike: Preview | None = None
    for name in mechanisms:
        progress(f"mechanism {name}")
        changed = replace(asked, plan=replace(asked.plan, mechanism=name))
        try:
            like = None if name == "independent" else added_alike
            previews[name] = found = late_preview(changed, previews.base, cache, like)
            added_alike = added_alike if name == "independent" else found
        except NotSupportedError as error:
            previews[name] = error
    return previews


def late_preview(
    asked: Asked, base: Base, cache: StrategyCache | None, like: Preview | None = None
) -> Preview:
    """Return what newcomers would add, and everybody's errors from all measurements then.

    ``like`` is that of another mechanism under which newcomers add the same: under all but
    Independent they do, and nothing differs but what each would have had alone.
    """
    if like is not None:
        alone = tuple(errors_alone(asked, cache).values())
        return replace(like, outcome=replace(like.outcome, alone=alone))
    plan = asked.plan
    strategy = added(asked, base, cache)
    epsilon = base.epsilon(plan) / asked.domain.records_between_neighbours
    weight = 1 / math.sqrt(noise_variance(strategy.sensitivity, epsilon))
    rows = [*known_rows(base.measurements, asked.domain)]
    rows += [weighed(block, weight) for block in strategy.blocks]
    with threadpool_limits(limits=1):  # Threads that contend for small matrices are slower.
        read = read_from(asked, rows, strategy.reads)
        alone = tuple(errors_alone(asked, cache).values())
        compared = bounds(asked.workloads, asked.epsilon_per_record, cache)
        joins = joins_so_far(asked, base.measurements, strategy.reads)
    names = [analyst.name for analyst in plan.analysts]
    errors = tuple(each.total for each in read)
    now = dict(zip(names, errors, strict=True))
    joins.append(Join(tuple(base.newcomers(plan)), base.epsilon(plan), now))
    interference = np.ones((len(names), len(names)))
    for place, name in enumerate(names):
        for newcomer, change in changed_by(name, joins).items():
            interference[names.index(newcomer), place] = change
    queries = tuple(each.queries(variance=1.0) for each in read)
    given = Outcome(strategy, errors, alone, interference)
    return Preview(given, compared, queries, tuple(joins))


def _base(asked: Asked) -> Base | None:
    """Return the completed release that a plan adds, or has added, analysts to."""
    plan = asked.plan
    if not plan.ledger_path.exists():
        return None
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        stored = ledger.find(asked.release_id)
        if stored is not None and not stored.metadata.get("earlier"):
            return None  # Everybody was measured at once.
        return find_base(asked, ledger)

"""Which workloads mechanisms select strategies for, so that all searches can run side by side.

Every analyst's own workload: select-first mechanisms measure the strategies, and sharing ratios
compare with what they give alone.  Everybody's queries as one: that is what Utilitarian measures,
and its total is what others' totals are compared with.  And the same without each analyst, for
Utilitarian's interference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlmadp.workload.workload import Workload, stacked


def searches(mechanisms: Iterable[str], workloads: Sequence[Workload]) -> list[Workload]:
    """Return the workloads that some mechanisms are known to select strategies for."""
    names = set(mechanisms)
    found = list(workloads) if names != {"identity"} else []
    found.append(stacked(workloads))
    if "utilitarian" in names and len(workloads) > 1:
        kinds = {workload.fingerprint: place for place, workload in enumerate(workloads)}
        for left in kinds.values():
            found.append(stacked([w for place, w in enumerate(workloads) if place != left]))
    return found

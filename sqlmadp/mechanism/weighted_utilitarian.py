"""Weighted Utilitarian: each workload counts relative to what its analyst gets alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sqlmadp.mechanism.base import NEITHER, Mechanism, registered
from sqlmadp.mechanism.collective import Collective, Joint


@registered
@dataclass(frozen=True, kw_only=True)
class WeightedUtilitarian(Mechanism):
    """Minimise the sum of everyone's error divided by their error alone [PWFM21].

    The weight ``omega_i = 1 / Err_i(alone)`` multiplies the *error* of analyst i, so the rows of
    W_i are scaled by its square root.  Meant to favour the sharing incentive; nothing is proved.
    """

    name = "weighted_utilitarian"
    rule = (
        "the measurements are chosen for the least error of everybody together, each analyst's "
        "counted in units of what it would be alone"
    )
    promise = NEITHER

    def _choose(self, collective: Collective) -> Joint:
        alone = collective.alone
        omega = np.where(alone > 0, 1 / np.where(alone > 0, alone, 1.0), 1.0)
        strategy = collective.select(collective.weighted(collective.importance * omega))
        return collective.read_by_all(strategy.blocks, strategy.total)

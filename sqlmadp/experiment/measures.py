"""Measures: what each mechanism gives on one instance.

total error              everybody's expected error together
maximum ratio error      the largest sharing ratio; above 1 violates the sharing incentive
interference             the largest of I_i(j); above 1 violates non-interference
  within the agreement   the same, while those who are left keep to what everyone settled on
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from threadpoolctl import threadpool_limits

from sqlmadp.errors import NotSupportedError
from sqlmadp.experiment.instances import Instance, instance
from sqlmadp.experiment.misreport import misreported
from sqlmadp.experiment.nonlinear import Simulation
from sqlmadp.experiment.settings import TOLERANCES, Settings
from sqlmadp.mechanism import Mechanism, mechanism
from sqlmadp.mechanism.fairness import outcome

MEASURES = (
    "total error",
    "maximum ratio error",
    "interference",
    "interference within the agreement",
)

Measured = Mapping[str, tuple[float, ...] | None]
"""The measures by mechanism, or the changes by misreporting (`misreport`); None where a
mechanism does not serve these sizes."""


def measured(settings: Settings, number: int) -> Measured:
    """Return the measures of every mechanism on one instance."""
    with threadpool_limits(limits=1):  # Instances run beside one another.
        if settings.experiment.startswith("misreport"):
            return misreported(settings, number)
        drawn = instance(settings, number)
        return {
            label: _of(each, drawn, settings, number)
            for label, each in mechanisms(settings).items()
        }


def mechanisms(settings: Settings) -> dict[str, Mechanism]:
    """Return the mechanisms that are compared, by label."""
    if settings.experiment == "tolerance":
        return {f"tolerance {t:g}": mechanism("waterfilling", tolerance=t) for t in TOLERANCES}
    return {name: mechanism(name) for name in settings.mechanisms}


def _of(
    chosen: Mechanism, drawn: Instance, settings: Settings, number: int
) -> tuple[float, ...] | None:
    try:
        if settings.experiment == "nonlinear":
            return Simulation(settings, drawn, chosen, number).measures()
        found = outcome(chosen, drawn.collective, Fraction(settings.epsilon))
        return (
            found.total_error,
            found.sharing_ratio,
            found.worst_interference,
            found.worst_interference_within_agreement,
        )
    except NotSupportedError:
        return None

"""Measures: what each mechanism gives on one instance.

total error            everybody's expected error together
maximum ratio error    the largest sharing ratio; above 1 violates the sharing incentive
interference           the largest of I_i(j); above 1 violates non-interference
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from threadpoolctl import threadpool_limits

from sqlmadp.errors import NotSupportedError
from sqlmadp.experiment.instances import Instance, instance
from sqlmadp.experiment.misreport import misreported
from sqlmadp.experiment.nonlinear import Simulation
from sqlmadp.experiment.settings import TOLERANCES, Settings
from sqlmadp.mechanism.base import Mechanism
from sqlmadp.mechanism.catalogue import MECHANISMS
from sqlmadp.mechanism.fairness import outcome
from sqlmadp.mechanism.waterfilling import Waterfilling

MEASURES = ("total error", "maximum ratio error", "interference")

Measured = Mapping[str, tuple[float, ...] | None]
"""The three measures by mechanism, or the changes by misreporting (`misreport`); None where a
mechanism does not serve these sizes."""


def measured(settings: Settings, number: int) -> Measured:
    """Return the measures of every mechanism on one instance."""
    with threadpool_limits(limits=1):  # Instances run beside one another.
        if settings.experiment.startswith("misreport"):
            return misreported(settings, number)
        drawn = instance(settings, number)
        return {
            label: _of(make(drawn), drawn, settings, number)
            for label, make in mechanisms(settings).items()
        }


def mechanisms(settings: Settings) -> dict[str, Callable[[Instance], Mechanism]]:
    """Return what is compared, by its label."""
    if settings.experiment == "tolerance":
        return {
            f"tolerance {tolerance:g}": lambda _, tolerance=tolerance: Waterfilling(  # type: ignore[misc]
                tolerance=tolerance
            )
            for tolerance in TOLERANCES
        }
    return {
        name: lambda drawn, name=name: MECHANISMS[name](drawn.columns, None)  # type: ignore[misc]
        for name in settings.mechanisms
    }


def _of(
    mechanism: Mechanism, drawn: Instance, settings: Settings, number: int
) -> tuple[float, float, float] | None:
    shares = [Fraction(1, len(drawn.names))] * len(drawn.names)
    epsilon = Fraction(settings.epsilon)
    try:
        if settings.experiment == "nonlinear":
            return Simulation(settings, drawn, mechanism, number).measures()
        found = outcome(mechanism, drawn.workloads, shares, epsilon)
    except NotSupportedError:
        return None
    return found.total_error, found.sharing_ratio, found.worst_interference

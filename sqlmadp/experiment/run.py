"""Run: all instances of an experiment, several at a time, kept as they come.

total error              everybody's expected error together
maximum ratio error      the largest sharing ratio; above 1 violates the sharing incentive
interference             the largest of I_i(j); above 1 violates non-interference
  within the agreement   the same, while those who are left keep to what everyone settled on

The results are lines of JSON in one file: the settings first, then one line per instance.  A run
that was interrupted is continued by running it again: the instances that are there are not run
twice.  With more instances than before, the others are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import as_completed
from fractions import Fraction
from pathlib import Path

import msgspec
from threadpoolctl import threadpool_limits

from sqlmadp.errors import NotSupportedError, ProgrammingError
from sqlmadp.experiment.instances import TOLERANCES, Instance, Settings, check, instance
from sqlmadp.experiment.misreport import misreported
from sqlmadp.experiment.nonlinear import Simulation
from sqlmadp.experiment.processes import pool, starting
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


Progress = Callable[[int, int], None]
"""Told how many instances are done, and how many there are."""


class Line(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One instance's measures by mechanism, as it is kept."""

    instance: int
    measures: dict[str, tuple[float, ...] | None]


def run(
    settings: Settings,
    *,
    instances: int,
    folder: Path,
    jobs: int = 1,
    progress: Progress = lambda done, total: None,
) -> list[Measured]:
    """Return the measures of the first ``instances`` instances; each is kept once it is done."""
    check(settings)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{settings.experiment}.jsonl"
    known = _kept(path, settings)
    missing = [number for number in range(instances) if number not in known]
    progress(instances - len(missing), instances)
    with path.open("ab") as file:
        for number, found in _each(settings, missing, jobs):
            known[number] = found
            line = Line(instance=number, measures=dict(found))
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            progress(sum(number in known for number in range(instances)), instances)
    return [known[number] for number in range(instances)]


def _kept(path: Path, settings: Settings) -> dict[int, Measured]:
    """Return the results that an earlier run kept; write the settings into a new file."""
    head = msgspec.json.encode(settings) + b"\n"
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]  # A line that was cut off is run again.
    if not whole:
        path.write_bytes(head)
        return {}
    lines = whole.splitlines()
    if lines[0] + b"\n" != head:
        raise ProgrammingError(
            f"{str(path)!r} holds the results of other settings; choose another folder with --out, "
            "or delete the file"
        )
    if whole != data:
        path.write_bytes(whole)
    decoder = msgspec.json.Decoder(Line)
    return {line.instance: line.measures for line in map(decoder.decode, lines[1:])}


def _each(settings: Settings, numbers: list[int], jobs: int) -> Iterator[tuple[int, Measured]]:
    """Yield each instance's measures as they come, from ``jobs`` processes."""
    if jobs == 1 or len(numbers) <= 1:
        for number in numbers:
            yield number, measured(settings, number)
        return
    with pool(min(jobs, len(numbers))) as processes:
        with starting():
            futures = {processes.submit(measured, settings, number): number for number in numbers}
        for future in as_completed(futures):
            yield futures[future], future.result()

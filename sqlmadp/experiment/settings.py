"""The settings of an experiment: whatever decides its numbers, and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sqlmadp.errors import ProgrammingError

TOLERANCES = (0.1, 0.01, 0.001, 0.0001, 0.0)
"""The tolerances of Waterfilling that the experiment on them compares."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is run.  Every instance depends on these and on its own number alone."""

    experiment: str
    seed: int
    most_analysts: int
    """Each instance has from 2 to this many analysts."""
    epsilon: str
    """Exact, as text."""
    mechanisms: tuple[str, ...]
    """Those compared; under ``tolerance`` it is Waterfilling at several tolerances instead."""
    cells: int = 64
    """Cells of the practical workloads: a power of 2."""
    attributes: int = 8
    """Columns of two values, for marginals."""
    way: int = 1
    """Columns of each marginal."""
    counts: tuple[int, ...] = ()
    """Records by value, for the non-linear queries."""
    plan: str = ""
    """The plan whose analysts misreport; otherwise instances are drawn."""
    samples: int = 200
    """Simulated releases from which an error of a non-linear query is worked out."""


def check(settings: Settings) -> None:
    """Raise ProgrammingError for sizes that make no experiment."""
    if settings.cells < 4 or settings.cells & (settings.cells - 1):
        raise ProgrammingError(f"--cells must be a power of 2 from 4 on, not {settings.cells}")
    if not 0 <= settings.way <= settings.attributes:
        raise ProgrammingError(
            f"a {settings.way}-way marginal needs that many attributes, not {settings.attributes}"
        )
    if settings.experiment == "nonlinear" and sum(settings.counts) <= 0:
        raise ProgrammingError("the data column must have at least one record")


def read_counts(path: Path) -> tuple[int, ...]:
    """Return records by value from a CSV file: one line per value, the count in its last field."""
    counts = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        field = line.rpartition(",")[2].strip().strip('"')
        if field.isdigit():
            counts.append(int(field))
        elif line.strip() and number > 1:  # The first line may name the columns.
            raise ProgrammingError(f"{path}:{number}: {field!r} is not a number of records")
    return tuple(counts)


def invented_counts() -> tuple[int, ...]:
    """Return a made-up data column: records by age from 0 to 85, many children and young adults."""
    children = [round(400 * 0.8**age) for age in range(86)]
    adults = [round(800 * 0.9 ** abs(age - 22)) for age in range(86)]
    return tuple(100 + child + adult for child, adult in zip(children, adults, strict=True))

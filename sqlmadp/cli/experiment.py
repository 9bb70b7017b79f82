"""``sqlmadp experiment`` and ``sqlmadp audit``: what needs no plan."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sqlmadp.cli.options import (
    INTERRUPTED,
    JSON,
    QUIET,
    MechanismName,
    positive_number,
    print_json,
)

Command = Callable[..., None]
Option = Callable[[Command], Command]


@click.group()
def experiment() -> None:
    """Run an experiment of the paper, or one on misreporting, with every mechanism.

    Draws random sets of workloads, works out total error, maximum ratio error and interference of
    every mechanism on each, and writes a table and box plots. An interrupted run is continued by
    running it again. No plan and no private table is read.
    """


def _whole(words: str, *names: str, least: int, default: int, most: int | None = None) -> Option:
    """Return an option that takes a whole number."""
    kind = click.IntRange(least, most)
    return click.option(*names, type=kind, default=default, show_default=True, help=words)


COMMON: tuple[Option, ...] = (
    _whole("Random sets of workloads to draw.", "--instances", "-t", least=1, default=100),
    _whole("Of the draw; the same seed gives the same instances.", "--seed", least=0, default=0),
    _whole("Analysts of an instance at most; at least 2.", "--analysts", least=2, default=20),
    click.option(
        "--jobs",
        type=click.IntRange(1),
        default=os.cpu_count() or 1,
        show_default="number of processors",
        help="Processes; each works on one instance at a time.",
    ),
    click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        show_default="experiment-NAME",
        help="Folder of results, table and plots.",
    ),
    JSON,
    QUIET,
)
"""What all experiments have."""
MECHANISM = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=MechanismName(),
    help="Compare only this mechanism; may be given several times. All of them otherwise.",
)
CELLS = _whole("Cells of practical instances: a power of 2.", "--cells", least=4, default=64)
WAY = _whole("Columns of each marginal.", "--way", least=0, default=1)
ATTRIBUTES = _whole("Columns of two values.", "--attributes", least=1, most=12, default=8)
FEWER = _whole("Columns of two values, of marginals.", "--attributes", least=1, most=8, default=4)


def _options(*own: Option, epsilon: str = "1") -> Option:
    """Return a decorator that adds an experiment's own options, epsilon, and what all have."""
    given: Option = click.option(
        "--epsilon",
        default=epsilon,
        show_default=True,
        metavar="NUMBER",
        help="The privacy loss of all analysts together.",
    )

    def add(command: Command) -> Command:
        for option in reversed((*own, given, *COMMON)):
            command = option(command)
        return command

    return add


@experiment.command()
@_options(CELLS, MECHANISM)
def practical(**given: Any) -> None:
    """Race tables, identity, total, prefix sums, a hierarchy and custom queries over one column."""
    _run("practical", given)


@experiment.command()
@_options(ATTRIBUTES, WAY, MECHANISM)
def marginals(**given: Any) -> None:
    """Marginals over columns of two values."""
    _run("marginals", given)


@experiment.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A public CSV file: one line per value, its number of records last. Made up otherwise.",
)
@_options(
    _whole("Simulated releases for each expected error.", "--samples", least=2, default=200),
    MECHANISM,
    epsilon="0.01",
)
def nonlinear(data: Path | None, **given: Any) -> None:
    """Mean, median and percentiles of a column; errors are simulated from data."""
    from sqlmadp.experiment.instances import invented_counts, read_counts  # noqa: PLC0415

    counts = invented_counts() if data is None else read_counts(data)
    _run("nonlinear", given | {"counts": counts})


@experiment.command()
@_options(ATTRIBUTES, WAY)
def tolerance(**given: Any) -> None:
    """Waterfilling on marginals, at several tolerances."""
    _run("tolerance", given | {"mechanisms": ()})


@experiment.command()
@click.option(
    "--on",
    type=click.Choice(("practical", "marginals")),
    default="practical",
    show_default=True,
    help="The experiment whose instances are used.",
)
@click.option(
    "--plan",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The analysts of a plan instead, as a single instance. No record is read.",
)
@_options(CELLS, FEWER, WAY, MECHANISM)
def misreport(on: str, plan: Path | None, **given: Any) -> None:
    """Measure what an analyst gains by handing in other queries than they want answered.

    Repeats every query four times, splits into two analysts with half the share each, adds random
    queries, or adds every single cell; prints the true error, divided by that of honest queries:
    the median over instances, and the lowest in brackets. Below 1 the lie pays.
    """
    if plan is not None:
        on, given = "plan", given | {"plan": str(plan), "instances": 1}
    _run(f"misreport-{on}", given)


def _run(name: str, given: dict[str, Any]) -> None:
    from sqlmadp.experiment import show  # noqa: PLC0415
    from sqlmadp.experiment.instances import Settings  # noqa: PLC0415
    from sqlmadp.experiment.run import run  # noqa: PLC0415
    from sqlmadp.mechanism import MECHANISMS  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415

    instances, jobs, quiet = given.pop("instances"), given.pop("jobs"), given.pop("quiet")
    folder, as_json = given.pop("out") or Path(f"experiment-{name}"), given.pop("as_json")
    settings = Settings(
        experiment=name,
        most_analysts=given.pop("analysts"),
        epsilon=str(positive_number(given.pop("epsilon"))),
        mechanisms=given.pop("mechanisms") or tuple(MECHANISMS),
        **given,
    )
    try:
        with stages(1, quiet=quiet) as shown:
            results = run(
                settings,
                instances=instances,
                folder=folder,
                jobs=jobs,
                progress=shown.part("instances"),
            )
    except KeyboardInterrupt:
        click.echo("\ninterrupted; what was done is kept: run it again to go on", err=True)
        click.get_current_context().exit(INTERRUPTED)
    figures, table_of, plots = (
        (show.misreport_figures, show.misreport_table, show.misreport_plots)
        if name.startswith("misreport")
        else (show.experiment_figures, show.experiment_table, show.experiment_plots)
    )
    table = table_of(results)
    title = f"{name}: {instances} instances, epsilon {settings.epsilon}"
    (folder / f"{name}.txt").write_text(f"{title}\n{table}\n", encoding="utf-8")
    (folder / f"{name}.svg").write_text(plots(title, results), encoding="utf-8")
    if as_json:
        print_json(figures(name, results))
    else:
        click.echo(f"{title}\n{table}")
    if not quiet:
        click.echo(f"written: {folder / name}.jsonl, .txt and .svg", err=True)


@click.command()
@click.option(
    "--measurements",
    type=click.IntRange(min=2_000),
    default=200_000,
    show_default=True,
    help="Measurements of each of two neighbouring tables, in every case.",
)
@JSON
@QUIET
def audit(measurements: int, as_json: bool, quiet: bool) -> None:
    """Test the privacy guarantee empirically on synthetic tables.

    Fails if the noise does not hide a record. Measures neighbouring tables very many times
    through the code that releases use, and works out a lower bound on epsilon that the results
    prove. No plan, no private table and no ledger of yours is touched. Takes some minutes.
    """
    from sqlmadp.audit import report as auditing  # noqa: PLC0415
    from sqlmadp.show.progress import stages  # noqa: PLC0415

    with stages(1, quiet=quiet) as progress:
        report = auditing.audit(measurements, progress=progress.part("measuring"))
    if as_json:
        print_json(auditing.audit_figures(report))
    else:
        click.echo(auditing.audit_text(report))
    for problem in report.problems:
        click.echo(problem, err=True)
    sys.exit(1 if report.problems else 0)

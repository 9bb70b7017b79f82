"""The ``experiment`` command: arguments in, files and a table out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sqlmadp.cli.options import INTERRUPTED, MechanismName, positive_number

Command = Callable[..., None]


@click.group()
def experiment() -> None:
    """Run an experiment of the paper, or one on misreporting, with every mechanism.

    Draws random sets of workloads, works out total error, maximum ratio error and interference of
    every mechanism on each, and writes a table and box plots. An interrupted run is continued by
    running it again. No plan and no private table is read.
    """


def _whole(
    *names: str, least: int, default: int, words: str, most: int | None = None, shown: str = ""
) -> Callable[[Command], Command]:
    """Return an option that takes a whole number."""
    return click.option(
        *names,
        type=click.IntRange(least, most),
        default=default,
        show_default=shown or True,
        help=words,
    )


def _options(command: Command) -> Command:
    """Add what all experiments have in common."""
    for option in reversed(
        (
            _whole(
                *("--instances", "-t"),
                least=1,
                default=100,
                words="Random sets of workloads to draw.",
            ),
            _whole(
                "--seed",
                least=0,
                default=0,
                words="Of the draw; the same seed gives the same instances.",
            ),
            _whole(
                "--analysts",
                least=2,
                default=20,
                words="Analysts of an instance at most; at least 2.",
            ),
            _whole(
                "--jobs",
                least=1,
                default=os.cpu_count() or 1,
                shown="number of processors",
                words="Processes; each works on one instance at a time.",
            ),
            click.option(
                "--out",
                type=click.Path(path_type=Path, file_okay=False),
                show_default="experiment-NAME",
                help="Folder of results, table and plots.",
            ),
            click.option("--json", "as_json", is_flag=True, help="Output JSON."),
            click.option("--quiet", "-q", is_flag=True, help="Hide progress and notes."),
        )
    ):
        command = option(command)
    return command


MECHANISM = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=MechanismName(),
    help="Compare only this mechanism; may be given several times. All of them otherwise.",
)


def _epsilon(default: str) -> Callable[[Command], Command]:
    return click.option(
        "--epsilon",
        default=default,
        show_default=True,
        metavar="NUMBER",
        help="The privacy loss of all analysts together.",
    )


def _sizes(command: Command) -> Command:
    way = _whole("--way", least=0, default=1, words="Columns of each marginal.")
    attributes = _whole("--attributes", least=1, most=12, default=8, words="Columns of two values.")
    return attributes(way(command))


@experiment.command()
@_whole("--cells", least=4, default=64, words="A power of 2.")
@_epsilon("1")
@MECHANISM
@_options
def practical(**given: Any) -> None:
    """Race tables, identity, total, prefix sums, a hierarchy and custom queries over one column."""
    _run("practical", given)


@experiment.command()
@_sizes
@_epsilon("1")
@MECHANISM
@_options
def marginals(**given: Any) -> None:
    """Marginals over columns of two values."""
    _run("marginals", given)


@experiment.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A public CSV file: one line per value, its number of records last. Made up otherwise.",
)
@_whole("--samples", least=2, default=200, words="Simulated releases for each expected error.")
@_epsilon("0.01")
@MECHANISM
@_options
def nonlinear(data: Path | None, **given: Any) -> None:
    """Mean, median and percentiles of a column; errors are simulated from data."""
    from sqlmadp.experiment.instances import invented_counts, read_counts  # noqa: PLC0415

    counts = invented_counts() if data is None else read_counts(data)
    _run("nonlinear", given | {"counts": counts})


@experiment.command()
@_sizes
@_epsilon("1")
@_options
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
@_whole("--cells", least=4, default=64, words="Cells of practical instances: a power of 2.")
@_whole("--attributes", least=1, most=8, default=4, words="Columns of two values, of marginals.")
@_whole("--way", least=0, default=1, words="Columns of each marginal.")
@_epsilon("1")
@MECHANISM
@_options
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
    from sqlmadp.show.progress import counted  # noqa: PLC0415

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
        with counted("instances", quiet=quiet) as shown:
            results = run(settings, instances=instances, folder=folder, jobs=jobs, progress=shown)
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
        from sqlmadp.answer.result import encode  # noqa: PLC0415
        from sqlmadp.show.json import versioned  # noqa: PLC0415

        click.echo(encode(versioned(figures(name, results))))
    else:
        click.echo(f"{title}\n{table}")
    if not quiet:
        click.echo(f"written: {folder / name}.jsonl, .txt and .svg", err=True)

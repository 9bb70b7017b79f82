"""Preview: what ``release`` would give the analysts of a plan, before anything is spent.

A plan that is not released yet is measured at once.  A plan to which analysts were added after a
release keeps what was measured, whatever its mechanism; the newcomers' part is all that is chosen
and charged (`late`), so that is what is shown.  Reads the ledger, and no data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlmadp.answer.result import number
from sqlmadp.answer.table import TextTable
from sqlmadp.errors import NotSupportedError, ProgrammingError
from sqlmadp.files.plan import Plan
from sqlmadp.mechanism import MECHANISMS
from sqlmadp.private import Ledger
from sqlmadp.release.accuracy import unit_noise
from sqlmadp.release.bound_plan import Asked
from sqlmadp.release.certificate import Certificate, certify, certify_late
from sqlmadp.release.history import Base, Stage, find_base, stages_of
from sqlmadp.release.release import added


class Previews(dict[str, Certificate | NotSupportedError]):
    """Certificates by mechanism; one that cannot serve this domain says why instead."""

    def __init__(self, asked: Asked, base: Base | None = None) -> None:
        super().__init__()
        self.asked = asked
        self.base = base
        """The completed release that the plan adds analysts to, if it does."""

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        return self._table().html()

    def _table(self) -> TextTable:
        """Return the expected error of every analyst, by mechanism."""
        names = [analyst.name for analyst in self.asked.plan.analysts]
        titles = [*names, "total error", "largest sharing ratio", "largest interference"]
        rows = []
        for mechanism, each in self.items():
            figures = [""] * len(titles)
            if isinstance(each, Certificate):
                figures = [number(standing.now) for standing in each.analysts.values()]
                figures += [number(each.total), f"{each.sharing_ratio:.3f}"]
                figures += [f"{each.worst_interference:.3f}"]
            rows.append([mechanism, *figures])
        headers = [("mechanism", False), *((title, True) for title in titles)]
        return TextTable.of(headers, len(rows), rows.__getitem__, limit=None)


def preview_plan(
    plan: Plan, mechanisms: Sequence[str], progress: Callable[[str], None]
) -> Previews:
    """Return what a release with each mechanism would give the analysts of a plan."""
    if unknown := [name for name in mechanisms if name not in MECHANISMS]:
        raise ProgrammingError(f"no mechanism {unknown[0]!r}; there are {', '.join(MECHANISMS)}")
    progress("binding statements")
    asked = Asked.bind(plan)
    previews = Previews(asked, base_of(asked))
    for name in mechanisms:
        progress(f"mechanism {name}")
        try:
            previews[name] = preview(asked, previews.base, name, progress)
        except NotSupportedError as error:
            previews[name] = error
    return previews


def preview(
    asked: Asked,
    base: Base | None,
    name: str,
    progress: Callable[[str], None] = lambda _: None,
) -> Certificate:
    """Return what a release with one mechanism would give; with ``base``, as an addition to it."""
    if base is None:
        return certify(asked, name, progress=_leaving_out(name, progress))
    asked = replace(asked, plan=replace(asked.plan, mechanism=name))
    strategy = added(asked, base)
    names = tuple(analyst.name for analyst in asked.plan.analysts)
    charge = base.epsilon(asked.plan)
    rows = unit_noise(strategy, charge / asked.domain.records_between_neighbours)
    stages = [*stages_of(base.measurements, asked.domain), Stage(names, charge, tuple(rows))]
    return certify_late(asked, stages, strategy.reads)


def _leaving_out(name: str, progress: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return a callback that reports how many analysts were left out of the collective."""
    return lambda done, total: progress(f"mechanism {name}: {done} of {total} left out")


def base_of(asked: Asked) -> Base | None:
    """Return the completed release that a plan adds, or has added, analysts to."""
    plan = asked.plan
    if not plan.ledger_path.exists():
        return None
    with Ledger.read(plan.ledger_path, budget=plan.budget, head=plan.head) as ledger:
        stored = ledger.find(asked.release_id)
        if stored is not None and not stored.metadata.get("earlier"):
            return None  # Everybody was measured at once.
        return find_base(asked, ledger)

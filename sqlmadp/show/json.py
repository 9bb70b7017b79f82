"""Figures for machines: what the commands print with ``--json``, as plain values.

Each has a JSON Schema in ``schemas/<command>.schema.json``.  ``VERSION`` is part of every output
and is raised when a key is removed or changes its meaning; new keys may come without that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from sqlmadp.answer.result import Result, as_json
from sqlmadp.errors import Error, NotSupportedError, Problem
from sqlmadp.mechanism.fairness import Bounds, Cap
from sqlmadp.private import Ledger
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.certificate import Certificate, Join, Skipped
from sqlmadp.release.check import most_seconds
from sqlmadp.release.preview import DryRun, Previews
from sqlmadp.release.release import Release, Results

VERSION = 1
"""The version of the form of all figures."""


def versioned(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures as they are printed: with the version of their form in front."""
    return {"version": VERSION, **figures}


def check_figures(
    problems: tuple[Problem, ...], notes: tuple[Problem, ...], asked: BoundPlan | None = None
) -> dict[str, Any]:
    """Return the figures of ``check --json``."""
    return {
        "ok": not problems,
        "errors": [_problem(each) for each in problems],
        "notes": [_problem(each) for each in notes],
        **_left_out(asked),
        **({} if asked is None else {"most_seconds": most_seconds(asked)}),
        "queries": _queries(asked),
    }


def _left_out(asked: BoundPlan | None) -> dict[str, Any]:
    """Return the statements that are refused and skipped, if any."""
    refused = () if asked is None else asked.refused
    return {"skipped": [_problem(each.problem) for each in refused]} if refused else {}


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line or None,
        "column": problem.column or None,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
        "excerpt": problem.excerpt,
    }


def _queries(asked: BoundPlan | None) -> list[dict[str, Any]]:
    if asked is None:
        return []
    return [
        {
            "analyst": analyst.name,
            "name": query.name,
            "file": query.statement.file,
            "rows": query.rows,
            "columns": [name for name, _ in query.columns],
        }
        for analyst, own in zip(asked.plan.analysts, asked.queries, strict=True)
        for query in own
    ]


def plan_figures(
    previews: Previews, least: Mapping[str, Fraction], caps: Mapping[str, Mapping[str, Cap]]
) -> dict[str, Any]:
    """Return the figures of ``plan --json``.

    ``least`` epsilon by mechanism, if targets were given; ``caps`` if they are to be explained.
    """
    asked = previews.asked
    return {
        **_late(previews),
        **({"least_epsilon": {name: str(each) for name, each in least.items()}} if least else {}),
        "epsilon": str(asked.plan.epsilon),
        "cells": asked.domain.cells,
        "mechanisms": {
            name: {"unsupported": str(each)}
            if isinstance(each, NotSupportedError)
            else _mechanism(each) | _caps(caps.get(name))
            for name, each in previews.items()
        },
    }


def _caps(caps: Mapping[str, Cap] | None) -> dict[str, Any]:
    if caps is None:
        return {}
    return {
        "caps": {
            name: {"reached": each.reached, "binds": each.binds, "cost": each.cost}
            for name, each in caps.items()
        }
    }


def _late(previews: Previews) -> dict[str, Any]:
    """Return the charge and the analysts that a plan adds to a release, if it does."""
    history = previews.history
    if not history:
        return {}
    plan = previews.asked.plan
    return {
        "late": {
            "added_to": history.time,
            "analysts": history.late(plan),
            "charge": str(history.epsilon(plan)),
        }
    }


def _mechanism(certificate: Certificate) -> dict[str, Any]:
    names = list(certificate.analysts)
    return {
        "promised": certificate.promise,
        "total_error": certificate.total,
        **_beside(certificate.total, certificate.bounds),
        "relative": certificate.relative,
        "sharing_ratio": certificate.sharing_ratio,
        "interference": certificate.worst_interference,
        "interference_within_agreement": certificate.worst_within_agreement,
        **({"joins": _joins(certificate.joins)} if certificate.joins else {}),
        "interference_matrix": {
            joining: {
                name: standing.interference[joining]
                for name, standing in certificate.analysts.items()
                if joining in standing.interference
            }
            for joining in names
        },
        "analysts": _standings(certificate),
    }


def _standings(certificate: Certificate) -> dict[str, Any]:
    return {
        name: {
            "share": str(standing.share),
            "error": standing.now,
            "alone": standing.alone,
            "ratio": standing.ratio,
            "interference": dict(standing.interference),
            "interference_within_agreement": dict(standing.within_agreement),
            **({"plainer": list(standing.plainer)} if standing.plainer else {}),
            "queries": [
                {
                    "name": each.name,
                    "rows": each.rows,
                    "rmse": each.rmse,
                    "factor": each.factor,
                    "columns": [{"name": name, "rmse": rmse} for name, rmse in each.columns],
                }
                for each in standing.statements
            ],
        }
        for name, standing in certificate.analysts.items()
    }


def dry_run_figures(found: DryRun) -> dict[str, Any]:
    """Return the figures of ``release --dry-run --json``."""
    return {
        "dry_run": True,
        "completed": found.completed,
        "epsilon": str(found.epsilon),
        "budget": str(found.budget),
        "spent": str(found.spent),
        "left": str(found.left),
        "measured": [
            {"columns": list(columns), "questions": questions}
            for columns, questions in found.measured.items()
        ],
        "analysts": _standings(found.preview),
    }


def _beside(total: float, bounds: Bounds) -> dict[str, Any]:
    """Return a total error beside Utilitarian's and the lower bound; null where there is none."""
    to_utilitarian, gap = bounds.beside(total)
    return {
        "utilitarian_total_error": bounds.utilitarian,
        "to_utilitarian": to_utilitarian,
        "lower_bound": bounds.lowest,
        "gap": gap,
    }


def _joins(joins: Sequence[Join]) -> list[dict[str, Any]]:
    """Return who came when, with what, and everybody's error from then on."""
    return [
        {
            "analysts": list(join.analysts),
            "epsilon": str(join.epsilon),
            "errors": dict(join.errors),
        }
        for join in joins
    ]


def certificate_figures(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as ``release --json`` prints it."""
    return {
        "mechanism": certificate.mechanism,
        "promised": certificate.promise,
        "relative": certificate.relative,
        "error_meaning": certificate.error_meaning,
        "total_error": certificate.total,
        **_beside(certificate.total, certificate.bounds),
        "analysts": _standings(certificate),
        "joins": _joins(certificate.joins),
        **({"skipped": [_skipped(s) for s in certificate.skipped]} if certificate.skipped else {}),
    }


def _skipped(skipped: Skipped) -> dict[str, str | None]:
    return {
        "analyst": skipped.analyst,
        "query": skipped.query or None,
        "code": skipped.code,
    }


def release_figures(release: Release, results: Results) -> dict[str, Any]:
    """Return the figures of ``release --json``, with the rows by analyst and name."""
    certified = release.certified()
    failed = [
        {"analyst": analyst, "query": query, "code": error.code, "message": str(error)}
        for (analyst, query), error in results.failed.items()
    ]
    return _budget(release) | {
        "certificate": None if isinstance(certified, Error) else certificate_figures(certified),
        "analysts": {
            analyst: {name: as_json(result) for name, result in own.items()}
            for analyst, own in results.items()
        },
        **({"failed": failed} if failed else {}),
    }


def query_figures(release: Release, result: Result) -> dict[str, Any]:
    """Return the figures of ``query --json``."""
    meaning = {"error_meaning": release.asked.domain.error_meaning}
    return _budget(release) | meaning | {"result": as_json(result)}


def result_figures(result: Result) -> dict[str, Any]:
    """Return the figures of ``query --json`` for EXPLAIN, which needs no release."""
    return {"result": as_json(result)}


def staged_figures(analyst: str, listed: Result) -> dict[str, Any]:
    """Return the figures of ``staged --json``: the statements that an analyst has handed in."""
    names = [name for name, _ in listed.columns]
    return {
        "analyst": analyst,
        "statements": [dict(zip(names, row, strict=True)) for row in listed.rows],
    }


def _budget(release: Release) -> dict[str, Any]:
    return {
        "epsilon": str(release.measurement.epsilon),
        "spent": str(release.spent),
        "left": str(release.left),
        **_processing(release),
    }


def _processing(release: Release) -> dict[str, Any]:
    """Return how answers were processed further, if they were, and what errors then mean."""
    done = release.processing
    if done.meaning is None:
        return {}
    return {
        "post_processing": {
            "nonnegative": done.nonnegative,
            "consistent": done.consistent,
            "errors": done.meaning,
        }
    }


def ledger_figures(ledger: Ledger) -> dict[str, Any]:
    """Return the figures of ``ledger --json``."""
    return {
        "budget": str(ledger.budget),
        "spent": str(ledger.spent),
        "left": str(ledger.left),
        "head": ledger.head,
        "charges": [
            {
                "release": charge.release,
                "time": charge.time,
                "epsilon": str(charge.epsilon),
                "mechanism": charge.mechanism,
                "analysts": list(charge.analysts),
            }
            for charge in ledger.charges
        ],
    }

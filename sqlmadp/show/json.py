"""Figures for machines: what the commands print with ``--json``, as plain values.

Each has a JSON Schema in ``schemas/<command>.schema.json``.  ``VERSION`` is part of every output
and is raised when a key is removed or changes its meaning; new keys may come without that.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sqlmadp.answer.result import Result, as_json
from sqlmadp.errors import Error, NotSupportedError, Problem
from sqlmadp.mechanism.fairness import Bounds, Cap
from sqlmadp.private import Ledger
from sqlmadp.release.bound_plan import BoundPlan
from sqlmadp.release.certificate import Certificate, Skipped
from sqlmadp.release.check import most_seconds
from sqlmadp.release.preview import DryRun, Previews
from sqlmadp.release.release import Release, Results

VERSION = 1
"""The version of the form of all figures."""


def versioned(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures as they are printed: with the version of their form in front."""
    return {"version": VERSION, **figures}


def _fields(of: object, *names: str) -> dict[str, Any]:
    """Return some attributes by name; exact numbers become text when they are printed."""
    return {name: getattr(of, name) for name in names}


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
    found = _fields(problem, "file", "line", "column", "code", "message", "hint", "excerpt")
    return found | {"line": problem.line or None, "column": problem.column or None}


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
        **({"least_epsilon": least} if least else {}),
        "epsilon": asked.plan.epsilon,
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
        "caps": {name: _fields(each, "reached", "binds", "cost") for name, each in caps.items()}
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
            "charge": history.epsilon(plan),
        }
    }


def _mechanism(certificate: Certificate) -> dict[str, Any]:
    names = list(certificate.analysts)
    return {
        "promised": certificate.promise,
        "total_error": certificate.total,
        **_beside(certificate.total, certificate.bounds),
        **_fields(certificate, "relative", "sharing_ratio"),
        "interference": certificate.worst_interference,
        "interference_within_agreement": certificate.worst_within_agreement,
        **({"joins": certificate.joins} if certificate.joins else {}),
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
            **_fields(standing, "share", "alone", "ratio", "interference"),
            "error": standing.now,
            "interference_within_agreement": standing.within_agreement,
            **({"plainer": standing.plainer} if standing.plainer else {}),
            "queries": [
                _fields(each, "name", "rows", "rmse", "factor")
                | {"columns": [{"name": name, "rmse": rmse} for name, rmse in each.columns]}
                for each in standing.statements
            ],
        }
        for name, standing in certificate.analysts.items()
    }


def dry_run_figures(found: DryRun) -> dict[str, Any]:
    """Return the figures of ``release --dry-run --json``."""
    return {
        "dry_run": True,
        **_fields(found, "completed", "epsilon", "budget", "spent", "left"),
        "measured": [
            {"columns": columns, "questions": questions}
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


def certificate_figures(certificate: Certificate) -> dict[str, Any]:
    """Return a certificate as ``release --json`` prints it."""
    return {
        **_fields(certificate, "mechanism", "relative", "error_meaning", "joins"),
        "promised": certificate.promise,
        "total_error": certificate.total,
        **_beside(certificate.total, certificate.bounds),
        "analysts": _standings(certificate),
        **({"skipped": [_skipped(s) for s in certificate.skipped]} if certificate.skipped else {}),
    }


def _skipped(skipped: Skipped) -> dict[str, Any]:
    return _fields(skipped, "analyst", "code") | {"query": skipped.query or None}


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
        "epsilon": release.measurement.epsilon,
        **_fields(release, "spent", "left"),
        **_processing(release),
    }


def _processing(release: Release) -> dict[str, Any]:
    """Return how answers were processed further, if they were, and what errors then mean."""
    done = release.processing
    if done.meaning is None:
        return {}
    how = _fields(done, "nonnegative", "consistent")
    return {"post_processing": how | {"errors": done.meaning}}


def ledger_figures(ledger: Ledger) -> dict[str, Any]:
    """Return the figures of ``ledger --json``."""
    return {
        **_fields(ledger, "budget", "spent", "left", "head"),
        "charges": [
            _fields(charge, "release", "time", "epsilon", "mechanism", "analysts")
            for charge in ledger.charges
        ],
    }

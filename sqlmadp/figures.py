"""Figures for machines: what the commands print with ``--json``, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from sqlmadp.answer.files import as_json
from sqlmadp.answer.result import Result
from sqlmadp.asked import Asked
from sqlmadp.certificate import Certificate
from sqlmadp.errors import NotSupportedError, Problem
from sqlmadp.mechanism.bounds import Bounds
from sqlmadp.preview import Preview
from sqlmadp.private import Ledger
from sqlmadp.release import Release


def check_figures(problems: tuple[Problem, ...], asked: Asked | None) -> dict[str, Any]:
    """Return what ``check --json`` prints."""
    errors = [
        {
            "file": problem.file,
            "line": problem.line or None,
            "column": problem.column or None,
            "code": problem.code,
            "message": problem.message,
            "hint": problem.hint,
        }
        for problem in problems
    ]
    return {"ok": not problems, "errors": errors, "queries": _queries(asked)}


def _queries(asked: Asked | None) -> list[dict[str, Any]]:
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
    asked: Asked,
    previews: Mapping[str, Preview | NotSupportedError],
    least: Mapping[str, Fraction],
) -> dict[str, Any]:
    """Return what ``plan --json`` prints; ``least`` epsilon by mechanism, if targets were given."""
    return {
        **({"least_epsilon": {name: str(each) for name, each in least.items()}} if least else {}),
        "epsilon": str(asked.plan.epsilon),
        "cells": asked.domain.cells,
        "mechanisms": {
            name: {"unsupported": str(each)}
            if isinstance(each, NotSupportedError)
            else _mechanism(asked, each)
            for name, each in previews.items()
        },
    }


def _mechanism(asked: Asked, preview: Preview) -> dict[str, Any]:
    outcome = preview.outcome
    names = [analyst.name for analyst in asked.plan.analysts]
    return {
        "total_error": outcome.total_error,
        **_beside(outcome.total_error, preview.bounds),
        "sharing_ratio": outcome.sharing_ratio,
        "interference": outcome.worst_interference,
        "interference_matrix": {
            joining: {
                other: float(outcome.interference[i, j]) for j, other in enumerate(names) if i != j
            }
            for i, joining in enumerate(names)
        },
        "analysts": {
            analyst.name: {
                "share": str(analyst.share),
                "error": outcome.errors[i],
                "alone": outcome.alone[i],
                "ratio": outcome.ratios[i],
                "queries": [
                    {"name": query.name, "rows": query.rows, "rmse": query.rmse}
                    for query in preview.queries[i]
                ],
            }
            for i, analyst in enumerate(asked.plan.analysts)
        },
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
        "mechanism": certificate.mechanism,
        "total_error": certificate.total,
        **_beside(certificate.total, certificate.bounds),
        "analysts": {
            name: {
                "share": str(standing.share),
                "alone": standing.alone,
                "error": standing.now,
                "ratio": standing.ratio,
                "interference": dict(standing.interference),
            }
            for name, standing in certificate.analysts.items()
        },
    }


def release_figures(release: Release) -> dict[str, Any]:
    """Return what ``release --json`` prints."""
    return _budget(release) | {
        "certificate": certificate_figures(release.certificate),
        "analysts": {
            analyst: {name: as_json(result) for name, result in results.items()}
            for analyst, results in release.results().items()
        },
    }


def query_figures(release: Release, result: Result) -> dict[str, Any]:
    """Return what ``query --json`` prints."""
    return _budget(release) | {"result": as_json(result)}


def result_figures(result: Result) -> dict[str, Any]:
    """Return what ``query --json`` prints for EXPLAIN, which needs no release."""
    return {"result": as_json(result)}


def _budget(release: Release) -> dict[str, Any]:
    return {
        "epsilon": str(release.measurement.epsilon),
        "spent": str(release.spent),
        "left": str(release.left),
    }


def ledger_figures(ledger: Ledger) -> dict[str, Any]:
    """Return what ``ledger --json`` prints."""
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

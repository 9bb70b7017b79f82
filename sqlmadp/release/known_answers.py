"""Known answers: which statements of a new release the stored ones answer already.

A new release of a table costs budget, and what an earlier one measured may answer some of its
statements for nothing.  Whoever is about to spend is told which, and how well.  Reads no record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from sqlmadp.answer.reader import Reader
from sqlmadp.answer.result import Result, number
from sqlmadp.errors import Error
from sqlmadp.private import Ledger, Measurement
from sqlmadp.release.bound_plan import Asked
from sqlmadp.release.history import everything
from sqlmadp.sql.statements import Statement


def known_answers(asked: Asked, ledger: Ledger) -> Iterator[str]:
    """Yield one sentence for every statement that a stored release of the same schema answers."""
    readers = [
        (charge.time, _reader(asked, everything(stored, ledger)))
        for charge in ledger.charges
        if (stored := ledger.find(charge.release)) is not None
        and stored.metadata.get("schema") == asked.schema_id
    ]
    if not readers:
        return
    for analyst, own in zip(asked.plan.analysts, asked.queries, strict=True):
        for query in own:
            found = [(time, _answer(reader, query.statement)) for time, reader in readers]
            errors = {time: _typical(each) for time, each in found if each is not None}
            if errors:
                time = min(errors, key=errors.__getitem__)
                yield (
                    f"{analyst.name}.{query.name} is answered, with ± {number(errors[time])}, by "
                    f"the release of {time}: 'sqlmadp query' answers it free"
                )


def _reader(asked: Asked, measurements: tuple[Measurement, ...]) -> Reader:
    cuts: dict[str, set[float]] = {}
    for measurement in measurements:
        for name, values in measurement.metadata["cuts"].items():
            cuts.setdefault(name, set()).update(values)
    columns = tuple(replace(column, cuts=()) for column in asked.domain.columns)
    domain = replace(asked.domain, columns=columns).with_cuts(cuts)
    return Reader(measurements, domain, asked.plan.limits)


def _answer(reader: Reader, statement: Statement) -> Result | None:
    try:
        return reader.answer(statement, None)
    except Error:  # It is not covered, or asks for constants that the release does not cut at.
        return None


def _typical(result: Result) -> float:
    """Return the root of the mean squared error of all answers."""
    errors = [e for column in result.rmse.values() for e in column if not math.isnan(e)]
    return math.sqrt(sum(e * e for e in errors) / len(errors)) if errors else 0.0

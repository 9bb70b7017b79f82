"""A reader: answers statements from the measurements of a release, keeping what can be used again.

Answering needs a sandbox with the declared values and a factored strategy; both serve every
statement whose constants the release already cuts its real columns at.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import duckdb

from sqlmadp.answer.errors import Exact, result_of
from sqlmadp.answer.processing import Processing
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import Result
from sqlmadp.answer.rows import Desk
from sqlmadp.answer.sizes import DRAWS
from sqlmadp.bind.bind import Binder, BoundQuery
from sqlmadp.errors import NotCoveredError
from sqlmadp.private import Measurement
from sqlmadp.sql.limits import DEFAULT, Limits
from sqlmadp.sql.sandbox import explain
from sqlmadp.sql.statements import Statement
from sqlmadp.table.domain import Domain

Reads = tuple[int, ...] | None
"""The numbers of the blocks that are read, of all measurements; None for all of them."""


class Reader:
    """Answers statements from measurements.  Belongs to one thread at a time."""

    def __init__(
        self,
        measurements: Sequence[Measurement],
        domain: Domain,
        limits: Limits = DEFAULT,
        processing: Processing = Processing(),  # noqa: B008 - It never changes.
        draws: int = DRAWS,
    ) -> None:
        """Read ``measurements`` over ``domain``, which has the cuts of what was asked."""
        self._measurements = measurements
        self._processing, self._draws = processing, draws
        self._binder = Binder(domain, limits)
        self._desk = Desk(limits)
        self._estimates: dict[Reads, Estimate] = {}
        self._like: dict[Reads, Estimate] = {}
        """The first estimate from each selection of blocks, of this reader and all over others."""
        self._exact: dict[Reads, dict[str, Exact]] = {}

    def over(self, measurements: Sequence[Measurement], draws: int = DRAWS) -> Reader:
        """Return a reader of other measurements of the same strategy, with the same noise.

        What does not depend on measured values is not worked out again: solvers, and errors
        that are exact.
        """
        other = copy(self)
        other._measurements, other._draws = measurements, draws
        other._estimates = {}
        return other

    def result(self, query: BoundQuery, reads: Sequence[int] | None) -> Result:
        """Return the rows of a query that was part of the release, from the blocks ``reads``."""
        known = self._exact.setdefault(None if reads is None else tuple(reads), {})
        return result_of(query, self._estimate(reads, self._binder.domain), self._desk, known)

    def answer(self, statement: Statement, reads: Sequence[int] | None) -> Result:
        """Return the rows of any statement that the blocks ``reads`` (None: all) support."""
        query, domain = self._binder.bind(statement)
        try:
            return result_of(query, self._estimate(reads, domain), self._desk)
        except NotCoveredError as error:
            refusal = statement.refuse(
                "not-covered",
                f"this release cannot answer the query: {error}",
                hint="Ask for less detail, or add the query to a plan and release it: "
                "only what was measured can be answered free.",
            )
        except duckdb.Error as error:  # A cast or a division that fails on released answers.
            refusal = statement.refuse("duckdb", explain(error)[0])
        raise refusal

    def _estimate(self, reads: Sequence[int] | None, domain: Domain) -> Estimate:
        key = None if reads is None else tuple(reads)
        if domain == self._binder.domain and key in self._estimates:
            return self._estimates[key]
        found = Estimate.of(self._measurements, domain, reads, self._processing, self._draws)
        if domain == self._binder.domain:
            self._estimates[key] = found
            found.solved_like(self._like.setdefault(key, found))
        return found

"""A binder: binds statements one by one over one domain, keeping the sandbox between them.

A statement that compares a real column with a constant at which the domain is not cut gets a
finer domain, and a sandbox, of its own.
"""

from __future__ import annotations

from sqlmadp.schema.domain import Domain
from sqlmadp.sql.bind import BoundQuery, bind, cuts
from sqlmadp.sql.evaluate import Evaluator
from sqlmadp.sql.limits import DEFAULT, Limits
from sqlmadp.sql.statements import Statement

MOST_STATEMENTS = 1000
"""Statements bound in one sandbox, which remembers a little of each."""


class Binder:
    """Binds statements over one domain.  Belongs to one thread at a time."""

    def __init__(self, domain: Domain, limits: Limits = DEFAULT) -> None:
        self.domain, self.limits = domain, limits
        self._evaluator: Evaluator | None = None
        self._bound = 0

    def bind(self, statement: Statement) -> tuple[BoundQuery, Domain]:
        """Return a statement bound, and the domain it is bound to: this one, or a finer one."""
        domain = self.domain.with_cuts(cuts([statement], self.domain, self.limits))
        if domain != self.domain:
            return bind(statement, Evaluator(domain, self.limits)), domain
        if self._evaluator is None or self._bound >= MOST_STATEMENTS:
            self._evaluator, self._bound = Evaluator(self.domain, self.limits), 0
        self._bound += 1
        return bind(statement, self._evaluator), self.domain

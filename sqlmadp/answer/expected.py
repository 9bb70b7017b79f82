"""Expected errors of a bound query, from the strategy alone: no measurement is needed."""

from __future__ import annotations

from sqlmadp.answer.errors import by_name
from sqlmadp.answer.exact import exact_errors
from sqlmadp.answer.reconstruct import Estimate
from sqlmadp.answer.result import is_number
from sqlmadp.answer.rows import Desk
from sqlmadp.errors import ProgrammingError
from sqlmadp.sql.bound import BoundQuery
from sqlmadp.sql.kinds import Kind


class ExpectedErrors(dict[str, tuple[float, ...]]):
    """Expected errors (RMSE) by column, and then by row, before the release."""

    def __init__(self, errors: dict[str, tuple[float, ...]], later: tuple[str, ...]) -> None:
        super().__init__(errors)
        self.later = later
        """The columns whose error depends on the answers, so that only the release will tell."""

    def __missing__(self, name: str) -> tuple[float, ...]:
        if name in self.later:
            raise ProgrammingError(
                f"the expected error of {name!r} depends on the answers, so it is known once the "
                "release is made; that of counts, sums and what is added up from them is known now"
            )
        raise KeyError(name)


def expected_error(query: BoundQuery, estimate: Estimate) -> ExpectedErrors:
    """Return, for every column that is linear in the answers, the expected error of every row.

    The rows are all that the statement can have, before HAVING, ORDER BY and LIMIT, which depend on
    answers; so do the errors of ratios, means and quantiles, which are left for ``later``.
    ``estimate`` needs no values.
    """
    exact = exact_errors(query, estimate, Desk())
    later = tuple(
        name
        for place, (name, kind) in enumerate(query.columns)
        if query.kinds[place] != Kind.FREE and is_number(kind) and place not in exact.errors
    )
    return ExpectedErrors(by_name(query, exact.errors), later)

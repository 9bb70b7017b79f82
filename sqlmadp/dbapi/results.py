"""Results by statement: rows are post-processing, so the same statement has the same rows."""

from __future__ import annotations

from collections import OrderedDict

from sqlmadp.answer.result import Result

MOST_RESULTS = 1000
MOST_ROWS = 200_000
"""Results and rows that are kept; those not asked for longest go first."""


class Results:
    """The results asked for last, by the dialect and text of their statements."""

    def __init__(self) -> None:
        self._results: OrderedDict[tuple[str, str], Result] = OrderedDict()
        self._rows = 0

    def get(self, key: tuple[str, str]) -> Result | None:
        """Return the rows of a statement, if they are kept."""
        if key not in self._results:
            return None
        self._results.move_to_end(key)
        return self._results[key]

    def put(self, key: tuple[str, str], result: Result) -> None:
        """Keep the rows of a statement, and forget others as far as needed."""
        if len(result) > MOST_ROWS:
            return
        self._results[key] = result
        self._rows += len(result)
        while len(self._results) > MOST_RESULTS or self._rows > MOST_ROWS:
            _, forgotten = self._results.popitem(last=False)
            self._rows -= len(forgotten)

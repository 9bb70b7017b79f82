"""Every exception that sqlmadp raises on purpose.

    Warning                            PEP 249; never raised, but among a cursor's messages
    Error                              PEP 249
    ├── InterfaceError                 PEP 249: misuse of the Python interface
    └── DatabaseError                  PEP 249
        ├── DataError                  PEP 249
        ├── IntegrityError             PEP 249
        ├── InternalError              PEP 249
        │   ├── StrategyError          a strategy that must not be measured
        │   └── UnforeseenError        a mistake of ours: what to send to the authors
        ├── NotSupportedError          PEP 249
        │   └── UnfitPlanError         a mechanism or switch that cannot serve what is asked
        ├── OperationalError           PEP 249
        │   ├── SourceError            the private table cannot be read
        │   ├── LedgerError            the ledger cannot be used
        │   ├── BudgetExceededError    the ledger cannot cover a release
        │   └── NotReleasedError       answers were asked for before the release
        └── ProgrammingError           PEP 249
            ├── NotCoveredError        a query outside the span of what was measured
            └── InputError             files that need mending, every mistake listed
                ├── SchemaError        a schema file
                ├── PlanError          a plan file
                └── SqlError           analysts' statements

A message says where, what, why, and what to do now.  No message shows a value that was
read from a private table.

For programs every error carries the same three parts:

    code       a word that stays the same when the message is put better, such as
               ``not-released``; those of statements are listed in docs/sql.md
    context    where it is and the numbers it is about, by name
    hint       what to do now; empty if the message has nothing to add
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction


class Warning(Exception):  # noqa: N818 - The name is PEP 249's.
    """What a cursor notes in its ``messages``: a statement is accepted and most likely a slip."""


class Error(Exception):
    """Base of every error that sqlmadp raises on purpose."""

    code = "error"

    def __init__(
        self, message: str = "", *, hint: str = "", context: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.context: Mapping[str, object] = {} if context is None else context


class InterfaceError(Error):
    """The Python interface was misused."""

    code = "interface"


class DatabaseError(Error):
    """Base of the errors that concern the database."""

    code = "database"


class DataError(DatabaseError):
    """A value cannot be processed."""

    code = "data"


class IntegrityError(DatabaseError):
    """PEP 249 asks for this name; sqlmadp has no constraints to violate."""

    code = "integrity"


class InternalError(DatabaseError):
    """An inner check failed; nothing was spent."""

    code = "internal"


class NotSupportedError(DatabaseError):
    """A feature that sqlmadp does not have."""

    code = "not-supported"


class UnfitPlanError(NotSupportedError):
    """The plan's mechanism, shares or post-processing cannot serve what is asked.

    No statement is to blame: leaving one out is no remedy.
    """

    code = "unfit-plan"


class OperationalError(DatabaseError):
    """Something outside the program's control went wrong."""

    code = "operational"


class ProgrammingError(DatabaseError):
    """What was asked is wrong and can be mended by who asked."""

    code = "programming"


class StrategyError(InternalError):
    """A strategy that must not be measured."""

    code = "strategy"


class UnforeseenError(InternalError):
    """A mistake in sqlmadp itself; the message is what to send to its authors (`bug_report`)."""

    code = "unforeseen"


class SourceError(OperationalError):
    """The private table cannot be read; the message never depends on its records."""

    code = "source"


class LedgerError(OperationalError):
    """The ledger cannot be used, so nothing may be released."""

    code = "ledger"


class NotReleasedError(OperationalError):
    """Answers were asked for before the release."""

    code = "not-released"


class BudgetExceededError(OperationalError):
    """The ledger cannot cover a release; nothing was spent, and nothing is shown.

    ``measured``: the table was read when the refusal came, since another release took the
    budget meanwhile; what was measured is forgotten unseen.
    """

    code = "budget-exceeded"

    def __init__(
        self, *, budget: Fraction, spent: Fraction, asked: Fraction, measured: bool = False
    ) -> None:
        left = budget - spent
        nothing = (
            "another release took the budget meanwhile, so nothing was spent and nothing is shown"
            if measured
            else "nothing was spent and no record was read"
        )
        advice = (
            f"Lower epsilon in the plan to at most {left}."
            if left > 0
            else "No budget is left, so no further release can be made against this ledger."
        )
        super().__init__(
            f"this release asks for epsilon {asked}, but the ledger has {left} left "
            f"(budget {budget}, spent {spent}); {nothing}. {advice}",
            hint=advice,
            context={"budget": budget, "spent": spent, "asked": asked, "left": left},
        )
        self.budget, self.spent, self.asked, self.left = budget, spent, asked, left


class NotCoveredError(ProgrammingError):
    """A query outside the span of what the release measured."""

    code = "not-covered"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One mistake in one file: where it is, what it is, why, and what to do instead."""

    file: str
    message: str
    code: str
    hint: str = ""
    line: int = 0
    """Counted from 1; 0 when the mistake has no line."""
    column: int = 0
    """Counted from 1; 0 when the mistake has no column."""
    excerpt: str = ""
    """The source line, with the offending span underlined on a line below it."""

    @property
    def context(self) -> Mapping[str, object]:
        """Return where the mistake is; what is not known is left out."""
        known = {"file": self.file, "line": self.line, "column": self.column}
        return {name: value for name, value in known.items() if value} | (
            {"excerpt": self.excerpt} if self.excerpt else {}
        )

    def __str__(self) -> str:
        place = ":".join([self.file, *(str(n) for n in (self.line, self.column) if n)])
        parts = [f"{place}: {self.message}"]
        if self.excerpt:
            parts.append("\n".join("    " + line for line in self.excerpt.splitlines()))
        if self.hint:
            parts.append(self.hint)
        return "\n\n".join(parts) if self.excerpt else "\n".join(parts)


class InputError(ProgrammingError):
    """Files that need mending; ``problems`` lists every mistake that was found.

    ``code``, ``context`` and ``hint`` are those of the first.
    """

    code = "input"

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n\n".join(str(problem) for problem in self.problems))
        if self.problems:
            first = self.problems[0]
            self.code, self.context, self.hint = first.code, first.context, first.hint


class SchemaError(InputError):
    """A schema file needs mending."""


class PlanError(InputError):
    """A plan file needs mending."""


class SqlError(InputError):
    """Analysts' statements need mending."""

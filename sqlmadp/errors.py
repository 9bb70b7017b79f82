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
read from a private table.  Names, values and SQL that others wrote may be of any length; a message
takes at most 2 KB all the same, since what is long is shortened here, in the middle.

For programs every error carries the same three parts:

    code       a word that stays the same when the message is put better, such as
               ``not-released``; those of statements are listed in docs/sql.md
    context    where it is and the numbers it is about, by name
    hint       what to do now; empty if the message has nothing to add
"""

import hashlib
import platform
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

LONGEST = 2000
"""Bytes of one message."""
_FILE, _MESSAGE, _HINT, _EXCERPT = 220, 650, 600, 450
"""Bytes of the parts of a problem; together they stay below ``LONGEST``."""
_CUT = " [...] "


def shortened(text: str, most: int = LONGEST) -> str:
    """Return a text in at most ``most`` bytes of UTF-8, without its middle if it is longer."""
    if len(text) * 4 <= most or len(encoded := text.encode(errors="replace")) <= most:
        return text
    half = (most - len(_CUT)) // 2
    first, last = (part.decode(errors="ignore") for part in (encoded[:half], encoded[-half:]))
    return f"{first}{_CUT}{last}"


def _narrowed(excerpt: str) -> str:
    """Return the lines of an excerpt, cut alike at their ends where they are long."""
    lines = excerpt.splitlines()[:2]
    width = max(map(len, lines), default=0)
    while width and len("\n".join(lines).encode(errors="replace")) > _EXCERPT:
        width -= max(1, width // 8)
        lines = [line[:width] for line in lines]
    return "\n".join(lines)


class Warning(Exception):  # noqa: N818 - The name is PEP 249's.
    """What a cursor notes in its ``messages``: a statement is accepted and most likely a slip."""


class Error(Exception):
    """Base of every error that sqlmadp raises on purpose."""

    code = "error"

    def __init__(
        self, message: str = "", *, hint: str = "", context: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(shortened(message))
        self.hint = shortened(hint)
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
    """A mistake in sqlmadp itself; the message is what to send to its authors."""

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

    def __post_init__(self) -> None:
        """Shorten what is long."""
        object.__setattr__(self, "message", shortened(self.message, _MESSAGE))
        object.__setattr__(self, "hint", shortened(self.hint, _HINT))
        if len(self.excerpt) > _EXCERPT // 4:
            object.__setattr__(self, "excerpt", _narrowed(self.excerpt))

    @property
    def context(self) -> Mapping[str, object]:
        """Return where the mistake is; what is not known is left out."""
        known = {"file": self.file, "line": self.line, "column": self.column}
        return {name: value for name, value in known.items() if value} | (
            {"excerpt": self.excerpt} if self.excerpt else {}
        )

    def __str__(self) -> str:
        file = shortened(self.file, _FILE)
        place = ":".join([file, *(str(n) for n in (self.line, self.column) if n)])
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
        super().__init__()
        # Every mistake is listed, however many there are; each is short by itself.
        self.args = ("\n\n".join(str(problem) for problem in self.problems),)
        if self.problems:
            first = self.problems[0]
            self.code, self.context, self.hint = first.code, first.context, first.hint


class SchemaError(InputError):
    """A schema file needs mending."""


class PlanError(InputError):
    """A plan file needs mending."""


class SqlError(InputError):
    """Analysts' statements need mending."""


# What nobody foresaw: the command line, `Plan.release` and connections pass through `reporting`.

ROOT = Path(__file__).parent

SHOWN_PLACES = 4
"""Name the last places of an unforeseen exception, where it happened."""


def unforeseen(error: BaseException) -> UnforeseenError:
    """Return the report of an exception that nobody foresaw.

    It names versions, the kind of the exception and the places in sqlmadp's own code that it
    passed, but no SQL, no name and no value.
    """
    from importlib.metadata import version  # noqa: PLC0415 - It loads slowly.

    places = _places(error)
    kind = type(error).__name__
    digest = hashlib.sha256(" ".join([kind, *places]).encode()).hexdigest()[:8]
    versions = f"sqlmadp {version('sqlmadp')}, DuckDB {version('duckdb')}"
    return UnforeseenError(
        f"something happened that nobody foresaw: {kind} at {', '.join(places[-SHOWN_PLACES:])} "
        f"(report {digest}; {versions}, Python {platform.python_version()}). Please send this line "
        "to the authors: it holds no SQL and no value. If a release was recorded, nothing is lost, "
        "and running it again is free",
        context={"report": digest, "places": tuple(places)},
    )


def _places(error: BaseException) -> list[str]:
    """Return the places in our own code that an exception passed, as ``answer/rows.py:71``."""
    frames = traceback.extract_tb(error.__traceback__)
    paths = ((Path(frame.filename), frame.lineno) for frame in frames)
    own = [f"{path.relative_to(ROOT)}:{line}" for path, line in paths if path.is_relative_to(ROOT)]
    return own or ["no place of its own"]


@contextmanager
def reporting() -> Iterator[None]:
    """Let errors on purpose, interrupts and a full machine pass; report whatever else is raised."""
    try:
        yield
    except (Error, OSError, MemoryError, RecursionError):
        raise
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # What DuckDB makes of Ctrl-C.
            raise
        raise unforeseen(error) from error
    except Exception as error:
        raise unforeseen(error) from error

"""What nobody foresaw: one place turns any other exception into a message that can be sent on.

Every error that sqlmadp raises on purpose is an `errors.Error` and says what to do.  Anything else
is a mistake of ours.  The command line, ``Plan.release`` and connections pass through here, so that
whoever meets one reads what to report, and not a traceback: versions, the kind of the exception and
the places in sqlmadp's own code that it passed, but no SQL, no name and no value.
"""

from __future__ import annotations

import hashlib
import platform
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from sqlmadp.errors import Error, UnforeseenError

ROOT = Path(__file__).parents[1]

SHOWN = 4
"""Places that a report names: the last ones, where it happened."""


def unforeseen(error: BaseException) -> UnforeseenError:
    """Return the report of an exception that nobody foresaw."""
    places = _places(error)
    kind = type(error).__name__
    digest = hashlib.sha256(" ".join([kind, *places]).encode()).hexdigest()[:8]
    versions = f"sqlmadp {version('sqlmadp')}, DuckDB {version('duckdb')}"
    return UnforeseenError(
        f"something happened that nobody foresaw: {kind} at {', '.join(places[-SHOWN:])} (report "
        f"{digest}; {versions}, Python {platform.python_version()}). Please send this line to the "
        "authors: it holds no SQL and no value. If a release was recorded, nothing is lost, and "
        "running it again is free",
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

"""Starter: the files that ``sqlmadp init`` writes, a plan that can be released at once.

The plan, the schema and the analysts' statements are stored next to this module as written.  The
records are invented: every field is worked out from a hash of the record's number, so the same
table comes out everywhere.
"""

from __future__ import annotations

import csv
import hashlib
import io
from datetime import date, timedelta
from importlib import resources
from pathlib import Path

from sqlmadp.errors import OperationalError

FILES = ("plan.toml", "schema.toml", "hospital.sql", "city.sql")
"""What is copied as it is, in the order in which a reader opens it."""

TABLE = "visits.csv"
RECORDS = 5_000

WARDS = (("medicine", 45), ("surgery", 25), ("children", 18), ("maternity", 12))
"""The wards, each with its part in a hundred of the visits."""
FIRST_DAY = date(2024, 2, 1)


def write_starter(folder: Path) -> list[Path]:
    """Write the files into ``folder``, made if need be; refuse if one of them is there."""
    paths = [folder / name for name in (*FILES, TABLE)]
    if there := [path for path in paths if path.exists()]:
        raise OperationalError(
            f"{str(there[0])!r} is there already and is not overwritten; name another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            path.write_text(_content(path.name), encoding="utf-8", newline="\n")
    except OSError as error:
        raise OperationalError(
            f"cannot write into {str(folder)!r} ({error.strerror}); name another folder"
        ) from None
    return paths


def _content(name: str) -> str:
    if name == TABLE:
        return _records()
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def _records() -> str:
    """Return the invented table as CSV."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("day", "ward", "age", "emergency"))
    rows.writerows(_record(number) for number in range(RECORDS))
    return text.getvalue()


def _record(number: int) -> tuple[str, str, int, str]:
    chance = hashlib.blake2b(str(number).encode(), digest_size=8).digest()
    ward = _ward(chance[0] * 100 // 256)
    day = FIRST_DAY + timedelta(days=int.from_bytes(chance[1:3]) % 29)
    age = (chance[3] + chance[4] + chance[5]) * 100 // 768
    if ward == "children":
        age //= 6
    elif ward == "maternity":
        age = 18 + age // 4
    emergency = chance[6] < (90 if day.weekday() >= 5 else 50)
    return day.isoformat(), ward, age, str(emergency).lower()


def _ward(percent: int) -> str:
    """Return the ward of a visit whose place among a hundred is ``percent``."""
    for name, part in WARDS:
        if percent < part:
            return name
        percent -= part
    raise ValueError("the wards' parts sum to 100")

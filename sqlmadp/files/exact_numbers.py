"""Exact numbers as plans and options write them: epsilon, budget and shares are fractions."""

from __future__ import annotations

import re
from fractions import Fraction

from sqlmadp.files.toml import Table

_POSITIVE = 'a number above 0 in quotes, such as "1", "0.5" or "1/3", of at most 20 digits'
# Bounded, so that the number also fits wherever floating point works out an expected error.
_NUMBER = re.compile(
    r"[+-]?([0-9]{1,20}(/[0-9]{1,20})?|[0-9]{0,20}\.?[0-9]{1,20}(e[+-]?[0-9]{1,2})?)"
)


def exact(given: object) -> Fraction | None:
    """Return the number that a plan, or an option in its place, gives; None if it gives none."""
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) < 10**20:
        return Fraction(given)
    text = given if isinstance(given, str) else ""
    if not _NUMBER.fullmatch(text.lower()):
        return None
    try:
        return Fraction(text)
    except ZeroDivisionError:
        return None


def positive(table: Table, name: str) -> Fraction | None:
    """Return the exact positive number at ``name``, or None and a mistake noted."""
    given = table.values.get(name)
    if isinstance(given, float):
        hint = (
            f'In quotes it is exact: {name} = "{given}".' if _NUMBER.fullmatch(str(given)) else ""
        )
        table.refuse(name, _POSITIVE, hint=hint)
        return None
    number = exact(given)
    if number is None or number <= 0:
        table.refuse(name, _POSITIVE)
        return None
    return number

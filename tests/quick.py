"""Which cases run by default, where all of them take long: the rest is marked ``slow``."""

from collections.abc import Iterable

import pytest


def quick_first(count, cases: Iterable):
    """Return cases as parameters, of which only the first ``count`` run by default."""
    return quick(list(cases)[:count], cases)


def quick(few: Iterable, cases: Iterable):
    """Return cases as parameters, of which only those in ``few`` run by default."""
    few = list(few)
    return [case if case in few else pytest.param(case, marks=pytest.mark.slow) for case in cases]

"""Plans to connect to: one before its release, and one after it whose noise is next to nothing."""

from pathlib import Path

import pytest
from conftest import PlanFolder

import sqlmadp

ALICE = """
-- name: by_sex
SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex;
-- name: by_age
SELECT age, COUNT(*) AS n FROM visits GROUP BY age;
"""

BOB = """
-- name: smokers
SELECT COUNT(*) AS n_smokers FROM visits WHERE smoker;
-- name: days
SELECT day, COUNT(*) AS n FROM visits GROUP BY day;
-- name: ages_of_smokers
SELECT age, COUNT(*) AS n FROM visits WHERE smoker GROUP BY age;
"""

EXACT = {"epsilon": str(10**9), "budget": str(2 * 10**9)}
"""So much epsilon that every answer is exact."""


@pytest.fixture
def pending(plans) -> Path:
    """A plan before its release."""
    return plans.write({"alice": ALICE, "bob": BOB}, **EXACT)


@pytest.fixture(scope="session")
def released_folder(tmp_path_factory) -> PlanFolder:
    folder = PlanFolder(tmp_path_factory.mktemp("released"))
    folder.write({"alice": ALICE, "bob": BOB}, **EXACT)
    sqlmadp.Plan.open(folder.path).release()
    return folder


@pytest.fixture
def released(released_folder) -> Path:
    """A plan after its release."""
    return released_folder.path


@pytest.fixture(scope="session")
def connection(released_folder):
    """A connection of alice, which tests share as threads may."""
    with sqlmadp.connect(released_folder.path, analyst="alice") as connection:
        yield connection


@pytest.fixture
def staging(pending):
    """A connection of alice to a plan before its release."""
    with sqlmadp.connect(pending, analyst="alice") as connection:
        yield connection

"""The files that a plan names stay where the curator named them."""

import os

import pytest

from sqlmadp.errors import PlanError
from sqlmadp.files.plan import Plan

PLAN = """\
schema = "people.toml"
source = "people.parquet"
epsilon = "1"
[ledger]
path = "people.ledger"
budget = "2"
[analysts.alice]
queries = "{queries}"
"""
SECRET = "root:x:7310"


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a plan."""
    folder = tmp_path / "plan"
    for name in ("people.toml", "alice.sql", "more/a.sql", "more/deep/b.sql"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).touch()
    return folder


@pytest.fixture
def outside(tmp_path):
    """Return a folder beside the plan's, with a file that no analyst may see."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "passwd").write_text(SECRET)
    (place / "q.sql").write_text("SELECT COUNT(*) FROM people")
    return place


@pytest.fixture
def files(folder):
    """Return a function that opens a plan with these queries, and its files."""

    def run(queries):
        (folder / "plan.toml").write_text(PLAN.format(queries=queries))
        (analyst,) = Plan.open(folder / "plan.toml").analysts
        return analyst.files

    return run


@pytest.mark.parametrize(
    ("link", "queries"),
    [
        ("leak.sql", "leak.sql"),
        ("leak.sql", "l*.sql"),
        ("leak.sql", "**/leak.sql"),
        ("leak.sql", "{folder}/leak.sql"),
        ("away", "away/passwd"),
        ("away", "away/*"),
        ("away", "*/passwd"),
        (None, "../outside/passwd"),
        (None, "../outside/*"),
        (None, "more/../../outside/passwd"),
        (None, "more/*/../../../outside/passwd"),
    ],
)
def test_a_file_of_statements_does_not_lie_outside_the_plans_folder(
    files, folder, outside, link, queries
):
    if link is not None:
        (folder / link).symlink_to(outside if link == "away" else outside / "passwd")
    with pytest.raises(PlanError) as caught:
        files(queries.format(folder=folder))
    (problem,) = caught.value.problems
    assert problem.code in {"outside-folder", "wide-glob"}
    assert problem.message.startswith("analysts.alice.queries names")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["q.sql", "q*.sql"])
def test_a_file_elsewhere_is_named_by_its_absolute_path(files, outside, name):
    assert files(outside / name) == (outside / "q.sql",)


def test_a_link_that_stays_inside_the_plans_folder_is_followed(files, folder):
    (folder / "same.sql").symlink_to("more/a.sql")
    assert files("same.sql") == (folder / "same.sql",)


@pytest.mark.parametrize("queries", ["/**/passwd", "/*/passwd", "/usr/**/*.sql", "**/passwd"])
def test_a_glob_does_not_walk_the_disk(files, folder, monkeypatch, queries):
    (folder / "away").symlink_to("/")
    listed, scandir, listdir = [], os.scandir, os.listdir
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", lambda place=".": (listed.append(place), scandir(place))[1])
        patch.setattr(os, "listdir", lambda place=".": (listed.append(place), listdir(place))[1])
        with pytest.raises(PlanError):
            files(queries)
    assert len(listed) < 100


@pytest.mark.parametrize(
    "queries", ["more/**/b.sql", "**/b.sql", "more/deep/**", "more/**b.sql/b*"]
)
def test_two_stars_find_files_of_any_depth_that_are_not_hidden(files, folder, queries):
    (folder / "more" / "b.sql").mkdir()
    (folder / "more" / ".hidden").mkdir()
    (folder / "more" / ".hidden" / "b.sql").touch()
    (folder / "more" / "b.sql" / "b").touch()
    name = "more/b.sql/b" if queries.endswith("b*") else "more/deep/b.sql"
    assert files(queries) == (folder / name,)


@pytest.mark.parametrize("queries", [".", "..", "more", "a/" * 2000, "x" * 300, "x" * 300 + "*"])
def test_what_is_no_file_is_refused(files, queries):
    with pytest.raises(PlanError):
        files(queries)

"""The curator in Python: open a plan, preview it, release it, read rows and certificate."""

from fractions import Fraction

import pytest

import sqlmadp
from sqlmadp.errors import NotReleasedError
from sqlmadp.mechanism.baselines import Independent
from sqlmadp.mechanism.waterfilling import Waterfilling

BY_SEX = "-- name: by_sex\nSELECT sex, COUNT(*) AS n FROM visits GROUP BY sex;"
TOTAL = "-- name: total\nSELECT COUNT(*) AS n FROM visits;"


@pytest.fixture
def plan(plans):
    return sqlmadp.Plan.open(
        plans.write({"alice": BY_SEX, "bob": TOTAL}, shares={"alice": "2/3", "bob": "1/3"})
    )


def test_a_plan_is_previewed_released_and_read(plan):
    previews = plan.preview()
    assert list(previews) == ["waterfilling"]  # The plan's own.
    assert [a.name for a in previews.asked.plan.analysts] == ["alice", "bob"]
    release = plan.release()
    assert len(release.rows("alice", "by_sex")) == 3
    assert release.rows("bob", "total").columns == (("n", "BIGINT"),)
    assert (
        release.query("SELECT COUNT(*) FROM visits", "bob").rows
        == release.rows("bob", "total").rows
    )


def test_a_completed_release_is_returned_again_free(plan):
    rows = plan.release().rows("alice", "by_sex")
    again = plan.release()
    assert again.rows("alice", "by_sex") == rows
    assert again.spent == Fraction(1)
    assert plan.released().rows("alice", "by_sex") == rows


def test_a_plan_that_was_not_released_says_so(plan):
    with pytest.raises(NotReleasedError, match="is pending"):
        plan.released()


def test_previews_name_the_mechanisms_that_were_asked_for(plan):
    heard = []
    assert list(plan.preview("identity", progress=heard.append)) == ["identity"]
    assert heard == ["binding statements", "mechanism identity"]
    with pytest.raises(sqlmadp.ProgrammingError, match="no mechanism 'magic'; there are"):
        plan.preview("magic")


def test_a_preview_says_how_many_of_its_steps_are_done(plan):
    heard = []
    plan.preview("utilitarian", progress=heard.append)
    steps = [stage for stage in heard if stage.startswith("mechanism utilitarian: ")]
    done = [int(stage.split()[2]) for stage in steps]
    assert all(stage.endswith(" of 4 steps") for stage in steps)
    assert done == sorted(done)
    assert {2, 3} <= set(done)  # One analyst after the other is left out.


def test_unknown_analysts_and_queries_are_refused(plan):
    release = plan.release()
    with pytest.raises(sqlmadp.ProgrammingError, match="no analyst 'eve'"):
        release.rows("eve", "by_sex")
    with pytest.raises(sqlmadp.ProgrammingError, match="'bob' has no query 'by_sex'"):
        release.rows("bob", "by_sex")


@pytest.mark.parametrize("mechanism", ["waterfilling", "independent", "identity"])
def test_the_certificate_says_what_the_preview_said(plans, mechanism):
    path = plans.write({"alice": BY_SEX, "bob": TOTAL}, mechanism=mechanism)
    plan = sqlmadp.Plan.open(path)
    expected = plan.preview()[mechanism]
    certificate = plan.release().certificate
    assert certificate.mechanism == mechanism
    assert list(certificate.analysts) == ["alice", "bob"]
    for name, standing in certificate.analysts.items():
        previewed = expected.analysts[name]
        assert standing.share == Fraction(1, 2)
        assert standing.now == pytest.approx(previewed.now)
        assert standing.alone == pytest.approx(previewed.alone)
        assert standing.ratio == pytest.approx(previewed.ratio)
        assert standing.interference == pytest.approx(previewed.interference)
        assert standing.within_agreement == pytest.approx(previewed.within_agreement)
        assert standing.statements == previewed.statements
    assert certificate.total == pytest.approx(expected.total)


def test_the_certificate_is_of_what_was_measured(plan, monkeypatch):
    measured = plan.release().certificate
    # What this machine would select by now is something else, and worse.
    alone = Independent().select
    monkeypatch.setattr(Waterfilling, "select", lambda _, *asked: alone(*asked))
    certificate = plan.released().certificate
    for name, standing in certificate.analysts.items():
        assert standing.now == measured.analysts[name].now < standing.alone

"""A reader keeps what does not depend on measured values, from the trial to the real answers."""

import pytest

from sqlmadp.answer import processing
from sqlmadp.files.plan import Plan
from sqlmadp.release.release import release

QUESTIONS = {
    "alice": "SELECT age, COUNT(*) AS n FROM visits GROUP BY age; SELECT AVG(age) FROM visits",
    "bob": "SELECT sex, COUNT(*) - SUM(age) AS v FROM visits GROUP BY sex",
}


@pytest.mark.parametrize("options", [{}, {"nonnegative": True}, {"consistent": True}])
def test_a_strategy_is_factored_once_for_the_trial_and_the_real_answers(
    plans, monkeypatch, options
):
    path = plans.write(QUESTIONS)
    lines = [f"{name} = true\n" for name in options]
    path.write_text("".join(lines) + path.read_text())
    factored = []
    once = processing.solution_of

    def counted(blocks):
        factored.append(blocks)
        return once(blocks)

    monkeypatch.setattr(processing, "solution_of", counted)
    done = release(Plan.open(path))
    assert not done.results().failed
    # Once for all answers, and once for the certificate, which states errors before processing.
    assert len(factored) == 2

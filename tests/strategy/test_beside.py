"""A strategy beside what is known: the slope is right, and what is known is not measured again."""

import numpy as np
from scipy.optimize import approx_fprime
from small_tables import histogram, total

from sqlmadp.strategy.beside import Known, _Beside, beside
from sqlmadp.strategy.joint import Draft
from sqlmadp.strategy.layout import laid_over
from sqlmadp.workload.workload import Workload, stacked

ASKING = [Workload.of([histogram("a")]), Workload.of([histogram("b"), total()])]
LAYOUT = laid_over(stacked(ASKING), {("a",), ("b",)})
GRAMS = np.array([LAYOUT.gram_of(workload) for workload in ASKING])


def start(rows=0):
    random = np.random.default_rng(1)
    return Draft(LAYOUT, (0.3, 0.7), tuple(random.random((rows, s.groups)) for s in LAYOUT.scopes))


def test_the_slope_is_that_of_the_loss():
    random = np.random.default_rng(2)
    known = random.normal(size=GRAMS.shape[1:])
    problem = _Beside(start(rows=2), Known(known.T @ known, 3.0, GRAMS, np.array([0.5, np.inf])))
    place = problem.start + 0.1 * random.random(len(problem.start))
    slope = problem.loss_and_gradient(place, 10.0)[1]
    expected = approx_fprime(place, lambda x: problem.loss_and_gradient(x, 10.0)[0], 1e-7)
    np.testing.assert_allclose(slope, expected, atol=1e-5 * np.abs(slope).max())


def test_what_is_known_well_gets_less_weight():
    nothing = 1e-6 * np.eye(GRAMS.shape[1])
    well = nothing + 1e3 * LAYOUT.cells[0].T @ LAYOUT.cells[0]
    free = np.full(2, np.inf)
    fresh, rest = (beside(start(), Known(k, 1.0, GRAMS, free)).weights for k in (nothing, well))
    assert rest[0] < 0.2 * fresh[0]


def test_a_cap_is_met_if_it_can_be():
    nothing = 1e-6 * np.eye(GRAMS.shape[1])

    def errors(draft):
        problem = _Beside(draft, Known(nothing, 1.0, GRAMS, np.full(2, np.inf)))
        each = []
        for gram in GRAMS:
            one = _Beside(draft, Known(nothing, 1.0, gram[None], np.full(1, np.inf)))
            each.append(one.loss_and_gradient(problem.start, 0.0)[0] * one._unit)
        return np.array(each)

    plain = errors(beside(start(), Known(nothing, 1.0, GRAMS, np.full(2, np.inf))))
    caps = np.array([0.8 * plain[0], np.inf])
    capped = errors(beside(start(), Known(nothing, 1.0, GRAMS, caps)))
    assert plain[0] > caps[0] * 1.1
    assert capped[0] < caps[0] * 1.05

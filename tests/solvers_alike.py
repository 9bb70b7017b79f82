"""What it takes for two solvers to give the same answers."""

import numpy as np

from sqlmadp.errors import NotCoveredError


def outcome(work):
    """What a solver says, or that it refuses."""
    try:
        return work()
    except NotCoveredError:
        return None


def assert_agree(one, other, blocks, asked, seed):
    """Variances, totals, answers and noise of some queries are the same to 1e-9."""
    random = np.random.default_rng(seed)
    values = [random.normal(scale=b.rows, size=b.rows) for b in blocks]
    for work in (
        lambda s: s.variances(asked),
        lambda s: s.total([asked]),
        lambda s: s.fit(values)(asked),
        lambda s: (s.noise(asked) @ s.noise(asked).T).diagonal(),
    ):
        found, expected = (outcome(lambda s=s, w=work: w(s)) for s in (one, other))
        assert (found is None) == (expected is None)
        if expected is not None:
            scale = np.abs(expected).max(initial=1e-300)
            # An answer can be far smaller than the values that it is rounded beside.
            rounding = 1e-14 * max(np.abs(value).max() for value in values)
            close = 1e-9 * scale + rounding
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=close)
    for found, expected in zip(
        one.fitted(one.estimate(values)), other.fitted(other.estimate(values)), strict=True
    ):
        scale = np.abs(expected).max(initial=1e-300)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)

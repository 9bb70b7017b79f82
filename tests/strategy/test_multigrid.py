"""p-Identity over merged groups: the loss is that over all groups, and nothing gets lost."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from sqlmadp.strategy.multigrid import Grid, _moved, search
from sqlmadp.strategy.p_identity import loss_and_gradient

RANDOM = np.random.default_rng(3)


def prefix_gram(groups):
    return np.tri(groups).T @ np.tri(groups)


@pytest.mark.parametrize(("groups", "count"), [(12, 4), (13, 5), (7, 7), (9, 1)])
def test_the_loss_over_merged_groups_is_that_of_the_same_rows_over_all_groups(groups, count):
    gram = prefix_gram(groups) + np.diag(RANDOM.random(groups))
    grid = Grid.of(gram).coarser(count)
    rows = RANDOM.random((2, count))
    everywhere = loss_and_gradient(rows[:, grid.labels], gram)[0]
    assert grid.loss(rows)[0] == pytest.approx(everywhere)


@pytest.mark.parametrize(("groups", "count"), [(12, 4), (13, 5)])
def test_its_gradient_is_its_slope(groups, count):
    grid = Grid.of(prefix_gram(groups) / groups**2).coarser(count)
    rows = RANDOM.random((3, count))
    slope = approx_fprime(
        rows.reshape(-1), lambda flat: grid.loss(flat.reshape(rows.shape))[0], 1e-7
    )
    np.testing.assert_allclose(grid.loss(rows)[1].reshape(-1), slope, rtol=1e-4, atol=1e-5)


def test_every_group_is_in_one_merged_group_and_their_sizes_hardly_differ():
    for groups, count in ((13, 5), (300, 64), (64, 64)):
        grid = Grid.of(np.eye(groups)).coarser(count)
        np.testing.assert_array_equal(np.bincount(grid.labels), grid.sizes)
        assert np.ptp(grid.sizes) <= 1
        assert (np.diff(grid.labels) >= 0).all()


def test_moving_to_finer_groups_does_not_change_the_loss():
    gram = prefix_gram(24)
    coarse, fine = Grid.of(gram).coarser(4), Grid.of(gram).coarser(12)
    rows = RANDOM.random((2, 4))
    assert fine.loss(_moved(rows, coarse, fine))[0] == pytest.approx(coarse.loss(rows)[0])


def test_a_search_beats_the_identity_by_far_and_leaves_frozen_groups_alone():
    gram = prefix_gram(200)
    frozen = np.arange(200) == 150
    gram[frozen], gram[:, frozen] = 0, 0
    rows = search(gram, frozen)
    assert not rows[:, frozen].any()
    assert (rows >= 0).all()
    assert loss_and_gradient(rows, gram)[0] < 0.35 * np.trace(gram)
    np.testing.assert_array_equal(rows, search(gram, frozen))

"""Closed forms of overtraining in linear networks, against integration, Monte Carlo, brute force and real matrices."""

import numpy as np
import pytest
from mode_descent import descended, followed, matrix_descent

from raysweep.theory import spectrum

SOURCE = np.array([2.0, 1.3, 0.8, 0.45, 0.2, 0.1])


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_a_mode_follows_its_differential_equation(depth):
    start = np.array([0.01, 0.3, 1.5, 0.7, 1.2])
    goal = np.array([2.0, 0.5, 0.4, 0.0, 1.2**depth])
    for time in (0.3, 2.0, 9.0):
        end = followed(start, goal, time, depth)
        np.testing.assert_allclose(spectrum.follow(start, goal, time, depth), end, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("depth", [2, 3])
def test_a_mode_far_above_its_goal_fades_as_towards_zero(depth):
    goals = np.array([1e-300, 1e-25, 1e-17, 0.0])
    faded = spectrum.follow(0.3, goals, 2.0, depth)
    np.testing.assert_allclose(faded, faded[-1], rtol=1e-9)
    assert 0 < faded[-1] < 0.3


@pytest.mark.parametrize("depth", [2, 4])
def test_a_mode_at_zero_stays_and_every_other_one_arrives(depth):
    end = spectrum.follow([0.0, 1e-3, 2.0, 0.4], [1.0, 1.0, 0.3, 0.0], np.inf, depth) ** depth
    np.testing.assert_allclose(end, [0, 1, 0.3, 0], atol=1e-15)
    assert spectrum.follow(0.0, 1.0, np.inf, 1) == 1


def test_two_layers_under_noise_have_the_formula_of_the_paper():
    learned = np.array([[1.9, 0.7, 0.02], [0.3, 0.1, 0.0]])
    noise = np.array([0.3, 0.05])
    expected = 2 * 3 * noise**2 * learned.sum(1) + 27 * noise**4
    np.testing.assert_allclose(spectrum.noise_excess(np.sqrt(learned), noise, 2), expected, rtol=1e-13)


def test_noise_inflection_is_the_first_rise_over_whole_modes():
    random = np.random.default_rng(5)
    seen = set()
    for _ in range(300):
        dim = int(random.integers(2, 9))
        sigma = np.sort(random.uniform(0.05, 2, dim))[::-1]
        noise = random.uniform(0.02, 0.7)
        losses = [(sigma[n:] ** 2).sum() + 2 * dim * noise**2 * sigma[:n].sum() for n in range(dim + 1)]
        first = next((n for n in range(dim) if losses[n] < losses[n + 1]), dim)
        assert spectrum.noise_inflection(sigma, noise, 2) == first
        seen.add("none" if first == dim else min(first, 1))
    assert seen == {"none", 0, 1}


def test_deeper_networks_lose_a_mode_to_less_or_more_noise_as_their_losses_say():
    for noise in (0.05, 0.15, 0.3):
        losses = spectrum.whole_mode_noise_losses(SOURCE, noise, 3)
        index = spectrum.noise_inflection(SOURCE, noise, 3)
        assert (np.diff(losses[: index + 1]) <= 0).all()
        assert index == len(SOURCE) or losses[index + 1] > losses[index]


def test_finetune_inflection_is_the_first_rise_and_moves_out_with_the_penalty():
    random = np.random.default_rng(6)
    located = 0
    for _ in range(300):
        dim = int(random.integers(2, 9))
        sigma, target = np.sort(random.uniform(0.05, 2, dim))[::-1], random.uniform(0, 2, dim)
        indices = []
        for penalty in (0.0, 0.5, 1.0, 3.0, 10.0):
            gaps = ((target - sigma) / (1 + penalty)) ** 2
            losses = [gaps[:n].sum() + (sigma[n:] ** 2).sum() for n in range(dim + 1)]
            first = next((r for r in range(1, dim) if losses[r] < losses[r + 1]), dim)
            indices.append(spectrum.finetune_inflection(sigma, target, penalty))
            assert indices[-1] == first
        assert indices == sorted(indices)  # O Thm 4.7
        located += indices[0] < dim
    assert located > 100


def test_a_turned_task_keeps_its_spectrum_and_turns_every_vector_by_the_angle():
    for angle in (0.0, 25.0, 90.0, 180.0):
        task = spectrum.turned(SOURCE, angle)
        left, values, right = np.linalg.svd(task)
        np.testing.assert_allclose(values, SOURCE, rtol=1e-12)
        cosine = np.diag(right) * np.diag(left)  # right vectors against the axes, the common sign removed
        np.testing.assert_allclose(cosine, np.cos(np.deg2rad(angle)), atol=1e-12)
        other = SOURCE[::-1] ** 2
        assert spectrum.turned_loss(other, SOURCE, angle) == pytest.approx(((np.diag(other) - task) ** 2).sum())
    odd = spectrum.turned(SOURCE[:5], 90.0)
    assert odd[4, 4] == SOURCE[4]
    assert spectrum.turned_loss(SOURCE[:5], SOURCE[:5], 90.0) == pytest.approx(((np.diag(SOURCE[:5]) - odd) ** 2).sum())


def best_rates(source, target, steps=5):
    """The rate with the least in-domain loss after `steps` steps from n whole modes, n = 1 …, by real matrices."""
    rates = np.geomspace(0.01, 1, 161)
    results = []
    for n in range(1, len(source) + 1):
        weights = np.sqrt(np.where(np.arange(len(source)) < n, source, 0.0))
        losses = ((descended(weights, target, rates[:, None], steps, 2) ** 2 - target) ** 2).sum(1)
        results.append(rates[np.nanargmin(losses)])
    end = matrix_descent([np.diag(weights)] * 2, np.diag(target), results[-1], steps)  # all learned
    assert np.nanmin(losses) == pytest.approx(((end[0] @ end[1] - np.diag(target)) ** 2).sum(), rel=1e-9)
    return np.array(results)


def test_the_best_rate_moves_with_pretraining_as_the_order_of_the_target_says():
    """It rises where the largest target mode is learned first, and falls where the target grows along the order."""
    source = np.array([4.0, 2.0, 1.0, 0.5, 0.25])
    falling, growing = np.array([2.0, 1.0, 0.9, 0.8, 0.7]), np.array([0.2, 0.4, 0.8, 1.6, 3.2])
    bounds = [[2 / spectrum.curvature(target[:n], 0.0, 2).max() for n in range(1, 6)] for target in (falling, growing)]
    rates = best_rates(source, falling)
    assert (np.diff(rates) >= 0).all()
    assert 1.5 * rates[0] < rates[-1] < bounds[0][0]
    assert np.ptp(bounds[0]) == 0  # it is not the bound that moves
    rates = best_rates(source[1:], growing[1:])
    assert rates[-1] < rates[0]
    assert (np.diff(bounds[1]) < 0).all()

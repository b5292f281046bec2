"""Kernels of two-layer ReLU networks, and their limit in training, against integrals, random features and iteration."""

import itertools

import numpy as np
import pytest
from limits import length_squared
from scipy.integrate import quad

from raysweep.theory import relu


def rows(count, dim, seed, unit=True):
    result = np.random.default_rng(seed).standard_normal((count, dim))
    return result / np.linalg.norm(result, axis=1, keepdims=True) if unit else result


def test_slopes_of_nearly_parallel_rows_keep_their_digits():
    some = rows(200, 7, 3, unit=False)
    squares = (some**2).sum(1)
    np.testing.assert_allclose(relu.slopes(some, some).diagonal(), squares / 2, rtol=1e-15)
    np.testing.assert_allclose(relu.slopes(some, -some).diagonal(), 0, atol=1e-15 * squares.max())
    assert relu.activations(np.zeros((1, 7)), some).tolist() == [[0] * 200]
    for turn in (1e-9, 1e-5, 9e-4, 2e-3):  # on both sides of where the cosine is not used any more
        turned = np.array([[np.cos(turn), np.sin(turn)]])
        expected = np.cos(turn) * (np.pi - turn) / (2 * np.pi)
        np.testing.assert_allclose(relu.slopes(np.array([[1.0, 0.0]]), turned), [[expected]], rtol=1e-13)
        np.testing.assert_allclose(
            relu.slopes(np.array([[-1.0, 0.0]]), turned), [[-np.cos(turn) * turn / (2 * np.pi)]], atol=2e-14
        )


def test_copies_of_features_change_nothing_and_their_own_span_leaves_nothing():
    features, weights = rows(20, 8, 7), np.random.default_rng(8).standard_normal((3, 30))
    teachers = np.concatenate([features, rows(10, 8, 9)])
    once = relu.residual(features, teachers, weights)[0]
    copies = np.concatenate([features] * 10) + 1e-12 * rows(200, 8, 10)
    np.testing.assert_allclose(relu.residual(copies, teachers, weights)[0], once, rtol=1e-6)
    inside = np.concatenate([weights[:, :20], np.zeros((3, 10))], 1)
    outside, whole = relu.residual(copies, teachers, inside)
    assert (outside < 1e-9 * whole).all()
    nothing, whole = relu.residual(np.zeros((0, 8)), teachers, weights)
    assert (nothing == whole).all()


def test_the_residual_is_that_of_a_dense_solve_where_features_are_far_from_dependent():
    features, teachers, weights = rows(12, 20, 11), rows(7, 20, 12), np.random.default_rng(13).standard_normal((5, 7))
    across = relu.activations(features, teachers) @ weights.T
    whole = np.einsum("fi,ij,fj->f", weights, relu.activations(teachers, teachers), weights)
    solved = whole - (across * np.linalg.solve(relu.activations(features, features), across)).sum(0)
    np.testing.assert_allclose(relu.residual(features, teachers, weights)[0], solved, rtol=1e-10)


# Training


@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.3, np.pi / 2, 2.5, np.pi])
def test_both_kernels_are_integrals_over_the_direction_of_a_gaussian_vector(angle):
    first, second = np.array([[1.0, 0.0]]), np.array([[np.cos(angle), np.sin(angle)]])
    left, right = np.hstack([3 * first, np.zeros((1, 2))]), np.hstack([second / 2, np.zeros((1, 2))])
    edges = [-np.pi / 2, np.pi / 2, angle - np.pi / 2]  # where one of the two neurons is switched on or off

    def mean(value):
        parts = itertools.pairwise(sorted({-np.pi, np.pi, *edges}))
        return sum(quad(value, low, high, epsabs=1e-14)[0] for low, high in parts) / (2 * np.pi)

    both = mean(lambda at: float(np.cos(at) > 0 and np.cos(at - angle) > 0))
    assert relu.slopes(left, right)[0, 0] == pytest.approx(1.5 * np.cos(angle) * both, abs=1e-10)
    # E r² = 2 for the length r of a Gaussian vector in the plane
    product = mean(lambda at: 2 * max(np.cos(at), 0.0) * max(np.cos(at - angle), 0.0))
    assert relu.activations(left, right)[0, 0] == pytest.approx(1.5 * product, abs=1e-15, rel=1e-10)


def test_outputs_at_start_have_the_covariance_of_a_wide_network():
    inputs = np.concatenate([rows(3, 4, 10), rows(3, 4, 10)])  # each twice: the covariance is singular
    random = np.random.default_rng(11)
    result = np.stack([relu.outputs_at_start(inputs, random.standard_normal(6)) for _ in range(20_000)])
    np.testing.assert_allclose(result[:, :3], result[:, 3:], atol=1e-4)
    np.testing.assert_allclose(result.T @ result / 20_000, relu.activations(inputs, inputs), atol=0.02)


# What the papers print


def test_a_linear_map_is_fitted_within_twice_its_length_where_t_has_three_times():
    """T Cor. 6.2. H∞ is a quarter of the linear kernel plus a positive one, even in x·z: 2‖θ‖, reached in the end."""
    lengths = []
    for samples, dim in ((5, 8), (50, 8), (200, 4), (1500, 4)):
        inputs = rows(samples, dim, samples)
        map_ = np.random.default_rng(12).standard_normal(dim)
        lengths.append(np.sqrt(length_squared(inputs, inputs @ map_)) / np.linalg.norm(map_))
    assert lengths == sorted(lengths)
    assert 1.95 < lengths[-1] < 2


def test_the_distance_of_the_kernel_at_start_falls_with_the_root_of_the_width_where_d_prints_the_width():
    """D eq. 15 has no root: with one sample, log(2/δ)/2m. It would hold with probability 1 - δ."""
    width, failure = 100_000, 0.05
    random = np.random.default_rng(13)
    far = np.abs(random.binomial(width, 0.5, 2000) / width - 0.5)  # H(0) of one input, minus H∞
    assert (far > np.log(2 / failure) / (2 * width)).mean() > 0.9
    assert (far > np.sqrt(np.log(2 / failure) / (2 * width))).mean() < failure


def test_ds_bound_from_scratch_lacks_a_root():
    """After Thm 2, yᵀH⁻¹y is said to bound ‖W(Q) - W(0)‖; the root does, and is larger for small labels."""
    inputs = rows(40, 10, 14)
    square = length_squared(inputs, 0.1 * inputs[:, 0])
    assert np.sqrt(square) > 4 * square


def test_ts_number_of_iterations_would_let_a_network_that_never_trained_pass():
    """T Thm 6.1 asks for t ≥ c log(1/‖ỹ‖), below 0 once ‖ỹ‖ > 1; its bound does not hold before training."""
    dim, samples = 4, 2000
    inputs, fresh = rows(samples, dim, 15), rows(4000, dim, 16)
    apart = np.array([1.0, -1.0, 0.0, 0.0])  # θ_T - θ_S at 90°
    assert np.linalg.norm(inputs @ apart) > 1
    bound = 2 * np.sqrt(length_squared(inputs, inputs @ apart) / samples)
    smallest = float(np.linalg.eigvalsh(relu.slopes(inputs, inputs))[0])
    bound += relu.remainder(samples, smallest, 0.05)
    assert np.minimum(np.abs(fresh @ apart), 1).mean() > 1.5 * bound


def test_samples_in_one_direction_are_named_as_what_is_wrong():
    inputs = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(np.linalg.LinAlgError, match="two of them point in the same direction"):
        relu.solver(inputs)

"""Kernels of ReLU networks, against integrals over random inputs and against least squares of functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

from raysweep.theory import relu


def rows(count: int, dim: int, seed: int, unit: bool = True) -> np.ndarray:
    result = np.random.default_rng(seed).standard_normal((count, dim))
    return result / np.linalg.norm(result, axis=1, keepdims=True) if unit else result


@pytest.mark.parametrize("dim", [2, 5])
def test_kernels_are_means_over_gaussian_inputs(dim: int) -> None:
    left, right = rows(4, dim, 0, unit=False), rows(3, dim, 1, unit=False)
    inputs = np.random.default_rng(2).standard_normal((1_000_000, dim))
    seen, others = inputs @ left.T, inputs @ right.T
    expected = np.maximum(seen, 0).T @ np.maximum(others, 0) / len(inputs)
    error = np.sqrt((np.maximum(seen, 0) ** 2).T @ (np.maximum(others, 0) ** 2)) / len(inputs)
    assert (np.abs(relu.activations(left, right) - expected) < 5 * error).all()
    share = (seen > 0).T.astype(float) @ (others > 0) / len(inputs)
    np.testing.assert_allclose(
        relu.slopes(left, right), share * (left @ right.T), atol=3e-3 * np.abs(left @ right.T).max()
    )


def test_slopes_of_nearly_parallel_rows_keep_their_digits() -> None:
    some = rows(200, 7, 3, unit=False)
    squares = (some**2).sum(1)
    np.testing.assert_allclose(relu.slopes(some, some).diagonal(), squares / 2, rtol=1e-15)
    np.testing.assert_allclose(relu.slopes(some, -some).diagonal(), 0, atol=1e-15 * squares.max())
    for turn in (1e-9, 1e-5, 9e-4, 2e-3):  # on both sides of where the cosine is not used any more
        turned = np.array([[np.cos(turn), np.sin(turn)]])
        expected = np.cos(turn) * (np.pi - turn) / (2 * np.pi)
        np.testing.assert_allclose(relu.slopes(np.array([[1.0, 0.0]]), turned), [[expected]], rtol=1e-13)
        np.testing.assert_allclose(
            relu.slopes(np.array([[-1.0, 0.0]]), turned), [[-np.cos(turn) * turn / (2 * np.pi)]], atol=2e-14
        )


def test_at_equal_opposite_and_orthogonal_rows_they_are_known() -> None:
    basis = np.eye(3)
    np.testing.assert_allclose(
        relu.activations(basis, basis), np.full((3, 3), 1 / (2 * np.pi)) + np.eye(3) * (0.5 - 1 / (2 * np.pi))
    )
    np.testing.assert_allclose(relu.activations(basis, -basis).diagonal(), 0, atol=1e-16)
    np.testing.assert_allclose(relu.slopes(basis, basis), np.eye(3) / 2, atol=1e-17)
    assert relu.activations(np.zeros((1, 3)), basis).tolist() == [[0, 0, 0]]


def test_the_residual_is_that_of_least_squares_on_many_inputs() -> None:
    features, teachers, weights = rows(6, 3, 3), rows(5, 3, 4), np.random.default_rng(5).standard_normal((4, 5))
    inputs = np.random.default_rng(6).standard_normal((400_000, 3))
    given, expected = np.maximum(inputs @ features.T, 0), np.maximum(inputs @ teachers.T, 0) @ weights.T
    left = expected - given @ np.linalg.lstsq(given, expected, rcond=None)[0]
    outside, whole = relu.residual(features, teachers, weights)
    np.testing.assert_allclose(outside, (left**2).mean(0), rtol=0.03)
    np.testing.assert_allclose(whole, (expected**2).mean(0), rtol=0.03)


def test_copies_of_features_change_nothing_and_their_own_span_leaves_nothing() -> None:
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


def test_two_rows_in_the_plane_by_hand() -> None:
    """σ(x) and σ(-x) together: |x| is in their span, and σ(y) is not: it shares 1/2π with each."""
    features, teacher = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[0.0, 1.0]])
    outside, whole = relu.residual(features, teacher, np.ones((1, 1)))
    assert whole[0] == pytest.approx(0.5)
    assert outside[0] == pytest.approx(0.5 - 2 * (1 / (2 * np.pi)) ** 2 / 0.5)


@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.3, np.pi / 2, 2.5, np.pi])
def test_the_kernel_is_an_integral_over_the_plane_of_both_rows(angle: float) -> None:
    """In polar coordinates r cos φ and r cos(φ - θ): the radius gives ∫ r³ exp(-r²/2) dr = 2."""
    both = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    edges = [max(-np.pi / 2, angle - np.pi / 2), np.pi / 2]
    result, _ = integrate.quad(lambda at: np.cos(at) * np.cos(at - angle), *edges, epsabs=1e-14)
    assert relu.activations(both[:1], both[1:])[0, 0] == pytest.approx(result / np.pi, abs=1e-15, rel=1e-10)


def test_the_residual_is_that_of_a_dense_solve_where_features_are_far_from_dependent() -> None:
    features, teachers, weights = rows(12, 20, 11), rows(7, 20, 12), np.random.default_rng(13).standard_normal((5, 7))
    across = relu.activations(features, teachers) @ weights.T
    whole = np.einsum("fi,ij,fj->f", weights, relu.activations(teachers, teachers), weights)
    solved = whole - (across * np.linalg.solve(relu.activations(features, features), across)).sum(0)
    np.testing.assert_allclose(relu.residual(features, teachers, weights)[0], solved, rtol=1e-10)

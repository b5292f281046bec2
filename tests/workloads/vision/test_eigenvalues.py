"""The largest eigenvalues and the trace from products alone, held against explicit matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from raysweep.training import hessian
from raysweep.workloads.vision.curvature import largest_eigenvalues, trace


def symmetric(values: np.ndarray, seed: int = 0) -> Tensor:
    """A matrix with these eigenvalues and random eigenvectors."""
    size = len(values)
    turned, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))
    return torch.as_tensor(turned * values @ turned.T)


def random(size: int, seed: int = 1) -> Callable[[], Tensor]:
    stream = np.random.default_rng(seed)
    return lambda: torch.as_tensor(stream.standard_normal(size))


@pytest.mark.parametrize(
    "values",
    [
        np.geomspace(100, 1e-3, 300) * np.where(np.arange(300) % 7 == 3, -1, 1),
        np.concatenate([np.linspace(9, 10, 30), np.zeros(200)]),
        -np.arange(1.0, 60),
    ],
    ids=["of both signs", "close together, the rest 0", "all below 0"],
)
def test_the_twenty_largest_are_those_of_the_matrix_and_scipy(values: np.ndarray) -> None:
    matrix = symmetric(values)
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(len(values)), 20, tolerance=1e-8)
    np.testing.assert_allclose(largest.values, np.sort(values)[::-1][:20], rtol=1e-12, atol=1e-12)
    operator = LinearOperator(matrix.shape, lambda vector: matrix.numpy() @ vector.ravel(), dtype=np.float64)
    expected = eigsh(operator, 20, which="LA", return_eigenvectors=False)
    np.testing.assert_allclose(largest.values, np.sort(expected)[::-1], rtol=1e-9, atol=1e-9)
    assert largest.products <= len(values)


def test_residuals_say_how_far_off_values_are_before_they_have_converged() -> None:
    values = np.geomspace(1, 0.1, 500)
    matrix = symmetric(values)
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(500), 20, most_products=40)
    assert largest.products == 40
    off = np.array([np.abs(values - value).min() for value in largest.values])
    assert (off <= largest.residuals + 1e-14).all()
    assert largest.residuals[0] < 2e-3
    assert largest.residuals[-1] > 1e-2  # not resolved, and it says so
    more = largest_eigenvalues(lambda vector: matrix @ vector, random(500), 20)
    assert more.products > 40
    assert (more.residuals <= 1e-3 * more.values).all()
    np.testing.assert_allclose(more.values, values[:20], rtol=1e-5)


def test_equal_eigenvalues_are_all_counted_and_a_small_matrix_has_as_many_as_it_has_rows() -> None:
    matrix = symmetric(np.array([3.0, 3, 3, 1, 1, 0, -2]))
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(7), 5)
    np.testing.assert_allclose(largest.values, [3, 3, 3, 1, 1], atol=1e-12)
    every = largest_eigenvalues(lambda vector: matrix @ vector, random(7), 20)
    np.testing.assert_allclose(every.values, [3, 3, 3, 1, 1, 0, -2], atol=1e-12)


def test_a_matrix_that_is_not_finite_has_no_eigenvalues() -> None:
    largest = largest_eigenvalues(lambda vector: vector * torch.nan, random(30), 20)
    assert np.isnan(largest.values).all()
    assert np.isnan(largest.residuals).all()
    assert np.isnan(hessian.largest_eigenvalue(lambda vector: vector * torch.nan, torch.ones(30), 5))


def test_the_trace_is_unbiased_and_its_standard_error_is_that_of_the_formula() -> None:
    """The variance of one probe is 2(‖H‖² - ΣHᵢᵢ²)."""
    matrix, probes = symmetric(np.geomspace(10, 0.01, 80)), 30
    result, errors = np.transpose(
        [trace(lambda vector: matrix @ vector, matrix[0], probes, np.random.default_rng(seed)) for seed in range(400)]
    )
    exact = np.sqrt(2 * float((matrix**2).sum() - (matrix.diagonal() ** 2).sum()) / probes)
    assert abs(result.mean() - float(matrix.trace())) < 4 * exact / np.sqrt(400)
    assert result.std() == pytest.approx(exact, rel=0.12)
    assert np.sqrt((errors**2).mean()) == pytest.approx(exact, rel=0.05)
    diagonal = torch.diag(torch.arange(5.0).double())
    assert trace(lambda vector: diagonal @ vector, diagonal[0], 3, np.random.default_rng(0)) == (10.0, 0.0)


def repeated(size: int = 300) -> np.ndarray:
    """Eigenvalues, largest first, of which one occurs nine times among the twenty largest and another three times."""
    largest = [50.0, 9, 8, *[7.0] * 9, 6, 5.5, *[5.0] * 3, 4.5, 4.2, 4]
    return np.concatenate([largest, np.linspace(3.9, -2, size - 20)])


@pytest.mark.parametrize("count", [20, 8])
def test_an_eigenvalue_that_occurs_nine_times_is_counted_nine_times(count: int) -> None:
    matrix = symmetric(repeated())
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(300), count)
    np.testing.assert_allclose(largest.values, repeated()[:count], rtol=1e-5)
    assert (largest.residuals <= 5e-3 * largest.values).all()
    assert (np.abs(largest.values - repeated()[:count]) <= largest.residuals + 1e-13).all()


def test_an_eigenvalue_below_the_smallest_kept_takes_no_place_however_often_it_occurs() -> None:
    values = np.concatenate([np.arange(40.0, 20, -1), [20.0] * 30, np.zeros(250)])
    matrix = symmetric(values)
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(300), 20)
    np.testing.assert_allclose(largest.values, values[:20], rtol=1e-6)
    assert (largest.residuals <= 1e-3 * largest.values).all()


@pytest.mark.parametrize("most", [25, 60, 100])
def test_residuals_cover_values_that_stand_where_a_copy_is_missing(most: int) -> None:
    """Too few products of a pass to find the first twenty, or all copies of them."""
    matrix = symmetric(repeated())
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(300), 20, most_products=most)
    off = np.abs(largest.values - repeated()[:20])
    assert (off > 0.1).any()
    assert (off <= largest.residuals + 1e-13).all()


def test_a_list_whose_rest_has_not_been_looked_at_is_not_resolved() -> None:
    """The twenty largest lie far apart, and those of the rest close together, so that 30 products are too few there."""
    values = np.concatenate([np.geomspace(1000, 50, 20), np.linspace(1, -1, 480)])
    matrix = symmetric(values)
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(500), 20, most_products=30)
    np.testing.assert_allclose(largest.values, values[:20], rtol=1e-5)
    assert largest.residuals[0] < 1e-3 * largest.values[0]
    assert (largest.residuals[1:] > 0.01 * largest.values[1:]).all()
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(500), 20)
    assert (largest.residuals <= 1e-3 * largest.values).all()

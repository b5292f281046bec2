"""What is measured of a net besides its accuracy, held against explicit matrices and values by hand."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from raysweep.training import hessian
from raysweep.workloads.vision import curvature, examination, models
from raysweep.workloads.vision.curvature import largest_eigenvalues, trace


def convolutional(seed=0):
    """One convolution, pooling, two products: 171 weights. Images of 6 x 6, 3 classes."""
    torch.manual_seed(seed)
    return nn.Sequential(
        *(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()), *(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))
    )


def images(count=40, seed=1):
    """Random pixels and labels from 0 to 2."""
    stream = torch.Generator().manual_seed(seed)
    return torch.randn(count, 1, 6, 6, generator=stream), torch.randint(0, 3, (count,), generator=stream)


def loss_at(net, weights, pixels, labels):
    return float(cross_entropy(functional_call(net, weights, (pixels,)), labels).detach())


def test_eigenvalues_and_trace_are_those_of_the_explicit_hessian():
    net, (pixels, labels) = convolutional(), images()
    flat, losses = curvature.flattened(net, pixels, labels)
    exact = torch.func.hessian(lambda row: sum(loss(row) for loss in losses))(flat)
    eigenvalues = np.linalg.eigvalsh(exact.numpy())[::-1]
    largest, total, error = curvature.measured(net, pixels, labels, seed=0)
    assert (largest.residuals <= 1e-3 * largest.values).all()
    np.testing.assert_allclose(largest.values, eigenvalues[:20], rtol=1e-5)
    assert abs(total - eigenvalues.sum()) < 4 * error
    off = float((exact**2).sum() - (exact.diagonal() ** 2).sum())
    assert error == pytest.approx(np.sqrt(2 * off / curvature.PROBES), rel=0.4)


def test_deviation_is_the_length_of_each_move_over_the_root_of_the_samples():
    start = {"a.weight": torch.zeros(2, 2), "a.bias": torch.zeros(2), "head.weight": torch.ones(1, 2)}
    end = {"a.weight": torch.tensor([[3.0, 0], [0, 4]]), "a.bias": torch.ones(2), "head.weight": torch.ones(1, 2)}
    assert models.deviations(start, end, 25) == {"a.weight": 1.0, "head.weight": 0.0}


def test_the_gradient_through_a_linear_net_is_the_product_of_its_matrices():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 4, bias=False), nn.Linear(4, 6, bias=False), nn.Linear(6, 3, bias=False))
    pixels, labels = torch.randn(50, 5), torch.randint(0, 3, (50,))
    residual = torch.softmax(net(pixels), 1) - nn.functional.one_hot(labels, 3)
    second = residual @ net[2].weight
    first = second @ net[1].weight
    expected = [float(each.detach().square().sum(1).mean().sqrt()) for each in (first, second, residual)]
    assert list(examination.scales(net, pixels, labels).values()) == pytest.approx(expected, rel=1e-6)
    for weights in net[:2].parameters():
        weights.requires_grad_(False)  # frozen layers have a gradient too
    assert list(examination.scales(net, pixels, labels).values()) == pytest.approx(expected, rel=1e-6)
    twice = torch.cat([pixels, pixels]), torch.cat([labels, labels])
    assert list(examination.scales(net, *twice).values()) == pytest.approx(expected, rel=1e-6)


def test_the_variation_along_the_gradient_is_the_largest_change_of_the_loss():
    net, (pixels, labels) = convolutional(), images()
    loss = cross_entropy(net(pixels), labels)
    along = torch.autograd.grad(loss, list(net.parameters()))
    changes = []
    for size in np.linspace(0.005, 0.1, 20):
        shifted = copy.deepcopy(net)
        with torch.no_grad():
            for weights, each in zip(shifted.parameters(), along, strict=True):
                weights -= size * each
        changes.append(abs(float((cross_entropy(shifted(pixels), labels) - loss).detach())))
    assert examination.variation(net, pixels, labels) == pytest.approx(max(changes), rel=1e-4)
    # a short step changes the loss by its length times the squared gradient
    small = {name: weights.detach() / 30 for name, weights in net.named_parameters()}
    flat = copy.deepcopy(net)
    flat.load_state_dict(small)
    slope = torch.autograd.grad(cross_entropy(flat(pixels), labels), list(flat.parameters()))
    expected = 0.1 * float(sum(each.square().sum() for each in slope))
    assert examination.variation(flat, pixels, labels) == pytest.approx(expected, rel=0.05)


def test_directions_are_as_long_as_each_filter_and_orthogonal():
    net = convolutional()
    directions = examination.directions(net, seed=4)
    weights = {name: each for name, each in net.named_parameters() if each.dim() > 1}
    assert directions.keys() == weights.keys()  # no offsets
    for name, each in weights.items():
        reference = each.detach().flatten(1)
        one, other = (direction.flatten(1) for direction in directions[name])
        torch.testing.assert_close(one.norm(dim=1), reference.norm(dim=1))
        torch.testing.assert_close(other.norm(dim=1), reference.norm(dim=1))
        assert (one * other).sum(1).abs().max() < 1e-6
        assert (one * reference).sum(1).abs().min() > 0
    assert not torch.equal(examination.directions(net, seed=5)["0.weight"][0], directions["0.weight"][0])


def test_the_middle_of_a_landscape_is_the_loss_and_each_point_that_of_moved_weights():
    net, (pixels, labels) = convolutional(), images()
    along = examination.directions(net, seed=0)
    surface = examination.losses(net, along, 5, pixels, labels)
    assert surface[2, 2] == float(cross_entropy(net(pixels), labels).detach())
    weights = dict(net.named_parameters())
    shifted = {name: weights[name] - 0.5 * one + 1.0 * other for name, (one, other) in along.items()}
    assert surface[1, 4] == pytest.approx(loss_at(net, shifted, pixels, labels))
    one_layer = examination.losses(net, {"0.weight": along["0.weight"]}, 5, pixels, labels)
    assert one_layer[2, 2] == surface[2, 2]
    shifted = {"0.weight": weights["0.weight"] + along["0.weight"][0]}
    assert one_layer[4, 2] == pytest.approx(loss_at(net, shifted, pixels, labels))


def test_rise_and_steepest_slope_of_a_known_surface():
    x, y = np.meshgrid(examination.coordinates(5), examination.coordinates(5), indexing="ij")
    surface = 7 + x**2 + 3 * np.abs(y)
    assert examination.rise(surface) == pytest.approx(0.5 + 3 * 0.6)
    assert examination.steepest(surface) == pytest.approx(3.0)


# Eigenvalues and traces of matrices


def symmetric(values, seed=0):
    """A matrix with these eigenvalues and random eigenvectors."""
    size = len(values)
    turned, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))
    return torch.as_tensor(turned * values @ turned.T)


def random(size, seed=1):
    stream = np.random.default_rng(seed)
    return lambda: torch.as_tensor(stream.standard_normal(size))


# one eigenvalue occurs nine times among the twenty largest, and another three times
REPEATED = np.array([50.0, 9, 8, *[7.0] * 9, 6, 5.5, *[5.0] * 3, 4.5, 4.2, 4, *np.linspace(3.9, -2, 280)])
SPECTRA = {  # and how many eigenvalues are asked for
    "of both signs": (np.geomspace(100, 1e-3, 300) * np.where(np.arange(300) % 7 == 3, -1, 1), 20),
    "close together, the rest 0": (np.concatenate([np.linspace(9, 10, 30), np.zeros(200)]), 20),
    "all below 0": (-np.arange(1.0, 60), 20),
    "evenly spaced logarithms": (np.geomspace(1, 0.1, 500), 20),
    "equal ones": (np.array([3.0, 3, 3, 1, 1, 0, -2]), 5),
    "more than there are rows": (np.array([3.0, 3, 3, 1, 1, 0, -2]), 20),
    "one nine times": (REPEATED, 20),
    "one nine times, not all of them asked for": (REPEATED, 8),
    "many copies below those asked for": (np.array([*np.arange(40.0, 20, -1), *[20.0] * 30, *np.zeros(250)]), 20),
    "far apart, the rest close together": (np.array([*np.geomspace(1000, 50, 20), *np.linspace(1, -1, 480)]), 20),
}


@pytest.mark.parametrize("case", SPECTRA)
def test_the_largest_are_those_of_the_matrix_each_as_often_as_it_occurs(case):
    values, count = SPECTRA[case]
    matrix, expected = symmetric(values), np.sort(values)[::-1][:count]
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(len(values)), count)
    np.testing.assert_allclose(largest.values, expected, rtol=1e-5, atol=1e-12)
    assert (np.abs(largest.values - expected) <= largest.residuals + 1e-14 * np.abs(values).max()).all()
    assert (largest.residuals <= 5e-3 * np.abs(largest.values) + 1e-5 * np.abs(expected[0])).all()


@pytest.mark.parametrize(
    ("values", "most"),
    [
        (SPECTRA["evenly spaced logarithms"][0], 40),
        *((REPEATED, most) for most in (25, 60, 100)),
        (SPECTRA["far apart, the rest close together"][0], 30),
    ],
)
def test_residuals_cover_what_too_few_products_of_a_pass_leave_open(values, most):
    """Values that have not converged, stand where a copy is missing, or whose rest has not been looked at."""
    matrix = symmetric(values)
    largest = largest_eigenvalues(lambda vector: matrix @ vector, random(len(values)), 20, most_products=most)
    assert (np.abs(largest.values - values[:20]) <= largest.residuals + 1e-14 * values[0]).all()
    unresolved = curvature.unresolved(largest)
    assert not unresolved[0]
    assert unresolved[-1]


def test_a_matrix_that_is_not_finite_has_no_eigenvalues():
    largest = largest_eigenvalues(lambda vector: vector * torch.nan, random(30), 20)
    assert np.isnan(largest.values).all()
    assert np.isnan(largest.residuals).all()
    assert np.isnan(hessian.largest_eigenvalue(lambda vector: vector * torch.nan, torch.ones(30), 5))


def test_the_trace_is_unbiased_and_its_standard_error_is_that_of_the_formula():
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

"""Fine-tuning's expected transferability at finite d: against draws, another integral, its limit and finer rules."""

import limits
import numpy as np
import pytest
from linear_rows import z_score
from scipy.integrate import quad
from scipy.stats import beta

from raysweep.theory import finetune, finetune_mean

mean = finetune_mean.transferability


def draws(count, n, d, angle, noise, depth, scale=1.0, norm=1.0):
    """Transferability of `count` draws of Gaussian inputs, at `depth` and at depth 1, whose mean is known exactly."""
    random = np.random.default_rng(17)
    target = np.zeros(d)
    target[:2] = norm * np.cos(np.deg2rad(angle)), norm * np.sin(np.deg2rad(angle))
    result = {1: [], depth: []}
    for _ in range(0, count, 1000):
        inputs = random.standard_normal((1000, n, d))
        labels = inputs @ target + noise * random.standard_normal((1000, n))
        solved = np.linalg.solve(inputs @ inputs.transpose(0, 2, 1), np.stack([labels, inputs[:, :, 0]], axis=2))
        fit, seen = np.moveaxis(inputs.transpose(0, 2, 1) @ solved, 2, 0)  # X⁺y and P∥e_s
        unseen = np.eye(d)[0] - seen
        p, q, overlap = (unseen**2).sum(1), (fit**2).sum(1), unseen @ target
        for layers, values in result.items():
            r = finetune.rescaling(np.log(scale), layers, p, q)
            values.append(2 * r * overlap - r**2 * p)
    return np.concatenate(result[depth]), np.concatenate(result[1])


@pytest.mark.parametrize(
    ("count", "n", "d", "angle", "noise", "depth", "scale", "norm"),
    [
        (40000, 6, 12, 40, 0.5, 2, 1.0, 1.0),
        (40000, 9, 12, 60, 1.0, 5, 1.0, 1.0),
        (40000, 3, 12, 100, 0.3, 3, 0.3, 1.5),
        (40000, 1, 6, 40, 0.5, 3, 1.0, 1.0),
        (40000, 3, 5, 30, 0.0, 2, 0.2, 1.0),
        (20000, 1, 2, 70, 0.4, 2, 0.7, 1.0),
        (10000, 15, 30, 20, 0.8, 20, 1.0, 0.7),
        (10000, 10, 30, 75, 0.0, 4, 0.5, 1.0),
        (10000, 20, 30, 180, 0.6, 3, 1.4, 1.0),
        (5000, 58, 73, 22.5, 1.0, 5, 1.0, 1.0),
        (5000, 36, 73, 45, 0.2, 2, 1.0, 1.0),
    ],
)
def test_it_is_the_mean_over_draws(count, n, d, angle, noise, depth, scale, norm):
    deep, linear = draws(count, n, d, angle, noise, depth, scale, norm)
    expected = float(mean(angle, n, d, noise, depth, np.log(scale), norm))
    exact = float(mean(angle, n, d, noise, 1, np.log(scale), norm))
    assert abs(z_score(deep, expected)) < 4
    assert abs(z_score(deep - linear, expected - exact)) < 4  # sharper: most of the scatter is that of depth 1
    limit = float(limits.transferability(angle, n / d, noise, depth, np.log(scale), norm))
    assert abs(z_score(deep - linear, limit - exact)) > 6  # these draws can tell the limit apart, at 73 dimensions too


@pytest.mark.parametrize(
    ("n", "d", "depth", "scale"),
    [(5, 20, 2, 1.0), (40, 60, 3, 0.6), (3, 30, 5, 1.0), (250, 500, 50, 0.9), (30, 33, 2, 1.5)],
)
def test_at_equal_directions_without_noise_it_is_an_integral_over_one_beta_variable(n, d, depth, scale):
    for side in (1, -1):

        def draw(p, side=side):
            r = finetune.rescaling(np.log(scale), depth, p, 1 - p)
            return float(2 * side * r * p - r**2 * p) * beta.pdf(p, (d - n) / 2, n / 2)

        estimate = mean(0 if side == 1 else 180, n, d, 0.0, depth, np.log(scale))
        low, middle, high = beta.ppf([1e-14, 0.5, 1 - 1e-14], (d - n) / 2, n / 2)
        expected = sum(quad(draw, *edges, epsabs=1e-12, epsrel=1e-11)[0] for edges in ((low, middle), (middle, high)))
        assert estimate == pytest.approx(expected, rel=1e-4 if n < 10 else 1e-6)


def test_one_layer_no_samples_and_many_samples_are_exact():
    scale, norm = np.log(0.7), 1.3
    expected = 0.7 * (2 * 1.3 * np.cos(np.deg2rad(35)) - 0.7)
    for noise in (0.0, 2.0):
        assert mean(35, [0, 3, 11], 12, noise, 1, scale, norm) == pytest.approx(
            expected * np.array([1, 9 / 12, 1 / 12]), rel=1e-14
        )
        assert mean(35, 0, 12, noise, [2, 9], scale, norm) == pytest.approx(expected, rel=1e-14)
        assert (mean(35, [12, 13, 40], 12, noise, [1, 2, 9], scale, norm) == 0).all()


def test_it_tends_to_its_limit_like_one_over_d():
    angle, gamma, noise, depth, scale = 50.0, 0.6, [0.0, 0.3, 1.0], [5, 2, 3], np.log([0.6, 1.0, 0.8])
    gaps = [
        d * (mean(angle, gamma * d, d, noise, depth, scale) - limits.transferability(angle, gamma, noise, depth, scale))
        for d in (500, 5000, 50000)
    ]
    assert (np.abs(gaps[0]) > 0.05).all()
    assert gaps[1] == pytest.approx(gaps[2], rel=2e-2)
    assert gaps[0] == pytest.approx(gaps[2], rel=5e-2)


FINE = [(10, 12), (10, 100), (20, 40), (58, 73), (100, 200), (480, 500)]  # samples and dimensions


@pytest.mark.parametrize(
    ("n", "d", "error"), [(1, 3, 5e-2), (2, 40, 5e-3), (3, 12, 1e-3), (5, 40, 2e-4), *((n, d, 5e-6) for n, d in FINE)]
)
def test_finer_rules_change_it_by_no_more_than_stated(n, d, error, monkeypatch):
    """Half as many nodes again in every variable, and 40 for a heavy tail."""
    settings = np.meshgrid([0.0, 25.0, 100.0], [0.0, 0.2, 1.5], [2.0, 5.0, 50.0], [0.3, 1.0])
    angle, noise, depth, layer = (each.ravel() for each in settings)
    estimate, counts = mean(angle, n, d, noise, depth, depth * np.log(layer)), finetune_mean._counts

    def more(samples, dims):
        finer = 2 * np.ceil(0.75 * counts(samples, dims)).astype(int)
        finer[dims - samples < finetune_mean._HEAVY, 3] = 40
        return finer

    monkeypatch.setattr(finetune_mean, "_counts", more)
    finer = mean(angle, n, d, noise, depth, depth * np.log(layer))
    assert (finer != estimate).any()
    assert (np.abs(finer - estimate) / np.maximum(np.abs(estimate), 0.1 * (1 - n / d) * layer)).max() < error


@pytest.mark.parametrize(
    ("n", "d", "noise", "depth", "largest"),
    [(20, 40, 0.5, 2, 1.0), (20, 400, 0.0, 3, 1.0), (2, 40, 0.3, 2, 1.0), (12, 100, 0.1, 50, 8.0)],
)
def test_many_scales_at_once_give_what_each_gives_alone(n, d, noise, depth, largest):
    log_scale = np.linspace(-1.5 * depth, np.log(largest), 60)
    alone = [float(mean(40, n, d, noise, depth, each)) for each in log_scale]
    assert mean(40, n, d, noise, depth, log_scale) == pytest.approx(alone, rel=1e-9, abs=1e-12)


def test_it_exists_up_to_one_sample_below_dim_at_any_depth():
    values = mean(30, [49, 49, 49, 48], 50, [0.0, 0.5, 0.5, 0.5], [1000, 2, 1000, 1000])
    assert np.isfinite(values).all()
    assert values[0] == pytest.approx(0.732 / 50, rel=0.05)  # without noise about as if r were 1
    assert values[2] < 10 * values[3] < 0  # a tail that a mean over draws does not show

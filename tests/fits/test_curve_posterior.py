"""The posterior of one mean curve, held against closed forms, another library, its own prior and its symmetries."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from conftest import run
from scipy import stats
from scipy.special import ndtri
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from raysweep.fits import fit_inflection
from raysweep.fits.extremum import find_extremum
from raysweep.fits.posterior import prior
from raysweep.fits.posterior.conditional import conditional, moments, sample_paths
from raysweep.fits.posterior.curve import curve_posterior, sample_kinds
from raysweep.fits.posterior.noise import NOISE, Seen, curve_data, noise_parameters, seen
from raysweep.fits.posterior.places import Places, at_edges, interval, minimum_places
from raysweep.fits.posterior.prior import CURVE, TURNING, between, curve_parameters, terms
from raysweep.fits.posterior.sampler import sample
from raysweep.fits.reasons import Reason

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

T = np.linspace(0, 1, 9)


def draws(seed, count=5, size=0.02):
    rng = np.random.default_rng(seed)
    return (T - 0.42) ** 2 * 3 + size * rng.standard_normal((count, len(T))) + rng.standard_normal((count, 1))


def coordinates(**named):
    """One particle: no bend, no compression, hardly any warp; what is named replaces a coordinate."""
    plain = {"compression": -1.0, "bend_size": -3.0, "family": 3.0}
    return np.array([[{**plain, **named}.get(name, 0.0) for name in CURVE]])


def parameters(z, turning=False):
    return curve_parameters(z, np.full(len(z), turning))


def covariance(p, t):
    points = terms(p, t[None])
    return between(p, points, points)[0]


def independent(data, deviation):
    """Draws with independent noise of a known standard deviation."""
    contrasts = data.contrasts
    mean = (data.residual @ contrasts.T).mean(axis=0)
    spread = deviation**2 / len(data.residual) * contrasts @ contrasts.T
    return Seen(mean[None], spread[None], np.array([np.inf]), np.zeros(1), 0.0)


@pytest.mark.parametrize(
    ("family", "kernel"), [(-3.0, Matern(0.4, nu=1.5)), (0.5, Matern(0.4, nu=2.5)), (3.0, RBF(0.4))]
)
def test_mean_and_covariance_are_those_of_scikit_learn(family, kernel):
    data, deviation = curve_data(T, draws(1)), 0.05
    z = coordinates(family=family)
    given = conditional(parameters(z), data, independent(data, deviation))
    at = np.linspace(0, 1, 23)
    mean, spread = (each[0] for each in moments(given, at[None]))
    # a level with a wide prior is as good as none; differences along the curve are compared
    line = DotProduct(1e-12, "fixed")
    polynomial = ConstantKernel(1e3, "fixed") + ConstantKernel(prior.SLOPE**2, "fixed") * line
    polynomial += ConstantKernel(prior.CURVATURE**2, "fixed") * line**2
    whole = ConstantKernel(0.4**2, "fixed") * kernel + polynomial
    other = GaussianProcessRegressor(whole, alpha=deviation**2 / 5, optimizer=None)
    inputs, outputs = (prior.warped(each[None], np.zeros(1)).T - 0.5 for each in (T, at))
    other.fit(inputs, data.mean + data.residual.mean(axis=0))
    theirs, their_spread = other.predict(outputs, return_cov=True)
    difference = np.eye(len(at))[1:] - np.eye(len(at))[0]
    np.testing.assert_allclose(difference @ mean, difference @ theirs, atol=1e-5)
    np.testing.assert_allclose(difference @ spread @ difference.T, difference @ their_spread @ difference.T, atol=1e-6)


def test_noise_of_known_structure_is_recognized():
    """Draws that differ by smooth curves, and draws whose points are independent: each by its own parameters."""
    rng = np.random.default_rng(3)
    root = np.linalg.cholesky(np.exp(-0.5 * ((T[:, None] - T) / 0.3) ** 2) + 1e-8 * np.eye(len(T)))
    kinds = {"smooth": rng.standard_normal((12, 9)) @ root.T, "own": rng.standard_normal((12, 9))}
    for kind, noise in kinds.items():
        data = curve_data(T, 3 * (T - 0.4) ** 2 + 0.05 * noise)

        def evidence(z, data=data):
            return seen(noise_parameters(z, data), data).evidence

        z, _ = sample(evidence, len(NOISE), np.random.default_rng(0), 100)
        p = noise_parameters(z, data)
        of_a_draw, own = np.hypot(p["tilt"], p["smooth"]), p["independent"]
        assert (np.median(own / np.hypot(own, of_a_draw)) > 0.7) == (kind == "own")


def test_the_rank_of_the_truth_is_uniform_under_the_prior():
    """Simulation-based calibration: curves and noise from the prior itself; the ranks of a difference of the true
    curve among its posterior paths, and of its evidence among that of the particles, are uniform, if the sampler draws
    from the posterior."""
    rng = np.random.default_rng(4)
    template = curve_data(T, draws(5))
    ranks = {"difference": [], "evidence": []}
    column = CURVE.index("compression")
    for _ in range(48):
        z, turning = rng.standard_normal((1, len(CURVE))), bool(rng.random() < TURNING)
        z[0, column] = -abs(z[0, column])
        p = parameters(z, turning)
        curve = np.linalg.cholesky(covariance(p, T) + 1e-8 * np.eye(9)) @ rng.standard_normal(9)
        curve += terms(p, T[None]).expected[0]
        shown, contrasts = independent(template, 0.2), template.contrasts
        noise = np.linalg.cholesky(shown.covariance[0]) @ rng.standard_normal(8)
        shown = replace(shown, estimate=(contrasts @ (curve - template.mean) + noise)[None])

        def likelihood(each, turning, what=shown):
            each = each.copy()
            each[:, column] = -np.abs(each[:, column])
            return conditional(parameters(each, turning), template, what).evidence

        result, kinds = sample_kinds(likelihood, rng, 120, 60)
        result[:, column] = -np.abs(result[:, column])
        given = conditional(curve_parameters(result, kinds), template, shown)
        paths = sample_paths(given, T[None], rng.standard_normal((60, 4, 9)))
        ranks["difference"].append(float(np.mean(paths[..., 3] - paths[..., 6] < curve[3] - curve[6])))
        ranks["evidence"].append(float(np.mean(given.evidence < likelihood(z, turning)[0])))
    for name, each in ranks.items():
        counts = np.histogram(each, np.linspace(0, 1, 7))[0]
        print(name, counts)
        assert ((counts - 8) ** 2 / 8).sum() < 20.5, name  # chi squared of five degrees of freedom at 0.001


def test_a_bend_of_power_zero_is_a_step():
    sharp, round_one = (parameters(coordinates(bend_size=1.0, softness=each)) for each in (-1.0, 2.0))
    size, soft = float(sharp.bend_size[0]), float(round_one.softness[0])
    t = np.array([[0.2, 0.5, 0.5 + soft, 0.9]])
    step, corner = np.zeros(1), np.ones(1)
    after, before = (side[0] for side in prior.sides(replace(sharp, after=step, before=corner), t))
    np.testing.assert_allclose(after, size * np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(before, size * np.array([0.3, 0, 0, 0]), atol=1e-8 * size)  # sharp: 1e-9
    after, before = (side[0] for side in prior.sides(replace(round_one, after=corner, before=step), t))
    np.testing.assert_allclose(before, size / (1 + np.exp((t[0] - 0.5) / soft)))
    assert (np.diff(after) > 0).all()


def test_the_turn_before_a_wall_lies_in_its_interval():
    """A curve that hardly falls and then jumps within one cell, in draws whose heights differ: its turn may lie beyond
    the last low point, which no smooth curve through the same values knows."""
    t, rng = np.linspace(0, 1, 13), np.random.default_rng(14)
    for _ in range(4):
        heights = np.where(t < 0.2, -0.2 * t, 1 - 0.2 * t)
        values = heights * (1 + 0.3 * rng.standard_normal((12, 1))) + 0.004 * rng.standard_normal((12, len(t)))
        extremum = find_extremum(t, values, 0.95)
        assert extremum.status == "located"
        assert extremum.low <= 0.2 <= extremum.high
        assert extremum.high < 0.3


def test_levels_units_and_missing_values():
    x, values = 10 ** (3 * T), draws(7)
    plain = find_extremum(x, values, 0.95)
    assert plain.status == "located"
    again = find_extremum(x, values.copy(), 0.95)
    assert plain == replace(again, advice=plain.advice, method_spread=plain.method_spread)
    levels = np.random.default_rng(8).standard_normal((5, 1)) * 100
    for other in (values + levels, 7.3 * values - 2):
        extremum = find_extremum(x, other, 0.95)
        assert (extremum.low, extremum.estimate, extremum.high) == pytest.approx(
            (plain.low, plain.estimate, plain.high), rel=1e-6
        )
    missing = values.copy()
    missing[0, 2] = missing[3, 8] = np.nan
    extremum = find_extremum(x, missing, 0.95)
    assert extremum.status == "located"
    assert extremum.low <= 10 ** (3 * 0.42) <= extremum.high


def test_a_mirrored_curve_has_the_mirrored_interval():
    values = draws(9)
    plain = find_extremum(T, values, 0.95)
    mirrored = find_extremum(T, values[:, ::-1], 0.95)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((plain.low, plain.high), abs=1e-9)


def test_noise_at_a_single_value_or_a_single_point_is_noise():
    """The scatter of the draws then has a rank of one."""
    shape = np.tile((T - 0.42) ** 2, (12, 1))
    value, point = shape.copy(), shape.copy()
    value[-1, 2] += 0.1
    point[:, -1] += np.random.default_rng(13).standard_normal(12)
    for values in (value, point):
        extremum = find_extremum(T, values, 0.95, advise=True)
        assert extremum.low <= 0.42 <= extremum.high


def test_paths_are_joint_and_hold_the_curve():
    values = draws(10)
    paths = curve_posterior(T, 50 * values).paths(np.linspace(0, 1, 31)[None]).reshape(-1, 31)
    inner, scale = paths[:, 3:-3], np.ptp(values.mean(axis=0))  # of scaled values the mean curve has the range 1
    assert np.abs(np.diff(paths, 2, axis=1)).mean() < 0.2 * np.abs(inner - inner.mean(axis=0)).mean() + 0.02 / scale
    drop = np.quantile(paths[:, 0] - paths[:, 12], [0.001, 0.999])
    assert drop[0] <= 3 * (0.42**2 - 0.02**2) / scale <= drop[1]


def test_few_draws_that_differ_by_a_tilt_leave_the_place_as_unsure_as_the_tilt_is():
    """A parabola (x - 1/2)^2 and a tilt of each draw with hardly any other noise: the place of the mean's minimum has
    the standard deviation tilt / (2 sqrt(draws)) by hand, and three draws show it to a factor of about two."""
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        tilt = 0.2 * rng.standard_normal((3, 1))
        values = (T - 0.5) ** 2 + tilt * (T - 0.5) + 0.002 * rng.standard_normal((3, len(T)))
        at = minimum_places(curve_posterior(T, values)).at
        ratios.append(np.diff(np.quantile(at, [0.16, 0.84]))[0] / 2 / (0.2 / 2 / np.sqrt(3)))
    assert 0.7 < np.sqrt(np.mean(np.square(ratios))) < 1.8


def test_draws_that_differ_by_a_tilt_and_a_wave_leave_the_place_as_unsure_as_their_scatter_does():
    """A parabola, of whose draws each has a tilt and a wave and no other noise. The mean's third-order part is all
    wave. So the place of the minimum is the intercept of the regression of the draws' slopes on their third-order
    parts, with its interval by Student's t."""
    widths, found, by_hand = [], [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        place, (tilt, wave) = rng.uniform(0.3, 0.7), rng.standard_normal((2, 12, 1))
        values = (T - place) ** 2 + 0.06 * (2 * tilt * (T - 0.5) + 0.5 * wave * np.sin(6 * (T - 0.5)))
        cubic, _, slope, _ = np.polyfit(T - 0.5, values.T, 3)
        fit = stats.linregress(cubic, slope)
        half = stats.t.ppf(0.975, 10) * fit.intercept_stderr / 2
        low, _, high = interval(minimum_places(curve_posterior(T, values)), 0.95)
        widths.append((high - low) / 2 / half)
        found.append(low <= place <= high)
        by_hand.append(abs(0.5 - fit.intercept / 2 - place) <= half)
    assert 0.85 < np.median(widths) < 1.2
    assert np.mean(by_hand) >= 0.9
    assert np.mean(found) >= 0.9


def test_draws_without_any_independent_noise_are_fitted(storage):
    """Draws of the exact limit differ by a few smooth curves and by nothing else, so that their scatter is singular."""
    one = {"axes.depth": [2], "axes.overlap_angle": [75]}
    rows = run(storage, "pretrain_inflection", set=one).results()
    fit = fit_inflection(rows, "pretrain_length", "transferability_finetune", "seed", turn="max", advise=False)
    assert fit.status == "located"
    assert fit.low <= 1.1305 <= fit.high  # by the closed form


@pytest.mark.parametrize("wall", [0.46, 0.48, 0.52, 0.56])
def test_a_wall_between_two_points_may_be_anywhere_between_them(wall):
    """With hardly any noise the points alone leave open where a curve that falls ever faster meets a wall."""
    t, rng = np.linspace(0, 1, 13), np.random.default_rng(0)
    fall = 0.8 * (t - wall) ** 2 - 0.3 * np.exp(np.minimum(t - wall, 0) / 0.1) * (t <= wall)
    noise = 0.01 * rng.standard_normal((8, 1)) * np.cos(t) + 1e-3 * rng.standard_normal((8, 13))
    extremum = find_extremum(t, fall + 0.5 * (t > wall) + noise, 0.95)
    assert extremum.status == "located"
    assert extremum.low <= wall <= extremum.high
    assert extremum.high - extremum.low < 2 / 12
    assert extremum.reason == Reason.COARSE


def test_one_path_decides_no_quantile():
    """Far out the quantiles are those of a normal distribution with the same less extreme ones; else the paths'."""
    at = 0.5 + 0.02 * ndtri((np.arange(1440) + 0.5) / 1440)
    strayed = np.concatenate([[0.0], at[1:]])
    for level, places in itertools.product((0.68, 0.95, 0.975, 0.9989), (at, strayed)):
        low, middle, high = interval(Places(places, np.empty(0), np.empty(0)), level)
        expected = 0.02 * ndtri(0.5 + level / 2)
        assert [middle - low, high - middle] == pytest.approx([expected, expected], rel=0.03)
        if level <= 0.975:
            assert [low, high] == np.quantile(places, [(1 - level) / 2, (1 + level) / 2]).tolist()
    assert not any(at_edges(Places(strayed, np.empty(0), np.empty(0)), 0.9989))
    assert at_edges(Places(strayed - 0.46, np.empty(0), np.empty(0)), 0.9989) == (True, False)

"""Progressive sensitivity as a test: trends that are there are found, trends that are not are found one time in 20."""

import numpy as np
import pandas as pd
import pytest
from curve_rows import rows_of
from scipy import stats

from raysweep.analyses.kinds import trend
from raysweep.analyses.question import Question
from raysweep.fits.power_law import fit_power_law
from raysweep.fits.statistics import holm
from raysweep.fits.trend import fit_trend
from raysweep.workloads import get

X = np.geomspace(1, 100, 9)


def rows(mean, rng, draws=5, tilt=0.0, noise=0.1):
    """Draws of a curve over X: a shift of each draw's own, a tilt of its own (`tilt`), noise of every row."""
    values = mean + rng.standard_normal((draws, 1)) + tilt * rng.standard_normal((draws, 1)) * np.linspace(-1, 1, 9)
    return rows_of(X, values + noise * rng.standard_normal((draws, len(X))))


KINDS = ("independent", "growing along x", "one point noisy", "a slope of each draw's own", "summed up along x")


def noise_of(kind, rng, draws, points):
    """Noise (draws, points) of size 0.1."""
    t, scatter = np.linspace(0, 1, points), rng.standard_normal((draws, points))
    kinds = {
        "independent": scatter,
        "growing along x": scatter * (0.2 + 2 * t),
        "one point noisy": scatter * np.where(np.arange(points) == points // 2, 5.0, 1.0),
        "a slope of each draw's own": rng.standard_normal((draws, 1)) * t + 0.2 * scatter,
        "summed up along x": np.cumsum(scatter, axis=1),
    }
    return 0.1 * kinds[kind]


def fitted(mean, noise):
    """The trend of the mean curve plus the noise, over X."""
    return fit_trend(rows_of(X[: noise.shape[1]], mean + noise), "x", "y", "seed")


@pytest.mark.simulation
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_trend_p_is_below_5_percent_5_percent_of_the_time(kind):
    rng, chances = np.random.default_rng(1), list[float]()
    for k in range(300):
        noise = noise_of(kind, rng, draws := (2, 3, 5, 8)[k % 4], 9)
        noise[np.arange(draws), rng.permutation(9)[:draws]] += np.where(k % 3, 0.0, np.nan)  # cells that are missing
        chances.append(fitted(np.zeros(9), noise).p_value)
    assert 0.02 <= np.mean(np.array(chances) < 0.05) <= 0.08
    assert stats.kstest(chances, "uniform").pvalue > 1e-3


@pytest.mark.simulation
@pytest.mark.parametrize("tilt", [0.0, 0.3])
def test_the_interval_of_the_slope_covers_and_a_clear_trend_is_found(tilt):
    rng = np.random.default_rng(2)
    mean = 0.8 * np.log10(X)
    fits = [fit_trend(rows(mean, rng, tilt=tilt), "x", "y", "seed") for _ in range(120)]
    assert 0.91 <= np.mean([fit.low <= 0.8 <= fit.high for fit in fits]) <= 0.99
    assert np.mean([fit.p_value < 0.05 for fit in fits]) > 0.8
    # a curve that rises throughout is seldom said to fall somewhere
    assert np.mean([fit.p_against < 0.05 for fit in fits]) < 0.06
    dip = [fit_trend(rows(mean + np.where(np.arange(9) == 5, -1.0, 0), rng), "x", "y", "seed") for _ in range(30)]
    assert np.mean([fit.p_against < 0.05 for fit in dip]) > 0.9


def test_the_slope_is_that_of_least_squares():
    frame = rows(np.log10(X), np.random.default_rng(3))
    fit = fit_trend(frame, "x", "y", "seed")
    assert fit.logarithmic
    assert fit.slope == pytest.approx(stats.linregress(np.log10(frame["x"]), frame["y"]).slope)
    more = [frame.head(1).assign(x=np.inf), frame.head(1).assign(x=0.0), frame.head(2).assign(y=np.nan)]
    assert fit_trend(pd.concat([frame, *more]).assign(status="ok"), "x", "y", "seed").slope == pytest.approx(fit.slope)
    exact = fit_trend(rows(X, np.random.default_rng(4), noise=0).assign(y=lambda f: f["x"]), "x", "y", "seed")
    assert (exact.p_value, exact.p_against) == (0.0, 1.0)
    zero = rows_of(np.r_[0, X], np.r_[9, np.log10(X)] + np.zeros((2, 1)))  # higher at 0
    assert [fit_trend(one, "x", "y", "seed").p_throughout for one in (zero[zero["x"] > 0], zero)] == [0.0, 1.0]
    alone = frame[frame["seed"] == 0].assign(error=0.1)
    assert np.isnan(fit_trend(alone, "x", "y", "seed").slope)
    known, power = fit_trend(alone, "x", "y", "seed", error="error"), alone.assign(y=np.exp(alone["y"]))
    law = fit_power_law(power.assign(error=0.1 * power["y"]), "x", "y", "seed", error="error")
    (slope, _), square = np.polyfit(np.log10(X), alone["y"], 1, w=np.full(9, 10.0), cov="unscaled")
    interval = slope + 1.959964 * np.sqrt(square[0, 0]) * np.array([0, -1, 1])
    assert [known.slope, known.low, known.high] == pytest.approx(interval)
    assert np.log(10) * np.array([law.exponent, law.low, law.high]) == pytest.approx(interval)


def test_holm_is_bonferroni_at_the_smallest_and_never_falls():
    assert np.allclose(holm(np.array([0.01, np.nan, 0.04, 0.03])), [0.03, np.nan, 0.06, 0.06], equal_nan=True)


@pytest.mark.simulation
@pytest.mark.parametrize("kind", KINDS)
def test_throughout_is_false_in_5_percent_of_curves_with_one_flat_or_slightly_falling_step(kind):
    rng = np.random.default_rng(6)
    clear = []
    for k in range(240):
        draws, points = (3, 5, 10)[k % 3], (4, 9)[k % 2]
        steps = np.ones(points - 1)
        steps[rng.integers(points - 1)] = (0.0, -0.02)[k // 2 % 2]
        clear.append(fitted(np.cumsum([0, *steps]), noise_of(kind, rng, draws, points)).p_throughout < 0.05)
    assert np.mean(clear) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 240)


def test_throughout_is_said_of_a_curve_that_rises_clearly_at_every_step():
    rng = np.random.default_rng(7)
    kinds = [kind for kind in KINDS * 8 if kind != "one point noisy"]
    shown = [fitted(np.arange(9.0), noise_of(kind, rng, 5, 9)).p_throughout < 0.05 for kind in kinds]
    assert np.mean(shown) > 0.9
    # neither word where a step is open: no decline was found, and none was ruled out
    open_ = fitted(np.cumsum([0, 1, 1, 1, 0, 1, 1, 1, 1]), noise_of("independent", rng, 5, 9))
    assert (open_.p_value < 0.05, open_.p_against < 0.05, open_.p_throughout < 0.05) == (True, False, False)


@pytest.mark.simulation
@pytest.mark.parametrize("kind", KINDS)
def test_a_clear_fall_in_between_is_false_in_5_percent_of_curves_that_never_fall(kind):
    rng = np.random.default_rng(8)
    clear = []
    for k in range(240):
        draws, points = (2, 3, 5, 10)[k % 4], (4, 9)[k // 4 % 2]
        mean = np.minimum(np.arange(points), points // 2) * 0.4  # rises, then level: the hardest that never falls
        clear.append(fitted(mean, noise_of(kind, rng, draws, points)).p_against < 0.05)
    assert np.mean(clear) <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 240)


def trend_of(frame):
    asked = {"metric": "risk_finetune", "x": "overlap_angle"}
    return trend.run(Question(frame, asked, get("linear_transfer"), "trend"))


def looks(curve, x, size, seed=0):
    """Five draws of a curve, each with a constant of its own and noise of that size."""
    rng = np.random.default_rng(seed)
    values = curve(x) + rng.standard_normal((5, 1)) + size * rng.standard_normal((5, len(x)))
    return rows_of(x, values, "overlap_angle risk_finetune", status="ok")


@pytest.mark.parametrize(
    ("low", "high", "status", "slope"), [(-1, 2, "falls", -1.0), (-1, 3, "no clear trend", 0.0), (1, 3, "rises", 2.0)]
)
def test_a_parabola_falls_and_rises_and_its_slope_is_exact_without_noise(low, high, status, slope):
    x = np.linspace(low, high, 13)
    (row,) = trend_of(looks(lambda x: (x - 1) ** 2, x, 0.0)).tables["trend_trends"].to_dict("records")
    assert (row["status"], row["exact"]) == (status, True)
    assert row["slope"] == pytest.approx(slope, abs=1e-9)
    assert row["turns_back"] == (low < 1)
    (noisy,) = trend_of(looks(lambda x: (x - 1) ** 2, x, 0.05)).tables["trend_trends"].to_dict("records")
    assert (noisy["status"], noisy["exact"]) == (status, False)


def test_what_does_not_change_and_what_only_rises_overall():
    x = np.linspace(0, 1, 9)
    assert trend_of(looks(np.zeros_like, x, 0.0)).tables["trend_trends"]["status"].tolist() == ["does not change"]
    (row,) = trend_of(looks(np.round, x, 0.05)).tables["trend_trends"].to_dict("records")
    assert (row["status"], row["turns_back"], row["throughout"]) == ("rises", False, False)


@pytest.mark.parametrize(("sign", "change"), [(-1, "fall"), (1, "rise")])
def test_a_change_that_is_clear_is_told_where_one_wild_end_leaves_the_slope_open(sign, change):
    frame = looks(lambda x: sign * x, np.linspace(0, 8, 9), 0.1)
    wild = frame["overlap_angle"] == 0
    frame.loc[wild, "risk_finetune"] += 40 * np.random.default_rng(1).standard_normal(wild.sum())
    (row,) = trend_of(frame).tables["trend_trends"].to_dict("records")
    assert (row["status"], row["changes"]) == ("no clear trend", change)


@pytest.mark.simulation
def test_on_a_flat_curve_changes_are_told_no_more_often_than_the_level_says():
    curves = 240
    changes = 0
    for seed in range(curves):
        frame = looks(np.zeros_like, np.arange(8.0), 1.0, seed)
        changes += bool(trend_of(frame).tables["trend_trends"]["changes"].iloc[0])
    assert changes / curves <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / curves)

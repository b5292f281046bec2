"""Exponents of power laws: intervals cover the exponent as often as they say, and a law that bends is told from one;
and where a power law meets a level: what cannot be said is not."""

import math

import numpy as np
import pandas as pd
import pytest
from curve_rows import rows_of

from raysweep.fits.power_law import fit_meeting, fit_power_law
from raysweep.fits.reasons import Reason

X = np.geomspace(1e-4, 1e-2, 7)
KINDS = ("independent", "growing along x", "an exponent of each draw's own", "of a mean of ten squares")


def noise_of(kind, rng, draws):
    """Noise of log y, (draws, points); the last kind is skewed."""
    t, scatter = np.linspace(-1, 1, len(X)), rng.standard_normal((draws, len(X)))
    return {
        "independent": 0.1 * scatter,
        "growing along x": 0.1 * scatter * (1.2 + t),
        "an exponent of each draw's own": 0.2 * rng.standard_normal((draws, 1)) * t + 0.05 * scatter,
        "of a mean of ten squares": np.log(rng.chisquare(10, (draws, len(X))) / 10),
    }[kind]


def rows(log_y, x=X):
    return rows_of(x, np.exp(log_y), status="ok")


def fitted(frame, level=0.95):
    return fit_power_law(frame, "x", "y", "seed", level)


@pytest.mark.simulation
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_at_95_percent_cover_95_percent_and_not_99(kind):
    rng = np.random.default_rng(1)
    result = [fitted(rows(3 + 0.9 * np.log(X) + noise_of(kind, rng, (3, 5, 8)[k % 3]))) for k in range(300)]
    slack = 2.5 * math.sqrt(0.95 * 0.05 / 300)
    covers = np.mean([one.low <= 0.9 <= one.high for one in result])
    straight = np.mean([one.bend_low <= 0 <= one.bend_high for one in result])
    assert abs(covers - 0.95) < slack, covers
    assert abs(straight - 0.95) < slack, straight
    assert np.mean([one.bend_p < 0.05 for one in result]) == pytest.approx(1 - straight)


def test_the_exponent_is_that_of_least_squares_and_the_bend_that_of_a_parabola():
    u = np.log(X)
    log_y = 2 + 0.5 * u + 0.1 * u**2 + np.random.default_rng(2).standard_normal((4, len(X)))
    one = fitted(rows(log_y))
    second, first, _ = np.polyfit(np.tile(u, 4), log_y.ravel(), 2)
    assert one.exponent == pytest.approx(np.polyfit(np.tile(u, 4), log_y.ravel(), 1)[0])
    assert one.bend == pytest.approx((first + 2 * second * u[-1]) - (first + 2 * second * u[0]))
    assert one.prefactor == pytest.approx(np.exp(np.polyfit(u, log_y.mean(0), 1)[1]))
    assert (one.first, one.last, one.points, one.draws) == (X[0], X[-1], len(X), 4)
    wider = fitted(rows(log_y), 0.99)
    assert wider.low < one.low < one.exponent < one.high < wider.high


@pytest.mark.parametrize("level", [1.0, 3.7, 1e-9])
def test_values_that_differ_by_rounding_only_have_no_exponent_and_no_bend(level):
    rounding = 1 + 4 * np.finfo(float).eps * np.random.default_rng(0).integers(-1, 2, (3, len(X)))
    one = fitted(rows(np.log(level * rounding)))
    assert (one.exponent, one.low, one.high) == (0.0, 0.0, 0.0)
    assert (one.bend, one.bend_p) == (0.0, 1.0)


def test_what_is_left_out_is_left_out_in_every_draw_and_said():
    log_y = np.log(X) + 0.1 * np.random.default_rng(3).standard_normal((4, len(X)))
    whole, inner = rows(log_y), rows(log_y[:, :-1], X[:-1])
    missing = whole.assign(status=np.where((whole["x"] == X[-1]) & (whole["seed"] == 2), "diverged", "ok"))
    one = fitted(missing)
    assert one.exponent == fitted(inner).exponent
    assert one.reason == Reason.LEFT_OUT
    assert one.note == "left out, because not every draw has a value there: x = 0.01"
    assert fitted(pd.concat([inner, inner.head(2).assign(x=[0.0, np.inf])])).exponent == fitted(inner).exponent
    assert fitted(whole.assign(y=whole["y"] - whole["y"].min())).note == "1 of 28 values of y are not above 0"
    assert fitted(whole[whole["x"] < X[2]]).reason == Reason.TOO_FEW_POINTS
    single = fitted(whole[whole["seed"] == 0])
    assert math.isfinite(single.exponent)
    assert math.isnan(single.low)
    assert single.reason == Reason.SINGLE_DRAW


# Where a law meets a level

NUMBERS = np.geomspace(50, 700, 8)
PLACE = (0.02 / 3.0) ** (-1 / 1.18)  # of 3 x^-1.18 = 0.02


def frame_of(log_y, log_level, x=NUMBERS):
    """Rows of log y (draws, points), and of the logarithm of the level of each draw."""
    level = np.exp(np.repeat(log_level, len(x)))
    return rows_of(x, np.exp(log_y), "n risk", status="ok", level=level)


def drawn(rng, draws, noise, shared):
    """Power laws and levels with noise, a part of which both have in common."""
    both = shared * rng.standard_normal((draws, 1))
    scatter = noise * rng.standard_normal((draws, len(NUMBERS)))
    tilt = 0.1 * rng.standard_normal((draws, 1)) * np.log(NUMBERS / 200)
    return frame_of(
        np.log(3) - 1.18 * np.log(NUMBERS) + both + scatter + tilt,
        np.log(0.02) + both[:, 0] + noise * rng.standard_normal(draws),
    )


def met(frame, level=0.95):
    return fit_meeting(frame, "n", "risk", "level", "seed", level)


@pytest.mark.simulation
def test_intervals_of_the_place_cover_95_percent_and_not_99():
    rng, kinds = np.random.default_rng(1), ((0.1, 0.0), (0.3, 0.0), (0.1, 1.0))
    result = [met(drawn(rng, (3, 5, 8)[k // 3 % 3], *kinds[k % 3])) for k in range(240)]
    covers = np.mean([one.low <= PLACE <= one.high for one in result])
    assert abs(covers - 0.95) < 2.5 * math.sqrt(0.95 * 0.05 / 240), covers


def test_what_both_have_in_common_does_not_widen_the_interval():
    rng = np.random.default_rng(2)
    widths = [
        np.median([(one.high - one.low) for one in (met(drawn(rng, 8, 0.1, shared)) for _ in range(15))])
        for shared in (0.0, 3.0)
    ]
    assert widths[1] == pytest.approx(widths[0], rel=0.4)


def test_without_noise_it_is_where_the_line_has_the_level():
    one = met(frame_of(np.tile(np.log(3) - 1.18 * np.log(NUMBERS), (3, 1)), np.full(3, np.log(0.02))))
    assert one.place == pytest.approx(PLACE)
    assert (one.low, one.high) == (pytest.approx(PLACE), pytest.approx(PLACE))
    assert not one.beyond
    assert met(frame_of(np.tile(np.log(3) - 1.18 * np.log(NUMBERS), (3, 1)), np.full(3, np.log(1e-5)))).beyond


def test_what_cannot_be_said_is_not_said():
    rng = np.random.default_rng(3)
    flat = frame_of(0.5 * rng.standard_normal((4, len(NUMBERS))), rng.standard_normal(4))
    assert met(flat).reason == Reason.SLOPE_UNCLEAR
    assert math.isnan(met(flat).place)
    good = drawn(rng, 4, 0.1, 0.0)
    assert met(good[good["seed"] == 0]).reason == Reason.SINGLE_DRAW
    assert met(good.assign(level=0.0)).reason == Reason.LEVEL_NOT_POSITIVE
    assert met(good[good["n"] < NUMBERS[2]]).reason == Reason.TOO_FEW_POINTS
    assert met(good.assign(risk=good["risk"] - 1)).note == "32 of 32 values of risk are not above 0"
    wider = met(good, 0.99)
    assert wider.low < met(good).low < met(good).place < met(good).high < wider.high
    with pytest.raises(ValueError, match="no column 'depth'"):
        fit_meeting(good, "n", "risk", "depth", "seed")

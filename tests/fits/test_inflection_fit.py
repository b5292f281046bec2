"""The inflection fit, held against curves whose turning point is known."""

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from curve_rows import rows_of
from scipy.stats import ttest_1samp

from raysweep.fits import fit_inflection
from raysweep.fits.extremum import find_extremum
from raysweep.fits.reasons import Reason, message

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

frame_of = functools.partial(rows_of, names="x loss")
Curve = Callable[[np.ndarray, float], np.ndarray]

CURVES = {
    "parabola": lambda t, turn: 4 * (t - turn) ** 2,
    "steep on the left": lambda t, turn: np.exp(-6 * (t - turn)) / 6 + (t - turn),
    "steep on the right": lambda t, turn: np.exp(3 * (t - turn)) / 3 - (t - turn),
    "sharp": lambda t, turn: np.where(t < turn, 3.0, 6.0) * np.abs(t - turn) ** 1.5,
    "flat": lambda t, turn: 8 * np.abs(t - turn) ** 3,
    "nearly a corner": lambda t, turn: np.sqrt((t - turn) ** 2 + 0.05**2),
}


def noise_of(kind, rng, draws, t, size):
    """Noise (draws, points) with a large draw effect: independent, growing, or a turning point of each draw's own."""
    level = 0.5 * rng.standard_normal((draws, 1))
    noise = rng.standard_normal((draws, len(t)))
    slope = rng.standard_normal((draws, 1)) * (t - 0.5)
    return level + size * {"independent": noise, "growing": noise * (0.5 + t), "own turn": slope + 0.05 * noise}[kind]


def test_interval_covers_the_known_turn():
    rng = np.random.default_rng(1)
    covered = {}
    widths = []
    for name, curve in CURVES.items():
        for kind in ("independent", "growing", "own turn"):
            for draws in (3, 5, 10):
                for points in (9, 13, 25):
                    for k in range(6):
                        t, turn = np.linspace(0, 1, points), rng.uniform(0.2, 0.8)
                        values = curve(t, turn) + noise_of(kind, rng, draws, t, rng.choice([0.02, 0.06, 0.2]))
                        logarithmic = k % 2 == 0
                        extremum = find_extremum(10 ** (3 * t) if logarithmic else t, values, 0.95)
                        if extremum.status == "located":
                            low, high = extremum.low, extremum.high
                            if logarithmic:
                                low, high = np.log10(low) / 3, np.log10(high) / 3
                            covered.setdefault(name, []).append(low <= turn <= high)
                            covered.setdefault(kind, []).append(low <= turn <= high)
                            widths.append(high - low)
    pooled = np.mean([holds for name in CURVES for holds in covered[name]])
    shares = {name: float(np.mean(holds)) for name, holds in covered.items()}
    print(f"\npooled {pooled:.3f}; median width {np.median(widths):.3f} of the grid;", shares)
    assert pooled >= 0.92
    assert min(shares.values()) >= 0.88
    assert np.median(widths) < 0.2


def test_located_is_rare_on_curves_that_do_not_turn():
    rng = np.random.default_rng(2)
    located, total = 0, 0
    for truth in (lambda t: -t, lambda t: np.exp(-5 * t), lambda t: t**2, lambda t: 2 * np.maximum(0.4 - t, 0)):
        for kind in ("independent", "growing", "own turn"):
            for draws in (3, 5, 10):
                for points in (7, 13, 25):
                    t = np.linspace(0, 1, points)
                    size = rng.choice([0.02, 0.06, 0.2]) * (0.2 if kind == "own turn" else 1)
                    extremum = find_extremum(t, truth(t) + noise_of(kind, rng, draws, t, size), 0.95)
                    located += extremum.status == "located"
                    total += 1
    assert located / total < 0.05


@pytest.mark.parametrize(("turn", "status"), [(1.2, "censored_high"), (-0.2, "censored_low")])
def test_a_turn_beyond_the_grid_is_censored(turn, status):
    t, rng = np.linspace(0, 1, 11), np.random.default_rng(3)
    fit = fit_inflection(frame_of(t, (t - turn) ** 2 + 0.01 * rng.standard_normal((5, 11))), "x", "loss", "seed")
    assert fit.status == status
    assert np.isnan(fit.estimate)
    assert fit.low <= turn <= fit.high


def test_a_straight_fall_is_monotone_and_noise_is_undetermined():
    t, rng = np.linspace(0, 1, 11), np.random.default_rng(4)
    falling = fit_inflection(frame_of(t, -t + 0.01 * rng.standard_normal((5, 11))), "x", "loss", "seed")
    assert falling.status == "monotone"
    flat = fit_inflection(frame_of(t, 0.1 * rng.standard_normal((5, 11))), "x", "loss", "seed")
    assert flat.status == "undetermined"
    few = fit_inflection(frame_of(t[:4], (t[:4] - 0.15) ** 2 * np.ones((3, 1))), "x", "loss", "seed")
    assert few.status == "undetermined"
    assert few.points == 4
    assert few.table["reason"].item() == Reason.TOO_FEW_POINTS


def test_a_maximum_is_the_minimum_of_the_negative():
    t, rng = np.linspace(0, 1, 15), np.random.default_rng(5)
    values = (t - 0.4) ** 2 + 0.01 * rng.standard_normal((5, 15))
    low = fit_inflection(frame_of(t, values), "x", "loss", "seed")
    high = fit_inflection(frame_of(t, -values), "x", "loss", "seed", turn="max")
    assert low.status == "located"
    assert (low.estimate, low.low, low.high) == (high.estimate, high.low, high.high)


def test_a_draw_effect_of_any_size_does_not_move_the_answer():
    t, rng = np.linspace(0, 1, 15), np.random.default_rng(6)
    values = (t - 0.4) ** 2 + 0.01 * rng.standard_normal((5, 15))
    plain = fit_inflection(frame_of(t, values), "x", "loss", "seed")
    shifted = fit_inflection(frame_of(t, values + 100 * rng.standard_normal((5, 1))), "x", "loss", "seed")
    assert (shifted.estimate, shifted.low, shifted.high) == pytest.approx(
        (plain.estimate, plain.low, plain.high), rel=1e-6
    )
    # a missing value takes its draw's effect with it, and must not bend the curve
    frame = frame_of(t, values + 100 * rng.standard_normal((5, 1)), status="ok")
    frame.loc[7, "status"] = "diverged"
    partial = fit_inflection(frame, "x", "loss", "seed")
    assert partial.low <= 0.4 <= partial.high
    assert partial.dropped == {"diverged": 1}


def test_converged_rows_stay_outside_the_fit_but_count_if_they_are_best():
    x, rng = np.append(np.geomspace(0.1, 10, 11), np.inf), np.random.default_rng(7)
    inside = np.log(x[:-1] / 1.3) ** 2
    worse = np.append(inside, 3.0) + 0.01 * rng.standard_normal((5, 12))
    fit = fit_inflection(frame_of(x, worse), "x", "loss", "seed")
    assert fit.status == "located"
    assert fit.low <= 1.3 <= fit.high
    assert fit.points == 11
    assert message(Reason.INFINITY_APART) in fit.notes
    better = np.append(inside, -1.0) + 0.01 * rng.standard_normal((5, 12))
    fit = fit_inflection(frame_of(x, better), "x", "loss", "seed")
    assert (fit.status, fit.low, fit.high) == ("censored_high", 10.0, np.inf)


def test_exact_values_leave_only_the_interpolation_uncertain():
    t = np.linspace(0, 1, 21)
    fit = fit_inflection(frame_of(t, (np.exp(3 * (t - 0.4)) / 3 - t)[None]), "x", "loss", "seed", exact=True)
    assert fit.status == "located"
    assert fit.low <= 0.4 <= fit.high
    assert fit.high - fit.low < 0.02


@pytest.mark.parametrize("draws", [2, 3, 5])
def test_a_loss_that_rises_in_every_draw_is_never_called_flat(draws):
    """From 0.68 to 1.52 on the mean, late, by an amount of each draw's own that is far above the noise of its rows.
    The rise is shown about as often as by Student's t-test of the last value against the first."""
    t, rng = np.linspace(0, 1, 9), np.random.default_rng(12)
    rising = tested = 0
    for _ in range(20):
        factors = np.exp(0.35 * rng.standard_normal((draws, 1)))
        values = 0.68 + 0.84 * t**4 * factors + rng.standard_normal((draws, 1)) + 0.01 * rng.standard_normal((draws, 9))
        extremum = find_extremum(2 ** (8 * t), values, 0.95)
        assert extremum.reason != Reason.FLAT
        rising += extremum.climbs
        tested += ttest_1samp(values[:, -1] - values[:, 0], 0.0, alternative="greater").pvalue <= 0.05 / 8
        if extremum.status == "undetermined":
            assert extremum.reason == Reason.EACH_DRAW_DEGRADES
    assert rising >= max(tested - 1, {2: 6, 3: 10, 5: 18}[draws])
    level = [find_extremum(2 ** (8 * t), 0.1 * rng.standard_normal((draws, 9)), 0.95) for _ in range(40)]
    assert np.mean([extremum.falls and extremum.climbs for extremum in level]) <= 0.05
    assert np.mean([extremum.falls or extremum.climbs for extremum in level]) <= 0.17


def test_throughout_is_said_of_a_curve_that_improves_only_where_every_step_was_shown():
    t, rng = np.linspace(0, 1, 9), np.random.default_rng(13)
    stairs = -np.cumsum([0, 1, 1, 1, 0, 1, 1, 1, 1.0])
    for curve, reason in ((-8 * t, Reason.IMPROVES_THROUGHOUT), (stairs, Reason.IMPROVES)):
        extremum = find_extremum(2 ** (8 * t), curve + 0.02 * rng.standard_normal((5, 9)), 0.95)
        assert (extremum.status, extremum.reason) == ("monotone", reason)


@pytest.mark.parametrize(
    ("turn", "slope", "reason", "side"),
    [
        ("min", -1, Reason.IMPROVES_THROUGHOUT, "low"),
        ("min", 1, Reason.DEGRADES_THROUGHOUT, "high"),
        ("max", 1, Reason.IMPROVES_THROUGHOUT, "low"),
        ("max", -1, Reason.DEGRADES_THROUGHOUT, "high"),
    ],
)
def test_a_straight_line_is_said_to_improve_or_degrade(turn, slope, reason, side):
    stream = np.random.default_rng(0)
    rows = [
        {"x": float(x), "seed": seed, "y": slope * x + 0.01 * stream.standard_normal()}
        for x in range(1, 12)
        for seed in range(6)
    ]
    fit = fit_inflection(pd.DataFrame(rows), "x", "y", "seed", turn=turn)
    assert fit.status == "monotone"
    assert fit.table["reason"].item() == reason
    assert np.isfinite(getattr(fit, side))  # improving: the place lies beyond a lower bound

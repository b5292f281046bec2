"""The inflection fit, held against curves whose turning point is known; what would halve the interval of a turn."""

import functools

import numpy as np
import pytest
from curve_rows import rows_of
from scipy.stats import ttest_1samp

from benchmarks.curves import TURNING
from raysweep.fits import fit_inflection, fit_optimum
from raysweep.fits.extremum import find_extremum
from raysweep.fits.reasons import Reason, message
from raysweep.fits.sample_size import Advice, ExpectedWidth, sample_size_advice

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

frame_of = functools.partial(rows_of, names="x loss")


def test_converged_rows_that_are_not_the_best_stay_outside_the_fit():
    x, rng = np.append(np.geomspace(0.1, 10, 11), np.inf), np.random.default_rng(7)
    worse = np.append(np.log(x[:-1] / 1.3) ** 2, 3.0) + 0.01 * rng.standard_normal((5, 12))
    fit = fit_inflection(frame_of(x, worse), "x", "loss", "seed")
    assert fit.status == "located"
    assert fit.low <= 1.3 <= fit.high
    assert fit.points == 11
    assert message(Reason.INFINITY_APART) in fit.notes


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


# Advice


def drawn(shape, turn, t, draws, size, rng):
    """A curve of the benchmark with a range of 1, with independent noise of a size and a level of each draw's own."""
    fine, curve = TURNING[shape](np.linspace(0, 1, 2001) - turn), TURNING[shape](t - turn)
    return curve / np.ptp(fine) + size * rng.standard_normal((draws, len(t))) + rng.standard_normal((draws, 1))


def test_doing_what_the_advice_says_halves_the_interval():
    """Over curves and noise, the median interval after the advice is half the one before, within a factor 1.5."""
    rng = np.random.default_rng(11)
    ratios = {"draws": [], "points": []}
    for shape in ("parabola", "sum of powers", "cusp", "uneven parabola"):
        for size in (0.01, 0.03, 0.1):
            for points in (9, 13):
                for turn in (0.4, 0.55):
                    t = np.linspace(0, 1, points)
                    before = drawn(shape, turn, t, 4, size, rng)
                    row = fit_inflection(rows_of(2 ** (8 * t), before, "x loss"), "x", "loss", "seed").table.iloc[0]
                    if row["status"] != "located" or not row["halved"] or row["draws_to_halve"] > 64:
                        continue
                    if row["points_to_halve"] > 0:
                        low, high = np.log2([row["points_from"], row["points_to"]]) / 8
                        inside = t[(t >= low - 1e-9) & (t <= high + 1e-9)]
                        t = np.sort(np.append(t, (inside[1:] + inside[:-1]) / 2))
                        assert len(t) == points + row["points_to_halve"]
                    after = drawn(shape, turn, t, int(row["draws_to_halve"]), size, rng)
                    better = fit_inflection(rows_of(2 ** (8 * t), after, "x loss"), "x", "loss", "seed").table.iloc[0]
                    if better["status"] == "located":
                        kind = "points" if row["points_to_halve"] else "draws"
                        ratios[kind].append(
                            float(np.log(better["high"] / better["low"]) / np.log(row["high"] / row["low"]))
                        )
    medians = {kind: (len(values), round(float(np.median(values)), 3)) for kind, values in ratios.items()}
    print("\nwidth after the advice over the width before:", medians)
    for kind, values in ratios.items():
        assert len(values) >= 5, kind
        assert 0.5 / 1.5 <= np.median(values) <= 0.5 * 1.5, kind


def test_the_advice_is_draws_where_noise_and_points_where_the_grid_widens_the_interval():
    u, nothing = np.arange(7.0), float("nan")
    assert str(sample_size_advice(ExpectedWidth(0.0, 1.6), u, 3, 12)) == str(Advice(48, 0, nothing, nothing, True))
    assert sample_size_advice(ExpectedWidth(1.6, 0.0), u, 3, 12) == Advice(12, 2, 2.0, 4.0, True)
    assert sample_size_advice(ExpectedWidth(1.0, 1.0), u, 3, 12) == Advice(48, 2, 2.0, 4.0, True)
    assert sample_size_advice(ExpectedWidth(1.0, 0.01), u, 0, 12) == Advice(12, 1, 0.0, 1.0, True)


def test_a_length_of_0_stays_outside_and_octaves_are_read_in_log():
    rng = np.random.default_rng(5)
    x = np.append(0.0, 2.0 ** np.arange(8))
    values = np.append(9.0, (np.arange(8) - 3.3) ** 2) + 0.05 * rng.standard_normal((5, 9))
    frame = rows_of(x, values, "x loss")
    fit = fit_inflection(frame, "x", "loss", "seed")
    assert fit.status == "located"
    assert fit.low <= 2**3.3 <= fit.high
    assert message(Reason.ZERO_APART) in fit.notes
    short = frame[frame["x"].isin([2, 4, 8, 16, 32])]  # less than two decades of lengths are lengths too
    assert "log x" in fit_inflection(short, "x", "loss", "seed").method
    rates = short.rename(columns={"x": "lr"})
    assert fit_optimum(rates, "lr", "loss", None, "seed").low <= 2**3.3

"""The inflection fit, held against curves whose turning point is known."""

import functools

import numpy as np
import pytest
from curve_rows import rows_of
from scipy.stats import ttest_1samp

from raysweep.fits import fit_inflection
from raysweep.fits.extremum import find_extremum
from raysweep.fits.reasons import Reason, message

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
    x = np.arange(1.0, 12.0)
    values = slope * x + 0.01 * np.random.default_rng(0).standard_normal((6, 11))
    fit = fit_inflection(frame_of(x, values), "x", "loss", "seed", turn=turn)
    assert fit.status == "monotone"
    assert fit.table["reason"].item() == reason
    assert np.isfinite(getattr(fit, side))  # improving: the place lies beyond a lower bound

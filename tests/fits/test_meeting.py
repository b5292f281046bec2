"""Where a power law meets a level: intervals cover the place as often as they say, and what cannot be said is not."""

import math

import numpy as np
import pytest
from curve_rows import rows_of

from raysweep.fits.power_law import fit_meeting
from raysweep.fits.reasons import Reason

X = np.geomspace(50, 700, 8)
PLACE = (0.02 / 3.0) ** (-1 / 1.18)  # of 3 x^-1.18 = 0.02


def frame_of(log_y, log_level, x=X):
    """Rows of log y (draws, points), and of the logarithm of the level of each draw."""
    level = np.exp(np.repeat(log_level, len(x)))
    return rows_of(x, np.exp(log_y), "n risk", status="ok", level=level)


def drawn(rng, draws, noise, shared):
    """Power laws and levels with noise, a part of which both have in common."""
    both = shared * rng.standard_normal((draws, 1))
    scatter = noise * rng.standard_normal((draws, len(X)))
    tilt = 0.1 * rng.standard_normal((draws, 1)) * np.log(X / 200)
    return frame_of(
        np.log(3) - 1.18 * np.log(X) + both + scatter + tilt,
        np.log(0.02) + both[:, 0] + noise * rng.standard_normal(draws),
    )


def met(frame, level=0.95):
    return fit_meeting(frame, "n", "risk", "level", "seed", level)


@pytest.mark.simulation
def test_intervals_at_95_percent_cover_95_percent_and_not_99():
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
    one = met(frame_of(np.tile(np.log(3) - 1.18 * np.log(X), (3, 1)), np.full(3, np.log(0.02))))
    assert one.place == pytest.approx(PLACE)
    assert (one.low, one.high) == (pytest.approx(PLACE), pytest.approx(PLACE))
    assert not one.beyond
    assert met(frame_of(np.tile(np.log(3) - 1.18 * np.log(X), (3, 1)), np.full(3, np.log(1e-5)))).beyond


def test_what_cannot_be_said_is_not_said():
    rng = np.random.default_rng(3)
    flat = frame_of(0.5 * rng.standard_normal((4, len(X))), rng.standard_normal(4))
    assert met(flat).reason == Reason.SLOPE_UNCLEAR
    assert math.isnan(met(flat).place)
    good = drawn(rng, 4, 0.1, 0.0)
    assert met(good[good["seed"] == 0]).reason == Reason.SINGLE_DRAW
    assert met(good.assign(level=0.0)).reason == Reason.LEVEL_NOT_POSITIVE
    assert met(good[good["n"] < X[2]]).reason == Reason.TOO_FEW_POINTS
    assert met(good.assign(risk=good["risk"] - 1)).note == "32 of 32 values of risk are not above 0"
    wider = met(good, 0.99)
    assert wider.low < met(good).low < met(good).place < met(good).high < wider.high
    with pytest.raises(ValueError, match="no column 'depth'"):
        fit_meeting(good, "n", "risk", "depth", "seed")

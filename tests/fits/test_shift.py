"""The factor between the best values of two settings: what draws do to both cancels, and the interval covers it."""

import numpy as np
import pytest
from test_regime import LENGTHS, frame_of

from raysweep.fits.shift import fit_shift


def shift(one, other):
    return fit_shift(one, other, "lr", "loss", "length", "seed")


def setting(seed, centre=3e-3, size=0.1):
    """Four draws at two lengths and eleven rates, a factor 2 apart."""
    frame = frame_of(-0.2, np.random.default_rng(seed), 4, 11, size, "steep on the right", centre=centre)
    return frame[frame["length"].isin(LENGTHS[1:3])]


@pytest.mark.simulation
def test_the_interval_covers_the_factor_as_often_as_it_says_where_noise_is_what_blurs_it():
    result = []
    for k in range(80):
        centre = float(np.exp(np.random.default_rng([k, 9]).uniform(np.log(2e-3), np.log(4e-3))))
        result.append(shift(setting([k, 1], centre, 0.5), setting([k, 2], 1.7 * centre, 0.5)))
    result = [one for one in result if one.slices == 2]
    assert len(result) > 40
    assert 0.88 <= np.mean([one.low <= 1.7 <= one.high for one in result]) < 1


@pytest.mark.simulation
def test_what_draws_do_to_both_settings_cancels():
    one, other = setting([1], size=0.4), setting([2], size=0.4)
    alike = shift(one, one.assign(lr=one["lr"] * 2))
    assert alike.factor == pytest.approx(2)
    apart = shift(one, other)
    assert alike.high / alike.low == pytest.approx(1)
    assert apart.high / apart.low > 1.5
    back = shift(other, one)
    assert (back.factor, back.low, back.high) == pytest.approx((1 / apart.factor, 1 / apart.high, 1 / apart.low))


@pytest.mark.simulation
def test_where_one_is_not_located_both_are_left_out():
    one, other = setting([1]), setting([2], 6e-3)
    first = other["length"] == LENGTHS[1]
    falling = other.assign(loss=np.where(first, -np.log(other["lr"]), other["loss"]))
    result = shift(one, falling)
    assert (result.slices, result.left_out) == (1, 1)
    assert result.factor == shift(one[one["length"] == LENGTHS[2]], other[~first]).factor
    nowhere = shift(one, other.assign(loss=-np.log(other["lr"])))
    assert nowhere.slices == 0
    assert np.isnan(nowhere.factor)

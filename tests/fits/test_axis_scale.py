"""A 0 beside a logarithmic axis, and values over decades on a linear one: neither gives a confident wrong place."""

import numpy as np
import pandas as pd
import pytest
from curve_rows import rows_of

from raysweep.fits import fit_inflection, fit_optimum
from raysweep.fits.reasons import Reason
from raysweep.fits.regime import fit_regime
from raysweep.fits.result import Status
from raysweep.fits.shift import fit_shift

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

DECAYS = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 1e-1)
BEST = 0.00316


def rows(at_zero, seed=0, best=BEST, decays=DECAYS):
    """8 seeds of a loss that is a parabola in log10 of the decay; at_zero: the loss of no decay above the best one."""
    rng = np.random.default_rng(seed)
    every = np.array([0.0, *decays])
    mean = np.append(at_zero, 0.08 * np.log10(np.array(decays) / best) ** 2)
    loss = 1 + mean + rng.normal(0, 0.01, (8, 1)) + rng.normal(0, 0.01, (8, len(every)))
    return rows_of(every, loss, "decay loss")


def turn(frame):
    return fit_inflection(frame, "decay", "loss", "seed")


def best(frame):
    return fit_optimum(frame, "decay", "loss", None, "seed")


@pytest.mark.parametrize("fitted", [turn, best])
def test_a_zero_leaves_the_answer_of_the_other_values_as_it_is(fitted):
    for seed in range(4):
        frame = rows(at_zero=0.5, seed=seed)
        whole, positive = fitted(frame), fitted(frame[frame["decay"] > 0])
        assert whole.status == Status.LOCATED
        assert whole.low <= BEST <= whole.high
        assert (whole.estimate, whole.low, whole.high) == (positive.estimate, positive.low, positive.high)


@pytest.mark.parametrize("fitted", [turn, best])
def test_a_zero_that_is_best_is_the_answer(fitted):
    fit = fitted(rows(at_zero=-0.2))
    assert (fit.status, fit.low, fit.high) == (Status.MONOTONE, -np.inf, DECAYS[0])
    assert fit.table["reason"].item() == Reason.BEST_AT_ZERO


@pytest.mark.parametrize("fitted", [turn, best])
def test_a_zero_that_cannot_be_told_from_the_best_is_not_left_out(fitted):
    frame = rows(at_zero=0.0)
    result, positive = fitted(frame), fitted(frame[frame["decay"] > 0])
    assert (result.status, result.low, result.high) == (Status.CENSORED_LOW, -np.inf, positive.high)
    assert result.table["reason"].item() == Reason.ZERO_ALIKE


def test_a_zero_as_good_as_the_largest_value_leaves_the_best_one_open():
    frame = rows(at_zero=0.32, best=10.0)  # as high as at the largest value, which is the best of the others
    zero, largest = frame["decay"] == 0, frame["decay"] == DECAYS[-1]
    assert best(frame[~zero]).status == Status.CENSORED_HIGH
    frame.loc[zero, "loss"] += frame.loc[largest, "loss"].mean() - frame.loc[zero, "loss"].mean()
    answer = best(frame)
    assert (answer.status, answer.table["reason"].item()) == (Status.UNDETERMINED, Reason.ZERO_ALIKE)
    assert best(frame.assign(loss=frame["loss"] + 0.2 * zero)).status == Status.CENSORED_HIGH


def test_values_over_decades_that_are_read_linearly_give_no_narrow_wrong_place():
    x = 10.0 ** np.arange(-5, 1)
    right = 0
    for seed in range(6):
        frame = rows(at_zero=0.5, seed=seed, best=3e-3, decays=tuple(x))
        frame = frame[frame["decay"] > 0]
        fit = fit_optimum(frame, "decay", "loss", None, "seed", logarithmic=False)
        assert fit.status != Status.LOCATED or fit.low <= 3e-3 <= fit.high
        right += fit.status == Status.LOCATED or fit.table["reason"].item() == Reason.SCALE_DECIDES
    assert right >= 5


def test_regime_and_shift_are_the_same_with_rates_of_zero():
    lengths = (1.0, 2.0, 4.0, 8.0)
    parts = [rows(0.5, seed, BEST * length**-0.3).assign(length=length) for seed, length in enumerate(lengths)]
    frame = pd.concat(parts, ignore_index=True)
    positive = frame[frame["decay"] > 0]
    regimes = [fit_regime(each, "decay", "length", "loss", "seed") for each in (frame, positive)]
    assert regimes[0].located == 4
    assert (regimes[0].slope, regimes[0].low, regimes[0].high) == (regimes[1].slope, regimes[1].low, regimes[1].high)
    assert regimes[0].low <= -0.3 <= regimes[0].high
    shifted = frame.assign(decay=frame["decay"] * 2)
    shifts = [fit_shift(each, shifted, "decay", "loss", "length", "seed") for each in (frame, positive)]
    assert shifts[0].slices == 4
    assert shifts[0].factor == pytest.approx(shifts[1].factor, rel=1e-12)
    assert shifts[0].low <= 2 <= shifts[0].high

"""The few draws that are left where most diverged or failed decide nothing, and what was never computed is missing; a 0
beside a logarithmic axis, and values over decades on a linear one: neither gives a confident wrong place."""

import numpy as np
import pandas as pd
import pytest
from curve_rows import rows_of

from raysweep.fits.boundary import fit_boundary
from raysweep.fits.comparison import paired
from raysweep.fits.lost_draws import among_lost
from raysweep.fits.optimum import fit_inflection, fit_optimum
from raysweep.fits.power_law import fit_power_law
from raysweep.fits.reasons import Reason
from raysweep.fits.regime import fit_regime
from raysweep.fits.result import Status
from raysweep.fits.shift import fit_shift
from raysweep.fits.trend import fit_trend

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

U = np.linspace(-4, -1, 10)


def frame_of(mean, **columns):
    """Ten draws at ten rates."""
    values = mean + 0.01 * np.random.default_rng(3).standard_normal((10, len(U)))
    return rows_of(10**U, values, "lr loss", status="ok", **columns)


def survived(frame, rate, status, value, left):
    """The table in which nine of ten draws at a rate ended with a status and a value, and the last one with `left`."""
    frame, at = frame.copy(), np.isclose(frame["lr"], rate)
    frame.loc[at & (frame["seed"] > 0), ["status", "loss"]] = [status, value]
    frame.loc[at & (frame["seed"] == 0), "loss"] = left
    return frame


LOST = [("diverged", np.nan), ("failed", np.nan), ("ok", np.inf), ("ok", 1e200)]


@pytest.mark.parametrize(("status", "value"), LOST)
def test_a_survivor_is_no_point_of_any_fit(status, value):
    falling, valley, crossing = 3.0 - U, (U + 2.6) ** 2 + 0.5, U + 2.6
    for fit, mean in (
        (lambda rows: fit_trend(rows, "lr", "loss", "seed").slope, falling),
        (lambda rows: fit_power_law(rows, "lr", "loss", "seed").exponent, falling),
        (lambda rows: fit_inflection(rows, "lr", "loss", "seed").estimate, valley),
        (lambda rows: fit_optimum(rows, "lr", "loss", None, "seed", advise=False).estimate, valley),
        (lambda rows: fit_boundary(rows, "lr", None, "loss", "seed").estimate, crossing),
    ):
        whole = frame_of(mean)
        gone = whole[~np.isclose(whole["lr"], 10 ** U[-1])]
        assert fit(survived(whole, 10 ** U[-1], status, value, -50.0)) == pytest.approx(fit(gone))


def test_draws_that_failed_bound_no_rate_and_those_that_diverged_do():
    frame = frame_of((U + 2) ** 2)  # the best rate lies above the rate at which draws are lost
    failed, diverged = (
        fit_optimum(survived(frame, 10 ** U[5], status, np.nan, -50.0), "lr", "loss", None, "seed", advise=False)
        for status in ("failed", "diverged")
    )
    assert (failed.status, failed.table["diverged_from"].iloc[0]) == ("located", np.inf)
    assert failed.low < 1e-2 < failed.high
    assert failed.dropped == {"failed": 9, "at a point where most draws diverged or failed": 1}
    assert (diverged.status, diverged.table["diverged_from"].iloc[0]) == ("located", pytest.approx(10 ** U[5]))
    assert diverged.high == pytest.approx(10 ** U[5])


@pytest.mark.parametrize("status", ["ok", None, np.nan, "missing"])
def test_what_was_never_computed_is_missing_and_not_diverged(status):
    """A product of axes that a look-up fills has no value in some cells."""
    frame = frame_of((U + 2) ** 2)
    holes = np.isclose(frame["lr"], 10 ** U[2]) | np.isclose(frame["lr"], 10 ** U[-1])
    absent = fit_optimum(frame[~holes], "lr", "loss", None, "seed", advise=False)
    frame["status"] = frame["status"].astype(object)
    frame.loc[holes, "status"] = status
    frame.loc[holes, "loss"] = np.nan
    fit = fit_optimum(frame, "lr", "loss", None, "seed", advise=False)
    assert fit.table["diverged_from"].iloc[0] == np.inf
    assert (fit.status, fit.low, fit.high) == ("located", absent.low, absent.high)
    # and it is no draw of which most could be lost: three of four draws diverged where six were not computed
    rate = np.isclose(frame["lr"], 10 ** U[-2])
    frame.loc[rate & (frame["seed"] > 3), ["status", "loss"]] = [status, np.nan]
    frame.loc[rate & (frame["seed"] < 3), ["status", "loss"]] = ["diverged", np.nan]
    assert fit_optimum(frame, "lr", "loss", None, "seed", advise=False).table["diverged_from"].iloc[0] == pytest.approx(
        10 ** U[-2]
    )


@pytest.mark.parametrize("status", ["stopped", "not_converged"])
def test_draws_that_have_numbers_are_not_lost(status):
    frame = survived(frame_of(U), 10 ** U[3], status, 1.0, -50.0)
    assert not among_lost(frame, "loss", ["lr"]).any()


def test_half_of_the_draws_is_not_most_of_them():
    frame = frame_of(U)
    half = np.isclose(frame["lr"], 10 ** U[3]) & (frame["seed"] < 5)
    frame.loc[half, "status"] = "failed"
    assert not among_lost(frame, "loss", ["lr"]).any()
    frame.loc[np.isclose(frame["lr"], 10 ** U[3]) & (frame["seed"] == 5), "status"] = "diverged"
    assert frame.loc[among_lost(frame, "loss", ["lr"]), "lr"].unique().tolist() == [pytest.approx(10 ** U[3])]


def test_a_cell_is_not_compared_by_its_survivors():
    frame = frame_of(U)
    pairs = paired(frame, survived(frame, 10 ** U[3], "failed", np.nan, -50.0), ["lr"], "loss")
    assert len(pairs) == 90
    assert (pairs["difference"] == 0).all()


# A 0 beside a logarithmic axis

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

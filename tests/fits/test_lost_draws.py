"""The few draws that are left where most diverged or failed decide nothing, and what was never computed is missing."""

import numpy as np
import pytest
from curve_rows import rows_of

from raysweep.fits.boundary import fit_boundary
from raysweep.fits.comparison import paired
from raysweep.fits.inflection import fit_inflection
from raysweep.fits.lost_draws import among_lost
from raysweep.fits.optimum import fit_optimum
from raysweep.fits.power_law import fit_power_law
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

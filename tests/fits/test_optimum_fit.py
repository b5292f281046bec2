"""The fit of the optimal rate, held against curves whose optimum is known."""

import functools
import inspect

import numpy as np
import pandas as pd
import pytest
from curve_rows import rows_of

from benchmarks.edges import beside_divergence, stays_level
from raysweep.fits import fit_boundary, fit_inflection, fit_optimum
from raysweep.fits.draws import draw_curves
from raysweep.fits.extremum import edges_above
from raysweep.fits.optimum import find_optimum
from raysweep.fits.reasons import Reason

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

frame_of = functools.partial(rows_of, names="lr loss")


@pytest.mark.parametrize("number", [4, 31, 133])  # where the clearest of all rises is 2.0 to 2.5 deviations
def test_smooth_noise_of_a_draw_makes_no_turn_of_a_curve_that_falls_and_stays_level(number):
    assert stays_level(number)["status"] == "censored_high"


def test_the_best_rate_beside_divergence_is_located_below_it():
    table = pd.DataFrame([beside_divergence(number) for number in range(12)])
    assert (table["status"] == "located").sum() >= 11
    assert table["covers"].sum() >= 11
    assert (table["high"] - table["low"]).median() < 2.1  # cells of the grid


def test_without_noise_the_best_rate_beside_divergence_lies_between_its_neighbours():
    rates = np.geomspace(1e-3, 1e-1, 9)
    values = np.where(rates < 2e-2, -np.log(rates), np.nan)[None]
    fit = fit_optimum(frame_of(rates, values), "lr", "loss", None, "seed", exact=True)
    assert fit.status == "located"
    assert [fit.low, fit.estimate, fit.high] == pytest.approx(rates[[4, 5, 6]])


def test_draws_that_rise_to_the_last_rate_bound_the_optimum_by_it():
    """Between the bounds it may be anywhere: smooth noise of each draw leaves open where, at the edge too."""
    u, values = np.arange(6.0), np.array([[5, 3, 1, 0, 1, 2.0], [5, 3, 2, 1, 1, 1.5], [6, 4, 2, 0, 1, 1.5]])
    curve = values.mean(axis=0)
    assert edges_above(u, values, curve, 0.95) == (0, np.inf)  # t = 3.5 with 2 degrees: not clear
    assert edges_above(u, values + np.eye(6)[5], curve, 0.95) == (0, 5)
    assert edges_above(u, values[:, ::-1] + np.eye(6)[0], curve[::-1], 0.95) == (0, 5)
    assert edges_above(u, values[:, :4], curve[:4], 0.95) == (0, np.inf)  # the lowest point is the last
    assert edges_above(u, values[:1], curve, 0.95) == (-np.inf, np.inf)


def exploding(rng, place, size, draws=8):
    """A parabola in log rate with its optimum at 10**place, whose draws explode at the highest rate."""
    rates = np.geomspace(1e-4, 1, 9)
    noise = 0.3 * rng.normal(size=(draws, 1)) + 0.05 * rng.normal(size=(draws, 9))
    values = 0.3 * (np.log10(rates) - place) ** 2 + noise
    values[:, -1] += size * np.exp(rng.normal(size=draws))
    return frame_of(rates, values)


@pytest.mark.parametrize("size", [3.0, 1e12])
def test_an_explosion_that_stays_finite_hides_no_optimum(size):
    rng = np.random.default_rng(0)
    located, holds = [], []
    for place in rng.uniform(-3.2, -1.0, 40):
        curves = draw_curves(exploding(rng, place, size), "lr", "loss", "seed")
        optimum = find_optimum(curves, "lr", 0.95, exact=False, limit=np.inf, logarithmic=True)
        located.append(optimum.status == "located")
        holds.append(optimum.low <= 10**place <= optimum.high)
    assert np.mean(located) > 0.7
    assert np.mean(np.asarray(holds)[located]) >= 0.95
    assert np.mean(holds) >= 0.95  # bounds of what is censored too


def test_how_high_an_explosion_goes_changes_nothing():
    sizes = [1e5, 1e12, 1e20, 1e140]
    slices = [exploding(np.random.default_rng(3), -2.0, size).assign(size=size) for size in sizes]
    table = fit_optimum(pd.concat(slices), "lr", "loss", "size", "seed").table
    assert table["status"].tolist() == ["located"] * len(sizes)
    # Compressed, the lowest explosion differs from the others in the sixth digit, these in the twelfth. From the
    # sixth on some steps of the sampler end elsewhere, which moves an end by less than a hundredth of the interval.
    places = np.log(table[["estimate", "low", "high"]].to_numpy())
    np.testing.assert_allclose(places[1:], places[[1, 1, 1]], rtol=0, atol=1e-6)
    np.testing.assert_allclose(places[0], places[1], rtol=0, atol=0.01 * (places[1, 2] - places[1, 1]))


def test_without_a_row_nothing_is_known_and_a_wrong_rate_is_an_error():
    u, rng = np.linspace(-4, -1, 13), np.random.default_rng(7)
    flat = frame_of(10**u, 0.1 * rng.standard_normal((5, 13)))
    gone = fit_optimum(flat.assign(status="diverged"), "lr", "loss", None, "seed")
    assert (gone.status, gone.rows) == ("undetermined", 0)
    with pytest.raises(ValueError, match="^lr: "):
        fit_optimum(flat.assign(lr=-flat["lr"]), "lr", "loss", None, "seed", logarithmic=True)
    with pytest.raises(ValueError, match="'length'"):
        fit_optimum(flat, "lr", "loss", "length", "seed")


def parabola(x, draws=8, size=0.1):
    """A draw of its own at every x, lowest at 1."""
    return frame_of(x, (x - 1) ** 2 + size * np.random.default_rng(3).standard_normal((draws, len(x))))


def test_values_at_and_below_zero_have_their_best_on_the_linear_scale():
    fit = fit_optimum(parabola(np.linspace(-1, 3, 17)), "lr", "loss", None, "seed")
    assert fit.status == "located"
    assert fit.low < 1 < fit.high
    assert fit.high - fit.low < 0.8
    assert "log" not in fit.method
    shifted = fit_optimum(parabola(np.linspace(-1, 3, 17)).assign(lr=lambda f: f["lr"] - 7), "lr", "loss", None, "seed")
    assert [shifted.low, shifted.high] == pytest.approx([fit.low - 7, fit.high - 7])
    with pytest.raises(ValueError, match="^lr: .* got -1"):
        fit_optimum(parabola(np.linspace(-1, 3, 17)), "lr", "loss", None, "seed", logarithmic=True)
    with pytest.raises(ValueError, match="^lr: .* got inf"):
        fit_optimum(parabola(np.array([-1.0, 0.0, 1.0, np.inf])), "lr", "loss", None, "seed")


def test_the_scale_is_guessed_from_the_values_and_can_be_said():
    rates = parabola(np.geomspace(0.1, 9, 17))
    assert "in log lr" in fit_optimum(rates, "lr", "loss", None, "seed").method
    assert "log" not in fit_optimum(rates, "lr", "loss", None, "seed", logarithmic=False).method
    even = parabola(np.linspace(0.4, 2, 17))
    assert "log" not in fit_optimum(even, "lr", "loss", None, "seed").method
    fit = fit_optimum(even, "lr", "loss", None, "seed", logarithmic=True)
    assert "in log lr" in fit.method
    assert fit.low < 1 < fit.high


@pytest.mark.parametrize("curve", [[0, 0, 2, 6, 12, 20], [5, 0, 0, 0, 0, 0, 5], [0, 0, 1, 0, 0, 1]])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_equally_low_points_do_not_make_a_curve_flat(curve, noise):
    """Draws share their noise, so that the lowest points are equal in each, up to rounding."""
    level = noise * np.random.default_rng(0).normal(size=(4, 1)) + 0.25
    fit = fit_optimum(frame_of(np.arange(1.0, len(curve) + 1), np.array(curve) + level), "lr", "loss", None, "seed")
    assert fit.table["reason"].item() != Reason.FLAT


def test_the_axis_has_one_name_in_all_fits():
    for fit in (fit_boundary, fit_inflection, fit_optimum):
        assert list(inspect.signature(fit).parameters)[:3] == ["frame", "x", "y"]
    frame = frame_of(10 ** np.linspace(-4, -2, 11), (np.linspace(-1, 1, 11)) ** 2 * np.ones((2, 1)))
    assert fit_optimum(frame=frame, x="lr", y="loss", by=None, seed="seed").status == "located"

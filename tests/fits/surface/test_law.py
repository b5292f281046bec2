"""The law of best values: powers of the slices' axes, from one run per cell."""

import numpy as np
import pandas as pd
import pytest

from raysweep.fits.reasons import Reason
from raysweep.fits.surface.law import Place, fit_law
from raysweep.fits.surface.slice_places import held_out, slice_places

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

POWERS = np.array([-0.6, 0.3])
AXES = np.array([(width, length) for width in np.geomspace(1, 100, 5) for length in np.geomspace(1, 30, 4)])


def places(seed, scatter=0.1, low=-9.0, high=-3.0):
    """Draws of the best values of slices that follow the powers, with errors of 0.15 and this scatter."""
    rng = np.random.default_rng(seed)
    truth = -5 + np.log(AXES) @ POWERS + scatter * rng.standard_normal(len(AXES))
    out = []
    for one in truth:
        draws = one + 0.15 * rng.standard_normal() + 0.15 * rng.standard_normal(500)
        inside = draws[(draws > low) & (draws < high)]
        out.append(Place(inside, low, high, float((draws <= low).mean()), float((draws >= high).mean())))
    return out


@pytest.mark.parametrize(("low", "high"), [(-9.0, -3.0), (-7.0, -5.0)])
def test_exponents_are_covered_whether_places_are_located_or_bounds(low, high):
    covered = []
    for seed in range(12):
        below, middle, above, p = fit_law(places(seed, low=low, high=high), AXES).exponents()
        covered += [*((below < POWERS) & (above > POWERS))]
        assert np.abs(middle - POWERS).max() < 0.3
        assert (p >= 1 / 2000).all()
    assert np.mean(covered) >= 0.83


def test_a_new_setting_lies_in_its_interval():
    covered = []
    for seed in range(12):
        law, rng = fit_law(places(seed), AXES), np.random.default_rng(seed)
        logs = np.log(np.array([[3.0, 5.0], [40.0, 2.0], [200.0, 60.0]]))
        new = -5 + logs @ POWERS + 0.1 * rng.standard_normal(3)
        low, high = np.quantile(law.at(logs, rng), [0.025, 0.975], axis=0)
        covered += [*((low < new) & (new < high))]
    assert np.mean(covered) >= 0.83


def test_held_out_slices_are_forecast_and_a_slice_that_breaks_the_law_is_not():
    every = places(3)
    largest = AXES[:, 0] == AXES[:, 0].max()
    assert held_out(every, AXES, largest, 0.95).mean() >= 0.75
    last = every[-1]
    every[-1] = Place(last.draws + 2, last.low, last.high, 0.0, 0.0)
    assert held_out(every, AXES, np.arange(len(AXES)) == len(AXES) - 1, 0.95).tolist() == [0.0]


def test_an_axis_that_does_not_belong_has_a_power_that_holds_zero():
    more = np.column_stack([AXES, np.tile([1.0, 7.0, 2.0, 5.0, 3.0], 4)])
    low, _, high, p = fit_law(places(1), more).exponents()
    assert low[2] < 0 < high[2]
    assert p[2] > 0.05
    assert (p[:2] < 0.01).all()


def test_two_axes_have_their_best_values_jointly():
    rng = np.random.default_rng(0)
    rates, batches = np.geomspace(1e-4, 1e-1, 9), np.geomspace(8, 512, 7)
    lines = []
    for width in (1.0, 2.0, 4.0, 8.0, 16.0):
        for lr in rates:
            for batch in batches:
                a, b = np.log(lr / (4e-3 / width**0.5)), np.log(batch / 64)
                loss = 2 + 0.1 * a**2 + 0.1 * b**2 - 0.1 * a * b + 0.02 * rng.standard_normal()
                lines.append({"width": width, "lr": lr, "batch": batch, "loss": loss})
    result = slice_places(pd.DataFrame(lines), ["lr", "batch"], "loss", ["width"], turn="min")
    expected = [place for place in result.places if place is not None]
    law = fit_law(expected, np.array(result.slices.settings))
    low, _, high, _ = law.exponents()
    assert low[0] < -0.5 < high[0]
    assert high[0] - low[0] < 0.6


def test_without_any_place_there_is_no_law():
    assert fit_law([], np.empty((0, 2))).reason == Reason.TOO_FEW_SLICES

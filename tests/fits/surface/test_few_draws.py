"""Best values from one run per cell: the noise is pooled over all slices; and the error of single runs."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from benchmarks import pairs
from benchmarks.surfaces import measure_some, measured, simulated, summary
from raysweep.fits.reasons import Reason
from raysweep.fits.result import Status
from raysweep.fits.surface.posterior import Cells, _objective, _padded
from raysweep.fits.surface.single_runs import axis_of, run_errors
from raysweep.fits.surface.slice_places import fit_few_draws, has_few_draws
from raysweep.fits.surface.units import units

pytestmark = pytest.mark.simulation  # of the fits alone: where they change

RATES = np.geomspace(1e-4, 1e-1, 11)


def runs(best, noise=0.02, curve=0.1, seed=0, rates=RATES):
    """One run per rate and slice of a parabola in the logarithm of the rate."""
    rng = np.random.default_rng(seed)
    lines = [
        {"lr": rate, "size": size, "loss": 2 + curve * np.log(rate / place) ** 2 + noise * rng.standard_normal()}
        for size, place in enumerate(best)
        for rate in rates
    ]
    return pd.DataFrame(lines)


BEST = [1e-3 * 2 ** (step / 3) for step in range(6)]


def test_the_best_rate_lies_in_its_interval_with_one_run_per_cell():
    frame = runs(BEST)
    assert has_few_draws(frame, "lr", "loss", ["size"])
    table = fit_few_draws(frame, "lr", "loss", ["size"]).table
    assert table["status"].tolist() == [Status.LOCATED] * len(BEST)
    assert (table["low"] < BEST).all()
    assert (table["high"] > BEST).all()
    assert (table["high"] / table["low"] < 4).all()
    assert (table["regret"] < 0.05).all()
    assert (np.abs(np.log(table["choice"] / BEST)) < 0.7).all()


def test_a_level_that_a_draw_has_in_all_cells_is_no_noise():
    draws = pd.concat([runs(BEST, seed=seed).assign(seed=seed) for seed in range(2)], ignore_index=True)
    apart = draws.assign(loss=draws["loss"] + 5.0 * draws["seed"])
    for rows in (slice(None), slice(3, None)):  # some draws missing
        table, shifted = (fit_few_draws(frame[rows], "lr", "loss", ["size"]).table for frame in (draws, apart))
        assert shifted["status"].tolist() == [Status.LOCATED] * len(BEST)
        columns = ["estimate", "low", "high"]
        np.testing.assert_allclose(shifted[columns].astype(float), table[columns].astype(float), rtol=1e-4)


@pytest.mark.parametrize("rates", [RATES[:9], RATES[:9:2]])
def test_no_rounding_of_an_axis_decides(rates):
    """Every second cell stands halfway between two bumps; of few values an order and its reverse are as smooth."""
    frame, places = runs(BEST, 0.1, rates=rates), []
    for unit in (1.0, 1 + 1e-12, 3.0, 32.0):
        table = fit_few_draws(frame.assign(lr=frame["lr"] * unit), "lr", "loss", ["size"]).table
        places.append(table[["estimate", "low", "high"]].astype(float) / unit)
    np.testing.assert_allclose(places[1:], np.broadcast_to(places[0], (3, len(BEST), 3)), rtol=1e-3)


def test_a_maximum_is_a_minimum_of_the_opposite():
    frame = runs(BEST)
    least = fit_few_draws(frame, "lr", "loss", ["size"]).table
    most = fit_few_draws(frame.assign(loss=-frame["loss"]), "lr", "loss", ["size"], turn="max").table
    np.testing.assert_allclose(least["estimate"], most["estimate"], rtol=1e-9)


def test_an_edge_is_an_edge_and_divergence_bounds_the_place():
    beyond = fit_few_draws(runs([1.0] * 5), "lr", "loss", ["size"]).table
    assert set(beyond["status"]) == {Status.CENSORED_HIGH}
    assert (beyond["high"] == np.inf).all()
    frame = runs([0.03] * 5)
    frame = frame.assign(status=np.where(frame["lr"] > 0.04, "diverged", "ok"))
    bounded = fit_few_draws(frame, "lr", "loss", ["size"]).table
    assert (bounded["diverged_from"] < 0.06).all()
    assert (bounded["high"] <= bounded["diverged_from"]).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_rate_that_diverges_in_some_slices_alone_moves_no_best_place(seed):
    frame = runs([0.01] * 8, noise=0.05, curve=2.0, seed=seed, rates=0.01 * 2.0 ** np.arange(-4, 4))
    diverged = frame["lr"] > np.where(frame["size"] % 2, 0.03, 0.015)
    frame = frame.assign(status=np.where(diverged, "diverged", "ok"), loss=frame["loss"].mask(diverged))
    table = fit_few_draws(frame, "lr", "loss", ["size"]).table
    assert table["status"].tolist() == [Status.LOCATED] * 8
    assert ((table["low"] <= 0.01) & (table["high"] >= 0.01)).all()
    wall = table["size"] % 2 == 0  # the next rate diverged
    assert (table["high"] == table["diverged_from"])[wall].all()
    assert np.abs(np.log2(table["estimate"] / 0.01))[~wall].max() < 0.3


def test_nothing_is_decided_in_noise_and_little_of_what_drowns_in_it():
    decided = {0.0: 0, 0.01: 0}
    for seed in range(8):
        for curve in decided:
            table = fit_few_draws(runs(BEST, noise=1.0, curve=curve, seed=seed), "lr", "loss", ["size"]).table
            decided[curve] += int((table["status"] != Status.UNDETERMINED).sum())
    assert decided[0.0] <= 2  # of 48
    assert decided[0.01] <= 8


@pytest.mark.parametrize(
    ("rates", "best", "noise"),
    [(RATES[:9:2], BEST, 0.02), (RATES[2:9], BEST, 0.02), (np.geomspace(1e-4, 1e-1, 60), BEST[3:4], 0.1)],
)
def test_few_values_with_little_noise_and_many_with_more_locate_the_best(rates, best, noise):
    inside = []
    for seed in range(20):
        table = fit_few_draws(runs(best, noise, seed=seed, rates=rates), "lr", "loss", ["size"]).table
        assert (table["status"] == Status.LOCATED).mean() > 0.8
        inside += (table["low"].lt(best) & table["high"].gt(best)).tolist()
    assert np.mean(inside) > 0.9


def test_a_flat_slice_among_others_has_no_best_value():
    decided = 0
    for seed in range(6):
        frame, noise = runs(BEST, seed=seed), np.random.default_rng(seed)
        flat = frame["size"] == 3
        frame.loc[flat, "loss"] = 2 + 0.02 * noise.standard_normal(flat.sum())
        table = fit_few_draws(frame, "lr", "loss", ["size"]).table.set_index("size")
        assert (table["status"].drop(3) == Status.LOCATED).all()
        decided += table["status"][3] != Status.UNDETERMINED
    assert decided <= 2


def test_nothing_is_located_on_fewer_than_five_values():
    four = runs(BEST, rates=RATES[3:7])
    assert set(fit_few_draws(four, "lr", "loss", ["size"]).table["reason"]) == {Reason.TOO_FEW_POINTS}
    single = runs(BEST)[lambda frame: (frame["size"] > 0) | (frame["lr"] == RATES[0])]  # one slice has one value
    assert fit_few_draws(single, "lr", "loss", ["size"]).table["reason"].tolist() == [Reason.TOO_FEW_POINTS] + [""] * 5
    assert set(fit_few_draws(runs(BEST, noise=0.0, curve=0.0), "lr", "loss", ["size"]).table["reason"]) == {Reason.FLAT}


def test_several_draws_and_too_few_cells_are_fitted_slice_by_slice():
    three = pd.concat([runs(BEST, seed=seed) for seed in range(3)])
    assert not has_few_draws(three, "lr", "loss", ["size"])
    assert not has_few_draws(runs(BEST[:1]), "lr", "loss", ["size"])


def padded(frame):
    zeros = np.zeros(len(frame))
    return Cells(
        np.log(frame["lr"].to_numpy())[:, None],
        frame["loss"].to_numpy(),
        frame["size"].to_numpy(),
        zeros + 1,
        zeros,
        zeros + np.nan,
        zeros > 0,
    )


def test_the_gradient_is_that_of_the_likelihood():
    surface = _padded(padded(runs(BEST)))
    theta, features = surface.prior[:, 0] + 0.1, surface.cell_features()
    step = 1e-5 * np.eye(len(theta))
    value = partial(_objective, surface, features=features)
    numeric = [(value(theta + one)[0] - value(theta - one)[0]) / 2e-5 for one in step]
    np.testing.assert_allclose(value(theta)[1], numeric, rtol=1e-4, atol=1e-4)


def test_two_draws_that_each_move_all_cells_alike_say_how_far_apart_they_are():
    held = []
    for number in range(12):
        moves = 2 ** np.random.default_rng(number).normal(0, 0.7, 2)
        draws = [
            runs(np.array(BEST) * move, noise=0.002, seed=seed).assign(seed=seed) for seed, move in enumerate(moves)
        ]
        table = fit_few_draws(pd.concat(draws, ignore_index=True), "lr", "loss", ["size"]).table
        held += ((table["low"] < BEST) & (table["high"] > BEST)).tolist()
    assert np.mean(held) > 0.8


def test_intervals_cover_the_best_value_of_families_that_the_model_is_not_made_of():
    table = measure_some(draws=(1, 3), repeats=2)
    turning = table[table["turns"]]
    covered, regret = summary(turning, []).iloc[0][["coverage", "regret, expected / real"]]
    assert 0.93 <= covered <= 0.99
    assert 0.8 <= regret <= 1.25
    coverage = summary(turning, ["shape"]).set_index("shape")["coverage"]
    assert coverage.drop(["hinge", "steep fall, weak rise"]).min() >= 0.9
    assert coverage[["hinge", "steep fall, weak rise"]].min() >= 0.8  # 0.5 by smooth draws alone
    assert table.loc[~table["turns"], "located"].mean() <= 0.03


def test_slices_get_the_unit_of_their_curve_although_noise_moves_the_lowest_cell():
    errors = []
    for seed in range(4):
        cells, _, gain, _ = simulated("edge of stability", "normal", 0.3, (24, 12), 1, np.random.default_rng(seed))
        heights = cells.y - pd.Series(cells.y).groupby(cells.slices).transform("min")
        errors.append(np.log(units(cells.x / 4 - 1, heights.to_numpy(), cells.slices) / gain).std())
    assert np.mean(errors) < 0.55  # 0.74 if the lowest cell is believed


def test_what_a_pair_is_expected_to_cost_is_what_it_costs():
    table = pd.concat([pairs.measured(shape, "normal", 1, 0) for shape in pairs.PAIRS])
    assert 0.5 < table["expected"].sum() / table["real"].sum() < 2


def test_a_curve_that_bends_up_sharply_is_best_at_the_bend_and_a_smooth_one_is_not():
    jobs = [(shape, "normal", 0.05, (24, 12), 1, 0) for shape in ("hinge", "edge of stability")]
    table = pd.concat(map(measured, [*jobs, *(("exponential", "normal", 0.05, (6, 7), 1, k) for k in range(8))]))
    assert table["decided"].all()
    assert table.groupby(table["shape"] == "exponential")["inside"].mean().min() > 0.85


KEYS = ["size", "lr"]


def cells(noise, slices, values, seed):
    """(one run per rate and size, the true loss): a parabola that flattens."""
    rng = np.random.default_rng(seed)
    size, lr = (grid.ravel() for grid in np.meshgrid(np.arange(slices), np.geomspace(1e-4, 1e-1, values)))
    truth = 2 + 0.01 * size + np.log1p(0.1 * np.log(lr / 2e-3) ** 2)
    frame = pd.DataFrame({"size": size, "lr": lr, "mean": truth + noise * rng.standard_normal(size.size)})
    return frame.assign(draws=1, standard_error=np.nan), truth


def test_the_axis_is_the_one_that_slices_vary_along():
    frame, _ = cells(0.1, 6, 11, 0)
    assert axis_of(frame, KEYS) == "lr"
    assert axis_of(frame.head(10), KEYS) is None
    random = frame.assign(size=np.arange(len(frame)) * 1.0, lr=np.random.default_rng(0).random(len(frame)))
    assert axis_of(random, KEYS) is None


def test_intervals_of_single_runs_hold_the_truth_in_95_percent():
    inside = []
    for seed in range(6):
        frame, truth = cells(0.05, 8, 11, seed)
        errors = run_errors(frame, "lr", KEYS, turn="min", logarithmic=True)
        inside.append(np.abs(frame["mean"] - truth) < 1.96 * errors)
    assert 0.92 < np.mean(inside) < 0.98


def test_the_error_of_noise_alone_is_its_size():
    inside = []
    for seed in range(6):
        frame, _ = cells(0.0, 8, 11, seed)
        noise = np.random.default_rng(seed).standard_normal(len(frame))
        errors = run_errors(frame.assign(mean=noise), "lr", KEYS, turn="min", logarithmic=True)
        inside.append(np.abs(noise) < 1.96 * errors)
    assert 0.92 < np.mean(inside) < 0.98


def test_equal_cells_have_no_error():
    frame, _ = cells(0.0, 6, 9, 1)
    assert run_errors(frame.assign(mean=1.0), "lr", KEYS, turn="min", logarithmic=True) is None

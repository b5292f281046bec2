"""What a surface says of its slices, where the truth is known, and of data that say too little."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from surfaces import parabola, sweep

from raysweep.fits.reasons import Reason
from raysweep.fits.result import Status
from raysweep.fits.surface.surface import fit_surface

ONE = (["rate"], "loss", ["slice"])


def bowl(slices: int = 4, rates: int = 7, batches: int = 6, noise: float = 0.02) -> pd.DataFrame:
    """A tilted paraboloid in log2 rate and batch, best at (3 + slice / 2, 4)."""
    rng = np.random.default_rng(0)
    u, v = np.meshgrid(np.linspace(0, 8, rates), np.linspace(1, 7, batches), indexing="ij")
    parts = []
    for s in range(slices):
        du, dv = u - 3 - s / 2, v - 4
        loss = 0.1 * du**2 + 0.08 * du * dv + 0.1 * dv**2 + noise * rng.standard_normal(u.shape)
        parts.append(pd.DataFrame({"slice": s, "rate": 2 ** u.ravel(), "batch": 2 ** v.ravel(), "loss": loss.ravel()}))
    return pd.concat(parts, ignore_index=True)


def test_one_run_per_cell_locates_the_best_value_of_every_slice() -> None:
    best = fit_surface(sweep(parabola), *ONE).best()
    truth = 2 ** (3 + np.arange(6) / 4)
    assert (best["status"] == Status.LOCATED).all()
    assert ((best["low"] < truth) & (truth < best["high"])).sum() >= 5
    assert np.log2(best["high"] / best["low"]).median() < 0.8
    assert (best[["cells", "runs"]] == 9).all(axis=None)


def test_more_runs_narrow_it_and_levels_of_draws_do_not_matter() -> None:
    once, many = sweep(parabola, noise=0.1), sweep(parabola, noise=0.1, runs=8)
    widths = [
        np.log2(best["high"] / best["low"]) for best in (fit_surface(f, *ONE, "seed").best() for f in (once, many))
    ]
    assert widths[1].median() < 0.75 * widths[0].median()
    moved = many.assign(loss=many["loss"] + 10 * many["seed"])
    pd.testing.assert_frame_equal(
        fit_surface(moved, *ONE, "seed").best(), fit_surface(many, *ONE, "seed").best(), rtol=1e-3
    )


def test_the_largest_value_is_the_smallest_of_the_opposite() -> None:
    frame = sweep(parabola)
    up = fit_surface(frame.assign(loss=-frame["loss"]), *ONE, turn="max").best()
    pd.testing.assert_frame_equal(up, fit_surface(frame, *ONE).best())


def test_two_axes_are_located_jointly() -> None:
    surface = fit_surface(bowl(), ["rate", "batch"], "loss", ["slice"])
    best = surface.best()
    assert (best["status"] == Status.LOCATED).all()
    truth = np.where(best["axis"] == "rate", 2 ** (3 + best["slice"] / 2), 2**4.0)
    assert ((best["low"] < truth) & (truth < best["high"])).sum() >= 7
    least = surface.choices()
    assert np.log2(least["rate"]).to_numpy() == pytest.approx(3 + np.arange(4) / 2, abs=0.3)
    assert np.log2(least["batch"]).to_numpy() == pytest.approx(4, abs=0.3)


def test_a_best_value_beyond_the_grid_is_a_bound_and_a_cliff_is_a_rise() -> None:
    falling = fit_surface(sweep(lambda t, s: 0.1 * (t - 12) ** 2 / 4), *ONE).best()
    assert (falling["status"] == Status.CENSORED_HIGH).all()
    assert (falling["high"] == np.inf).all()
    assert (falling["low"] > 2**5).all()
    frame = sweep(lambda t, s: -0.2 * t)
    frame["status"] = np.where(frame["rate"] > 2**6.5, "diverged", "ok")
    frame.loc[frame["status"] == "diverged", "loss"] = np.nan
    cliff = fit_surface(frame, *ONE).best()
    assert (cliff["status"] == Status.LOCATED).all()
    assert ((cliff["low"] > 2**5) & (cliff["low"] < 2**6.5) & (cliff["high"] > 2**6.5)).all()
    assert (cliff["high"] <= 2**7).all()


def test_regret_is_the_height_above_the_best() -> None:
    surface = fit_surface(sweep(parabola, noise=0.005), *ONE)
    choice = pd.DataFrame({"slice": [1, 3], "rate": [2**5.0, 2**3.0]})
    found = surface.regret(choice)
    assert found["regret"].to_numpy() == pytest.approx([0.4, 0.025], rel=0.2)
    assert ((found["regret_low"] <= [0.4, 0.025]) & (found["regret_high"] >= [0.4, 0.025])).all()
    least = surface.choices(eps=0.1)
    assert (least["regret"] < 0.005).all()
    wide = np.log2(least["rate_within_high"] / least["rate_within_low"])
    assert wide.to_numpy() == pytest.approx(2.0, abs=0.5)  # within 0.1: one octave to each side
    assert (least["rate_alike_low"] >= least["rate_within_low"]).all()


def test_known_errors_take_the_place_of_noise() -> None:
    frame = sweep(parabola)
    best = [fit_surface(frame.assign(error=e), *ONE, error="error").best() for e in (0.02, 0.2)]
    narrow, wide = (np.log2(b["high"].clip(upper=2**8) / b["low"].clip(lower=1)).median() for b in best)
    assert narrow < 0.8
    assert wide > 2 * narrow


def test_a_zero_is_where_the_paths_change_sign() -> None:
    frame = sweep(lambda t, s: 0.1 * (t - 3 - s / 4))
    frame["loss"] -= frame["loss"].mean()  # of the level of the draw
    level = np.array([part["loss"].mean() for _, part in frame.groupby("slice")])
    frame["loss"] += np.repeat(0.1 * (1 - np.arange(6) / 4) - level, 9)
    zero = fit_surface(frame, *ONE, compressed=False).zero()
    assert (zero["status"] == Status.LOCATED).all()
    truth = 2 ** (3 + np.arange(6) / 4)
    assert ((zero["low"] < truth) & (truth < zero["high"])).sum() >= 5
    above = fit_surface(frame.assign(loss=frame["loss"] + 5), *ONE, compressed=False).zero()
    assert (above["reason"] == Reason.POSITIVE_EVERYWHERE).all()


@pytest.mark.parametrize("rates", [2, 3, 4])
def test_fewer_than_five_values_locate_nothing(rates: int) -> None:
    best = fit_surface(sweep(parabola, rates=rates, runs=4, noise=0.001), *ONE, "seed").best()
    assert (best["status"] == Status.UNDETERMINED).all()
    assert (best["reason"] == Reason.TOO_FEW_POINTS).all()


def test_axes_that_vary_together_locate_nothing() -> None:
    frame = sweep(parabola, slices=1)
    one = fit_surface(frame.assign(batch=frame["rate"] * 2), ["rate", "batch"], "loss").best()
    assert (one["reason"] == Reason.TOO_FEW_CELLS).all()
    zigzag = bowl()
    step = np.log2(zigzag["rate"]).rank(method="dense") - np.log2(zigzag["batch"]).rank(method="dense")
    some = fit_surface(zigzag[step.isin([0, 1])], ["rate", "batch"], "loss", ["slice"]).best()
    assert (some["reason"] == Reason.TOO_FEW_CELLS).all() or not (some["status"] == Status.LOCATED).any()
    apart = frame.assign(slice=np.arange(9) // 2)  # each slice has its own two rates
    assert (fit_surface(apart, *ONE).best()["reason"] == Reason.TOO_FEW_POINTS).all()


def test_values_that_do_not_vary_are_flat_and_ties_are_rounded_values() -> None:
    frame = sweep(parabola)
    flat = fit_surface(frame.assign(loss=0.5), *ONE).best()
    assert (flat["reason"] == Reason.FLAT).all()
    tied = frame.assign(loss=np.round(frame["loss"] / 8 * 50) / 50)
    best = fit_surface(tied, *ONE).best()
    truth = 2 ** (3 + np.arange(6) / 4)
    held = (best["low"] <= truth) & (truth <= best["high"])
    assert (held | (best["status"] == Status.UNDETERMINED)).sum() >= 5
    assert np.log2(best["high"] / best["low"]).median() > 0.8


def test_one_slice_of_noise_is_not_located() -> None:
    for seed in range(12):
        best = fit_surface(sweep(lambda t, s: 0 * t, slices=1, seed=seed), *ONE).best()
        assert best["status"].item() != Status.LOCATED


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"loss": np.nan}, "no value"),
        ({"rate": np.inf}, "rate: expected"),
        ({"rate": -1.0}, "rate: expected values above 0"),
    ],
)
def test_bad_columns_are_named(change: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fit_surface(sweep(parabola).assign(**change), *ONE, logarithmic=[True])
    with pytest.raises(ValueError, match="no column 'depth'"):
        fit_surface(sweep(parabola), ["rate"], "loss", ["depth"])


@pytest.mark.long
def test_two_thousand_cells_take_less_than_half_a_minute() -> None:
    start = time.process_time()
    frame = bowl(slices=17, rates=12, batches=10)
    fit_surface(frame, ["rate", "batch"], "loss", ["slice"]).best()
    fit_surface(frame, ["rate"], "loss", ["slice", "batch"]).best()
    assert time.process_time() - start < 30

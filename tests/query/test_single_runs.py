"""With one run per cell turns and zeros are answered, too: all slices show how large the noise is."""

import numpy as np
import pandas as pd
import pytest

import raysweep
from raysweep.analyses.finding import Outcome

LENGTHS = np.geomspace(1, 1000, 12)
NOISE = 0.05
TURNS = {width: 30 * width**0.3 for width in (1, 2, 4, 8, 16)}


def runs(seed=0, noise=NOISE):
    """A loss that turns, and a gain that crosses zero, at the same length."""
    rng = np.random.default_rng(seed)
    lines = [
        {
            "width": width,
            "length": length,
            "loss": 0.1 * np.log(length / turn) ** 2 + noise * rng.standard_normal(),
            "gain": np.log(turn / length) + 2 * noise * rng.standard_normal(),
            "error": 2 * noise,
        }
        for width, turn in TURNS.items()
        for length in LENGTHS
    ]
    return pd.DataFrame(lines)


def answered(frame, kind, metric, **options):
    return raysweep.analyse(frame, metric, "length", "width", [{kind: {"x": "length"}}], **options).table


@pytest.mark.parametrize(("kind", "metric"), [("inflection", "loss"), ("boundary", "gain:maximize")])
def test_turns_and_zeros_lie_in_their_intervals_with_one_run_per_cell(kind, metric):
    held = []
    for seed in range(16):  # in one of them several slices miss together
        found = answered(runs(seed), kind, metric)
        assert found["outcome"].tolist() == [Outcome.LOCATED] * len(TURNS)
        held += ((found["low"] < list(TURNS.values())) & (found["high"] > list(TURNS.values()))).tolist()
        assert (np.log(found["high"] / found["low"]) < 2.5).all()
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize("error", [None, "error"])
@pytest.mark.parametrize(("kind", "power"), [("trend", -0.2), ("power_law", -0.2), ("trend", -2.0)])
def test_slopes_and_exponents_lie_in_their_intervals_with_one_run_per_cell(kind, power, error):
    falling = 3 * LENGTHS**power
    fitted = np.log10(falling) if kind == "power_law" else falling
    true, held, wrong = np.polyfit(np.log10(LENGTHS), fitted, 1)[0], [], 0
    for seed in range(8):
        noise = 1 + 0.03 * np.random.default_rng(seed).standard_normal(len(TURNS) * len(LENGTHS))
        loss = np.tile(falling, len(TURNS))
        found = answered(runs().assign(loss=loss * noise, error=0.03 * loss), kind, "loss", error=error)
        assert set(found["outcome"]) == {Outcome.FALLS}
        assert (found["high"] - found["low"] < 0.25 * -true).all()
        held += ((found["low"] < true) & (true < found["high"])).tolist()
        level = answered(runs().assign(loss=3 * noise, error=0.09), kind, "loss", error=error)
        wrong += (level["outcome"] != Outcome.UNCLEAR).any()
    assert np.mean(held) >= 0.9
    assert wrong <= 1


def test_where_the_sign_does_not_change_no_zero_is_located():
    frame = runs().assign(gain=lambda rows: rows["gain"] + 6)
    assert set(answered(frame, "boundary", "gain:maximize")["outcome"]) == {Outcome.BEYOND_HIGH}
    level = runs().assign(gain=lambda rows: rows["gain"] + np.log(rows["length"] / rows["width"].map(TURNS)))
    assert Outcome.LOCATED not in set(answered(level, "boundary", "gain:maximize")["outcome"])


def test_a_seed_that_all_cells_share_is_one_draw():
    """Nothing says how far it moves all of them."""
    twice = pd.concat([runs(seed).assign(seed=seed) for seed in (0, 1)], ignore_index=True)
    assert (answered(twice, "boundary", "gain:maximize", seed="seed")["draws"] == 2).all()


def test_given_errors_take_the_place_of_draws():
    one = runs()
    one, asked = one[one["width"] == 1], {"questions": [{"boundary": {"x": "length"}}], "error": "error"}
    known = raysweep.analyse(one, "gain:maximize", "length", **asked).table
    assert known["outcome"].tolist() == [Outcome.LOCATED]
    assert known["low"][0] < TURNS[1] < known["high"][0]
    unsure = raysweep.analyse(one.assign(error=3.0), "gain:maximize", "length", **asked)
    assert Outcome.LOCATED not in set(unsure.table["outcome"])


def test_a_loss_that_falls_up_to_divergence_is_best_up_to_there():
    rng, rates = np.random.default_rng(0), np.geomspace(5e-4, 2e-2, 9)
    frame = pd.DataFrame([(n, lr) for n in (1, 2, 4, 8, 16) for lr in rates], columns=["n", "lr"])
    frame["loss"] = -0.2 * np.log(frame["lr"]) + 0.01 * rng.standard_normal(len(frame))
    frame.loc[frame["lr"] > rates[6], "loss"] = np.nan
    found = raysweep.analyse(frame, "loss", "lr", "n", [{"optimum": {"x": "lr"}}]).table
    assert (found["high"] == rates[7]).all()
    assert (found["low"] <= rates[6]).all()


def test_a_value_of_zero_beside_a_logarithmic_axis_is_not_passed_over():
    frame = runs()
    zero = frame.drop_duplicates("width").assign(length=0.0, loss=lambda rows: rows["loss"] - 5)
    both = pd.concat([frame, zero])
    assert (answered(both, "optimum", "loss")["outcome"] != Outcome.LOCATED).all()
    assert (answered(pd.concat([frame, zero.assign(loss=9.0)]), "optimum", "loss")["outcome"] == Outcome.LOCATED).all()
    best = raysweep.analyse(both, "loss", ["length", "width"], questions=[{"best": {}}]).table
    assert best["length"].head(5).tolist() == [0.0] * 5
    assert np.isfinite(best["low"]).all()

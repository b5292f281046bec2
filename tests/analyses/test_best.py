"""The best of several cells, which cannot be told from it, and what matters."""

import numpy as np
import pandas as pd
from transfer_rows import finding_of, rows_with

import raysweep
from raysweep.analyses.finding import Needed, Outcome
from raysweep.fits.with_best import from_best

AXES = {"overlap_angle": [10.0, 30.0, 50.0, 70.0], "gamma": [0.2, 0.4, 0.6]}


def best(axes=AXES, draws=8, **options):
    """The risk has its minimum at 30°, little below 50°, where draws differ, and hardly depends on γ."""

    def values(rows, random):
        shared = random.standard_normal(draws)[rows["seed"]]
        height = rows["overlap_angle"].map({10.0: 1.0, 30.0: 0.0, 50.0: 1e-4, 70.0: 2.0}) + 0.05 * rows["gamma"]
        return height + shared + np.where(rows["overlap_angle"] == 50, 1e-3 * (-1.0) ** rows["seed"], 0.0)

    return finding_of(rows_with(axes, draws, risk_finetune=values), axes, "best", metric="risk_finetune", **options)


def test_cells_are_told_from_the_best_by_equal_draws():
    finding = best()
    table = finding.table
    assert table["outcome"].tolist() == [Outcome.BEST, Outcome.ALIKE, *[Outcome.WORSE] * 10]
    assert set(table["overlap_angle"].head(2)) == {30.0, 50.0}
    assert table.loc[1, ["needed", "needed_number"]].tolist() == [Needed.MORE_DRAWS, 8]
    assert (table["low"] < table["estimate"]).all()
    assert next(iter(finding.facts["shares"])) == "overlap_angle"
    assert 0.9 < sum(finding.facts["shares"].values()) <= 1
    assert len(finding.tables["best_cells"]) == 12
    (plot,) = finding.plots()
    assert plot.x == "overlap_angle"


def test_cells_that_share_no_seed_are_compared_unpaired():
    axes = {"overlap_angle": [10.0, 30.0], "gamma": [0.2, 0.4]}
    frame = rows_with(
        axes, 6, risk_finetune=lambda rows, random: rows["overlap_angle"] / 10 + random.normal(0, 0.1, len(rows))
    )
    frame["seed"] += 100 * frame["cell"].astype("category").cat.codes
    table = finding_of(frame, axes, "best", metric="risk_finetune").table
    assert table["outcome"].tolist()[2:] == [Outcome.WORSE] * 2
    assert table["outcome"].tolist()[0] == Outcome.BEST


def test_one_draw_tells_no_cell_from_the_best():
    table = best(draws=1).table
    assert table["outcome"].tolist() == [Outcome.BEST, *[Outcome.ALIKE] * 11]
    assert np.isnan(table["low"]).all()


def test_a_cell_that_is_as_good_in_every_draw_is_a_best_one():
    frame = rows_with(AXES, 3, risk_finetune=lambda rows, _: rows["seed"] + (rows["gamma"] > 0.3))
    table = finding_of(frame, AXES, "best", metric="risk_finetune").table
    assert table["outcome"].tolist() == [Outcome.BEST] * 4 + [Outcome.WORSE] * 8


def test_of_two_cells_the_space_says_what_the_larger_value_does():
    words = {"higher": "distance hurts", "lower": "distance helps"}
    assert best({"overlap_angle": [30.0, 70.0], "gamma": [0.2]}, words=words).meanings == {"best": "distance hurts"}
    assert best({"overlap_angle": [30.0, 50.0], "gamma": [0.2]}, words=words).meanings == {}


def test_single_runs_of_a_grid_are_compared_by_the_noise_pooled_over_slices():
    angles = [10.0 * k for k in range(1, 10)]
    axes = {"overlap_angle": angles, "gamma": [0.2, 0.4, 0.6, 0.8]}

    def values(rows, random):
        height = ((rows["overlap_angle"] - 50) / 10) ** 2 + 0.5 * rows["gamma"]
        return height + 0.3 * random.standard_normal(len(rows))

    finding = finding_of(rows_with(axes, 1, risk_finetune=values), axes, "best", metric="risk_finetune")
    table = finding.table
    assert table.loc[0, "overlap_angle"] == 50
    assert set(table.loc[table["overlap_angle"].isin([10, 20, 80, 90]), "outcome"]) == {Outcome.WORSE}
    assert 2 < (table["outcome"] != Outcome.WORSE).sum() < 13
    cells = finding.tables["best_cells"]
    assert cells["estimate"].tolist() == table["estimate"].tolist()
    assert cells["mean"].min() < table["estimate"].min()  # the luck of the lowest run
    assert (table["low"] < table["estimate"]).all()
    assert table["low"].notna().all()
    assert finding.facts["method"] == "single_runs"


def test_known_errors_draw_cells_without_slices_to_each_other():
    """Of eight names with one value the luckiest is not believed."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"name": list("abcdefgh"), "loss": 1 + 0.1 * rng.standard_normal(8), "error": 0.1})
    table = raysweep.analyse(frame, "loss", "name", questions=[{"best": {}}], error="error").table
    assert frame["loss"].min() + 0.05 < table["estimate"][0] < 1.05
    assert table["low"][0] < 1 < table["high"][0]
    assert Outcome.WORSE not in set(table["outcome"])


def test_equal_cells_are_seldom_called_worse_than_the_one_that_looks_best():
    rng, worse = np.random.default_rng(0), []
    for _ in range(400):
        draws = rng.standard_normal((5, 1)) + rng.standard_normal((5, 20))
        mean, half = from_best(draws[:, draws.mean(0).argsort()])
        worse.append((mean > half)[1:].any())
    assert np.mean(worse) < 0.08  # 0.83 without a correction
    tilt, growing, worse = np.linspace(-1, 1, 8), 1.6 ** np.arange(8), []
    for seeds, shape in [(2, tilt), (3, tilt), (2, growing), (3, growing)] * 200:  # what seeds do to many cells alike
        draws = rng.standard_normal((seeds, 1)) * shape + 0.1 * rng.standard_normal((seeds, 8))
        mean, half = from_best(draws[:, draws.mean(0).argsort()])
        worse.append((mean > half)[1:].any())
    assert np.mean(worse) < 0.05
    mean, half = from_best(np.c_[np.zeros(5), np.full(5, 10.0)] + rng.standard_normal((5, 2)))
    assert mean[1] > half[1]
    mean, half = from_best(rng.standard_normal((3, 1)) + rng.standard_normal((3, 100_000)))  # in memory that is there
    assert np.isfinite(half).all()
    assert (half > np.abs(mean)).mean() > 0.9999


def test_cells_that_tie_with_the_best_are_counted():
    frame = pd.DataFrame([{"a": a, "seed": seed, "acc": min(a, 3)} for a in range(1, 6) for seed in range(4)])
    found = raysweep.analyse(frame, "acc:maximize", "a", seed="seed", questions=[{"best": {}}])
    assert str(found).splitlines()[0] == "The best acc is 3 at a = 3 and 2 others; 2 are worse."

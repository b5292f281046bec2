"""What a report concludes from draws holds as often as it says: joint tests, rank correlations, turning points."""

import numpy as np
import pandas as pd
import pytest
from transfer_rows import finding_of, rows_with

from raysweep.analyses.closed_form import displacements
from raysweep.analyses.kinds.relation import rank_correlation
from raysweep.fits.comparison import joint
from raysweep.theory.roots import extremum, zeros


@pytest.mark.simulation
def test_slices_that_share_draws_are_one_look_at_the_closed_form():
    # Every slice's zero moves by -shift of its draw: together they say no more than one slice.
    rng = np.random.default_rng(3)
    beyond = {0.0: 0, 0.05: 0}
    for bias in beyond:
        for _ in range(60):
            shift = rng.standard_normal(10)
            x, load = np.meshgrid(np.linspace(0, 6, 7), [1.0, 2.0, 3.0])
            rows = pd.DataFrame({"x": np.tile(x.ravel(), 10), "load": np.tile(load.ravel(), 10)})
            rows["seed"] = np.repeat(np.arange(10), x.size)
            rows["value"] = rows["x"] - rows["load"] + 0.05 * shift[rows["seed"]] + bias
            table = pd.DataFrame({"load": [1.0, 2.0, 3.0], "theory": [1.0, 2.0, 3.0]})
            distances = displacements(rows, table.assign(status="located", scale="linear"), "x", "load", "value")
            assert distances.to_numpy() == pytest.approx(np.repeat(-0.05 * shift[:, None] - bias, 3, axis=1))
            test = joint(distances.to_numpy())
            beyond[bias] += abs(test.z) > 1.96
    assert beyond[0.0] <= 8  # 3 expected; 9 or more in 0.3 % of runs
    assert beyond[0.05] >= 40  # a bias of 3 standard errors


def test_zeros_of_a_closed_form_are_found_to_the_last_digits_in_few_calls():
    calls = []

    def surface(x, row):
        calls.append(len(x))
        jump = np.where(x < 1 / 3, -1.0, 3.0)
        gap = np.where((x > 0.7) & (x < 0.72), np.nan, 1.0)  # around a zero at 0.71: known to the gap's start
        return np.choose(row, [np.sin(np.pi * (x - 0.1)) * (x - 0.3) ** 3, jump, (x - 0.71) * gap, 1 + x])

    first, jump, gap, none = zeros(surface, -0.5, 1.0, False, rows=4)
    assert first == pytest.approx([0.1, 0.3], abs=1e-12)
    assert jump == pytest.approx([1 / 3], rel=1e-15)
    assert gap == pytest.approx([0.7], rel=1e-15)
    assert none.tolist() == []
    assert calls[0] == 4 * 241
    assert len(calls) < 60  # bisections of the jump; others take a tenth
    calls.clear()
    zeros(lambda x, row: surface(x, np.zeros_like(row)), -0.5, 0.2, False)
    assert len(calls) < 9


def test_cells_with_few_draws_far_from_the_place_take_no_draw_from_the_test():
    """With a precision, the cells beside a place have most draws, and others as few as two."""
    rng = np.random.default_rng(11)
    shift = rng.standard_normal(40)
    lines = [
        {"x": x, "seed": seed, "value": x - 3.5 + 0.05 * shift[seed]}
        for x, draws in zip([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 0, 4, 40, 40, 0, 2], strict=True)
        for seed in range(draws)
    ]
    table = pd.DataFrame({"theory": [3.5], "status": ["located"], "scale": ["linear"]})
    distances = displacements(pd.DataFrame(lines), table, "x", None, "value")
    assert distances.to_numpy()[:, 0] == pytest.approx(-0.05 * shift)


@pytest.mark.simulation
def test_the_closed_form_passes_in_95_of_100_sweeps_whatever_cells_share_and_nearly_so_when_draws_are_skewed():
    rng = np.random.default_rng(5)

    def passes(values):
        tests = [joint(values()) for _ in range(300)]
        return float(np.mean([abs(test.z) <= 1.96 for test in tests if test is not None]))

    sizes = rng.uniform(0.1, 10, 60)
    shares = {
        "independent": passes(lambda: sizes * rng.standard_normal((20, 60))),
        "one effect a draw": passes(lambda: sizes * rng.standard_normal((20, 1))),
        "four draws": passes(lambda: sizes * rng.standard_normal((4, 60))),
        "slices of skewed draws": passes(lambda: np.repeat(rng.chisquare(1, (20, 20)) - 1, 3, axis=1)),
    }
    print(shares)
    assert min(shares[key] for key in ("independent", "one effect a draw", "four draws")) >= 0.91  # 0.95 - 3 sd
    assert shares["slices of skewed draws"] >= 0.87  # their own standard deviations in the weights give 0.61
    missed = joint(sizes * (rng.standard_normal((20, 60)) + 0.2))
    assert missed.z > 3
    assert joint(rng.standard_normal((3, 5))) is None
    assert joint(np.zeros((9, 5))) is None


@pytest.mark.simulation
def test_the_interval_of_a_rank_correlation_holds_its_expected_value():
    # Oracle: Pearson's correlation of normal pairs is 0.6, so Spearman's is 6/pi asin(0.3) for many cells; here 40 a
    # draw, where the expected value is (n - 2)/(n + 1) of it plus 3/(n + 1) of Kendall's 2/pi asin(0.6).
    expected = (38 * 6 / np.pi * np.arcsin(0.3) + 3 * 2 / np.pi * np.arcsin(0.6)) / 41
    rng = np.random.default_rng(2)
    held = []
    for _ in range(150):
        a, b = rng.standard_normal((2, 6, 40))
        rows = pd.DataFrame({"seed": np.repeat(np.arange(6), 40), "_cell": np.tile(np.arange(40), 6), "a": a.ravel()})
        rank = rank_correlation(rows.assign(b=(0.6 * a + 0.8 * b).ravel()), "a", "b")
        held.append(rank["low"] <= expected <= rank["high"])
    assert np.mean(held) >= 0.90  # 0.95 - 3 sd


def test_a_closed_form_that_is_known_nowhere_turns_nowhere():
    assert np.isnan(extremum(lambda x: np.full(len(x), np.nan), 1.0, 10.0, "min", True))
    known_in_part = extremum(lambda x: np.where(x < 6, (x - 3) ** 2, np.nan), 1.0, 10.0, "min", False)
    assert known_in_part == pytest.approx(3.0, abs=1e-3)


@pytest.mark.parametrize("kind", ["trend", "inflection"])
def test_values_too_large_to_fit_are_left_out_and_said_so(kind):
    """A perplexity of e^600 is an ok row, and its square is no number."""
    axes = {"pretrain_length": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]}
    frame = rows_with(axes, 4, risk_finetune=lambda rows, _: 5 + rows["pretrain_length"] + 0.1 * rows["seed"])
    frame.loc[frame["pretrain_length"] == 64, "risk_finetune"] = [np.inf, *np.exp([600.0, 610.0, 620.0])]
    finding = finding_of(frame, axes, kind, metric="risk_finetune", x="pretrain_length")
    assert finding.facts["left_out"] == {"risk_finetune": 4}

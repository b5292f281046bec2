"""The sentence of a finding says what its numbers say."""

import numpy as np
import pytest
from transfer_rows import TRANSFER, finding_of, rows_with

from raysweep.analyses.finding import Finding, Needed, Outcome, as_table
from raysweep.fits.reasons import Reason
from raysweep.report.figures import drawn
from raysweep.report.first_tables import first_table
from raysweep.report.notes import notes
from raysweep.report.phrases import METHODS
from raysweep.report.sentences import sentence
from raysweep.report.theory_words import theory_words

AXES = {"overlap_angle": [10.0, 45.0, 80.0], "gamma": [0.2, 0.4]}


def beside(difference):
    """Curves of a risk that differs from another one by so much in every draw but for noise."""

    def noisy(rows, random):
        return rows["seed"] + difference + 0.01 * random.standard_normal(len(rows))

    frame = rows_with(AXES, 8, risk_finetune=noisy, risk_scratch=lambda rows, _: 1.0 * rows["seed"])
    words = {"positive": "it costs", "negative": "it pays"}
    return finding_of(
        frame, AXES, "curves", x="overlap_angle", metric="risk_finetune", beside="risk_scratch", words=words
    )


def test_a_curve_beside_another_is_called_what_the_space_calls_its_side_and_the_other_by_its_label():
    above, below = (sentence(beside(size), TRANSFER) for size in (1.0, -1.0))
    assert above == "Risk after fine-tuning: it costs in all 6 cells."
    assert below == "Risk after fine-tuning: it pays in all 6 cells."
    ((_, figure, caption),) = drawn(beside(1.0), TRANSFER)
    named = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert "risk from scratch" in named
    assert "risk_scratch" not in f"{named} {caption}"


def slopes(*rows):
    table = as_table([{"gamma": 0.1 * k, "outcome": Outcome.RISES, **row} for k, row in enumerate(rows)], ["gamma"])
    return Finding("trend", "trend", table, "risk_finetune", "depth", ["gamma"])


def test_theory_agrees_unless_an_interval_misses_it_by_more_than_chance_among_so_many():
    inside, just, outside, exact = (
        {"estimate": 1.0, "low": 1 - half, "high": 1 + half, "theory": 1.1} for half in (0.2, 0.09, 0.05, 0)
    )
    bound = {"outcome": Outcome.BOUND_LOW, "low": np.nan, "high": 0.5, "theory": 2.0}  # nothing is located to compare
    agrees = theory_words(slopes(inside, inside, bound), TRANSFER)[0]
    assert agrees == "theory agrees within 10 % (inside both intervals)"
    one = theory_words(slopes(inside, *[just] * 3, exact), TRANSFER)[0]  # settings may share their draws
    assert one == "theory agrees within 10 % (inside 1 of 4 intervals)"
    two = theory_words(slopes(inside, just, outside, exact), TRANSFER)
    assert two == ["theory differs in 2 of 3, by at most 10 %", "theory differs in 2 of 3"]
    assert theory_words(slopes(outside, exact), TRANSFER) == ["theory differs (1.1)"]


def test_theory_on_one_side_of_all_means_is_no_plain_agreement():
    above = {"estimate": 1.0, "low": 0.9, "high": 1.1, "theory": 1.02}
    whole, *_ = theory_words(slopes(*[above] * 8), TRANSFER)
    assert whole == "theory agrees within 2 % (inside all 8 intervals, all estimates below it)"
    assert theory_words(slopes(*[above] * 7, {**above, "theory": 0.99}), TRANSFER)[-1] == "theory agrees"


@pytest.mark.parametrize(("theory", "words"), [(2.0, "theory differs by at most 50 %"), (1 + 1e-9, "theory agrees")])
def test_how_far_theory_is_from_exact_values_is_said(theory, words):
    exact = {"estimate": 1.0, "low": 1.0, "high": 1.0}
    assert theory_words(slopes({**exact, "theory": 1.0}, {**exact, "theory": theory}), TRANSFER) == [words]


@pytest.mark.parametrize(("gammas", "words"), [([0.2, 0.4], "both settings"), ([0.2, 0.4, 0.6], "all 3 settings")])
def test_two_settings_are_both(gammas, words):
    axes = {"depth": [1, 2, 3], "gamma": gammas}
    frame = rows_with(axes, 4, risk_finetune=lambda rows, random: rows["depth"] + 0.01 * random.random(len(rows)))
    finding = finding_of(frame, axes, "trend", x="depth", metric="risk_finetune")
    said = f"Risk after fine-tuning rises with depth throughout (slope 1.00) in {words}."
    assert sentence(finding, TRANSFER) == said
    falls = finding_of(frame.assign(risk_finetune=4 - frame["depth"]), axes, "trend", x="depth", metric="risk_finetune")
    assert sentence(falls, TRANSFER) == f"Risk after fine-tuning falls with depth throughout (by 67 %) in {words}."
    assert first_table(falls, TRANSFER).head[3] == "change"
    denied = frame.assign(risk_finetune=np.random.default_rng(1).standard_normal(len(frame)))
    assert ("either" if len(gammas) == 2 else "any of 3") in sentence(
        finding_of(denied, axes, "trend", x="depth", metric="risk_finetune"), TRANSFER
    )


def laws(axes, **row):
    """The sentence of laws of the best lr over these axes: the outcomes of each, one per setting of gamma."""
    rows = [
        {"gamma": 0.1 * k, "axis": axis, "outcome": one, "estimate": 1.0, "low": 0.5, "high": 1.5, **row}
        for axis, outcomes in axes.items()
        for k, one in enumerate(outcomes)
    ]
    table, keys = as_table(rows, ["gamma", "axis"]), ["gamma", "axis"]
    return sentence(Finding("law", "law", table, "loss", "lr", keys, facts={"over": list(axes)}), TRANSFER)


RISES, FALLS, UNCLEAR, UNDECIDED = Outcome.RISES, Outcome.FALLS, Outcome.UNCLEAR, Outcome.UNDECIDED


def test_laws_are_powers_in_as_many_settings_as_have_one():
    n, d = [FALLS] * 10 + [UNDECIDED] * 3, [RISES] * 5 + [FALLS] * 3 + [UNCLEAR] * 2 + [UNDECIDED] * 3
    assert laws({"N": n, "D": d}) == (
        "The best lr falls as N^1, falls with D for γ = 0.5, 0.6 or 0.7 and rises for γ ≤ 0.4; undecided in 3."
    )
    assert laws({"N": n}).endswith("; undecided for γ ≥ 1.")
    every = {"N": [FALLS] * 13, "D": d[:10] + [RISES] * 3, "K": [UNCLEAR] * 13}
    said = "The best lr falls as N^1, falls as D^1 for γ = 0.5, 0.6 or 0.7, rises as D^1 in 8, goes as K^1."
    assert laws(every) == said


def test_no_law_says_what_it_takes_or_which_axes_vary_together():
    none = {"N": [UNDECIDED] * 2, "D": [UNDECIDED] * 2}
    asked = "How does the best lr for loss scale with N and D?"
    assert laws(none, needed=Needed.MORE_X) == f"{asked} Not yet known (needs more values of lr)."
    assert laws(none, reason=Reason.AXES_TOGETHER) == f"{asked} Not yet known in both settings; N and D vary together."


def ranking(values, *outcomes):
    rows = [{**values, "outcome": one, "estimate": 1.0, "low": 0.9, "high": 1.1} for one in (Outcome.BEST, *outcomes)]
    rows = [{**row, **{key: row[key] + k for key in values}} for k, row in enumerate(rows)]
    return sentence(Finding("best", "best", as_table(rows, list(values)), "risk_finetune", keys=list(values)), TRANSFER)


def test_cells_are_not_called_worse_without_those_that_are_not_told_from_the_best():
    others = [Outcome.ALIKE, *[Outcome.WORSE] * 3]
    short = "The best risk after fine-tuning is 1.00 (95 %: 0.90 to 1.10) at L = 1; 1 may be as good; 3 are worse."
    assert ranking({"depth": 1}, *others) == short
    many = ranking({"depth": 1, "gamma": 0.2, "noise": 3, "finetune_lr": 1.0}, *others)
    assert "worse" not in many
    assert "worse" in ranking({"depth": 1, "gamma": 0.2, "noise": 3, "finetune_lr": 1.0}, *others[1:])


def test_an_optimum_of_single_runs_says_that_noise_is_pooled():
    axes = {"finetune_lr": [0.01 * 2.0**k for k in range(8)], "gamma": [0.2, 0.4]}

    def valley(rows, random):
        return (np.log2(rows["finetune_lr"] / 0.08)) ** 2 + 0.1 * random.standard_normal(len(rows))

    for draws, method in ((1, "one_surface"), (6, "optimum")):
        frame = rows_with(axes, draws, risk_finetune=valley)
        finding = finding_of(frame, axes, "optimum", x="finetune_lr", metric="risk_finetune")
        assert METHODS[method] in notes(finding, TRANSFER)

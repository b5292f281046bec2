"""What stands on the first screen: which settings say what, the table of many settings, and headings."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from transfer_rows import TRANSFER, finding_of, rows_with

from raysweep.analyses.counts import Drive, Way, driven, groups_of, telling_axis, ways
from raysweep.analyses.design import usual
from raysweep.analyses.finding import Finding, Move, Outcome, as_table
from raysweep.analyses.places import one_by_one
from raysweep.report.first_tables import first_table
from raysweep.report.names import in_short
from raysweep.report.notes import headings_of
from raysweep.report.phrases import CLAUSES
from raysweep.report.sentences import sentence
from raysweep.report.sentences_by_kind import MOST
from raysweep.report.tables import table_of, with_intervals
from raysweep.workloads.declaration import Metric

GAMMAS, DEPTHS = [0.2, 0.4, 0.6, 0.8, 1.2, 1.6], [1, 2, 3, 5]


def zeros(outcome, **more):
    """Zeros in the overlap angle, at 10 times the depth where they are located."""
    rows = [
        {"gamma": gamma, "depth": depth, "outcome": outcome(gamma, depth)}
        | ({"estimate": 10.0 * depth, "low": 10.0 * depth - 1, "high": 10.0 * depth + 1} if gamma < 1 else {})
        for gamma, depth in itertools.product(GAMMAS, DEPTHS)
    ]
    keys = ["gamma", "depth"]
    meanings = {"positive": "transfer helps", "negative": "transfer hurts"}
    fields = {"question": "Where?", "facts": {"rising": True}, "meanings": meanings, **more}
    return Finding(
        fields.pop("kind", "boundary"), "b", as_table(rows, keys), "risk_finetune", "overlap_angle", keys, **fields
    )


def of_three(finding):
    """The same settings at two values of a third axis."""
    table = pd.concat([finding.table.assign(noise=noise) for noise in (0.1, 0.2)], ignore_index=True)
    return replace(finding, table=table, keys=[*finding.keys, "noise"])


def below_one(gamma, depth):
    return Outcome.LOCATED if gamma < 1 else Outcome.NO_EFFECT


def test_a_sentence_names_the_settings_of_each_side_of_a_split():
    assert sentence(zeros(below_one), TRANSFER) == (
        "Transfer hurts below 10° at L = 1 (rising to 50° at L = 5), helps above; zero effect for γ ≥ 1.2."
    )
    flags = pd.DataFrame({"flag": [True, False] * 2, "estimate": [1.0, 3.0, 1.1, 2.9], "low": 0.0, "high": 0.0})
    assert driven(flags, ["flag"]) == Drive("flag", (True, 1.05), (False, 2.95), one_way=False, medians=False)


def test_settings_that_a_sentence_has_no_room_for_are_counted_or_said_by_what_they_share():
    long = {"positive": "transfer helps a little more than costs", "negative": "transfer hurts"}
    odd = zeros(lambda gamma, depth: Outcome.LOCATED if (gamma + depth) % 2 < 1 else Outcome.UNDECIDED, meanings=long)
    assert sentence(odd, TRANSFER).endswith("a little more than costs above in 10 of 24 settings; undecided in 14.")
    few = zeros(lambda at, depth: Outcome.LOCATED if at < 0.5 and at + depth in (1.2, 2.4) else Outcome.POSITIVE)
    assert sentence(few, TRANSFER).endswith("in 2 (only γ ≤ 0.4).")


def test_a_sentence_names_who_leads_everywhere_and_who_stands_apart():
    ranked = zeros(lambda gamma, depth: Outcome.BEST if depth == 1 else Outcome.UNCLEAR, kind="r_squared")
    led = ranked.table.query("gamma < 1").assign(predictor="noise")
    said = "Noise has the highest R²: clearly for L = 1 (10), not clearly for L ≥ 2 (20 to 50)."
    assert sentence(replace(ranked, table=led), TRANSFER) == said
    led.loc[1, "outcome"] = Outcome.BEST
    said = "Noise has the highest R² (10 to 50) in all 16 settings, clearly in 5."
    assert sentence(replace(ranked, table=led), TRANSFER) == said
    led.loc[0, "predictor"] = "depth"
    assert "highest R²" not in sentence(replace(ranked, table=led), TRANSFER)
    rows = [(start, k, at * k ** (start == "b")) for start, at in (("a", 30), ("b", 10), ("c", 31)) for k in (1, 2, 5)]
    keys = ["start", "gamma"]
    table = pd.DataFrame(rows, columns=[*keys, "estimate"]).eval("low = estimate - 1\nhigh = estimate + 1")
    apart = [{"outcome": Outcome.LOCATED, **row} for row in table.to_dict("records")]
    apart = replace(zeros(below_one), keys=keys, table=as_table(apart, keys))
    assert "of about 30.5°, but 10.0° to 50.0° for start b (rising with γ), helps above" in sentence(apart, TRANSFER)


def test_a_split_with_one_exception_is_nearly_one():
    almost = zeros(lambda gamma, depth: Outcome.UNDECIDED if (gamma, depth) == (0.8, 5) else below_one(gamma, depth))
    lead = groups_of(almost)[0]
    assert (lead.outcome, lead.count, lead.nearly) == (Outcome.LOCATED, 15, True)
    said = sentence(almost, TRANSFER)
    assert "10° rising to 50° with L, helps above in 15 of 24 settings; zero effect in 8; undecided" in said
    mixed = zeros(lambda gamma, depth: Outcome.UNDECIDED if depth in (1, 5) else below_one(gamma, depth))
    assert not any(group.nearly for group in groups_of(mixed))


def test_the_table_of_many_settings_counts_them_by_the_axis_that_tells_most():
    finding = zeros(below_one)
    assert telling_axis(finding) == "gamma"
    by_depth = zeros(lambda gamma, depth: Outcome.LOCATED if depth > 2 else Outcome.UNDECIDED)
    assert telling_axis(by_depth) == "depth"
    table = first_table(of_three(finding), TRANSFER)
    assert table.head[1:] == ["found", "zero effect"]  # depth moves the zeros, so medians over it say nothing
    assert (table.rows[0], table.rows[-1]) == (["0.2", "8", "–"], ["1.6", "–", "8"])
    counted = ["overlap angle at sign change: median (range across settings)", "found", "undecided"]
    assert first_table(of_three(by_depth), TRANSFER).head[1:] == counted
    assert table.note.startswith("All 48 settings of target samples per dimension, depth and noise, by target samples")


def test_the_table_of_settings_of_two_axes_crosses_them():
    finding = zeros(below_one)
    table = first_table(finding, TRANSFER)
    assert table.head[1:] == ["L = 1", "L = 2", "L = 3", "L = 5"]
    assert table.rows[0] == ["0.2", *(f"{at}.0° [{at - 1}.0, {at + 1}.0]" for at in (10, 20, 30, 50))]
    assert table.rows[-1] == ["1.6", *["zero effect"] * 4]
    assert table.caption == "Overlap angle at sign change [95 % interval]: all 24 settings"
    assert "at sign change [" in first_table(replace(finding, table=finding.table.head(4)), TRANSFER).head[1]
    level = [finding.table.query("gamma > 1").assign(gamma=lambda rows, k=k: rows["gamma"] + k) for k in (1, 2, 3)]
    more = pd.concat([finding.table, *level])
    table = first_table(replace(finding, table=more.reset_index(drop=True)), TRANSFER)  # of many, those with a zero
    assert [row[0] for row in table.rows[:5]] == ["0.2", "0.4", "0.6", "0.8", "1.2"]
    assert table.caption == "Overlap angle at sign change [95 % interval]: 32 of 48 settings; all are listed below"
    tests = of_three(replace(finding, table=finding.table.assign(p_holm=0.01).query("gamma != 0.8 and depth < 3")))
    table = first_table(tests, TRANSFER)  # those with a place, of three axes
    assert (len(table.rows), table.head[1:]) == (6, ["L = 1", "L = 2"])
    assert table.caption == "Overlap angle at sign change [95 % interval]: 12 of 20 settings (others: zero effect)"
    wide = finding.table.eval("low = estimate - 1e-6\nhigh = estimate + 1e-6")  # intervals have no room
    assert first_table(replace(finding, table=wide), TRANSFER).rows[0] == ["0.2", "10°", "20°", "30°", "50°"]
    some = wide.query("gamma < 0.7").reset_index(drop=True)  # unless they stand on a line of their own
    broken = first_table(replace(finding, table=some), TRANSFER).rows[0]
    assert broken[1].split("\n") == ["10°", "[9.999999, 10.000001]"]
    assert table.note == "All have p ≤ 0.01 of no difference, adjusted for all 20 (Holm)."
    heads = pd.concat([finding.table.assign(gamma=0.01 * k) for k in range(1, 14)]).query("depth < 3").drop_duplicates()
    assert len(first_table(replace(finding, table=heads.assign(estimate=1.0)), TRANSFER).head) < 6  # 14 have no room


def test_a_sentence_says_along_which_axes_places_move():
    moves = [Move("depth", 1, 5, 4, 0, 0, 0), Move("gamma", 0.2, 0.8, 0, 3, 0, 0), Move("noise", 0, 1, 1, 0, 0, 1)]
    said = sentence(zeros(below_one, moves=moves), TRANSFER)
    assert " 10° to 50° (rising with depth, falling with target samples per dimension), helps above;" in said
    said = sentence(zeros(below_one, moves=[moves[0], replace(moves[0], key="gamma")]), TRANSFER)
    assert " 10°, rising to 50° with depth and target samples per dimension, helps above;" in said
    few = zeros(lambda at, depth: Outcome.BEYOND_LOW if at > 1.5 else Outcome.BOUND_LOW if at > 1 else "located")
    few = replace(few, table=few.table.assign(high=few.table["high"].fillna(few.table["gamma"] + 2)), moves=moves)
    assert sentence(few, TRANSFER).endswith("per dimension), helps above; but perhaps below 3.6° for γ ≥ 1.2.")
    star = zeros(below_one).table.query("gamma == 0.2 or (depth == 1 and gamma < 1)").assign(noise=0.1)
    keys = ["gamma", "depth", "noise"]
    assert driven(star, keys) is None  # axes that are tried one by one
    assert [(key, len(rows)) for _, rows, key in one_by_one(star, keys)] == [("gamma", 4), ("depth", 4)]
    assert usual(star, keys) == {"gamma": 0.2, "depth": 1, "noise": 0.1}
    assert usual(star, keys[:2]) == {"gamma": 0.2, "depth": 1}
    assert usual(star.query("depth == 1").eval("noise = 2 * gamma"), ["gamma", "noise"]) == {}  # they vary together
    more = pd.concat([star, star.head(1).assign(noise=0.2)], ignore_index=True)
    tried = first_table(replace(zeros(below_one), table=more, keys=keys), TRANSFER)
    assert {"base setting", "L = 3", "σ = 0.2"} < {row[0] for row in tried.rows}
    assert tried.usual.startswith("Base setting: γ = 0.2, L = 1, σ = 0.1;")
    alone = replace(zeros(below_one), table=star.head(1), keys=[])
    assert table_of(alone, TRANSFER, [0]).head == ["overlap angle at sign change [95 % interval]"]
    odd = pd.DataFrame({"gamma": range(24), "estimate": [0.8, 1.21, *[1.0] * 22]})
    assert driven(odd.eval("low = estimate - 0.2\nhigh = estimate + 0.2"), ["gamma"]) is None  # by chance
    dip = pd.DataFrame({"gamma": range(10), "estimate": [70.0, 60, 50, 40, 45, 30, 20, 15, 12, 11]})
    for error, one_way in ((1, False), (4, True)):  # an interval shows the turn, or does not
        found = driven(dip.eval(f"low = estimate - {error}\nhigh = estimate + {error}"), ["gamma"])
        assert (found.first, found.one_way) == ((0, 70.0) if one_way else (9, 11.0), one_way)
    assert usual(of_three(zeros(below_one)).table, keys) == {}


def test_findings_of_one_question_have_headings_of_their_own():
    one, other = zeros(below_one), replace(zeros(below_one), metric="risk_linear")
    headings = headings_of([one, other, replace(one, question="Elsewhere?"), replace(one, question="")], TRANSFER)
    assert (len(set(headings)), headings[2]) == (4, "Elsewhere?")
    assert all("risk" in heading for heading in (*headings[:2], headings[3]))


@pytest.mark.parametrize(
    ("value", "way", "words"),
    [
        (lambda depth: depth, Way.RISES, "rises from 1 at L = 1 to 5 at L = 5"),
        (lambda depth: 300 - depth / 100, Way.FALLS, "falls from 299.99 at L = 1 to 299.95 at L = 5"),
        (lambda depth: abs(depth - 2), Way.LOWEST, "is lowest, "),
        (lambda depth: -abs(depth - 2), Way.HIGHEST, "is lowest, -3 at L = 5, and highest, "),
        (lambda depth: 0.0 * depth, Way.UNCLEAR, ""),
    ],
)
def test_a_measured_curve_says_what_it_does_along_its_axis(value, way, words):
    frame = rows_with(
        {"depth": DEPTHS}, 6, risk_finetune=lambda rows, random: value(rows["depth"]) + 1e-4 * random.random(len(rows))
    )
    finding = finding_of(frame, {"depth": DEPTHS}, "curves", x="depth", metric="risk_finetune")
    assert ways(finding)["way"].tolist() == [way]
    assert words in sentence(finding, TRANSFER)


def test_how_a_gain_changes_is_said_unless_its_sides_are_asked():
    """A value at which no setting has a mean is left out, and said."""
    angles, gammas = [10.0, 50.0, 70.0, 90.0], [0.2, 0.5]
    axes = {"overlap_angle": angles, "gamma": gammas}

    def gain(rows, random):
        return 60 - rows["overlap_angle"] + 0.1 * random.standard_normal(len(rows))

    frame = rows_with(axes, 6, transferability_finetune=gain)
    curves = {"x": "overlap_angle", "metric": "transferability_finetune"}
    finding, asked = (finding_of(frame, axes, "curves", **curves, **more) for more in ({}, {"question": "Where?"}))
    falls = "Gain by fine-tuning falls with overlap angle in both settings, reaching -30.0 to -29.9"
    assert sentence(finding, TRANSFER) == f"{falls}."
    assert sentence(asked, TRANSFER) == "Transfer helps for θ ≤ 50°; hurts for θ ≥ 70°."
    without = finding.table.assign(estimate=finding.table["estimate"].mask(finding.table["overlap_angle"] == 90))
    said = sentence(replace(finding, table=without), TRANSFER)
    assert said == f"{falls.replace('-30.0 to -29.9', '-10.0')}; no finite variance for θ = 90°."


@pytest.mark.parametrize("kind", CLAUSES)
def test_no_sentence_is_longer_than_25_words_however_long_a_label_is(kind):
    facts = {"over": ["depth"], "axes": ["depth"], "shares": {}, "configurations": 9, "alike": 2, "one_draw": False}
    facts |= {"length": "long", "meets": "long", "reference": "limit"}
    keys = ["gamma", "axis"] if kind == "law" else ["gamma"]
    for outcome in {*CLAUSES[kind], Outcome.UNCLEAR, Outcome.UNDECIDED}:
        rows = [{"gamma": k, "depth": 1, "axis": "depth", "outcome": outcome, "estimate": 1.0 * k} for k in (1, 2, 3)]
        other = [*rows, {**rows[0], "gamma": 4, "outcome": Outcome.UNDECIDED}]
        tables = [as_table(one, keys) for one in (rows, other, rows[:1])]
        axes = ["gamma", "long"][: 1 + (kind != "curves")]
        lengths = ((12, ""), (30, ""), (30, "Where?"))
        for (words, asked), table, x in itertools.product(lengths, tables, axes):
            workload = replace(TRANSFER, metrics=(Metric("long", "", label=" ".join(["very"] * words)),))
            finding = Finding(kind, "b", table, "long", x, keys, asked, facts=facts)
            assert 0 < len(sentence(finding, workload).split()) <= MOST


def test_a_sentence_begins_with_what_most_settings_say():
    few = zeros(lambda gamma, depth: Outcome.POSITIVE if (gamma, depth) == (0.2, 1) else Outcome.UNCLEAR)
    assert sentence(few, TRANSFER).startswith("No clear difference of risk after fine-tuning in 23 of 24 settings; ")
    assert sentence(few, TRANSFER).endswith("; transfer helps everywhere for γ = 0.2 and L = 1.")


def test_estimates_that_their_intervals_do_not_tell_apart_are_about_one_value():
    def located(width):
        rows = [
            {"gamma": k, "outcome": Outcome.LOCATED, "estimate": 40 + k, "low": 40 + k - width, "high": 40 + k + width}
            for k in (1, 2, 3)
        ]
        return sentence(Finding("boundary", "b", as_table(rows, ["gamma"]), "", "overlap_angle", ["gamma"]), TRANSFER)

    assert "changes sign at an overlap angle of 41° at γ = 1 (rising to 43° at γ = 3) in all 3" in located(0.5)
    assert "an overlap angle of about 42° (95 % intervals within 36° to 48°) in all 3" in located(5)


def test_a_bound_is_said_with_its_value_and_the_best_at_the_edge_of_the_grid_as_such():
    bounds = [(Outcome.BOUND_HIGH, np.nan, low, np.inf) for low in (0.1, 0.3)]
    rates = [(Outcome.LOCATED, 0.02, 0.01, 0.04)] * 4 + bounds
    rates += [(Outcome.BEYOND_HIGH, np.nan, 1.0, np.inf), (Outcome.EDGE_HIGH, np.nan, 1.0, np.inf)]
    names = ["gamma", "outcome", "estimate", "low", "high"]
    rows = [dict(zip(names, (k % 3 + 0.1 * k, *one), strict=True)) for k, one in enumerate(rates)]
    finding = Finding("optimum", "o", as_table(rows, ["gamma"]), "risk_finetune", "finetune_lr", ["gamma"])
    assert sentence(finding, TRANSFER).endswith("in 4 of 8; somewhere above 0.1 in 2; at the largest tried in 2.")


def test_a_setting_without_a_test_has_no_p():
    rows = [{"gamma": k, "outcome": Outcome.RISES, "p_value": p} for k, p in enumerate((1e-9, 0.02, np.nan))]
    table = table_of(Finding("trend", "t", as_table(rows, ["gamma"]), "", "depth", ["gamma"]), TRANSFER, range(3))
    assert [row[table.head.index("p, adjusted")] for row in table.rows] == ["< 0.0001", "0.02", "–"]


@pytest.mark.parametrize(("few", "more"), itertools.product([2, 7, 12, 30], [1, 3, 11]))
def test_the_counts_of_a_sentence_add_up_to_all_settings(few, more):
    counts = {Outcome.UNDECIDED: 40, Outcome.LOCATED: few, Outcome.BOUND_HIGH: more, Outcome.POSITIVE: 5}
    order = np.random.default_rng(1).permutation([one for one, count in counts.items() for _ in range(count)])
    rows = [{"gamma": k, "outcome": Outcome(one), "estimate": 30.0 + k % 7} for k, one in enumerate(order)]
    said = sentence(Finding("boundary", "b", as_table(rows, ["gamma"]), "", "overlap_angle", ["gamma"]), TRANSFER)
    numbers = [int(word) for word in re.findall(r"in (\d+)", said)]
    named = [len(re.findall(r"\d+", some)) for some in re.findall(r"for γ = ((?:\d+|, | or )+)", said)]
    assert sorted(numbers + named) == sorted(counts.values())


def test_an_interval_far_smaller_than_its_place_is_seen():
    rows = [{"outcome": Outcome.LOCATED, "estimate": 59.8751, "low": 59.8742, "high": 59.8759}]
    said = sentence(Finding("boundary", "b", as_table(rows, []), "", "overlap_angle"), TRANSFER)
    assert "59.87510° (95 %: 59.87420° to 59.87590°)" in said
    ends = ("estimate", "low", "high")
    rows = [dict(zip(ends, one, strict=True)) for one in ((-0.022, -0.026, -0.017), (-0.0018, -0.0034, -0.0003))]
    assert with_intervals(rows, "")[0] == ["-0.022 [-0.026, -0.017]", "-0.0018 [-0.0034, -0.0003]"]  # not 0.000
    for value, short in ((1_073_741_824, "1.074B"), (214_663_680.0, "214.7M"), (1_000_000_001, "1,000,000,001")):
        assert in_short(value) == short  # unless they are hardly apart

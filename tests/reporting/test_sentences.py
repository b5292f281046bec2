"""What the sentences of the answer say: the finding first, how far it is known, what is open, what its names mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_report import TRANSFER, rows_of, space_of

from raysweep import workloads
from raysweep.analyses.design import Design
from raysweep.analyses.question import Question
from raysweep.report.names import amount
from raysweep.report.statuses import why
from raysweep.reporting.analyses.curves import ends
from raysweep.reporting.analyses.fitted_places import Places
from raysweep.reporting.analyses.movement import movement_words, moves
from raysweep.reporting.analyses.place_widths import still_open, sure
from raysweep.reporting.analyses.section import Section
from raysweep.reporting.document.answer import answer, of_kinds
from raysweep.reporting.document.question import names_in_words
from raysweep.reporting.report import write_report

COVARIANCE = workloads.get("linear_covariance")


def places(statuses: list[str], notes: list[str], x: list[float]) -> Places:
    """The places of a sweep over overlap angles, one setting per status."""
    rows = pd.DataFrame({"overlap_angle": np.repeat(x, 3), "seed": [0, 1, 2] * len(x), "status": "ok"})
    rows["risk_finetune"] = 0.5 + 0.1 * rows["seed"]
    asked = Question(rows, {"metric": "risk_finetune", "x": "overlap_angle"}, TRANSFER, "boundary")
    table = pd.DataFrame({"gamma": np.arange(len(statuses)) / 10, "status": statuses, "note": notes, "theory": np.nan})
    located = table["status"] == "located"
    estimate = np.where(located, 40.0 + np.arange(len(table)), np.nan)
    high = np.where(located, estimate + np.where(np.arange(len(table)) == 0, 4.0, 1.0), np.inf)
    table = table.assign(estimate=estimate, low=np.where(located, estimate - 1.0, 80.0), high=high)
    return Places(asked, table, ["gamma"], "zero", "slice", "boundary", "the sign changes at overlap angle {place}")


def test_a_place_that_few_settings_have_is_said_to_be_in_only_these() -> None:
    none = "zero everywhere"
    most = places(["located", "located", "undetermined"], ["", "", "no point has a clear sign"], [0.0, 90.0])
    two = "the sign changes at overlap angle 40.0 [39.0, 44.0]° (γ = 0) and 41.0 [40.0, 42.0]° (γ = 0.1)"
    assert most.of_several("") == (f"{two}, in 2 of 3 slices of gamma", ["not decided in 1 (γ = 0.2)"], "")
    assert most.of_several("rises with depth") == (
        f"{two}, in 2 of 3 slices of gamma; this overlap angle rises with depth",
        ["not decided in 1 (γ = 0.2)"],
        "",
    )
    assert most.said("theory agrees", lambda row: "")[1] == (
        "theory agrees; not decided in 1 (γ = 0.2); this overlap angle shows no clear move with gamma (0 to 0.1)"
    )
    many = places(["located"] * 9, [""] * 9, [0.0, 90.0])
    assert many.said("theory agrees", lambda row: "") == (
        "the sign changes at some overlap angle between 40° (γ = 0) and 48° (γ = 0.8), in all 9 slices of gamma",
        "theory agrees",
    )
    few = places(["located", *["undetermined"] * 3], ["", *["no point has a clear sign"] * 3], [0.0, 90.0])
    assert few.of_several("") == (
        "the sign changes at overlap angle 40.0 [39.0, 44.0]°, in only 1 of 4 slices of gamma (γ = 0)",
        ["not decided in 3 (γ ≥ 0.1)"],
        "",
    )
    silent = places(["located", *["undetermined"] * 3], ["", *[none] * 3], [0.0, 90.0])  # they could have none
    assert silent.of_several("") == (
        "the sign changes at overlap angle 40.0 [39.0, 44.0]°, in 1 of 4 slices of gamma (γ = 0)",
        ["no effect anywhere in 3 (γ ≥ 0.1)"],
        "",
    )
    nowhere = "no zero is found in any of 2 slices of gamma"
    assert places(["undetermined"] * 2, [none] * 2, [0.0, 90.0]).of_several("") == (
        f"{nowhere}: no effect anywhere in 2",
        [],
        "",
    )
    unclear = places(["undetermined"] * 2, ["no point has a clear sign"] * 2, [0.0, 90.0])
    assert unclear.of_several("") == (f"not decided: {nowhere}", ["no point has a clear sign"], "")
    notes = ["no point has a clear sign"] * 2 + ["positive everywhere", "positive below"]
    mostly = places(["undetermined"] * 3 + ["censored_high"], notes, [0.0, 90.0])
    mostly = replace(mostly, signs=("transfer helps", "transfer hurts"))
    assert mostly.of_several("")[0] == (
        "not decided in 2 of 4 slices of gamma: zero; none is found in the others: "
        "transfer helps everywhere in 1 (γ = 0.2), beyond the grid in 1 (above 80°, at γ = 0.3)"
    )


def test_where_hardly_any_setting_has_a_place_what_most_say_comes_first() -> None:
    notes = ["", *["no point has a clear sign"] * 3, "positive below"]
    one = places(["located", *["undetermined"] * 3, "censored_high"], notes, [0.0, 90.0])
    assert one.few
    assert one.of_several("rises with depth") == (
        "not decided in 3 of 5 slices of gamma (γ = 0.1, 0.2, 0.3): zero; the sign changes at overlap angle "
        "40.0 [39.0, 44.0]°, in 1 (γ = 0); this overlap angle rises with depth",
        ["beyond the grid in 1 (above 80°, at γ = 0.4)"],
        "",
    )
    notes = ["", *["no point has a clear sign"] * 2, "positive below", "zero everywhere"]
    none = places(["located", *["undetermined"] * 2, "censored_high", "undetermined"], notes, [0.0, 90.0])
    assert none.few
    assert none.of_several("")[0].startswith("the sign changes at overlap angle 40.0 [39.0, 44.0]°, in only 1 of 5 ")


def test_a_few_places_are_listed_unless_that_takes_a_line_or_two() -> None:
    two = places(["located"] * 2, [""] * 2, [0.0, 90.0])
    assert two.each == "40.0 [39.0, 44.0]° (γ = 0) and 41.0 [40.0, 42.0]° (γ = 0.1)"
    assert two.each_said
    three = places(["located"] * 3, [""] * 3, [0.0, 90.0])
    assert three.each_said
    near = three.table.assign(low=three.table["estimate"] - 1e-3, high=three.table["estimate"] + 1e-3)
    longer = replace(three, table=near)
    assert len(longer.each) > 100
    assert longer.of_several("")[0].startswith(
        "the sign changes at some overlap angle between 40° (γ = 0) and 42° (γ = 0.2)"
    )


def at_depths(*depths: float, x: str = "overlap_angle") -> Places:
    """Places that rise with gamma, from two values more at each depth on."""
    one = places(["located"] * 3, [""] * 3, [0.0, 90.0])
    table = pd.concat([one.table.assign(depth=depth) for depth in depths], ignore_index=True)
    estimate = 40.0 + 10 * (table["gamma"] * 10) + 2 * table["depth"]
    table = table.assign(estimate=estimate, low=estimate - 3, high=estimate + 3)
    at = f"the sign changes at {x.replace('_', ' ')} {{place}}"
    asked = replace(one.asked, options={**one.asked.options, "x": x})
    return replace(one, asked=asked, table=table, keys=["gamma", "depth"], at=at)


def test_several_places_are_said_by_their_range_and_how_they_move() -> None:
    headline, detail = at_depths(1, 2).said("theory agrees", lambda row: "")
    assert headline == (
        "the sign changes at some overlap angle between 42° and 64°, in all 6 slices of gamma and depth; "
        "this overlap angle rises with gamma (2 of 2 comparisons)"
    )
    assert detail == "theory agrees; this overlap angle shows no clear move with depth (0 of 3 comparisons)"
    steps, _ = at_depths(1, 2, x="finetune_steps").said("", lambda row: "")
    assert steps.startswith("the sign changes at some finetune steps between 42 and 64 steps, ")
    assert "; this value rises with gamma (2 of 2 comparisons)" in steps


def test_the_settings_at_the_ends_are_said_where_it_is_not_known_how_the_place_moves() -> None:
    known = at_depths(1, 2)
    still, _ = replace(known, table=known.table.assign(low=30.0, high=70.0)).said("", lambda row: "")
    assert still == (
        "the sign changes at some overlap angle between 42° (γ = 0, L = 1) and 64° (γ = 0.2, L = 2), "
        "in all 6 slices of gamma and depth"
    )
    left_out, _ = known.said("", lambda row: "", left_out=["gamma"])
    assert left_out == still


@pytest.mark.parametrize(
    ("status", "note", "low", "said"),
    [
        ("censored_high", "positive below", 80.0, "transfer helps at every overlap angle of the grid"),
        (
            *("censored_high", "positive below, no clear sign at the upper edge", 50.0),
            "transfer helps up to overlap angle 50°, not clear above",
        ),
        (
            "undetermined",
            "negative everywhere, towards neither edge",
            np.nan,
            "transfer hurts at every overlap angle of the grid",
        ),
        (
            "undetermined",
            "negative at 1 of 3 points, no clear sign at the others",
            np.nan,
            "transfer hurts at 1 of 3 values of overlap angle, not clear at the others",
        ),
        (
            "undetermined",
            "no point has a clear sign",
            np.nan,
            "at none of 2 values of overlap angle is it clear whether transfer helps or hurts",
        ),
    ],
)
def test_a_metric_of_one_sign_is_said_by_what_the_sign_means(status: str, note: str, low: float, said: str) -> None:
    one = places([status], [note], [0.0, 90.0])
    one = replace(one, signs=("transfer helps", "transfer hurts"), table=one.table.assign(low=low))
    assert one.said("", lambda row: "") == (
        said,
        "risk_finetune is 0.60 [0.35, 0.85] at 0° and 0.60 [0.35, 0.85] at 90° "
        "(95 % each; signs are judged from all values together)",
    )


def test_of_two_values_that_were_tried_nothing_is_said_between_them() -> None:
    one = places(["censored_high"], ["positive below, no clear sign at the upper edge"], [10.0, 50.0])
    one = replace(one, signs=("transfer helps", "transfer hurts"), table=one.table.assign(low=10.0))
    assert one.said("", lambda row: "")[0] == "transfer helps at overlap angle 10°, not clear at 50°"
    one = replace(one, table=one.table.assign(status="censored_low", note="positive above, no clear sign", high=50.0))
    one = replace(one, table=one.table.assign(low=-np.inf, note="positive above, no clear sign at the lower edge"))
    assert one.said("", lambda row: "")[0] == "transfer helps at overlap angle 50°, not clear at 10°"


def test_settings_with_a_sign_at_some_points_are_counted_as_one_reason() -> None:
    notes = [
        f"{word} at {count} of 6 points, no clear sign at the others"
        for word, count in (("positive", 1), ("negative", 3))
    ]
    assert why(notes) == " (sign clear at some values only)"
    assert why([*notes, "no point has a clear sign"]).startswith(
        " (2 of them: sign clear at some values only; 1 of them: "
    )


def test_how_sure_is_said_with_the_widest_interval_too() -> None:
    said = sure(places(["located"] * 3, [""] * 3, [0.0, 90.0]))
    assert said == "zero typically ± 1°, the widest 40.0 [39.0, 44.0]° (95 %)"


def test_a_widest_interval_that_is_lopsided_is_said_with_both_ends() -> None:
    """The root of high / low is 3.2 here, but the place may lie a factor 8 lower."""
    rows = pd.DataFrame({"finetune_lr": np.geomspace(0.001, 1, 5), "status": "ok"})
    asked = Question(rows, {"metric": "risk_finetune", "x": "finetune_lr"}, TRANSFER, "optimum")
    table = pd.DataFrame({"gamma": [0.1, 0.2], "status": "located", "note": "", "theory": np.nan})
    table = table.assign(estimate=[0.1, 0.08], low=[0.08, 0.01], high=[0.125, 0.1])
    said = sure(Places(asked, table, ["gamma"], "best rate", "setting", "optimum", "the best is {place}"))
    assert said.startswith("best rate typically within a factor ")
    assert "the widest 0.08 [0.01, 0.1]" in said


def test_of_a_few_comparisons_that_go_both_ways_each_is_named() -> None:
    table = pd.DataFrame({"shift": np.repeat(["all", "bottom", "top"], 2), "gamma": [0.1, 0.9] * 3})
    table = table.assign(status="located", estimate=[1.0, 1.0, 1.2, 1.0, 0.5, 2.0])
    table = table.assign(low=table["estimate"] - 0.05, high=table["estimate"] + 0.05)
    ways = "rises with gamma at shift in top directions but falls at shift in bottom directions"
    assert movement_words(table, ["shift", "gamma"], COVARIANCE) == (ways, "")
    both = pd.concat([table.assign(noise=noise) for noise in (0.0, 1.0)], ignore_index=True)  # six: as counts
    moved, still = movement_words(both, ["shift", "gamma", "noise"], COVARIANCE)
    assert moved == ""
    assert "shows no clear move with gamma (rises in 2 of 6 comparisons, falls in 2" in still


def test_a_move_in_the_only_comparison_is_said_without_a_count() -> None:
    table = pd.DataFrame({"noise": [0.1, 0.2, 0.1, 0.1], "gamma": [0.1, 0.1, 0.2, 0.1], "depth": [2, 2, 2, 3]})
    table = table.assign(status="located", estimate=[1.0, 0.5, 2.0, 1.01])
    table = table.assign(low=table["estimate"] - 0.05, high=table["estimate"] + 0.05)
    keys = ["noise", "gamma", "depth"]
    said = "is lower at noise 0.2 than at 0.1, higher at gamma 0.2 than at 0.1"
    assert movement_words(table, keys, TRANSFER) == (said, "")  # of depth nothing is shown
    assert movement_words(table.iloc[[0, 2, 3]], keys, TRANSFER) == ("is higher at gamma 0.2 than at 0.1", "")
    assert movement_words(table[:2], ["noise", "gamma"], TRANSFER) == ("", "")  # the places themselves say it
    alike = table.iloc[[0, 3]]
    assert movement_words(alike, ["noise", "depth"], TRANSFER) == ("", "shows no clear move with depth (2 to 3)")


def test_of_few_places_their_bounds_tell_how_they_move() -> None:
    """At small noise the turn lies beyond the grid, at large noise inside it."""
    table = pd.DataFrame({"noise": [0.1, 0.5, 1.0, 2.0], "status": ["censored_high", "monotone", "located", "located"]})
    table = table.assign(
        low=[700.0, 900.0, 20.0, 25.0], high=[np.inf, np.inf, 40.0, 80.0], estimate=[np.nan] * 2 + [30, 50]
    )
    (move,) = moves(table, ["noise"], TRANSFER)
    assert (dict(move.fitted), move.ends) == ({"falls": 1}, (0.1, 2.0))
    assert movement_words(table, ["noise"], TRANSFER) == (
        "is lower at noise 2 than at 0.1 (of one of them only a bound is known)",
        "",
    )
    (move,) = moves(table[2:], ["noise"], TRANSFER)
    assert dict(move.fitted) == {"is not told apart": 1}
    assert moves(table[:2], ["noise"], TRANSFER) == []  # two bounds are compared with nothing


def test_nothing_is_open_beyond_the_last_value_that_an_axis_may_have() -> None:
    """An overlap angle ends at 180 degrees."""
    beyond = "zero in 1 of 2 slices (deciding it takes overlap angle above 90°, if it is there at all)"
    for largest, said in ((90.0, beyond), (180.0, "")):
        assert still_open(places(["located", "censored_high"], ["", "positive below"], [0.0, largest])) == said


def test_answers_are_counted_by_kind_and_symbols_are_explained() -> None:
    assert (
        of_kinds(["Curves: a over b", "Curves: c over d", "Best: e", "Experiment"]) == " (curves: 2, best: 1, other: 1)"
    )
    assert of_kinds(["Experiment"]) == ""
    space = space_of("linear_transfer", {"gamma": [0.1, 0.2], "noise": [0.0, 0.1], "dim": [10]}, {}, [])
    said = "pretrain_scale is 3 at γ = 0.1; risk is 2"
    assert names_in_words(Design((space,), ("s",)), TRANSFER, said, "loss over\nnoise σ") == (
        "γ: gamma (target samples per dimension); σ: noise (standard deviation of the target's label noise); "
        "pretrain_scale: norm c of the pretrained end-to-end map."
    )
    shown = names_in_words(Design((space,), ("s",)), TRANSFER, "at γ = 0.1", "σσ")  # no symbol but that is explained
    assert shown == "γ: gamma (target samples per dimension)."


def test_one_epoch_is_not_one_epochs() -> None:
    assert [amount(value, " epochs") for value in (1, 2, 1.5)] == ["1 epoch", "2 epochs", "1.5 epochs"]
    assert amount(1, "°") == "1°"


def test_where_nothing_is_open_the_answer_says_so(tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"overlap_angle": np.linspace(9, 90, 10).tolist(), "gamma": [0.2, 0.8]}
    frame = rows_of(TRANSFER, axes, {}, 5, 0.01)
    asked = [{"boundary": {"metric": "transferability_finetune", "x": "overlap_angle"}}]
    report = write_report(frame, space_of("linear_transfer", axes, {}, asked), tmp_path, sweep="decided")
    assert report.answer[-1] == "Undecided: Nothing that was asked."


def test_a_best_rate_that_a_regime_follows_over_the_length_is_not_followed_twice(tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {
        "finetune_lr": np.geomspace(0.001, 1, 7).tolist(),
        "pretrain_length": [1.0, 2.0, 4.0, 8.0],
        "depth": [1, 2],
    }
    frame = rows_of(TRANSFER, axes, {"finetune_steps": 100.0}, 5, 0.0)
    length, depth = (np.log(frame[name].astype(float)) for name in ("pretrain_length", "depth"))
    best = -4 - 0.5 * length + depth
    frame["risk_finetune"] = (np.log(frame["finetune_lr"]) - best) ** 2 + 0.001 * frame["seed"]
    optimum = {"optimum": {"metric": "risk_finetune", "x": "finetune_lr"}}
    regime = {"regime": {"metric": "risk_finetune", "lr": "finetune_lr", "length": "pretrain_length"}}
    for asked, followed in (([optimum], True), ([optimum, regime], False)):
        space = space_of("linear_transfer", axes, {"finetune_steps": 100.0}, asked)
        report = write_report(frame, space, tmp_path / str(followed), sweep="rates")
        assert ("with pretraining length (" in report.headline[0]) is followed
        assert "rises with depth (4 of 4" in report.headline[0]


def test_means_are_not_said_beside_three_findings_that_decide_something() -> None:
    frame = pd.DataFrame({"cell": [0, 0], "seed": [0, 1], "status": "ok"})
    deciding = [Section(f"Trend: {name}", f"{name} rises") for name in "abc"]
    means = Section("Curves: d", "d is largest at x = 3", means_only=True)
    left = "1 more answer in the report (curves: 1)."
    for count, said in ((2, "D is largest at x = 3."), (3, left)):
        lines = answer(frame, Design((), ()), [means, *deciding[:count]]).lines
        assert len(lines) == count + 3  # and how sure that is, and what is open
        assert lines[count] == said


def test_of_two_curves_nothing_is_open_where_one_is_better_over_the_whole_grid(tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"overlap_angle": np.linspace(9, 90, 10).tolist(), "depth": [1, 2]}
    frame = rows_of(TRANSFER, axes, {}, 5, 0.01)
    ahead = np.where(frame["depth"] == 2, 2 - frame["overlap_angle"] / 90, 0.0)  # by less and less
    frame["risk_finetune"] = 1 + ahead + 0.01 * np.sin(frame["seed"] * (1 + frame["depth"]))
    asked = [{"boundary": {"metric": "risk_finetune", "x": "overlap_angle", "between": {"depth": [1, 2]}}}]
    report = write_report(frame, space_of("linear_transfer", axes, {}, asked), tmp_path, sweep="two")
    assert report.answer[0].startswith("L = 1 is better at every overlap angle of the grid. ")
    assert report.answer[-1] == "Undecided: Nothing that was asked."


def test_cells_without_a_variance_are_counted_where_all_others_are_alike() -> None:
    table = pd.DataFrame({"gamma": [0.1, 0.2, 0.3], "mean": [1.0, 1.0, 9.0], "standard_error": 0.0, "draws": 3})
    assert ends(table.assign(no_variance=[False, False, True]), ["gamma"], "risk_linear", TRANSFER) == (
        "risk_linear is 1 (exact) in both cells",
        "",
        1,
    )


def test_means_are_said_in_a_few_digits_and_their_places_with_intervals() -> None:
    table = pd.DataFrame({"gamma": [0.1, 0.2, 0.3, 0.4], "mean": [2.0, 0.12345, 0.5, 2.0], "draws": 3})
    table = table.assign(standard_error=0.01, no_variance=False)
    assert ends(table, ["gamma"], "risk_linear", TRANSFER) == (
        "risk_linear is 0.123 to 2",
        "lowest 0.123 [0.080, 0.166] at γ = 0.2; highest 2.000 [1.957, 2.043] at γ = 0.1 and 1 more cell",
        0,
    )
    assert ends(table.assign(no_variance=True), ["gamma"], "risk_linear", TRANSFER) == (
        "no cell has draws of risk_linear with a variance",
        "",
        4,
    )

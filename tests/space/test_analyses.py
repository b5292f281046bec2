"""An entry under `analysis` is checked before anything runs, by its path and without loading anything heavy."""

from __future__ import annotations

from typing import Any

import pytest

from raysweep import workloads
from raysweep.errors import InputError
from raysweep.space.analyses import check_analysis, opened
from raysweep.space.checks import Context
from raysweep.space.schema import validate

TRANSFER = workloads.get("linear_transfer")


def check(entry: Any, axes: dict[str, list[Any]]) -> None:
    check_analysis(entry, "here", Context(TRANSFER, axes))


def refused(entry: Any, axes: dict[str, list[Any]]) -> str:
    with pytest.raises(InputError) as error:
        check(entry, axes)
    return str(error.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"boundry": {}}, ".boundry: unknown analysis 'boundry'; did you mean boundary? Known: agreement, best"),
        (
            {"boundary": {"metric": "transferability", "x": "gamma"}},
            ".boundary.metric: unknown metric 'transferability'; did you mean transferability_linear? Known: ",
        ),
        ({"boundary": {"metric": "risk_scratch"}}, ".boundary.x: missing"),
        (
            {"boundary": {"metric": "risk_scratch", "x": "gama"}},
            ".boundary.x: unknown axis 'gama'; did you mean gamma? Known: gamma, depth",
        ),
        (
            {"boundary": {"metric": "risk_scratch", "x": "gamma", "y": "gamma"}},
            ".boundary.y: 'gamma' is already used as x",
        ),
        ({"boundary": {"metric": "risk_scratch", "x": "gamma", "colour": 1}}, ".boundary.colour: unknown option"),
        (
            {"inflection": {"metric": "risk_scratch", "x": "gamma", "by": 3}},
            ".inflection.by: expected an axis or a list of axes, got 3",
        ),
        (
            {"inflection": {"metric": "risk_scratch", "x": "gamma", "by": "gamma"}},
            ".inflection.by: 'gamma' is already used as x",
        ),
        ({"inflection": {"metric": "risk_scratch", "x": "gamma", "level": 95}}, ".inflection.level: expected a number"),
        ({"curves": {"x": "gamma"}}, ".curves.metric: missing"),
        ({"engines": {}}, ".engines: expected engine among the axes"),
        ({"relation": {"x": "gamma", "y": "risk_scratch"}}, ".relation.x: unknown metric 'gamma'; known: "),
        (
            {"r_squared": {"metric": "risk_linear", "x": "gamma", "unit": "overlap_angle"}},
            ".r_squared.predictors: missing; expected ",
        ),
        (
            {
                "r_squared": {
                    "metric": "risk_linear",
                    "predictors": ["risk_skratch"],
                    "x": "gamma",
                    "unit": "overlap_angle",
                }
            },
            ".r_squared.predictors: unknown metric 'risk_skratch'; did you mean risk_scratch",
        ),
        (
            {"r_squared": {"metric": "risk_linear", "predictors": "risk_scratch", "x": "gamma", "unit": "gamma"}},
            ".r_squared.unit: 'gamma' is already used as x",
        ),
        ({"relation": {"x": "risk_linear"}}, ".relation.y: missing; expected one of risk_scratch"),
        ({"relation": {"x": "risk_linear", "y": "risk_linear"}}, ".relation.y: 'risk_linear' is already used as x"),
        (
            {"relation": {"x": "risk_linear", "y": "risk_scratch", "sample": "cell"}},
            ".relation.sample: unknown sample 'cell'",
        ),
        (
            {"boundary": {"metric": "risk_scratch", "x": "gamma", "lines": {"here": "60"}}},
            ".boundary.lines.here: expected a number, got '60'",
        ),
        ({"boundary": {"metric": "risk_scratch", "x": "gamma", "lines": [60]}}, ".boundary.lines: expected names"),
        ("boundary", ": expected one of agreement, best"),
    ],
)
def test_what_is_wrong_with_an_analysis_is_said(entry: Any, message: str) -> None:
    assert refused(entry, {"gamma": [], "depth": []}).startswith(f"here{message}")


RISES, SIGNS = {"rises": "it helps", "falls": "it hurts"}, {"positive": "it helps", "negative": "it hurts"}


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        (
            "boundary",
            {**SIGNS, "postive": "it helps"},
            ".postive: unknown option 'postive'; did you mean positive? Kno",
        ),
        ("curves", RISES, ".rises: unknown option 'rises'; known: positive, negative"),
        ("trend", {**RISES, "turns": "it turns"}, ".turns: unknown option 'turns'; known: rises, falls"),
        ("inflection", {"turn": "it turns"}, ".turn: unknown option 'turn'; did you mean turns? Known: turns"),
        ("inflection", {}, ".turns: missing; expected a few words that need no full stop, like "),
        ("curves", {"positive": "it helps"}, ".negative: missing; expected a few words that need no full stop, like "),
        (
            "trend",
            {"falls": "it hurts", "rises": None},
            ".rises: missing; expected a few words that need no full stop, ",
        ),
        (
            "boundary",
            {**SIGNS, "negative": "it hurts."},
            ".negative: expected a few words that need no full stop, like ",
        ),
        (
            "boundary",
            {**SIGNS, "negative": "it hurts.\n"},
            ".negative: expected a few words that need no full stop, li",
        ),
        ("boundary", {**SIGNS, "negative": " "}, ".negative: expected a few words that need no full stop, like "),
        ("trend", {**RISES, "falls": "it\nhurts"}, ".falls: expected a few words that need no full stop, like "),
        ("trend", {**RISES, "falls": 3}, ".falls: expected a few words that need no full stop, like "),
        ("trend", "it helps", ": expected a mapping from "),
        ("boundary", ["it helps", "it hurts"], ": expected a mapping from "),
        ("optimum", {"turns": "it turns"}, ": unknown option 'words'; known: metric, x, by, level, question, where"),
    ],
)
def test_what_is_wrong_with_the_words_of_a_space_is_said_in_one_line(kind: str, words: Any, message: str) -> None:
    messages = refused({kind: {"metric": "risk_scratch", "x": "gamma", "words": words}}, {"gamma": []})
    assert messages.startswith(f"here.{kind}.words{message}")
    assert "\n" not in messages


def test_right_words_pass() -> None:
    meant = {"boundary": SIGNS, "curves": SIGNS, "trend": RISES, "inflection": {"turns": "it turns"}}
    for kind, words in meant.items():
        for given in (words, None):
            check({kind: {"metric": "risk_scratch", "x": "gamma", "words": given}}, {"gamma": []})


def test_a_right_analysis_passes() -> None:
    entry = {"boundary": {"metric": "risk_scratch", "x": "gamma", "y": "depth", "level": 0.9}}
    check(entry, {"gamma": [], "depth": []})
    check({"agreement": None}, {})


def test_an_option_that_is_null_is_one_that_is_not_given() -> None:
    entry = {"curves": {"x": "gamma", "metric": "risk_scratch", "metrics": None, "by": None}}
    check(entry, {"gamma": []})
    assert opened(entry) == ("curves", {"x": "gamma", "metric": "risk_scratch"})
    message = refused({"boundary": {"metric": "risk_scratch", "x": None}}, {"gamma": []})
    assert message == "here.boundary.x: missing; expected one of gamma"


@pytest.mark.parametrize(
    ("kind", "key", "options"),
    [
        ("boundary", "x", {"x": "engine"}),
        ("boundary", "y", {"x": "gamma", "y": "engine"}),
        ("trend", "x", {"x": "engine"}),
        ("power_law", "x", {"x": "engine"}),
        ("predicted_boundary", "x", {"x": "engine", "law": "risk_linear", "meets": "risk_linear"}),
        ("inflection", "x", {"x": "engine"}),
        ("optimum", "x", {"x": "engine"}),
        ("regime", "lr", {"lr": "engine", "length": "gamma"}),
        ("regime", "length", {"lr": "gamma", "length": "engine"}),
    ],
)
def test_a_fit_along_an_axis_of_words_is_refused_before_anything_runs(
    kind: str, key: str, options: dict[str, str]
) -> None:
    axes = {"engine": ["limit", "flow"], "gamma": [0.5, 1.0]}
    space = {
        "name": "s",
        "workload": "linear_transfer",
        "axes": axes,
        "analysis": [{"agreement": {}}, {kind: {"metric": "risk_scratch", **options}}],
    }
    with pytest.raises(InputError) as refused:
        validate(space)
    assert str(refused.value).startswith(f"analysis[1].{kind}.{key}: expected an axis of numbers, but engine is one of")
    check({"curves": {"metric": "risk_scratch", "x": "engine"}}, axes)


@pytest.mark.parametrize("kind", ["boundary", "optimum"])
def test_a_search_along_an_axis_of_words_is_refused(kind: str) -> None:
    space = {
        "name": "s",
        "workload": "linear_transfer",
        "axes": {"engine": ["limit", "flow"]},
        "search": {kind: {"metric": "risk_scratch", "x": "engine", "budget": 5}},
    }
    with pytest.raises(InputError, match=rf"^search\.{kind}\.x: expected an axis of numbers"):
        validate(space)


def test_a_best_value_is_sought_on_any_finite_axis_and_a_regime_above_zero() -> None:
    axes = {"noise": [0.0, 0.1, 0.2], "pretrain_length": [1.0, float("inf")]}
    optimum = {"optimum": {"metric": "risk_scratch", "x": "noise"}}
    check(optimum, axes)
    endless = {"optimum": {"metric": "risk_scratch", "x": "pretrain_length"}}
    message = refused(endless, axes)
    assert message.startswith("here.optimum.x: the best pretrain_length is sought on its axis; expected finite values")
    regime = {"regime": {"metric": "risk_scratch", "lr": "noise", "length": "pretrain_length"}}
    message = refused(regime, axes)
    assert message.startswith("here.regime.lr: the best noise is sought on a logarithmic scale")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, ".stage: missing; expected one of trunk, pretrain, finetune, evaluate"),
        ({"stage": "finetun"}, ".stage: unknown stage 'finetun'; did you mean finetune? Known: trunk, pretrain"),
        ({"stage": "finetune", "metric": None}, ".metric: missing; expected a metric"),
        ({"stage": "finetune", "metric": 3}, ".metric: expected names of logged metrics, got 3"),
        ({"stage": "pretrain", "by": ["finetune_lr"]}, ".by: the stage pretrain does not depend on finetune_lr"),
        ({"stage": "finetune", "scale": "lin"}, ".scale: unknown scale 'lin'; did you mean linear? Known: "),
        ({"x": "steps"}, ".x: unknown axis 'steps'; did you mean step? Known: finetune_lr, step, share"),
        ({"stage": "finetune", "colour": 1}, ".colour: unknown option"),
        ({"stage": "finetune", "called": ""}, ".called: expected what the steps are, such as layer, got ''"),
    ],
)
def test_what_is_wrong_with_learning_curves_is_said(options: dict[str, Any], message: str) -> None:
    entry = {"curves": {"x": "step", "metric": "training_loss", **options}}
    with pytest.raises(InputError) as error:
        check_analysis(entry, "here", Context(workloads.get("language"), {"finetune_lr": []}))
    assert str(error.value).startswith(f"here.curves{message}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, ".stage: missing; expected one of trunk, pretrain, finetune, evaluate"),
        ({"stage": "finetune", "metric": None}, ".metric: missing; expected a metric"),
        ({"stage": "finetune", "y": None}, ".y: missing; expected the name of a logged metric"),
        ({"stage": "finetune", "x": 3}, ".x: expected the name of a logged metric, got 3"),
        ({"stage": "pretrain", "by": ["finetune_lr"]}, ".by: the stage pretrain does not depend on finetune_lr"),
    ],
)
def test_what_is_wrong_with_a_landscape_is_said(options: dict[str, Any], message: str) -> None:
    entry = {"landscape": {"x": "east", "y": "north", "metric": "training_loss", **options}}
    with pytest.raises(InputError) as error:
        check_analysis(entry, "here", Context(workloads.get("language"), {"finetune_lr": []}))
    assert str(error.value).startswith(f"here.landscape{message}")


def test_a_workload_that_logs_nothing_has_no_learning_curves() -> None:
    assert refused({"curves": {"x": "step", "metric": "risk_scratch"}}, {"gamma": []}) == (
        "here.curves.x: linear_transfer logs no learning curves; expected one of its axes: gamma"
    )

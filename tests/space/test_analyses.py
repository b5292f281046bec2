"""An entry under `analysis` is checked before anything runs, by its path and without loading anything heavy."""

import pytest
import yaml
from conftest import told
from spaces import space_over

from raysweep import workloads
from raysweep.space.analyses import check_analysis, opened
from raysweep.space.checks import Context
from raysweep.space.schema import validate

TRANSFER = workloads.get("linear_transfer")


def check(entry, axes):
    check_analysis(entry, "here", Context(TRANSFER, axes))


def refused(begins, entry, axes):
    with told(begins):
        check(entry, axes)


FULL_STOP = "expected a few words that need no full stop, like "


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("boundary", "metric: transferability", "metric: unknown metric 'transferability'; did you mean transferabil"),
        ("boundary", "x: null", "x: missing"),
        ("boundary", "x: gama", "x: unknown axis 'gama'; did you mean gamma? Known: gamma, depth"),
        ("boundary", "y: gamma", "y: 'gamma' is already used as x"),
        ("boundary", "colour: 1", "colour: unknown option"),
        ("boundary", "lines: {here: '60'}", "lines.here: expected a number, got '60'"),
        ("boundary", "lines: [60]", "lines: expected names"),
        ("inflection", "by: 3", "by: expected an axis or a list of axes, got 3"),
        ("inflection", "by: gamma", "by: 'gamma' is already used as x"),
        ("relation", "x: gamma, y: risk_scratch", "x: unknown metric 'gamma'; known: "),
        ("relation", "x: risk_linear, y: risk_linear", "y: 'risk_linear' is already used as x"),
        ("relation", "x: risk_linear, y: risk_scratch, sample: cell", "sample: unknown sample 'cell'"),
        ("r_squared", "unit: overlap_angle", "predictors: missing; expected "),
        (
            "r_squared",
            "unit: gamma, predictors: [risk_skratch]",
            "predictors: unknown metric 'risk_skratch'; did you me",
        ),
        ("boundary", "words: {postive: a, negative: b}", "words.postive: unknown option 'postive'; did you mean posit"),
        ("inflection", "words: {turn: a}", "words.turn: unknown option 'turn'; did you mean turns? Known: turns"),
        ("curves", "words: {positive: it helps}", f"words.negative: missing; {FULL_STOP}"),
        ("boundary", "words: {positive: a, negative: it hurts.}", f"words.negative: {FULL_STOP}"),
        ("trend", 'words: {rises: a, falls: "it\\nhurts"}', f"words.falls: {FULL_STOP}"),
        ("trend", "words: {rises: a, falls: 3}", f"words.falls: {FULL_STOP}"),
        ("trend", "words: it helps", "words: expected a mapping from "),
        ("regime", "lr: gamma, length: gamma", "length: 'gamma' is already used as lr"),
        ("regime", "lr: gamma, length: depht", "length: unknown axis 'depht'; did you mean depth"),
        ("optimum", "words: {turns: a}", "words: unknown option 'words'; known: metric, x, by, level, question, where"),
    ],
)
def test_what_is_wrong_with_an_analysis_is_said_in_one_line(kind, options, message):
    """Options as YAML, beside a metric and an axis that are right."""
    asked = {"metric": "risk_scratch", "x": "gamma"}
    right = {"relation": {}, "regime": {"metric": "risk_scratch"}}.get(kind, asked)
    entry = {kind: {**right, **yaml.safe_load(f"{{{options}}}")}}
    refused(f"here.{kind}.{message}", entry, {"gamma": [], "depth": []})


def test_what_is_no_analysis_is_told_which_there_are():
    refused("here: expected one of agreement, best", "boundary", {})
    message = "here.boundry: unknown analysis 'boundry'; did you mean boundary? Known: agreement, best"
    refused(message, {"boundry": {}}, {})
    refused("here.engines: expected engine among the axes", {"engines": {}}, {})


def test_right_words_pass():
    rises, signs = {"rises": "it helps", "falls": "it hurts"}, {"positive": "it helps", "negative": "it hurts"}
    meant = {"boundary": signs, "curves": signs, "trend": rises, "inflection": {"turns": "it turns"}}
    for kind, words in meant.items():
        for given in (words, None):
            check({kind: {"metric": "risk_scratch", "x": "gamma", "words": given}}, {"gamma": []})


def test_a_right_analysis_passes():
    entry = {"boundary": {"metric": "risk_scratch", "x": "gamma", "y": "depth", "level": 0.9}}
    check(entry, {"gamma": [], "depth": []})
    check({"agreement": None}, {})


def test_an_option_that_is_null_is_one_that_is_not_given():
    entry = {"curves": {"x": "gamma", "metric": "risk_scratch", "metrics": None, "by": None}}
    check(entry, {"gamma": []})
    assert opened(entry) == ("curves", {"x": "gamma", "metric": "risk_scratch"})
    missing = {"boundary": {"metric": "risk_scratch", "x": None}}
    refused("here.boundary.x: missing; expected one of gamma", missing, {"gamma": []})


@pytest.mark.parametrize(
    ("kind", "key", "options"),
    [
        ("boundary", "x", {"x": "engine"}),
        ("boundary", "y", {"x": "gamma", "y": "engine"}),
        ("predicted_boundary", "x", {"x": "engine", "law": "risk_linear", "meets": "risk_linear"}),
        ("regime", "lr", {"lr": "engine", "length": "gamma"}),
        ("regime", "length", {"lr": "gamma", "length": "engine"}),
    ],
)
def test_a_fit_along_an_axis_of_words_is_refused_before_anything_runs(kind, key, options):
    axes = {"engine": ["limit", "flow"], "gamma": [0.5, 1.0]}
    analysis = [{"agreement": {}}, {kind: {"metric": "risk_scratch", **options}}]
    space = space_over("linear_transfer", axes, analysis=analysis)
    with told(f"analysis[1].{kind}.{key}: expected an axis of numbers, but engine is one of"):
        validate(space)
    check({"curves": {"metric": "risk_scratch", "x": "engine"}}, axes)


@pytest.mark.parametrize("kind", ["boundary", "optimum"])
def test_a_search_along_an_axis_of_words_is_refused(kind):
    search = {kind: {"metric": "risk_scratch", "x": "engine", "budget": 5}}
    space = space_over("linear_transfer", {"engine": ["limit", "flow"]}, search=search)
    with told(f"search.{kind}.x: expected an axis of numbers"):
        validate(space)


def test_a_best_value_is_sought_on_any_finite_axis_and_a_regime_above_zero():
    axes = {"noise": [0.0, 0.1, 0.2], "pretrain_length": [1.0, float("inf")]}
    optimum = {"optimum": {"metric": "risk_scratch", "x": "noise"}}
    check(optimum, axes)
    endless = {"optimum": {"metric": "risk_scratch", "x": "pretrain_length"}}
    refused("here.optimum.x: the best pretrain_length is sought on its axis; expected finite values", endless, axes)
    regime = {"regime": {"metric": "risk_scratch", "lr": "noise", "length": "pretrain_length"}}
    refused("here.regime.lr: the best noise is sought on a logarithmic scale", regime, axes)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("curves", {}, "stage: missing; expected one of trunk, pretrain, finetune, evaluate"),
        ("curves", {"stage": "finetune", "metric": None}, "metric: missing; expected a metric"),
        ("curves", {"stage": "finetune", "metric": 3}, "metric: expected names of logged metrics, got 3"),
        ("curves", {"stage": "pretrain", "by": ["finetune_lr"]}, "by: the stage pretrain does not depend on finetune_"),
        ("curves", {"stage": "finetune", "scale": "lin"}, "scale: unknown scale 'lin'; did you mean linear? Known: "),
        ("curves", {"x": "steps"}, "x: unknown axis 'steps'; did you mean step? Known: finetune_lr, step, share"),
        ("learning_curves", {"x": "finetune_lr"}, "x: unknown x 'finetune_lr'; known: step, share"),
        ("curves", {"stage": "finetune", "called": ""}, "called: expected what the steps are, such as layer, got ''"),
        ("landscape", {"stage": "finetune", "y": None}, "y: missing; expected the name of a logged metric"),
        ("landscape", {"stage": "finetune", "x": 3}, "x: expected the name of a logged metric, got 3"),
    ],
)
def test_what_is_wrong_with_what_was_logged_is_said(kind, options, message):
    right = {"x": "east", "y": "north"} if kind == "landscape" else {"x": "step"}
    entry = {kind: {**right, "metric": "training_loss", **options}}
    with told(f"here.{kind}.{message}"):
        check_analysis(entry, "here", Context(workloads.get("language"), {"finetune_lr": []}))


def test_a_workload_that_logs_nothing_has_no_learning_curves():
    message = "here.curves.x: linear_transfer logs no learning curves; expected one of its axes: gamma"
    refused(message, {"curves": {"x": "step", "metric": "risk_scratch"}}, {"gamma": []})

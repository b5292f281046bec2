"""The labels of metrics and parameters in sentences and figures, and the axes on which small values can be read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_report import TRANSFER

from raysweep import workloads
from raysweep.analyses.question import Question
from raysweep.report.figures.scales import SPAN, spans_decades
from raysweep.report.names import called, coded, first_capital, labelled, listed, markdown_table, plain, setting
from raysweep.reporting.analyses.curves import curves_section
from raysweep.workloads.declaration import Metric, Workload
from raysweep.workloads.parameters import Parameter


def declared(workload: Workload) -> list[Metric | Parameter]:
    return [*workload.metrics, *workload.parameters]


@pytest.fixture(params=sorted(workloads.BUILT_IN))
def workload(request: pytest.FixtureRequest) -> Workload:
    return workloads.get(request.param)


def test_a_name_is_said_as_its_label_wherever_it_stands_and_a_label_stays_what_it_is(workload: Workload) -> None:
    with_label = [each for each in declared(workload) if each.label]
    assert with_label
    for each in with_label:
        name = plain(each.name) if isinstance(each, Parameter) else each.name
        names = [] if name.isalpha() else [name, plain(name)]
        for text in ("{}", "the {}: 3", "({})", "{}, {}", "{} rises with {}.", "at {} = 3; '{}'"):
            expected = text.replace("{}", each.label)
            assert labelled(expected, workload) == expected
            for form in names:
                assert labelled(text.replace("{}", form), workload) == expected
        assert labelled(first_capital(each.label), workload) == first_capital(each.label)
        assert called(each.name, workload) == each.label


def test_whole_sentences_of_labels_are_the_same_after_another_time(workload: Workload) -> None:
    """Sections are put in words once, and their text once more when it is written down."""
    labels = [each.label for each in declared(workload) if each.label]
    for first in labels:
        for second in labels:
            for text in (f"{first} {second}", f"{first}: {second}", f"{first} of {second} is 3, {second} is 4"):
                assert labelled(text, workload) == text


def test_names_in_code_style_and_in_longer_words_are_not_touched(workload: Workload) -> None:
    for each in declared(workload):
        name = each.name
        for text in (f"`{name}`", f"`{plain(name)}`", f"my_{name}", f"{name}_2", f"un{name}", f"{name}s", f"[{name}"):
            assert labelled(text, workload) == text
        for text in (f"figures/{name}.png", f"{name}.csv", f"x-{name}-y"):
            assert labelled(text, workload) == text
        if not each.label:  # and no part of it is taken for another name
            assert labelled(name, workload) == name
            assert labelled(plain(name), workload) == plain(name)
    assert coded("`risk_finetune` and risk_finetune", TRANSFER) == "`risk_finetune` and risk after fine-tuning"


def test_what_has_no_label_stays_in_code_style_and_a_plain_word_a_word() -> None:
    assert (called("val_loss", TRANSFER), called("overlap_angle", TRANSFER)) == ("val_loss", "overlap angle")
    one = [Metric("val_loss", ""), Metric("loss", "", label="squared error")]
    mixed = replace(TRANSFER, metrics=tuple(one))
    assert coded("val_loss and loss", mixed) == "`val_loss` and loss"


def test_every_label_of_a_workload_means_one_thing(workload: Workload) -> None:
    labels = Counter(each.label for each in declared(workload) if each.label)
    assert [label for label, count in labels.items() if count > 1] == []
    for each in declared(workload):
        others = {form for other in declared(workload) if other is not each for form in (other.name, plain(other.name))}
        assert each.label not in others


def test_a_parameter_is_called_the_same_in_all_workloads() -> None:
    labels: dict[str, set[str]] = {}
    for name in workloads.BUILT_IN:
        for parameter in workloads.get(name).parameters:
            labels.setdefault(parameter.name, set()).add(parameter.label)
    assert labels["finetune_lr"] == {"fine-tuning rate"}
    assert {name: known for name, known in labels.items() if len(known) > 1} == {}


@pytest.mark.parametrize(
    ("workload", "name", "value", "words"),
    [
        ("vision", "source", "mnist:data", "source MNIST"),
        ("vision", "target", "fashion_mnist:/home/me", "target Fashion-MNIST in /home/me"),
        ("vision", "source", "images:cats", "source images:cats"),
        ("vision", "pretrain", "masked", "masked pretraining"),
        ("vision", "flip", "none", "no flip"),
        ("vision", "model", "lenet", "model lenet"),  # without words of its own
        ("multiview", "framework", "teacher_student", "teacher-student"),
        ("linear_covariance", "shift", "top", "shift in top directions"),
        ("linear_covariance", "spectrum", "1.5:50,0.3", "50 directions of variance 1.5, the others of 0.3"),
        ("linear_covariance", "spectrum", "2:1,1:99", "spectrum 2:1,1:99"),
        ("image_regression", "pair", "2-3:5-6", "pair 2/3 to 5/6"),
        ("linear_transfer", "engine", "limit", "limit"),
        ("linear_transfer", "gamma", 0.5, "γ = 0.5"),
    ],
)
def test_a_value_that_is_a_word_is_said_in_words_of_its_parameter(
    workload: str, name: str, value: Any, words: str
) -> None:
    assert setting(name, value, workloads.get(workload)) == words


def test_several_values_are_said_with_the_parameter_once() -> None:
    vision, covariance = workloads.get("vision"), workloads.get("linear_covariance")
    assert listed("shift", ["top", "bottom"], covariance) == ["shift in top directions", "in bottom directions"]
    assert listed("source", ["mnist:data", "fashion_mnist:data"], vision) == ["source MNIST", "Fashion-MNIST"]
    assert listed("source", ["mnist:a", "mnist:b"], vision) == ["source MNIST in a", "MNIST in b"]
    assert listed("pretrain", ["masked", "none"], vision) == ["masked pretraining", "no pretraining"]
    assert listed("overlap_angle", [30, 60], TRANSFER) == ["θ = 30°", "60°"]


def test_every_choice_of_a_parameter_with_words_has_words_of_its_own() -> None:
    known = [(name, one) for name in workloads.BUILT_IN for one in workloads.get(name).parameters if one.words]
    assert {"vision", "multiview", "linear_covariance", "image_regression"} <= {name for name, _ in known}
    for name, one in known:
        every = one.choices or (one.default,)
        said = {value: setting(one.name, value, workloads.get(name)) for value in every}
        assert len(set(said.values())) == len(every), said
        assert all(text.strip() and "_" not in text for text in said.values()), said


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ([1.0, SPAN], True),
        ([1.0, SPAN - 0.1], False),
        ([0.002, 5.0, 0.06], True),
        ([0.0, 1.0, 100.0], False),
        ([-0.001, 1.0, 100.0], False),
        ([-100.0, -1.0], False),
        ([7.0], False),
        ([], False),
    ],
)
def test_positive_values_that_span_a_factor_of_thirty_span_decades(values: list[float], far: bool) -> None:
    assert SPAN == 30
    assert bool(spans_decades(np.array(values))) is far


@pytest.mark.parametrize(
    ("means", "logarithmic"),
    [([0.01, 0.1, 0.3], True), ([0.01, 0.1, 0.29], False), ([0.0, 0.1, 30.0], False), ([-0.01, 0.1, 30.0], False)],
)
def test_means_that_span_decades_are_drawn_on_a_logarithmic_axis_with_room_below(
    means: list[float], logarithmic: bool
) -> None:
    draws = 4
    columns: dict[str, Any] = {"gamma": np.repeat([0.1, 0.2, 0.3], draws), "seed": [*range(draws)] * 3, "status": "ok"}
    rows = pd.DataFrame(columns).assign(risk_finetune=np.repeat(means, draws), cell="c")
    asked = Question(rows, {"metric": "risk_finetune", "x": "gamma"}, TRANSFER, "curves")
    (panel,) = [panel for panel in curves_section(asked).drawings[0].figure.axes if panel.lines]
    assert (panel.get_yscale() == "log") is logarithmic
    assert panel.get_ylim()[1] > max(means)
    if logarithmic:
        assert panel.get_ylim()[0] == pytest.approx(0.5 * min(means))
    assert panel.get_ylabel() == "risk after fine-tuning"
    assert panel.get_xlabel() == f"{called('gamma', TRANSFER)} γ"


def test_columns_of_a_table_that_are_empty_in_every_row_are_left_out() -> None:
    rows = [{"depth": "1", "left out": "–", "place": "3"}, {"depth": "2", "left out": "–", "place": "–"}]
    assert markdown_table(rows).splitlines() == ["| depth | place |", "|---|---|", "| 1 | 3 |", "| 2 | – |"]

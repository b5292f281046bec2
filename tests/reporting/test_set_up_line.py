"""The line below the question of a report: what was varied, and which data were fixed."""

from __future__ import annotations

from typing import Any

import pytest

from raysweep import workloads
from raysweep.analyses.design import Design
from raysweep.reporting.document.answer import clipped
from raysweep.reporting.document.question import varied_in_short


def said(workload: str, axes: dict[str, list[Any]], zipped: list[list[str]] | None = None, **fixed: Any) -> str:
    space = {"name": "s", "workload": workload, "axes": axes, "zip": zipped or [], "fixed": fixed}
    return varied_in_short(Design((space,), ("s",)), workloads.get(workload))


def test_an_axis_is_said_by_its_few_values_or_by_its_ends() -> None:
    axes = {"depth": [1, 2, 3], "overlap_angle": [10.0, 20.0, 30.0, 45.0], "gamma": [0.5]}
    assert said("linear_transfer", axes) == "Varied: depth L 1, 2, 3, overlap angle θ 10° to 45°. Fixed: gamma γ 0.5."


@pytest.mark.parametrize(
    ("zipped", "words"),
    [
        ([["framework", "power"]], "Varied: autoencoder / teacher-student with power, kernels m 1, 3."),
        ([], "Varied: autoencoder / teacher-student, power q 4, 3, kernels m 1, 3."),
    ],
)
def test_axes_that_vary_together_are_one(zipped: list[list[str]], words: str) -> None:
    axes = {"framework": ["autoencoder", "teacher_student"], "power": [4, 3], "kernels": [1, 3]}
    assert said("multiview", axes, zipped) == words


def test_data_that_are_fixed_are_named_and_what_is_all_of_it_is_not() -> None:
    axes = {"target": ["digits", "mnist:data", "fashion_mnist:data", "a:b"], "pretrain_length": [1, 2, 4, 8]}
    assert said("vision", axes, source="digits", source_classes="0-4", target_classes="all", depth=3) == (
        "Varied: target (4 values), pretraining length 1 to 8 epochs. Fixed: source digits, source classes 0-4."
    )


def test_values_that_are_words_are_said_in_words_varied_and_fixed() -> None:
    axes = {"target": ["mnist:data", "fashion_mnist:data"], "pretrain": ["supervised", "masked", "none"]}
    assert said("vision", axes, source="mnist:data", flip="none") == (
        "Varied: target MNIST / Fashion-MNIST, supervised pretraining / masked pretraining / no pretraining. "
        "Fixed: source MNIST."
    )
    assert said("linear_covariance", {"shift": ["top", "bottom"]}, spectrum="1.5:50,0.3") == (
        "Varied: shift in top directions / in bottom directions. "
        "Fixed: 50 directions of variance 1.5, the others of 0.3."
    )
    assert said("vision", {"model": ["linear", "lenet"]}) == "Varied: model (linear / lenet)."  # has no words


def test_numbers_are_named_if_they_are_an_axis_of_one_value_or_not_what_holds_without_being_set() -> None:
    fixed = said("multiview", {"framework": ["autoencoder"], "kernels": [1, 3]}, noise=0.02, power=3, classes=10)
    assert fixed == "Varied: kernels m 1, 3. Fixed: autoencoder, noise 0.02, power q 3."
    assert said("linear_transfer", {}, finetune_steps=100.0) == "Fixed: fine-tuning steps 100."  # not: 100 steps


def test_nothing_varied_and_nothing_fixed_is_nothing() -> None:
    assert said("linear_transfer", {}) == ""


@pytest.mark.parametrize(
    ("text", "most", "short"),
    [
        ("one two; three four five six", 5, "one two; three four five …"),
        ("one two three; four five six", 5, "one two three …"),
        ("it falls more slowly in 6 (p < 0.05, Holm)", 7, "it falls more slowly in 6 …"),
        ("two (a) and more (b c d e) than that", 6, "two (a) and more …"),
        ("the loss of exp(a b) and so on", 4, "the loss of exp …"),
        ("two (a (b) c d) and more", 3, "two …"),
        ("factors 0.5 [0.4, 0.6] and 0.7 [0.6, 0.8]", 6, "factors 0.5 [0.4, 0.6] and 0.7 …"),
        ("a) b c d", 3, "a) b c …"),
        ("short enough", 5, "short enough"),
    ],
)
def test_a_text_that_is_cut_opens_no_bracket(text: str, most: int, short: str) -> None:
    assert clipped(text, most) == short

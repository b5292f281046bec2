"""A workload's metrics are numbers, one for each row; what is none fails by the name of the metric and of the row."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from conftest import told

from raysweep.errors import InputError
from raysweep.trial.compute import compute
from raysweep.workloads.declaration import Cost, Metric, Parameter, Workload

COLUMNS = {"x": np.array([0.5, 1.5, 2.5]), "fast": np.array([True, False, True], dtype=object)}
SEEDS = np.array([7, 8, 9])

ANSWER = {}


def answer(columns, seeds):
    return {"fine": np.zeros(len(seeds)), "loss": ANSWER["loss"]}, ANSWER["status"]


RETURNING = Workload(
    name="returning",
    summary="what it is told to return",
    identity_version=1,
    parameters=(Parameter("x", float, 0.0, "x"), Parameter("fast", bool, False, "fast")),
    metrics=(Metric("fine", "zero"), Metric("loss", "what it is told")),
    compute="test_metric_values:answer",
    cost=lambda columns: Cost(0.0, 0.0),
    sources=("test_metric_values",),
)


def returned(values, status=None):
    """Metrics of three rows of a workload that returns these values of loss, and this status."""
    ANSWER.update(loss=values, status=["ok"] * 3 if status is None else status)
    return compute(RETURNING, COLUMNS, SEEDS, "").metrics


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2, np.float32(3)],
        (1, 2, 3),
        np.array([1, 2, 3], dtype=object),
        np.array([[1], [2], [3]]),
        [torch.ones(1), np.array([2]), Fraction(3)],
    ],
)
def test_any_sequence_of_numbers_is_a_metric(values):
    assert returned(values)["loss"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, [2.0, 3.0], 4.0], "got [2.0, 3.0] in the row x = 1.5, fast = false, seed = 8"),
        ([[1.0], [2.0], [3.0]], "got [1.0] in the row x = 0.5, fast = true, seed = 7"),
        (np.zeros((3, 2)), "in the row x = 0.5, fast = true, seed = 7"),
        ([1.0, 2.0, None], "got None in the row x = 2.5, fast = true, seed = 9"),
        (["1", 2.0, 3.0], "got '1' in the row x = 0.5, fast = true, seed = 7"),
        ([1.0, 2j, 3.0], "got 2j in the row x = 1.5"),
        ([1.0, {"a": 1}, 3.0], "got {'a': 1} in the row x = 1.5"),
    ],
)
def test_a_value_that_is_no_number_is_said_with_its_row(values, message):
    with pytest.raises(RuntimeError) as wrong:
        returned(values)
    assert str(wrong.value).startswith("returning: expected one number ")
    assert " loss, " in str(wrong.value)
    assert message in str(wrong.value)


@pytest.mark.parametrize("values", [0.5, None, "abc", np.float64(1), [1.0, 2.0], {"a": 1, "b": 2, "c": 3}, np.zeros(4)])
def test_a_wrong_number_of_values_is_said_with_the_metric(values):
    with pytest.raises(InputError, match="^returning: expected 3 .* loss, .* got "):
        returned(values)


@pytest.mark.parametrize(
    ("status", "message"),
    [("good", "'good'"), (["ok"] * 2, " 3, "), (["ok", "good", "ok"], "'good'"), (["ok", ["ok"], "ok"], "['ok']")],
)
def test_a_status_is_a_known_word_for_each_row(status, message):
    with told("", message):
        returned([1.0, 2.0, 3.0], status)

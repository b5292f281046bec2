"""What a stage gives to the next one arrives as it was given, kept or not; what could not is refused in one line."""

import enum

import numpy as np
import pytest
import torch
from conftest import told
from test_context import assert_same

from raysweep.errors import InputError
from raysweep.stages import trees
from raysweep.stages.store import Store
from raysweep.trial import chain
from raysweep.workloads.declaration import ANY, Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result

GIVEN = {}
TAKEN = []


def give(rows, parent, context):
    return GIVEN["answer"](rows)


def take(rows, parent, context):
    TAKEN.append(parent.tensors())
    if "changed" in TAKEN[-1]:
        TAKEN[-1]["changed"] += 1.0
    return Result(metrics={"y": np.zeros(len(rows))})


def made(together=None, size=""):
    return Workload(
        name="giving",
        summary="",
        identity_version=1,
        parameters=(Parameter("a", int, 0, "", stage="give"), Parameter("b", int, 0, "", stage="take")),
        stages=(
            Stage("give", "test_given_tensors:give", together=together, size=size),
            Stage("take", "test_given_tensors:take", after="give", together=together and ANY),
        ),
        metrics=(Metric("x", "", stage="give"), Metric("y", "")),
    )


def one_by_one(rows):
    return 1


def taken(answer, keep, folder, workload=None, rows=1):
    """What the second stage gets of the answer of the first one."""
    GIVEN["answer"] = answer
    TAKEN.clear()
    columns = {"a": np.arange(rows), "b": np.zeros(rows, int)}
    store = Store(folder) if keep else None
    chain.Walk(workload or made(), columns, np.zeros(rows, int), store, ("give",) if keep else ()).through()
    (result,) = TAKEN
    return result


FAITHFUL = {
    "paths that are equal": {"enc/w": np.ones(1), "enc": {"w": np.zeros(2)}, "": {"a": np.ones(3)}, "a": np.ones(4)},
    "a number and a word as keys": {"layers": {0: np.array([3.0]), "0": np.array([4.0])}, "enc/w'": np.ones(1)},
    "a name that means something in the file": {"__metadata__": np.ones(2)},
    "an optimizer": {"betas": (0.9, 0.999), "groups": [{"lr": 1e-3, "foreach": None}], "state": {0: np.ones(2)}},
    "numbers of NumPy": {"a": np.float32(1.5), "b": np.bool_(True), "c": np.array(3)},
    "an empty array, empty places": {"a": np.zeros((0, 3)), "b": {}, "c": [], "d": ()},
    "half precision": {"a": torch.tensor([1.5, 2.25], dtype=torch.bfloat16), "b": np.ones(2, np.float16)},
    "a view that is conjugated": {"a": torch.tensor([1 + 2j]).conj(), "b": np.array([1j], np.complex64)},
    "a view that is turned round": {"a": np.arange(12.0).reshape(3, 4)[::2, ::-1], "b": torch.arange(6)[2:4]},
    "numbers and words": {"a": [1, 2.5, "word", True, None], "b": 2**80, "c": float("inf"), "d": {"float": "NaN"}},
}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("case", FAITHFUL)
def test_what_a_stage_gives_arrives_as_it_was_given(case, keep, tmp_path):
    given = FAITHFUL[case]
    assert_same(taken(lambda rows: Result(given, {"x": 1.0}), keep, tmp_path), given)


class Kind(enum.IntEnum):
    """A number with a name."""

    ONE = 1


PLAIN = "expected a plain array of real numbers, got"
REFUSED = {
    "a tuple as key": ({("a", 1): np.ones(1)}, "expected words or whole numbers as keys, got ('a', 1)"),
    "a boolean as key": ({"w": {True: 1}}, "w: expected words or whole numbers as keys, got True"),
    "a masked array": ({"a": np.ma.masked_array([1.0, 2.0], [True, False])}, "a: PLAIN a MaskedArray"),
    "complex numbers": ({"a": [np.array([1j])]}, "a/0: PLAIN one of dtype compl"),
    "complex numbers of torch": ({"a": torch.ones(1, dtype=torch.complex128)}, "a: PLAIN one of dtype complex"),
    "an array of words": ({"a": np.array(["x"])}, "a: PLAIN one of dtype <U1"),
    "a sparse tensor": ({"a": torch.ones(1).to_sparse()}, "a: PLAIN one of layout sparse_coo"),
    "eight bits": ({"a": torch.ones(1).to(torch.float8_e4m3fn)}, "a: PLAIN one of dtype float8_e4m3fn"),
    "a number with a name": ({"a": Kind.ONE}, "a: expected an array, a number, a word, or a mapping or list of these"),
    "a set": ({"a": {1}}, "a: expected an array, a number, a word, or a mapping or list of these, got set"),
}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("case", REFUSED)
def test_what_would_not_come_back_is_refused_kept_or_not(case, keep, tmp_path):
    given, message = REFUSED[case]
    with told(f"giving.give: gave tensors that cannot be kept: {message.replace('PLAIN', PLAIN)}"):
        taken(lambda rows: Result(given, {"x": 1.0}), keep, tmp_path)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda rows: Result(metrics=None), "expected metrics as a mapping from names to numbers, got None"),
        (lambda rows: Result(metrics={3: 1.0}), "gave the metric 3, which is not declared for it"),
        (lambda rows: Result(status=None), "expected a status out of "),
    ],
)
def test_metrics_and_a_status_of_another_form_are_one_line(answer, message, tmp_path):
    with told(f"giving.give: {message}"):
        taken(answer, False, tmp_path)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("size", ["", "test_given_tensors:one_by_one"])
def test_what_is_no_array_belongs_to_all_rows_and_is_stacked_only_where_it_differs(size, keep, tmp_path):
    def answer(rows):
        first = float(rows["a"][0])
        tensors = {
            "w": np.ones((len(rows), 3)) * rows["a"][:, None],
            "coef": [1.0, 10.0, 100.0],
            "scale": 2.0,
            "none": float("nan"),
            "own": {"first": first, "range": [0.0, first]},
            "parts": ("word", torch.ones(len(rows), 2)),
        }
        return Result(tensors, {"x": np.ones(len(rows))})

    result = taken(answer, keep, tmp_path, made(("a",), size), rows=3)
    np.testing.assert_array_equal(result["w"], np.ones((3, 3)) * np.arange(3)[:, None])
    assert (result["coef"], result["scale"]) == ([1.0, 10.0, 100.0], 2.0)
    assert np.isnan(result["none"])
    apart = {"first": [0.0, 1.0, 2.0], "range": [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]]}
    assert result["own"] == (apart if size else {"first": 0.0, "range": [0.0, 0.0]})
    assert result["parts"][0] == "word"
    assert result["parts"][1].shape == (3, 2)


def test_a_tensor_of_another_length_is_found_beside_one_with_the_same_path(tmp_path):
    given = {"a/b": np.ones(2), "a": {"b": np.ones(3)}}
    assert [length for _, length in trees.lengths(given)] == [2, 3]
    with pytest.raises(InputError, match=r"expected one entry of the tensor a/b for each of 3 rows, got 2$"):
        taken(lambda rows: Result(given, {"x": np.ones(3)}), False, tmp_path, made(ANY), rows=3)


@pytest.mark.parametrize("keep", [False, True])
def test_tensors_of_inference_mode_arrive_too(keep, tmp_path):
    """They do not count their changes."""
    with torch.inference_mode():
        given = torch.ones(3)
    assert taken(lambda rows: Result({"w": given}, {"x": 1.0}), keep, tmp_path)["w"].tolist() == [1.0] * 3


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("zeros", [np.zeros, torch.zeros])
def test_what_a_stage_changes_in_place_reaches_no_other_row(zeros, keep, tmp_path):
    """Each row of a kept artifact reads it anew; in memory, where they share it, the change is refused."""
    GIVEN["answer"] = lambda rows: Result({"changed": zeros(2)}, {"x": 1.0})
    TAKEN.clear()
    columns = {"a": np.zeros(2, int), "b": np.arange(2)}
    if not keep:
        with pytest.raises((ValueError, RuntimeError), match="read-only|changed tensors .* in place"):
            chain.Walk(made(), columns, np.zeros(2, int), None, ()).through()
        return
    chain.Walk(made(), columns, np.zeros(2, int), Store(tmp_path), ("give",)).through()
    assert [each["changed"].tolist() for each in TAKEN] == [[1.0, 1.0]] * 2

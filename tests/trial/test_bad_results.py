"""Results and declarations of a stage or a function that do not fit end in one line; any numbers are a metric."""

import shutil
from fractions import Fraction

import numpy as np
import pytest
import torch
from conftest import QUIET, SUPPORT, _before, files_of, halted, ok, process, run, told
from spaces import written

from raysweep import workloads
from raysweep.errors import InputError
from raysweep.trial.compute import compute
from raysweep.workloads.declaration import Cost, Metric, Parameter, Workload

LINES = {
    "rows too many": "careless.learn: expected 2 numbers as the metric loss, one for each row, got 3",
    "an unknown metric": "careless.learn: gave the metric accuracy, which is not declared for it (declared: loss)",
    "another stage's metric": "careless.learn: gave the metric score, which is not declared for it (declared: loss)",
    "tensors of another length": "careless.learn: expected one entry of the tensor layers/0/w for each of 2 rows, "
    "got 3",
    "a tensor without axes": "careless.learn: expected one entry of the tensor step for each of 2 rows, got an array "
    "without axes",
    "no result": "careless.learn: expected a raysweep.Result from careless_workload:learn, got {'loss': array",
    "nothing": "careless.learn: expected a raysweep.Result from careless_workload:learn, got None",
    "an unknown status": "careless.learn: expected a status out of ",
    "statuses too few": "careless.learn: expected one status for all rows or one for each of 2, got 1",
    "a text as metric": "careless.learn: expected 2 numbers as the metric loss, one for each row, got 'low'",
    "an odd log": "learn.log: expected one number of loss for all rows or one for each of 2, got the shape (3,)",
}


def space(gives, **changes):
    return {"name": "odd", "workload": "careless", "axes": {"gives": gives, "x": [1, 2]}, "seeds": 1, **changes}


def refused(outcome, line):
    """Exit 2, and the last line is this one; nothing that looks like an error in raysweep."""
    halted(outcome, line)
    assert outcome.err.count("careless") == line.count("careless"), "it is said once"


@pytest.mark.parametrize("gives", LINES)
@pytest.mark.parametrize("keep", [[], ["learn"]])
def test_a_result_that_does_not_fit_is_one_line_and_leaves_nothing(gives, keep, sandbox, call, tmp_path, storage):
    path = written(tmp_path, space([gives], keep=keep))
    refused(call("run", path, "--storage", storage, "--executor", "inline", *QUIET), LINES[gives])
    assert not storage.exists()


def test_a_sweep_that_has_rows_is_kept_with_them(sandbox, call, tmp_path, storage):
    """Also one that had rows before: it goes on once the workload is mended."""
    path = written(tmp_path, space(["fine"]))
    ok(call("run", path, "--storage", storage, "--executor", "inline", *QUIET))
    path = written(tmp_path, space(["fine", "no result"]))
    outcome = call("run", path, "--storage", storage, "--executor", "inline", *QUIET)
    halted(outcome, LINES["no result"], "2 rows are kept; go on with: ")
    assert call("results", "odd", "--storage", storage).out.count("\n") == 3


def test_what_others_have_in_the_storage_stays(sandbox, call, tmp_path, storage):
    run(storage, space(["fine"], name="other", keep=["learn"]))
    before = files_of(storage)
    path = written(tmp_path, space(["no result"], keep=["learn"]))
    refused(call("run", path, "--storage", storage, "--executor", "inline", *QUIET), LINES["no result"])
    assert files_of(storage).keys() == before.keys()


@pytest.mark.parametrize("kept", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_database_that_was_made_for_it_goes_too_and_its_run_is_taken_back_from_another(
    kept, sandbox, call, tmp_path, storage, template
):
    import mlflow

    if kept:
        storage.mkdir()
        shutil.copy(template, storage / "mlflow.db")
    path = written(tmp_path, space(["no result"]))
    refused(call("run", path, "--storage", storage, "--executor", "inline", "--no-report"), LINES["no result"])
    assert storage.exists() == kept
    if kept:
        assert not (storage / "odd").exists()
        client = mlflow.MlflowClient(f"sqlite:///{storage / 'mlflow.db'}")
        assert not list(client.search_runs([each.experiment_id for each in client.search_experiments()]))


@pytest.mark.parametrize(
    ("keep", "line"),
    [
        (["train"], "keep[0]: unknown stage 'train'; known: learn, score"),
        (["learn", "scor"], "keep[1]: unknown stage 'scor'; did you mean score? Known: learn, score"),
        ("learn", "keep: expected a list of stages, out of learn, score, got 'learn'"),
        ([3], "keep[0]: expected one of learn, score, got 3"),
    ],
)
def test_what_cannot_be_kept_is_told_by_its_place(keep, line, sandbox, call, tmp_path, storage):
    refused(call("run", written(tmp_path, space(["fine"], keep=keep)), "--storage", storage, *QUIET), line)
    assert not storage.exists()


def test_a_workload_without_artifacts_keeps_none(call, tmp_path, storage):
    asked = {"name": "a", "workload": "linear_transfer", "keep": ["compute"], "axes": {"depth": [2]}}
    refused(
        call("run", written(tmp_path, asked), "--storage", storage, *QUIET),
        "keep: linear_transfer has no artifacts to keep; leave it out",
    )
    assert not storage.exists()


def test_a_declaration_that_does_not_fit_is_one_line_where_it_is_loaded_and_hides_no_other(
    call, tmp_path, storage, bring
):
    site = bring(wrong="careless_workload:CIRCLE")
    shutil.copy(SUPPORT / "careless_workload.py", site)
    path = written(tmp_path, space(["fine"], workload="wrong"))
    begins = "workload: wrong cannot be loaded: circle: expected stages in one chain, each after another one, got a"
    refused(call("run", path, "--storage", storage, *QUIET), begins)
    assert not storage.exists()
    with pytest.raises(InputError, match="^workload: wrong cannot be loaded: "):
        workloads.get("wrong")
    listed = ok(process("workloads", env={"PYTHONPATH": _before(site)}))
    assert "linear_transfer" in listed.out
    assert "wrong cannot be loaded: circle: expected stages in one chain" in " ".join((listed.out + listed.err).split())


def test_a_stage_that_says_failed_fails_its_rows_with_a_reason(sandbox, storage):
    sweep = run(storage, space(["fine", "failed"]))
    assert sweep.results()["status"].tolist() == ["ok", "ok", "failed", "failed"]
    for row in sweep.failures():
        assert row["error"].rstrip().endswith("gave the status failed, and no error")


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
    compute="test_bad_results:answer",
    cost=lambda columns: Cost(0.0, 0.0),
    sources=("test_bad_results",),
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

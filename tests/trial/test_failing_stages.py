"""A kept stage that cannot be computed is tried twice in a pack, however many rows need it; the other rows go on."""

import sys

import numpy as np
import pytest
from conftest import run

import raysweep
from raysweep.plan.pack import Pack
from raysweep.plan.resources import Resources
from raysweep.plan.row_stages import RowStages
from raysweep.stages.store import Store
from raysweep.trial.pack import Job
from raysweep.trial.run import run_pack
from raysweep.workloads.chain import Cost
from raysweep.workloads.declaration import Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result

STARTED = []


def pretrain(rows, parent, context):
    row = rows.row()
    STARTED.append(("pretrain", row["a"]))
    if row["a"] == 1:
        raise ArithmeticError("a = 1 cannot be computed")
    if row["a"] == 3 and STARTED.count(("pretrain", 3)) <= 2:
        raise MemoryError("not enough at first")
    unfit = row["a"] == 4 and STARTED.count(("pretrain", 4)) <= 2
    return Result({"w": np.array(row["a"])}, status="failed" if unfit else "ok")


def finetune(rows, parent, context):
    row = rows.row()
    STARTED.append(("finetune", row["a"], row["b"]))
    return Result({"w": parent.tensors()["w"] + row["b"]})


def evaluate(rows, parent, context):
    return Result(metrics={"y": parent.tensors()["w"] + rows.row()["c"]})


WORKLOAD = Workload(
    name="failing",
    summary="",
    identity_version=1,
    parameters=tuple(
        Parameter(name, int, 0, "", stage=stage)
        for name, stage in (("a", "pretrain"), ("b", "finetune"), ("c", "evaluate"))
    ),
    stages=(
        Stage("pretrain", "test_failing_stages:pretrain", keeps=True, cost=lambda columns: Cost(0.0, 0.0)),
        Stage("finetune", "test_failing_stages:finetune", after="pretrain"),
        Stage("evaluate", "test_failing_stages:evaluate", after="finetune"),
    ),
    metrics=(Metric("y", ""),),
)


@pytest.fixture(autouse=True)
def failing(bring):
    bring(failing="test_failing_stages:WORKLOAD")
    assert WORKLOAD is sys.modules["test_failing_stages"].WORKLOAD
    STARTED.clear()


@pytest.mark.parametrize("keep", [[], ["finetune"]])
def test_a_stage_that_fails_is_tried_twice_and_its_rows_fail_with_its_error(keep, storage):
    axes = {"a": [0, 1, 2], "b": [0, 1, 2, 3], "c": [0, 1, 2, 3]}
    sweep = run(storage, {"name": "one", "workload": "failing", "axes": axes, "seeds": 1, "keep": keep})
    assert [STARTED.count(("pretrain", a)) for a in (0, 1, 2)] == [1, 2, 1]
    table = sweep.results()
    bad = table["a"] == 1
    assert set(table["status"][bad]) == {"failed"}
    assert set(table["status"][~bad]) == {"ok"}
    assert table["y"][~bad].tolist() == (table["a"] + table["b"] + table["c"])[~bad].tolist()
    assert len(sweep.failures()) == 16
    for row in sweep.failures():
        assert "Traceback" in row["error"]
        assert row["error"].rstrip().endswith("ArithmeticError: a = 1 cannot be computed")


def test_a_trial_that_puts_stages_into_the_store_tries_none_of_them_more_than_twice(tmp_path):
    """However many others of its stages need the one that fails; those that need another one are there."""
    rows = [(a, b) for a in (0, 1) for b in range(4)]
    columns = dict(zip("abc", np.array([(*row, 0) for row in rows]).T, strict=True))
    for name in ("ledger", "logs"):
        (tmp_path / name).mkdir()
    places = (str(tmp_path / name) for name in ("ledger", "logs", "store"))
    asked = Job("failing", columns, [f"cell{i}" for i in range(8)], *places, "sweep", 1, "code", 1, keep=("finetune",))
    of = RowStages(WORKLOAD, columns, asked.keep)
    stages = tuple(dict.fromkeys(stage.id for cell in range(8) for stage in of.of_row(cell, 0)))
    ended = run_pack(asked, Pack("pack", np.arange(8), np.zeros(8, int), 0.0, 0.0, Resources(), stages=stages))
    assert [STARTED.count(("pretrain", a)) for a in (0, 1)] == [1, 2]
    assert [STARTED.count(("finetune", *row)) for row in rows] == [1] * 4 + [0] * 4
    assert set(ended.failed) == {stage.id for cell in range(4, 8) for stage in of.of_row(cell, 0)}
    assert all(error.rstrip().endswith("a = 1 cannot be computed") for error in ended.failed.values())
    store = Store(asked.store)
    assert set(store.stages()) == set(stages) - set(ended.failed)


def test_a_stage_that_says_failed_is_not_stored_and_is_computed_again_when_the_sweep_goes_on(storage):
    asked = {"name": "one", "workload": "failing", "axes": {"a": [0, 4], "b": [0, 1, 2, 3]}, "seeds": 1}
    first = run(storage, asked)
    assert first.results()["status"].tolist() == ["ok"] * 4 + ["failed"] * 4
    assert STARTED.count(("pretrain", 4)) == 2
    assert len(Store(storage / "store").stages()) == 1
    for row in first.failures():
        assert row["error"].rstrip().endswith("failing.pretrain gave the status failed, and no error")
    second = raysweep.resume("one", storage=storage, tracking_uri="none", executor="inline", report=False)
    assert second.results()["y"].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert [STARTED.count(("pretrain", a)) for a in (0, 4)] == [1, 3]


def test_short_memory_says_nothing_of_a_stage(storage):
    """It is tried again with fewer rows."""
    axes = {"a": [3], "b": [0, 1, 2, 3]}
    sweep = run(storage, {"name": "one", "workload": "failing", "axes": axes, "seeds": 1})
    assert set(sweep.results()["status"]) == {"ok"}
    assert STARTED.count(("pretrain", 3)) == 3

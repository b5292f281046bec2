"""A row that fails leaves its neighbours and costs little; a pack that lacks memory is halved; a kept stage that cannot
be computed is tried twice in a pack, however many rows need it."""

import csv
import io
import json
import sys
from collections import Counter

import numpy as np
import pytest
from conftest import QUIET, files_of, ok, run
from spaces import space_over, written

import raysweep
from raysweep.plan.pack import Pack
from raysweep.plan.row_stages import RowStages
from raysweep.query.sweep import open_sweep
from raysweep.space.resources import Resources
from raysweep.stages.store import Store
from raysweep.trial.pack import Job
from raysweep.trial.run import run_pack
from raysweep.workloads.chain import Cost
from raysweep.workloads.declaration import Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result


def one_pack(folder, **fixed):
    axes = {"x": fixed.pop("x", [1, 2, 3])}
    if isinstance(fixed.get("behaviour"), list):
        axes["behaviour"] = fixed.pop("behaviour")
        zips = [["x", "behaviour"]]
    else:
        zips = []
    return space_over("sandbox", axes, name="sandy", zip=zips, fixed={"folder": str(folder), **fixed}, seeds=2)


def test_a_failing_row_leaves_its_neighbours(sandbox, storage, tmp_path, call):
    space = one_pack(tmp_path, x=[1, 2, 3, 4], behaviour=["compute", "raise", "compute", "compute"])
    written(tmp_path, space)
    outcome = call("run", tmp_path / "space.yaml", "--storage", storage, *QUIET)
    assert outcome.code == 1
    assert outcome.out == ""
    table = open_sweep("sandy", storage).results()
    bad = table["x"] == 2
    assert set(table["status"][bad]) == {"failed"}
    assert table["y"][bad].isna().all()
    assert set(table["status"][~bad]) == {"ok"}
    assert table["y"][~bad].tolist() == [1, 2, 3, 4, 4, 5]
    failure = open_sweep("sandy", storage).failures()[0]
    assert "Traceback" in failure["error"]
    assert "ArithmeticError: x = 2 cannot be computed" in failure["error"]
    assert "2 of 8 rows failed" in outcome.err
    assert f"cell {failure['cell']} seed 1: ArithmeticError: x = 2 cannot be computed" in outcome.err
    result = call("status", "sandy", "--storage", storage, "--tracking-uri", "none")
    assert "8 of 8 rows (2 failed, 6 ok)" in result.out
    assert "ArithmeticError" in result.out

    with pytest.raises(ArithmeticError, match="x = 2"):
        call("debug", "sandy", failure["cell"], "0", "--storage", storage)
    good = call("debug", "sandy", table["cell"][0], "1", "--storage", storage)
    assert json.loads(good.out)["metrics"] == {"y": 2.0, "above": "NaN"}

    before = files_of(storage / "sandy" / "ledger")
    assert call("run", tmp_path / "space.yaml", "--storage", storage, *QUIET).code == 1  # what failed is not forgotten
    assert files_of(storage / "sandy" / "ledger") == before  # and not tried again unasked
    assert call("resume", "sandy", "--storage", storage, *QUIET).code == 1
    (tmp_path / "mended").touch()
    ok(call("resume", "sandy", "--storage", storage, *QUIET))
    healed = open_sweep("sandy", storage).results()
    assert healed["y"].tolist() == [1, 2, 2, 3, 3, 4, 4, 5]
    assert set(healed["status"]) == {"ok"}
    assert repr(healed[~bad].to_dict("records")) == repr(table[~bad].to_dict("records"))
    ok(call("resume", "sandy", "--storage", storage, *QUIET))


def test_rows_that_raise_write_no_line_for_every_part_that_was_tried(sandbox, storage, tmp_path):
    """Each line waits for the thread that mirrors, which imports MLflow meanwhile: there are as many as say something,
    one of all rows together and two of each row that failed twice."""
    x = list(range(24))
    run(storage, one_pack(tmp_path, x=x, behaviour=["raise" if value % 6 else "compute" for value in x]))
    assert len(open_sweep("sandy", storage).failures()) == 40
    (log,) = (storage / "sandy" / "logs").iterdir()
    messages = [line.split(" ERROR ")[1] for line in log.read_text().splitlines() if " ERROR " in line]
    assert Counter(messages) == {"48 rows cannot be computed together:": 1, "a row cannot be computed:": 80}


def test_a_row_that_fails_only_at_first_is_ok(sandbox, storage, tmp_path):
    table = run(storage, one_pack(tmp_path, x=[1], behaviour="raise_once") | {"seeds": 1}).results()
    assert table["status"].tolist() == ["ok"]
    assert table["y"].tolist() == [1.0]


def test_a_pack_that_lacks_memory_is_halved(sandbox, storage, tmp_path):
    table = run(storage, one_pack(tmp_path, x=list(range(8)), behaviour="memory")).results()
    assert set(table["status"]) == {"ok"}
    assert table["y"].tolist() == [x + seed for x in range(8) for seed in (0, 1)]
    assert [int(line) for line in (tmp_path / "memory.txt").read_text().split()] == [16, 8, 4, 4, 8, 4, 4]


def test_numbers_that_are_none_survive(sandbox, storage, tmp_path, call):
    sweep = run(storage, one_pack(tmp_path, x=[100, 101]) | {"seeds": 1})
    assert repr(sweep.results()["above"].tolist()) == "[nan, inf]"
    printed = list(csv.DictReader(io.StringIO(call("results", "sandy", "--storage", storage).out)))
    assert [row["above"] for row in printed] == ["", "inf"]


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

"""A kept stage that cannot be computed is tried twice in a pack, however many rows need it; the other rows go on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed, run

from raysweep.workloads.chain import Cost
from raysweep.workloads.declaration import Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result, Rows

STARTED: list[tuple[Any, ...]] = []


def pretrain(rows: Rows, parent: Any, context: Any) -> Result:
    row = rows.row()
    STARTED.append(("pretrain", row["a"]))
    if row["a"] == 1:
        raise ArithmeticError("a = 1 cannot be computed")
    if row["a"] == 3 and STARTED.count(("pretrain", 3)) <= 2:
        raise MemoryError("not enough at first")
    return Result({"w": np.array(row["a"])})


def finetune(rows: Rows, parent: Any, context: Any) -> Result:
    row = rows.row()
    STARTED.append(("finetune", row["a"], row["b"]))
    return Result({"w": parent.tensors()["w"] + row["b"]})


def evaluate(rows: Rows, parent: Any, context: Any) -> Result:
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


@pytest.mark.parametrize("keep", [[], ["finetune"]])
def test_a_stage_that_fails_is_tried_twice_and_its_rows_fail_with_its_error(
    keep: list[str], tmp_path: Path, storage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, failing="test_failing_stages:WORKLOAD")
    monkeypatch.syspath_prepend(tmp_path)
    assert WORKLOAD is sys.modules["test_failing_stages"].WORKLOAD
    STARTED.clear()
    axes = {"a": [0, 1, 2], "b": [0, 1, 2, 3], "c": [0, 1, 2, 3]}
    found = run(storage, {"name": "one", "workload": "failing", "axes": axes, "seeds": 1, "keep": keep})
    assert [STARTED.count(("pretrain", a)) for a in (0, 1, 2)] == [1, 2, 1]
    table = found.results()
    bad = table["a"] == 1
    assert set(table["status"][bad]) == {"failed"}
    assert set(table["status"][~bad]) == {"ok"}
    assert table["y"][~bad].tolist() == (table["a"] + table["b"] + table["c"])[~bad].tolist()
    assert len(found.failures()) == 16
    for row in found.failures():
        assert "Traceback" in row["error"]
        assert row["error"].rstrip().endswith("ArithmeticError: a = 1 cannot be computed")


def test_short_memory_says_nothing_of_a_stage(tmp_path: Path, storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again with fewer rows."""
    installed(tmp_path, failing="test_failing_stages:WORKLOAD")
    monkeypatch.syspath_prepend(tmp_path)
    STARTED.clear()
    axes = {"a": [3], "b": [0, 1, 2, 3]}
    found = run(storage, {"name": "one", "workload": "failing", "axes": axes, "seeds": 1})
    assert set(found.results()["status"]) == {"ok"}
    assert STARTED.count(("pretrain", 3)) == 3

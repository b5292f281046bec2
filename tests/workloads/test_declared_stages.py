"""A declaration that would be misread later is refused at once, and a stage's function is told what it may not read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from raysweep.errors import InputError
from raysweep.plan.identity import code_version, source_files
from raysweep.plan.row_stages import RowStages
from raysweep.trial.compute import compute
from raysweep.workloads.declaration import Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result, Rows


def learn(rows: Rows, parent: Any, context: Any) -> Result:
    return Result({"w": np.zeros(1)})


def declared(**stage: Any) -> Workload:
    """A workload of two stages, the first of which has these fields."""
    first = Stage(**{"name": "learn", "run": "test_declared_stages:learn", **stage})
    return Workload(
        name="odd",
        summary="odd",
        identity_version=1,
        parameters=(Parameter("x", int, 1, "x", stage="learn"), Parameter("y", float, 1.0, "y", stage="judge")),
        stages=(first, Stage("judge", "test_declared_stages:learn", after="learn")),
        metrics=(Metric("loss", "loss"),),
    )


COLUMNS = {"x": np.array([3]), "y": np.array([0.5])}


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ({"run": "test_declared_stages.learn"}, 'odd: stage learn: expected run as "module:function", got'),
        ({"version": 2}, "odd: stage learn has the version 2, above the workload's identity_version 1"),
        ({"together": "x"}, "odd: stage learn: expected together as a tuple of parameters"),
        ({"together": ("x",), "points": lambda row: [1]}, "odd: stage learn has points, and so gets one row a call"),
    ],
)
def test_a_stage_that_would_be_misread_is_refused(stage: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as wrong:
        declared(**stage)
    assert str(wrong.value).startswith(said)


def test_a_default_is_a_value_of_its_parameter() -> None:
    with pytest.raises(ValueError, match=r"^x\.default: expected a whole number of at least 1, got 0$"):
        Parameter("x", int, 0, "x", minimum=1)


def test_points_rise() -> None:
    stages = RowStages(declared(points=lambda row: range(row["x"], 0, -1)), COLUMNS)
    with pytest.raises(InputError, match=r"^odd\.learn: expected points that rise, got \(3, 2, 1\)$"):
        stages.points(0)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ({"cost": lambda columns, before: None}, "odd.learn.cost: TypeError: "),
        ({"cost": lambda columns: 0.05}, "odd.learn.cost: expected a Cost, got 0.05"),
        ({"points": lambda row: range(row["z"])}, "odd.learn.points: KeyError: 'z' ("),
    ],
)
def test_a_function_of_the_declaration_that_raises_is_told_by_its_field(stage: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as wrong:
        RowStages(declared(**stage), COLUMNS).of_row(0, 0, 1)
    assert str(wrong.value).startswith(said)


@pytest.mark.parametrize(
    ("identify", "said"),
    [
        (lambda stage, values, row: None, "expected a mapping of plain values, got None"),
        (lambda stage, values, row: [1], "expected a mapping of plain values, got [1]"),
        (lambda stage, values, row: {"x": np.int64(3)}, "expected a mapping of plain values, got one in which int64 "),
        (lambda stage, values, row: 1 / 0, "ZeroDivisionError: division by zero ("),
    ],
)
def test_what_identifies_a_stage_is_a_mapping_of_plain_values(identify: Any, said: str) -> None:
    with pytest.raises(InputError) as wrong:
        RowStages(replace(declared(), identify=identify), COLUMNS).of_row(0, 0, 1)
    assert str(wrong.value).startswith(f"odd.learn.identify: {said}")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            "test_declared_stagse:learn",
            "cannot be imported: ModuleNotFoundError: No module named 'test_declared_stagse'",
        ),
        ("test_declared_stages:lern", "cannot be imported: AttributeError: module 'test_declared_stages' has no"),
    ],
)
def test_a_function_that_cannot_be_imported_ends_the_sweep_instead_of_every_row(run: str, said: str) -> None:
    with pytest.raises(InputError) as wrong:
        compute(declared(run=run), COLUMNS, np.array([0]), "")
    assert str(wrong.value).startswith(f"{run}: {said}")


def test_a_stage_that_gives_none_of_its_metrics_is_told() -> None:
    with pytest.raises(InputError, match=r"^odd\.judge: gave none of the metrics that are declared for it \(loss\)$"):
        compute(declared(), COLUMNS, np.array([0]), "")


def test_a_parameter_that_a_stage_must_not_read_is_told_with_those_that_it_may() -> None:
    rows = Rows({"x": np.array([1])}, np.array([0]), "learn")
    for read in (lambda: rows["y"], lambda: rows.row()["y"], lambda: next(iter(rows))["y"]):
        with pytest.raises(KeyError, match=r"y is no parameter that the stage learn may depend on \(these are x\)"):
            read()
    assert rows.row() == {"x": 1, "seed": 0}


def test_without_sources_the_modules_of_the_functions_decide() -> None:
    named = replace(declared(), sources=("test_declared_stages",))
    assert code_version(declared()) == code_version(named) != code_version(declared(run="made_up_chain:grown"))


def test_the_sources_of_a_stage_decide_the_rows_too() -> None:
    odd, own = declared(), declared(sources=("made_up_chain",))
    assert code_version(own) != code_version(odd)
    assert code_version(own, own.chain.stages[1]) == code_version(odd)
    assert code_version(declared(sources=("test_declared_stages",))) == code_version(odd)
    whole = replace(odd, sources=("raysweep.workloads",))
    part = replace(whole, stages=tuple(replace(s, sources=("raysweep.workloads.rows",)) for s in whole.stages))
    assert code_version(part) == code_version(whole)  # a module of a package that is there already


def test_a_module_that_is_not_there_is_no_source() -> None:
    with pytest.raises(InputError, match="^sources: there is no module halve"):
        source_files(["halve.net"])

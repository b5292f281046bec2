"""An axis has a scale, guessed or said, or is one of categories; figures, fits and tables follow it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Outcome, refused, run
from spaces import small_space, written
from test_report import rows_of, space_of
from toy_workloads import TOY

from raysweep.driver import compatibility
from raysweep.errors import InputError
from raysweep.plan.cells import enumerate_cells
from raysweep.reporting.report import write_report
from raysweep.space.schema import restore, validate
from raysweep.workloads.declaration import Parameter


def switched(axes: dict[str, list[Any]], noise: float = 0.05) -> pd.DataFrame:
    """Rows of a workload without a closed form: gain rises with heat, and is 1 more where it is fast."""
    frame = rows_of(TOY, {name: values for name, values in axes.items() if name != "fast"}, {}, 5, noise)
    parts = [
        frame.assign(fast=fast, gain=frame["gain"] + fast, cell=frame["cell"] + str(fast))
        for fast in axes.get("fast", [False])
    ]
    return pd.concat(parts, ignore_index=True).drop(columns="gain_theory").astype({"fast": object})


def test_categories_are_drawn_in_the_order_of_the_axis_and_not_joined(sandbox: Path, tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"kind": ["b", "a"], "heat": [1.0, 2.0], "fast": [True, False]}
    analysis = [
        {"curves": {"metric": "gain", "x": "kind", "by": ["fast"]}},
        {"curves": {"metric": "gain", "x": "fast"}},
    ]
    report = write_report(switched(axes), space_of("toy_switched", axes, {}, analysis), tmp_path, sweep="s")
    assert "fast = true" in report.headline[0]
    drawn = (tmp_path / "figures" / "curves_gain.svg").read_text(encoding="utf-8")
    assert drawn.index(">b<") < drawn.index(">a<")
    second = (tmp_path / "figures" / "curves_2_gain.svg").read_text(encoding="utf-8")
    assert second.index(">true<") < second.index(">false<")
    means = pd.read_csv(tmp_path / "tables" / "curves_gain.csv")
    assert len(means) == 8
    assert set(means["kind"]) == {"a", "b"}


def test_true_and_false_are_words_wherever_a_report_shows_them(sandbox: Path, tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"heat": np.linspace(0.3, 5.3, 9).tolist(), "fast": [False, True]}
    analysis = [
        {kind: {"metric": "gain", "x": "heat", "by": ["fast"]}}
        for kind in ("boundary", "trend", "optimum", "inflection")
    ]
    space = space_of("toy_switched", axes, {"kind": "a"}, analysis)
    write_report(switched(axes), space, tmp_path, sweep="s")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "fast false, true" in text
    for line in text.splitlines():
        if line.startswith("| ") and line.count("|") > 4 and not line.startswith("| fast"):
            assert line.startswith(("| false |", "| true |")), line
    fixed = space_of("toy_switched", {"heat": axes["heat"]}, {"fast": True}, analysis)
    write_report(switched({**axes, "fast": [True]}), fixed, tmp_path, sweep="s")
    assert "- Fixed: fast true." in (tmp_path / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["boundary", "curves", "agreement", "relation"])
def test_where_there_is_no_closed_form_none_is_spoken_of(kind: str, sandbox: Path, tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"heat": np.linspace(0.3, 5.3, 9).tolist(), "load": [1, 2, 4]}
    options = {
        "boundary": {"metric": "gain", "x": "heat", "y": "load"},
        "curves": {"metric": "gain", "x": "heat"},
        "agreement": None,
        "relation": {"x": "loss", "y": "gain"},
    }
    frame = switched(axes).assign(loss=lambda rows: -rows["gain"])
    report = write_report(frame, space_of("toy_losing", axes, {}, [{kind: options[kind]}]), tmp_path, sweep="s")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    if kind == "agreement":
        assert report.headline == ["no metric has a closed form to compare with"]
        assert "Student" not in text
    else:
        assert not re.search("closed form|theory", text.lower())
        assert "z |" not in text
    for figure in (tmp_path / "figures").glob("*.svg"):
        assert "closed form" not in figure.read_text(encoding="utf-8")


def test_engines_are_compared_by_every_metric_where_none_has_a_closed_form(sandbox: Path, tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"heat": [0.1, 0.2, 0.4]}
    frame = switched(axes).assign(gain=3.0)
    both = pd.concat(
        [
            frame.assign(engine="limit"),
            frame.assign(engine="flow", gain=frame["gain"] + frame["heat"] ** 2, cell=frame["cell"] + "f"),
        ]
    )
    space = space_of("toy_engines", {**axes, "engine": ["limit", "flow"]}, {}, [{"engines": {"x": "heat"}}])
    said = write_report(both, space, tmp_path, sweep="s").headline[0]
    assert said.startswith("difference to limit, gain: flow of order 2.00 as heat → 0"), said


def test_the_scale_of_a_space_is_that_of_its_fits_and_figures(sandbox: Path, tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"heat": np.geomspace(0.3, 30, 13).tolist()}
    frame = switched(axes)
    rng = np.random.default_rng(0)
    frame["gain"] = np.log(frame["heat"] / 3) ** 2 - 1 + 0.1 * rng.standard_normal(len(frame))
    analysis = [{kind: {"metric": "gain", "x": "heat"}} for kind in ("inflection", "trend", "optimum", "boundary")]
    methods = {}
    for scale in ("log", "linear"):
        space = {**space_of("toy_switched", axes, {}, analysis), "scale": {"heat": scale}}
        write_report(frame, space, tmp_path / scale, sweep="s")
        tables = {
            name: pd.read_csv(tmp_path / scale / "tables" / f"{name}.csv")
            for name in ("inflection_turns", "trend_trends", "optimum_optima", "boundary_zeros")
        }
        methods[scale] = (
            "in log x" in tables["inflection_turns"]["method"][0],
            bool(tables["trend_trends"]["logarithmic"][0]),
            "in log heat" in tables["optimum_optima"]["method"][0],
        )
        methods[scale] += (tables["boundary_zeros"]["estimate"][0],)
        drawn = (tmp_path / scale / "figures" / "trend_curves.svg").read_text(encoding="utf-8")
        assert (">25<" in drawn or ">20<" in drawn) == (scale == "linear")
    assert methods["log"][:3] == (True, True, True)
    assert methods["linear"][:3] == (False, False, False)
    assert methods["log"][3] != methods["linear"][3]  # between the same two points, by another interpolation


def test_a_scale_is_checked_recorded_and_changes_no_row() -> None:
    space = validate(small_space(scale={"gamma": "log"}))
    assert space.scale == {"gamma": "log"}
    assert restore(space.as_dict()) == space
    assert validate(small_space()).scale == {}
    unsaid = validate(small_space()).as_dict()
    assert "scale" not in unsaid  # an earlier release knows no such key
    assert restore(unsaid).scale == {}
    assert not compatibility.is_part(
        validate(small_space()), space, "small"
    )  # free, as the analyses are: the same rows
    assert not compatibility.is_part(space, validate(small_space()), "small")
    for scale, complaint in (
        ({"gama": "log"}, "scale.gama: unknown axis 'gama'; did you mean gamma?"),
        ({"dim": "log"}, "scale.dim: unknown axis"),
        ({"gamma": "logarithmic"}, "scale.gamma: expected one of log, linear, got 'logarithmic'"),
        ({"gamma": None}, "scale.gamma: missing; expected one of log, linear"),
        ("log", "scale: expected a mapping"),
    ):
        with pytest.raises(InputError) as wrong:
            validate(small_space(scale=scale))
        assert str(wrong.value).startswith(complaint)
    with pytest.raises(InputError, match=r"^scale\.engine: expected an axis of numbers, but engine is one of"):
        validate(over("linear_transfer", "engine", ["limit", "flow"]))
    validate(over("linear_transfer", "noise", [0.0, 0.1]))  # 0 stands beside the axis


def over(workload: str, axis: str, values: list[Any]) -> dict[str, Any]:
    """A space over one axis, read in log."""
    return {"name": "s", "workload": workload, "axes": {axis: values}, "scale": {axis: "log"}}


def test_a_scale_that_a_workload_declares_is_checked(sandbox: Path) -> None:
    for kind, scale, complaint in (
        (float, "logarithmic", "expected one of log, linear, got 'logarithmic'"),
        (bool, "log", "expected no scale, its values being categories, got 'log'"),
    ):
        with pytest.raises(ValueError, match=f"heat.scale: {complaint}"):
            Parameter("heat", kind, kind(0), "heat", scale=scale)
    with pytest.raises(InputError) as wrong:
        validate(over("toy_logarithmic", "heat", [-0.1, 0.1]))
    assert str(wrong.value).startswith("scale.heat: expected no value below 0 on an axis that is read in log, got -0.1")
    asked = {"name": "s", "workload": "toy_logarithmic", "axes": {"heat": [-0.1, 0.1]}}
    kept = restore(validate(asked).as_dict())
    with pytest.raises(InputError) as wrong:
        enumerate_cells(kept)
    assert str(wrong.value) == (
        "axes.heat: expected no value below 0, since toy_logarithmic reads this axis in log, "
        "got -0.1 (scale.heat=linear reads it as it is)"
    )
    assert len(enumerate_cells(kept, check=False)) == 2  # rows that are there stay to be seen
    assert len(enumerate_cells(validate({**asked, "scale": {"heat": "linear"}}))) == 2
    assert len(enumerate_cells(validate({**asked, "axes": {"load": [1]}, "fixed": {"heat": 0}}))) == 1


def test_curves_over_words_are_reported_and_fits_over_them_refused(call: Any, storage: Path, tmp_path: Path) -> None:
    fixed = {"dim": 20, "noise": 0.2, "gamma": 0.5, "finetune_steps": 50}
    axes = {"engine": ["network", "flow"], "overlap_angle": [30, 60, 90]}
    wrong = small_space(axes=axes, fixed=fixed, analysis=[{"trend": {"metric": "risk_finetune", "x": "engine"}}])
    options = ("--storage", storage, "--executor", "inline", "--tracking-uri", "none")
    refused(call("run", written(tmp_path, wrong), *options), "analysis[0].trend.x: expected an axis of numbers")
    assert not storage.exists()
    right = small_space(axes=axes, fixed=fixed, analysis=[{"curves": {"metric": "risk_finetune", "x": "engine"}}])
    done: Outcome = call("run", written(tmp_path, right), *options)
    assert done.code == 0, done.err
    drawn = (storage / "small" / "report" / "figures" / "curves_risk_finetune.svg").read_text(encoding="utf-8")
    assert drawn.index(">network<") < drawn.index(">flow<")
    assert len(run(storage, {**right, "scale": {"overlap_angle": "linear"}}).results()) == 18

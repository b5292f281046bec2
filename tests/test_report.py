"""The report: what a reader finds in it, for any workload declaration."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from raysweep import workloads
from raysweep.reporting.analyses import check_analysis
from raysweep.reporting.report import write_report
from raysweep.workloads.declaration import Columns, Cost, Metric, Parameter, Workload

TRANSFER = workloads.get("linear_transfer")


def rows_of(
    workload: Workload, axes: dict[str, list[Any]], fixed: dict[str, Any], draws: int, size: float
) -> pd.DataFrame:
    """Rows as a sweep would give them: the closed form, plus a draw effect that all cells of a draw share."""
    rng = np.random.default_rng(0)
    rows = []
    for index, values in enumerate(itertools.product(*axes.values())):
        cell = {p.name: p.default for p in workload.parameters} | fixed | dict(zip(axes, values, strict=True))
        rows += [{"sweep": "s", "cell": f"c{index}", **cell, "seed": seed, "status": "ok"} for seed in range(draws)]
    frame = pd.DataFrame(rows)
    assert workload.closed_form is not None
    theory = workload.closed_form({p.name: frame[p.name].to_numpy() for p in workload.parameters})
    shift = rng.standard_normal(draws)[frame["seed"]]
    for metric in workload.metrics:
        frame[metric.name] = np.nan
    for name, values in theory.items():
        frame[f"{name}_theory"] = values
        frame[name] = values + size * (shift + 0.1 * rng.standard_normal(len(frame)))
    return frame.assign(code_version="0.1.0+test", seconds=0.001)


def space_of(workload: str, axes: dict[str, list[Any]], fixed: dict[str, Any], analysis: list[Any]) -> dict[str, Any]:
    return {
        "name": "demo",
        "description": "Does it tip over?",
        "workload": workload,
        "axes": axes,
        "zip": [],
        "exclude": [],
        "fixed": fixed,
        "seeds": list(range(8)),
        "search": "grid",
        "resources": {},
        "analysis": analysis,
    }


AXES = {"overlap_angle": [float(v) for v in np.linspace(9, 90, 10)], "gamma": [0.2, 0.4, 0.6, 0.8]}


@pytest.fixture(scope="module")
def phase(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], str]:
    frame = rows_of(TRANSFER, AXES, {"dim": 200}, 8, 0.02)
    metrics = [m.name for m in TRANSFER.metrics]
    frame.loc[frame.index[:3], "status"] = ["diverged", "failed", "not_converged"]
    frame.loc[frame.index[:2], metrics] = np.nan
    frame.loc[frame.index[2], metrics] = 1e9  # kept in the table, and never to enter a mean
    analysis = [
        {"boundary": {"metric": "transferability_finetune", "x": "overlap_angle", "y": "gamma"}},
        {"curves": {"metrics": ["risk_scratch"], "x": "gamma", "by": ["overlap_angle"]}},
        {"agreement": {}},
    ]
    home = tmp_path_factory.mktemp("report")
    report = write_report(
        frame,
        space_of("linear_transfer", AXES, {"dim": 200}, analysis),
        home,
        sweep="my-sweep",
        notes=["a note for the reader"],
    )
    assert report.directory == home
    assert all(path.is_file() for path in report.files)
    return home, report.headline, (home / "report.md").read_text(encoding="utf-8")


def test_the_answer_comes_first_with_its_certainty(phase: tuple[Path, list[str], str]) -> None:
    _, headline, text = phase
    assert len(headline) == 3
    assert "located in 4 of 4 slices" in headline[0]
    assert "beyond 1.96" in headline[0]
    top = text[: text.index("![")]  # all that stands above the first figure
    for words in (
        "# my-sweep",
        "Does it tip over?",
        "overlap angle θ from 9° to 90°",
        "located in 4 of 4 slices",
        "317 ok",
        "1 not converged, 1 diverged, 1 failed",
        "Left out",
        "a note for the reader",
    ):
        assert words in top
    assert "0.1.0+test" in text


def test_tables_hold_the_line_and_rows_that_are_not_ok_moved_nothing(phase: tuple[Path, list[str], str]) -> None:
    home, _, _ = phase
    zeros = pd.read_csv(home / "tables" / "boundary_zeros.csv")
    assert zeros["gamma"].tolist() == AXES["gamma"]
    assert zeros["theory"].tolist() == pytest.approx([60.0] * 4, abs=1e-6)  # F Thm 3.9 without noise
    assert ((zeros["low"] < 60) & (zeros["high"] > 60)).all()
    means = pd.read_csv(home / "tables" / "curves_risk_scratch.csv")
    assert means["mean"].max() < 10
    assert means["draws"].sum() == 317


def test_html_is_one_file_that_asks_for_nothing(phase: tuple[Path, list[str], str]) -> None:
    home, _, text = phase
    page = (home / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == text.count("![")
    assert not re.findall(r'(?:src|href)="(?!data:|tables/)[^"]*"', page)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page)
    for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert (home / name).is_file()
        assert (home / name).with_suffix(".svg").is_file()


def test_the_closed_forms_inflection_stands_beside_the_fitted_one(tmp_path: Path) -> None:
    # One layer from a small start: c(t) = 1 - (1 - c(0)) exp(-t), and the best c is cos(angle) (THEORY, section 3).
    axes = {"pretrain_length": [*np.geomspace(0.2, 20, 15).tolist(), float("inf")], "overlap_angle": [30.0, 45.0]}
    fixed = {"depth": 1, "gamma": 0.5, "dim": 200, "init_scale": 0.001}
    frame = rows_of(TRANSFER, axes, fixed, 8, 0.003)
    analysis = [{"inflection": {"metric": "transferability_finetune", "x": "pretrain_length", "by": ["overlap_angle"]}}]
    report = write_report(frame, space_of("linear_transfer", axes, fixed, analysis), tmp_path, sweep="s")
    turns = pd.read_csv(tmp_path / "tables" / "inflection_turns.csv").set_index("overlap_angle")
    for angle in (30.0, 45.0):
        best = np.log((1 - 0.001) / (1 - np.cos(np.radians(angle))))
        assert turns.loc[angle, "theory"] == pytest.approx(best, rel=1e-3)
        assert turns.loc[angle, "low"] <= best <= turns.loc[angle, "high"]
    assert "located in 2 of 2 curves" in report.headline[0]


def test_engines_are_paired_by_draw(tmp_path: Path) -> None:
    axes = {"engine": ["limit", "network"], "finetune_lr": [0.001, 0.01, 0.1], "depth": [2, 3]}
    frame = rows_of(TRANSFER, axes, {"dim": 50}, 6, 0.5)
    key = frame.set_index(["depth", "seed"]).index
    exact = frame[frame["engine"] == "limit"].groupby(["depth", "seed"])["risk_finetune"].first()
    error = np.where(frame["engine"] == "network", 2.0 * frame["finetune_lr"], 0.0)  # drowned without pairing
    frame["risk_finetune"] = exact.loc[key].to_numpy() + error
    report = write_report(
        frame,
        space_of("linear_transfer", axes, {"dim": 50}, [{"engines": {"metrics": ["risk_finetune"]}}]),
        tmp_path,
        sweep="s",
    )
    table = pd.read_csv(tmp_path / "tables" / "engines_differences.csv")
    assert table["median"].tolist() == pytest.approx([0.002, 0.02, 0.2], rel=1e-9)
    assert "slope 1.00" in report.headline[0]


def toy_form(columns: Columns) -> dict[str, np.ndarray]:
    return {"gain": np.asarray(columns["heat"], float) - np.asarray(columns["load"], float)}


TOY = Workload(
    name="toy",
    summary="a workload of somebody else",
    identity_version=1,
    compute="nowhere:compute",
    parameters=(
        Parameter("heat", float, 1.0, "heat", unit="kelvin"),
        Parameter("load", int, 1, "load"),
        Parameter("kind", str, "a", "kind", choices=("a", "b")),
    ),
    metrics=(Metric("gain", "what is gained", unit="watts"),),
    cost=lambda parameters, rows: Cost(0.0, 0.0),
    sources=(),
    closed_form=toy_form,
)


def test_any_workload_gets_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "get", {"toy": TOY}.__getitem__)
    axes: dict[str, list[Any]] = {"heat": np.linspace(0.3, 5.3, 9).tolist(), "load": [1, 2, 4], "kind": ["a", "b"]}
    frame = rows_of(TOY, axes, {}, 5, 0.05)
    analysis = [
        {"boundary": {"metric": "gain", "x": "heat", "y": "load"}},
        {"curves": {"metric": "gain", "x": "load"}},
        {"inflection": {"metric": "gain", "x": "heat"}},
        {"agreement": None},
    ]
    report = write_report(frame, space_of("toy", axes, {}, analysis), tmp_path, sweep="s")
    zeros = pd.read_csv(tmp_path / "tables" / "boundary_zeros.csv")
    assert len(zeros) == 6  # kind varies, and is never averaged over
    assert zeros["theory"].tolist() == pytest.approx(zeros["load"].tolist())
    assert (zeros["status"] == "located").all()
    assert len(report.headline) == 4


def test_a_sweep_without_a_usable_row_still_gets_a_report(tmp_path: Path) -> None:
    frame = rows_of(TRANSFER, {"overlap_angle": [30.0, 60.0]}, {}, 2, 0.1).assign(status="failed")
    space = space_of(
        "linear_transfer",
        {"overlap_angle": [30.0, 60.0]},
        {},
        [{"boundary": {"metric": "risk_linear", "x": "overlap_angle"}}],
    )
    report = write_report(frame, space, tmp_path, sweep="s")
    assert "no row is ok" in report.headline[0]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"boundry": {}}, "boundry: unknown analysis 'boundry'; known: boundary"),
        (
            {"boundary": {"metric": "transferability", "x": "gamma"}},
            "boundary.metric: unknown metric 'transferability'; known: ",
        ),
        ({"boundary": {"metric": "risk_scratch"}}, "boundary.x: missing"),
        (
            {"boundary": {"metric": "risk_scratch", "x": "gama"}},
            "boundary.x: expected one of the axes (gamma, depth), got 'gama'",
        ),
        (
            {"boundary": {"metric": "risk_scratch", "x": "gamma", "y": "gamma"}},
            "boundary.y: 'gamma' is already used as x",
        ),
        ({"boundary": {"metric": "risk_scratch", "x": "gamma", "colour": 1}}, "boundary.colour: unknown option"),
        (
            {"inflection": {"metric": "risk_scratch", "x": "gamma", "by": "depth"}},
            "inflection.by: expected a list of axes",
        ),
        ({"inflection": {"metric": "risk_scratch", "x": "gamma", "level": 95}}, "inflection.level: expected a number"),
        ({"curves": {"x": "gamma"}}, "curves.metric: missing"),
        ({"engines": {}}, "engines: expected engine among the axes"),
        ("boundary", "expected one of boundary, inflection"),
    ],
)
def test_what_is_wrong_with_an_analysis_is_said(entry: Any, message: str) -> None:
    assert str(check_analysis(entry, ["gamma", "depth"], TRANSFER)).startswith(message)


def test_a_right_analysis_passes() -> None:
    entry = {"boundary": {"metric": "risk_scratch", "x": "gamma", "y": "depth", "level": 0.9}}
    assert check_analysis(entry, ["gamma", "depth"], TRANSFER) is None
    assert check_analysis({"agreement": None}, [], TRANSFER) is None


def test_checking_an_analysis_loads_nothing_heavy() -> None:
    code = (
        "import sys; import raysweep.reporting, raysweep.reporting.analyses; "
        "print([m for m in ('pandas', 'scipy', 'matplotlib', 'torch', 'markdown_it') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

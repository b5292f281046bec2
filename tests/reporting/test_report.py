"""The report: what a reader finds in it, for any workload declaration."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from toy_workloads import TOY

from raysweep import workloads
from raysweep.fits.comparison import student_coverage
from raysweep.fits.statistics import t_quantile
from raysweep.numbers import interval
from raysweep.reporting.report import write_report
from raysweep.theory import finetune_mean
from raysweep.workloads.declaration import Workload

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
    assert headline[0].startswith(
        "transfer helps below some overlap angle between 60.2° (γ = 0.2) and 60.9° (γ = 0.8), hurts above, "
        "in all 4 settings of gamma; "
    )
    assert headline[0].endswith("; measured by gain by fine-tuning")
    assert "theory lies inside all 4 intervals" in headline[0]
    assert max(map(len, headline)) < 260, headline  # read at the end of a run, in seconds
    assert max(len(line.partition(";")[0]) for line in headline) < 130, headline
    assert "beyond 1.96" in text
    top = text[: text.index("<details>")]  # all that is not folded
    for words in (
        "# my-sweep",
        "Does it tip over?",
        "![boundary surface]",
        "in all 4 settings",
        "8 seeds in each of 40 cells",
        "317 of 320 rows ok, left out of every mean and fit: 1 not converged, 1 diverged, 1 failed",
        "a note for the reader",
    ):
        assert words in top
    for words in ("overlap angle θ from 9° to 90°", "0.1.0+test"):
        assert words in text


def test_tables_hold_the_line_and_rows_that_are_not_ok_moved_nothing(phase: tuple[Path, list[str], str]) -> None:
    home, _, _ = phase
    zeros = pd.read_csv(home / "tables" / "boundary_zeros.csv")
    assert zeros["gamma"].tolist() == AXES["gamma"]
    # F Thm 3.9 without noise says 60 degrees, as dim → ∞
    expected = [
        brentq(lambda angle, n=gamma * 200: float(finetune_mean.transferability(angle, n, 200, 0, 2)), 40, 80)
        for gamma in AXES["gamma"]
    ]
    assert zeros["theory"].tolist() == pytest.approx(expected, abs=1e-6)
    assert ((zeros["low"] < 60) & (zeros["high"] > 60)).all()
    means = pd.read_csv(home / "tables" / "curves_risk_scratch.csv")
    assert means["mean"].max() < 10
    assert means["draws"].sum() == 317


def test_html_is_one_file_that_asks_for_nothing(phase: tuple[Path, list[str], str]) -> None:
    home, _, text = phase
    page = (home / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == text.count("![")
    assert not re.findall(r'(?:src|href)="(?!data:|tables/|#)[^"]*"', page)
    assert "http" not in re.sub(r"base64,[^\"]*", "", page.replace("http-equiv=", ""))
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
        # One 95 % interval may miss what it is about; twice its width does so once in 10,000 sweeps.
        half = (turns.loc[angle, "high"] - turns.loc[angle, "low"]) / 2
        assert turns.loc[angle, "estimate"] == pytest.approx(best, abs=2 * half)
        assert 2 * half < 10 ** (2 / 14) * best - best  # less than the distance between two lengths of this grid
    assert report.headline[0].startswith("gain by fine-tuning is highest at pretraining length ")
    assert ", in both settings of overlap angle; " in report.headline[0]


def test_the_only_place_that_is_located_is_named_with_its_interval(tmp_path: Path) -> None:
    axes = {"pretrain_length": np.geomspace(0.2, 20, 15).tolist(), "overlap_angle": [30.0, 90.0]}
    fixed = {"depth": 1, "gamma": 0.5, "dim": 200, "init_scale": 0.001}
    frame = rows_of(TRANSFER, axes, fixed, 8, 0.003)
    analysis = [{"inflection": {"metric": "transferability_finetune", "x": "pretrain_length", "by": ["overlap_angle"]}}]
    report = write_report(frame, space_of("linear_transfer", axes, fixed, analysis), tmp_path, sweep="s")
    turns = pd.read_csv(tmp_path / "tables" / "inflection_turns.csv").set_index("overlap_angle")
    assert turns["status"].ne("located").tolist() == [False, True]
    said = re.search(r"length ([\d.]+) \[([\d.]+), ([\d.]+)\] flow time, in 1 of 2 settings", report.headline[0])
    assert said
    for text, side in zip(said.groups(), ("estimate", "low", "high"), strict=True):
        assert float(text) == pytest.approx(turns.loc[30.0, side], abs=0.5 * 10.0 ** -len(text.partition(".")[2]))


def test_a_curve_without_chance_has_no_z(tmp_path: Path) -> None:
    axes = {"pretrain_length": [float(v) for v in np.geomspace(0.2, 12, 9)]}
    fixed = {"dim": 200, "overlap_angle": 45.0, "engine": "theory"}
    frame = rows_of(TRANSFER, axes, fixed, 1, 0.0)
    analysis = [{"inflection": {"metric": "transferability_finetune", "x": "pretrain_length"}}]
    said = write_report(frame, space_of("linear_transfer", axes, fixed, analysis), tmp_path, sweep="s").headline[0]
    assert "; theory " in said
    assert "z = " not in said


def test_a_named_line_is_held_against_every_slice_beside_the_closed_form(sandbox: Path, tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"heat": np.linspace(0.3, 5.3, 9).tolist(), "load": [1, 2, 4]}
    frame = rows_of(TOY, axes, {}, 5, 0.05)
    entry = {"boundary": {"metric": "gain", "x": "heat", "y": "load", "lines": {"Watt 1785": 2, "nowhere": 99.0}}}
    report = write_report(frame, space_of("toy", axes, {}, [entry]), tmp_path, sweep="s")
    assert (
        "Watt 1785 (2 kelvin) lies outside 2 of 3 intervals (0 expected by chance), nowhere (99 kelvin) outside 3 of 3 "
        "(0 expected by chance), theory inside all 3" in report.headline[0]
    )
    zeros = pd.read_csv(tmp_path / "tables" / "boundary_zeros.csv").set_index("load")
    assert zeros["excluded Watt 1785"].tolist() == [True, False, True]
    assert zeros.loc[4, "z Watt 1785"] > 1.96 > abs(zeros.loc[2, "z Watt 1785"])


def test_skewed_draws_are_said_to_make_students_intervals_too_narrow(sandbox: Path, tmp_path: Path) -> None:
    # Oracle for the coverage: 20 draws of a chi-squared with one degree of freedom, simulated here.
    rng = np.random.default_rng(8)
    values = rng.chisquare(1, (20_000, 20))
    inside = np.abs(values.mean(axis=1) - 1) <= 2.093 * values.std(axis=1, ddof=1) / np.sqrt(20)
    assert student_coverage(8**0.5, 20) == pytest.approx(inside.mean(), abs=0.015)
    assert student_coverage(0.0, 20) == pytest.approx(0.95, abs=0.015)
    axes: dict[str, list[Any]] = {"heat": [1.0, 2.0, 3.0], "load": [1, 2]}
    frame = rows_of(TOY, axes, {}, 40, 0.0)
    frame["gain"] = frame["gain_theory"] + rng.chisquare(1, len(frame)) - 1
    write_report(frame, space_of("toy", axes, {}, [{"agreement": {}}]), tmp_path, sweep="s")
    said = re.search(
        r"skewness (\S+)\).* with 40 draws .* (\d+) % of cases", (tmp_path / "report.md").read_text(encoding="utf-8")
    )
    assert said is not None
    assert float(said[1]) == pytest.approx(8**0.5, rel=0.2)
    assert int(said[2]) == round(100 * student_coverage(float(said[1]), 40)) < 95


def test_the_best_cell_is_none_whose_draws_have_no_variance(tmp_path: Path) -> None:
    axes = {"gamma": [0.2, 0.5, 1.0, 1.5], "overlap_angle": [20.0]}
    frame = rows_of(TRANSFER, axes, {"dim": 100, "noise": 0.2}, 8, 0.01)
    frame.loc[frame["gamma"] == 1.0, "transferability_linear"] = 8909.0
    entry = {"curves": {"metric": "transferability_linear", "x": "gamma"}}
    report = write_report(frame, space_of("linear_transfer", axes, {}, [entry]), tmp_path, sweep="s")
    means = pd.read_csv(tmp_path / "tables" / "curves_transferability_linear.csv").set_index("gamma")
    assert means.index[means["no_variance"]].tolist() == [1.0]
    best = means[~means["no_variance"]].loc[0.2]
    assert report.headline[0].startswith(
        "transfer helps in 2 of 3 cells (γ ≤ 0.5), hurts in 1 (γ = 1.5); helps: by 0.425 to 0.688, "
        "most at γ = 0.2; hurts: by 0.0328, at"
    )
    text = (tmp_path / "report.md").read_text()
    half = t_quantile(0.95, 7) * best["standard_error"]
    known = interval(best["mean"], best["mean"] - half, best["mean"] + half)
    assert f"highest {known} at γ = 0.2; 95 %." in text


def test_a_new_report_removes_what_the_old_one_wrote_and_nothing_else(sandbox: Path, tmp_path: Path) -> None:
    axes: dict[str, list[Any]] = {"heat": [1.0, 2.0, 3.0], "load": [1, 2]}
    frame = rows_of(TOY, axes, {}, 4, 0.05)
    both = [{"curves": {"metric": "gain", "x": "heat"}}, {"agreement": {}}]
    first = write_report(frame, space_of("toy", axes, {}, both), tmp_path, sweep="s")
    foreign = tmp_path / "figures" / "my_own.png"
    foreign.write_bytes(b"mine")
    edited = tmp_path / "tables" / "agreement_gain.csv"
    edited.write_text("edited by hand\n")
    second = write_report(frame, space_of("toy", axes, {}, both[:1]), tmp_path, sweep="s")
    gone = set(first.files) - set(second.files) - {edited}
    assert gone
    assert not any(path.exists() for path in gone)
    assert all(path.is_file() for path in [*second.files, foreign, edited])


def test_slices_that_say_nothing_share_a_line(tmp_path: Path) -> None:
    axes = {"overlap_angle": AXES["overlap_angle"], "gamma": [0.4, 1.2, 1.4, 1.6, 1.8]}
    frame = rows_of(TRANSFER, axes, {"dim": 200}, 8, 0.02)
    frame.loc[frame["gamma"] > 1, "transferability_finetune"] = 0.0
    entry = {"boundary": {"metric": "transferability_finetune", "x": "overlap_angle", "y": "gamma"}}
    write_report(frame, space_of("linear_transfer", axes, {}, [entry]), tmp_path, sweep="s")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| 1.2 … 1.8 | no effect anywhere in 4 slices |" in text
    assert len(pd.read_csv(tmp_path / "tables" / "boundary_zeros.csv")) == 5


def test_any_workload_gets_its_report(sandbox: Path, tmp_path: Path) -> None:
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
    (said,) = report.headline
    assert "4 failed" in said
    assert (tmp_path / "report.html").is_file()


def test_a_metric_that_is_finite_nowhere_is_said_and_not_a_crash(tmp_path: Path) -> None:
    axes = {"overlap_angle": [20.0, 50.0, 90.0], "gamma": [1.0]}
    frame = rows_of(TRANSFER, axes, {"dim": 20}, 3, 0.02).assign(transferability_linear=np.inf)
    analysis = [{"boundary": {"metric": "transferability_linear", "x": "overlap_angle", "y": "gamma"}}]
    report = write_report(frame, space_of("linear_transfer", axes, {"dim": 20}, analysis), tmp_path, sweep="endless")
    (said,) = report.headline
    assert said.startswith("boundary: gain by linear transfer is finite in no row")
    assert not list(tmp_path.glob("tables/*"))
    assert (tmp_path / "report.html").is_file()

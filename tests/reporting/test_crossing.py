"""`between` of the analysis boundary: where the curves of two values of an axis cross."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Outcome, refused, run
from spaces import written

SPACE: dict[str, Any] = {
    "name": "crossing",
    "workload": "linear_covariance",
    "axes": {"shift": ["top", "bottom", "all"], "gamma": {"linspace": [0.1, 0.8, 8]}, "shift_norm": [0.5, 2.0]},
    "fixed": {"dim": 60, "spectrum": "1.5:3,0.3"},
    "seeds": 12,
    "analysis": [{"boundary": {"metric": "risk_finetune", "x": "gamma", "between": {"shift": ["top", "bottom"]}}}],
}


def test_the_crossing_is_located_beside_that_of_the_closed_form_and_no_length_moves_it(storage: Path) -> None:
    """Without noise both risks grow with the square of shift_norm, so that the same draws cross at the same place."""
    import pandas as pd

    sweep = run(storage, SPACE)
    report = sweep.report(storage / "report")
    assert report.answer[0].startswith("Shift in bottom directions is better below gamma ")
    table = pd.read_csv(storage / "report" / "tables" / "boundary_zeros.csv")
    assert table["shift_norm"].tolist() == [0.5, 2.0]
    assert (table["status"] == "located").all()
    assert table["estimate"].to_numpy() == pytest.approx(table["estimate"][0], rel=1e-6)
    assert ((table["low"] < table["theory"]) & (table["theory"] < table["high"])).all()
    rows = sweep.results()
    rows = rows[rows["shift_norm"] == 2.0].groupby(["shift", "gamma"])["risk_finetune"].mean()
    difference = (rows["top"] - rows["bottom"]).to_numpy()
    crossed = rows["top"].index[int((difference > 0).sum()) - 1]
    assert crossed <= table["estimate"][1] <= crossed + 0.1001
    told = pd.read_csv(storage / "report" / "tables" / "boundary_differences.csv").query("shift_norm == 2")
    assert told["mean"].to_numpy() == pytest.approx(difference)
    assert (told["draws"] == 12).all()
    text = (storage / "report" / "report.md").read_text()
    assert "risk after fine-tuning of shift in top directions minus bottom directions" in text


@pytest.mark.parametrize(
    ("between", "key", "said"),
    [
        ({"shift": ["top", "botom"]}, ".between.shift", "botom"),
        ({"shift": ["top"]}, ".between.shift", "expected two values"),
        ({"shift": ["top", "top"]}, ".between.shift", "expected two values"),
        ({"depth": [1, 2]}, ".between.depth", "depth"),
        ({"shift": ["top", "bottom"], "gamma": [0, 1]}, ".between", "expected an axis and two of its values"),
        ("shift", ".between", "expected an axis and two of its values"),
        ({"gamma": [0.1, 0.8]}, ".x", "'gamma' is already used as"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    call: Any, tmp_path: Path, storage: Path, between: Any, key: str, said: str
) -> None:
    space = {**SPACE, "analysis": [{"boundary": {"metric": "risk_finetune", "x": "gamma", "between": between}}]}
    found: Outcome = call("run", written(tmp_path, space), "--storage", storage)
    refused(found, f"analysis[0].boundary{key}", said)


def test_rows_that_leave_out_a_side_are_refused(call: Any, tmp_path: Path, storage: Path) -> None:
    asked = {"metric": "risk_finetune", "x": "gamma", "between": {"shift": ["top", "bottom"]}}
    space = {**SPACE, "analysis": [{"boundary": {**asked, "where": {"shift": "top"}}}]}
    found: Outcome = call("run", written(tmp_path, space), "--storage", storage)
    refused(found, "analysis[0].boundary.where.shift", "leaves out 'bottom', which between compares")

"""What a report says of engines: they are paired by draw, and their differences by what makes them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_report import TRANSFER, rows_of, space_of

from raysweep.reporting.report import write_report


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
    assert "of order 1.00 as fine-tuning rate → 0" in report.headline[0]


def test_engines_of_different_depth_are_kept_apart_and_a_constant_difference_is_named(tmp_path: Path) -> None:
    axes = {"engine": ["limit", "network"], "finetune_lr": [0.001, 0.01, 0.1], "depth": [2, 3]}
    frame = rows_of(TRANSFER, axes, {"dim": 50}, 6, 0.5)
    key = frame.set_index(["depth", "seed"]).index
    step = np.where(frame["depth"] == 2, frame["finetune_lr"], 30 * frame["finetune_lr"] ** 2)
    for metric, error in (("risk_finetune", step), ("risk_scratch", 0.004)):
        exact = frame[frame["engine"] == "limit"].groupby(["depth", "seed"])[metric].first()
        frame[metric] = exact.loc[key].to_numpy() + np.where(frame["engine"] == "network", error, 0.0)
    lost = (frame["engine"] == "network") & (frame["finetune_lr"] == 0.001) & (frame["seed"] > 0)
    frame.loc[lost, "status"] = "not_converged"  # one draw of six is left there, and would bend the median
    options = {"metrics": ["risk_finetune", "risk_scratch"], "by": ["depth"]}
    report = write_report(frame, space_of("linear_transfer", axes, {}, [{"engines": options}]), tmp_path, sweep="s")
    assert "risk after fine-tuning: network of order 1.00 to 2.00" in report.headline[0]
    assert "risk from scratch: network a constant 0.004 off (start at initialization scale)" in report.headline[0]
    table = pd.read_csv(tmp_path / "tables" / "engines_differences.csv")
    assert sorted(table["finetune_lr"].unique()) == [0.01, 0.1]
    assert re.search(
        r" 4 pairs at a fine-tuning rate where fewer than half of the draws are ok left out\.",
        (tmp_path / "report.md").read_text(encoding="utf-8"),
    ), "left out"

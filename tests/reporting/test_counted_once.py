"""A metric that does not depend on a parameter has one curve, whatever values that parameter has beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from raysweep.reporting.report import write_report
from raysweep.workloads.declaration import Metric
from raysweep.workloads.relu_features import WORKLOAD

ABLATIONS, SAMPLES = [0.1, 0.3, 0.5, 0.7], [50, 100, 200, 400]


def frame() -> pd.DataFrame:
    """Rows of 4 draws: a residual without samples, a risk from scratch without the ablation, a transfer with both."""
    rows = []
    for seed in range(4):
        noise = np.random.default_rng(seed).standard_normal(2)
        for a in ABLATIONS:
            for n in SAMPLES:
                residual, scratch = 0.01 * a * (1 + 0.02 * noise[0]), 2 / n * (1 + 0.02 * noise[1])
                values = {"residual": residual, "risk_scratch": scratch, "risk_linear": residual + 0.1 / n}
                rows.append(
                    {"ablation": a, "target_samples": n, "seed": seed, "status": "ok", "cell": f"{a} {n}", **values}
                )
    return pd.DataFrame(rows)


def headlines(rows: pd.DataFrame, folder: Path, *analysis: dict[str, Any]) -> list[str]:
    axes = {"ablation": ABLATIONS, "target_samples": SAMPLES}
    space = {"name": "s", "workload": "relu_features", "axes": axes, "seeds": [0, 1, 2, 3], "analysis": list(analysis)}
    return write_report(rows.assign(sweep="s"), space, folder, sweep="s").headline


def test_trends_and_power_laws_are_not_repeated(tmp_path: Path) -> None:
    said = headlines(
        frame(),
        tmp_path,
        {"trend": {"metric": "residual", "x": "ablation"}},
        {"power_law": {"metric": "risk_scratch", "x": "target_samples"}},
        {"trend": {"metric": "risk_linear", "x": "ablation"}},
        {"trend": {"metric": "residual", "x": "ablation", "by": ["target_samples"]}},
        {"best": {"metric": "residual"}},
    )
    assert said[0].startswith("residual rises throughout with ablation; least-squares slope 0.0")
    assert said[1].startswith("risk from scratch falls with target samples to the power -1")
    assert " in all 4 settings; " in said[2]  # it depends on both
    assert " in all 4 settings; " in said[3]  # asked for
    assert "more cell" not in said[4]
    text = (tmp_path / "report.md").read_text()
    assert "This does not depend on target samples: each draw counts once." in text
    assert "This does not depend on ablation: each draw counts once." in text
    assert pd.read_csv(tmp_path / "tables" / "trend_trends.csv")["draws"].tolist() == [4]


def test_a_row_that_is_not_ok_gives_way_to_an_equal_one_that_is(tmp_path: Path) -> None:
    rows = frame()
    first = (rows["target_samples"] == 50) & (rows["seed"] == 1)
    rows.loc[first, "status"], rows.loc[first, "residual"] = "failed", np.nan
    power = {"trend": {"metric": "residual", "x": "ablation"}}
    assert headlines(rows, tmp_path / "some", power) == headlines(frame(), tmp_path / "all", power)


def test_metrics_are_free_of_parameters_that_exist() -> None:
    assert WORKLOAD.idle("residual") == {"target_samples", "noise", "datasets"}
    assert WORKLOAD.idle("risk_scratch") == {"ablation"}
    assert WORKLOAD.idle("risk_linear") == WORKLOAD.idle("no metric") == set()
    with pytest.raises(ValueError, match="metric loss is free of depth, which is no parameter"):
        replace(WORKLOAD, metrics=(Metric("loss", "", free_of=("depth",)),))

"""The space the project is named for: what it asks, and that its answers are those of another method."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from conftest import Outcome

from raysweep import workloads
from raysweep.analyses.closed_form import extremum
from raysweep.reporting import fit_inflection, fit_optimum
from raysweep.theory import finetune_mean, pretraining
from raysweep.workloads.declaration import column
from raysweep.workloads.linear_transfer.engines import compute

FIXED = {"dim": 40, "gamma": 0.5, "noise": 0.5, "init_scale": 0.2, "finetune_steps": 100.0}


def rows_of(axes: dict[str, list[object]], fixed: dict[str, object], draws: int) -> pd.DataFrame:
    """The rows of a grid, computed in this process."""
    workload = workloads.get("linear_transfer")
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    defaults = {p.name: p.default for p in workload.parameters}
    frame = pd.DataFrame([{**defaults, **fixed, **cell, "seed": seed} for cell in cells for seed in range(draws)])
    columns = {p.name: column(p, frame[p.name].tolist()) for p in workload.parameters}
    metrics, status = compute(columns, frame["seed"].to_numpy())
    return frame.assign(**metrics, status=status)


def test_a_small_version_answers_all_four_questions(call: Callable[..., Outcome], tmp_path: Path) -> None:
    smaller = [
        "fixed.dim=30",
        "seeds=6",
        "axes.depth=[2]",
        "axes.overlap_angle=[45,75]",
        "axes.finetune_lr={geomspace: [0.002, 0.032, 5]}",
        "axes.pretrain_length={geomspace: [0.7, 4, 5]}",
    ]
    done = call(
        "run",
        "four_axes",
        *(part for each in smaller for part in ("--set", each)),
        "--storage",
        tmp_path,
        "--executor",
        "inline",
        "--tracking-uri",
        "none",
        "--name",
        "small",
    )
    assert done.code == 0, done.err
    text = (tmp_path / "small" / "report" / "report.md").read_text()
    for title in ("<b>Turning point: ", "<b>Regime: ", "<b>Boundary: ", "<b>Optimum: "):
        assert title in text
    # how each answer moves with the other axes
    assert text.count("from the first value at which it is known to the last") >= 2
    again = call(
        "run",
        "four_axes",
        *(part for each in smaller for part in ("--set", each)),
        "--storage",
        tmp_path,
        "--executor",
        "inline",
        "--tracking-uri",
        "none",
        "--name",
        "small",
        "--no-report",
    )
    assert again.code == 0


def test_the_best_rate_of_the_layers_is_the_best_stopping_time_of_the_flow() -> None:
    """Small steps follow gradient flow, so the best rate times the steps is the flow's best time (THEORY §4)."""
    axes: dict[str, list[object]] = {"finetune_lr": list(np.geomspace(0.001, 0.128, 8)), "pretrain_length": [0.8, 4.0]}
    by_engine = {
        engine: fit_optimum(
            rows_of(axes, {**FIXED, "depth": 2, "overlap_angle": 60.0, "engine": engine}, 8),
            "finetune_lr",
            "risk_finetune",
            "pretrain_length",
            "seed",
        ).table
        for engine in ("network", "flow")
    }
    assert (by_engine["network"]["status"] == "located").all()
    assert np.allclose(by_engine["network"]["estimate"], by_engine["flow"]["estimate"], rtol=0.05)
    shorter, longer = by_engine["network"]["estimate"]
    assert longer < shorter  # a longer pretrained network wants a smaller rate


def test_trained_long_enough_the_inflection_is_the_closed_form_s() -> None:
    """At a small rate and a large budget the turn tends to that of the expectation at convergence (THEORY §3)."""
    lengths: list[object] = [float(v) for v in np.geomspace(0.5, 8, 9)]
    fixed = {
        **FIXED,
        "finetune_steps": 3000.0,
        "finetune_lr": 0.05,
        "depth": 2,
        "overlap_angle": 45.0,
        "engine": "network",
        "init_scale": 0.05,
        "dim": 60,
    }
    fit = fit_inflection(
        rows_of({"pretrain_length": lengths}, fixed, 12),
        "pretrain_length",
        "transferability_finetune",
        "seed",
        turn="max",
    )
    expected = extremum(
        lambda length: finetune_mean.transferability(45.0, 30, 60, 0.5, 2, pretraining.log_scale(length, 2, 0.05)),
        0.5,
        8.0,
        "max",
        True,
    )
    assert fit.status == "located"
    assert fit.low <= expected <= fit.high

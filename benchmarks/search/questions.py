"""What the searches are asked: spaces of this project with a precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.search.pools import Question
from raysweep.space import space_files

MOST = 4000
"""The most draws that a cell may get. A pool has fewer; draws are taken from it at random, with replacement."""

EVERY_RATE = [float(f"{rate:.12g}") for rate in np.geomspace(0.0005, 0.256, 37)]


def packaged(
    name: str, title: str, analysis: dict[str, Any], precision: dict[str, Any], draws: int, finer: int, **changes: Any
) -> Question:
    """A question about a packaged space with one analysis. Draws are plain unless the changes say `symmetric`.

    changes: other values on axes, or fixed ones.
    """
    space = space_files.read(name).as_dict()
    axes = {axis: changes.pop(axis, values) for axis, values in space["axes"].items()}
    plain = {"name": "_".join([name, *changes]), "workload": space["workload"], "axes": axes}
    fixed = {**space["fixed"], "symmetric": False, **changes}
    whole = {**plain, "fixed": fixed, "analysis": [analysis], "seeds": MOST, "precision": precision}
    return Question(title, whole, draws, finer)


def questions() -> dict[str, Question]:
    """The questions by their keys on the command line."""
    along = {"x": "overlap_angle", "y": "gamma"}
    finetune = {"boundary": {"metric": "transferability_finetune", **along}}
    linear = {"boundary": {"metric": "transferability_linear", **along}}
    by_depth = {"boundary": {"metric": "transferability_finetune", "x": "overlap_angle", "y": "noise", "by": ["depth"]}}
    rates = {"optimum": {"metric": "risk_finetune", "x": "finetune_lr", "by": ["pretrain_length", "depth"]}}
    degree = {"boundary": 1.0}
    pointwise = {"boundary": 1.0, "pointwise": True}
    diagram = "transfer_phase_diagram"
    return {
        "finetune": packaged(diagram, f"{diagram}, fine-tuning, ±1° at all slices at once", finetune, degree, 400, 4),
        "finetune_pointwise": packaged(
            diagram, f"{diagram}, fine-tuning, ±1° slice by slice", finetune, pointwise, 400, 4
        ),
        "symmetric": packaged(
            diagram,
            f"{diagram}, fine-tuning, symmetric draws, ±1° slice by slice",
            finetune,
            pointwise,
            400,
            4,
            symmetric=True,
        ),
        "linear": packaged(diagram, f"{diagram}, linear transfer, ±1° at all slices at once", linear, degree, 400, 4),
        "depth_noise": packaged(
            "depth_noise_boundary",
            "depth_noise_boundary, ±1° at all slices of a depth at once",
            by_depth,
            degree,
            120,
            2,
        ),
        "network": Question("a small space of engine `network`, ±1° at all slices at once", network(), 240, 2),
        "rates": packaged(
            "four_axes",
            "four_axes at 60°, with rates a factor 1.41 apart instead of 2: best rates within a factor 1.2 at all "
            "slices at once",
            rates,
            {"optimum": 1.2},
            240,
            2,
            overlap_angle=[60],
            finetune_lr=EVERY_RATE[::2],
        ),
    }


def network() -> dict[str, Any]:
    """Where fine-tuning of real layers by 100 steps stops helping, by the length of pretraining."""
    return {
        "name": "network_boundary",
        "workload": "linear_transfer",
        "axes": {"overlap_angle": {"linspace": [6, 90, 15]}, "pretrain_length": [1, 2, 4, 8]},
        "fixed": {
            "dim": 60,
            "gamma": 0.5,
            "noise": 0.5,
            "init_scale": 0.2,
            "finetune_steps": 100,
            "finetune_lr": 0.032,
            "engine": "network",
        },
        "analysis": [
            {"boundary": {"metric": "transferability_finetune", "x": "overlap_angle", "y": "pretrain_length"}}
        ],
        "seeds": MOST,
        "precision": {"boundary": 1.0},
    }

"""A workload for tests that returns what it is told to, be it metrics or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from raysweep.workloads.declaration import Columns, Cost, Metric, Parameter, Workload

ANSWER: dict[str, Any] = {}


def compute(columns: Columns, seeds: np.ndarray) -> tuple[dict[str, Any], Any]:
    """Zeros, and what ANSWER has."""
    return {"fine": np.zeros(len(seeds)), "loss": ANSWER["loss"]}, ANSWER["status"]


WORKLOAD = Workload(
    name="returning",
    summary="what it is told to return",
    identity_version=1,
    parameters=(Parameter("x", float, 0.0, "x"), Parameter("fast", bool, False, "fast")),
    metrics=(Metric("fine", "zero"), Metric("loss", "what it is told")),
    compute="returning_workload:compute",
    cost=lambda columns: Cost(0.0, 0.0),
    sources=("returning_workload",),
)

"""A workload that computes nothing, so that what remains is the plumbing."""

from __future__ import annotations

import numpy as np

from raysweep.workloads.declaration import Columns, Cost, Metric, Parameter, Workload


def compute(columns: Columns, seeds: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Ten metrics of zeros."""
    return {f"metric_{i}": np.zeros(len(seeds)) for i in range(10)}, np.full(len(seeds), "ok", dtype=object)


WORKLOAD = Workload(
    name="empty",
    summary="computes nothing",
    identity_version=1,
    parameters=tuple(Parameter(name, int, 0, "a number") for name in ("first", "second", "third")),
    metrics=tuple(Metric(f"metric_{i}", "always 0") for i in range(10)),
    compute="benchmarks.empty:compute",
    cost=lambda columns: Cost(1e-6 * len(columns["first"]), 1e3),
    sources=("benchmarks.empty",),
)

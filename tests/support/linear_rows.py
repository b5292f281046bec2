"""Rows of linear_transfer for tests of engines and closed forms: as columns, and their data from the definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raysweep.training import draws
from raysweep.workloads.declaration import column
from raysweep.workloads.linear_transfer import PARAMETERS


def table(rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The parameters of rows as arrays, defaults filled in."""
    return {p.name: column(p, [p.coerce(row.get(p.name, p.default)) for row in rows]) for p in PARAMETERS}


def columns(**values: Any) -> dict[str, np.ndarray]:
    """The same from values by name, those that are no arrays being the same in all rows."""
    rows = max(np.size(value) for value in values.values())
    return {
        p.name: column(p, list(np.broadcast_to(np.asarray(values.get(p.name, p.default), object), rows)))
        for p in PARAMETERS
    }


def z_score(values: np.ndarray, expected: float) -> float:
    """How many standard errors the mean of independent values is from what is expected."""
    return float((np.mean(values) - expected) / (np.std(values, ddof=1) / np.sqrt(len(values))))


def data(row: dict[str, Any], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X, y, b_t and the direction e_s of one row, from the definitions."""
    dim, angle = row["dim"], math.radians(row["overlap_angle"])
    along, across = draws.unit_vectors(seed, "teachers", 2, dim)
    n = round(row["gamma"] * dim)
    X = draws.normal(seed, "inputs", n, dim)
    goal = row.get("target_norm", 1.0) * (math.cos(angle) * along + math.sin(angle) * across)
    return X, X @ goal + row.get("noise", 0.0) * draws.normal(seed, "noise", n), goal, along

"""What rows of one draw cost on one core, engine by engine; importable without torch and SciPy.

Each function takes one cell's parameters and the number of rows that share (engine, dim) and a seed, all priced like
that cell. Constants were measured on one core of a 2-core x86 machine (float64, one BLAS thread); expect a factor 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raysweep.workloads.declaration import Columns, Cost

Parameters = Mapping[str, Any]

_DRAW_SECONDS = 2e-8  # per number of X: drawing it and passing over it
_FLOPS = 3.5e10  # of LAPACK's blocked QR on one core
_ROW_BYTES = 1000.0  # columns, inner products and metrics of one row


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw (they share engine and dim), distances included.

    One factorization serves every row of `limit`, so the largest n prices all of them; the others price each cell.
    """
    engine = str(columns["engine"][0])
    if engine in ("theory", "limit"):
        largest = int(np.argmax(columns["gamma"]))
        return _with_distance(_cell(columns, largest), len(columns["gamma"]))
    parts = [_with_distance(_cell(columns, row), 1) for row in range(len(columns["gamma"]))]
    return Cost(sum(part.seconds for part in parts), sum(part.peak_bytes for part in parts))


def _cell(columns: Columns, row: int) -> dict[str, Any]:
    return {name: values[row] for name, values in columns.items()}


def _with_distance(parameters: Parameters, rows: int) -> Cost:
    engine, apart = ENGINES[parameters["engine"]](parameters, rows), _distance(parameters, rows)
    return Cost(engine.seconds + apart.seconds, max(engine.peak_bytes, apart.peak_bytes))


def theory(parameters: Parameters, rows: int) -> Cost:
    """Closed forms; with ridge or frozen layers an integral for each distinct cell."""
    integral = 2e-4 if parameters["ridge"] > 0 or parameters["frozen_layers"] > 0 else 0.0
    return Cost(1e-4 + rows * (3e-6 + integral), 1e6 + rows * _ROW_BYTES + (6e7 if integral else 0.0))


def limit(parameters: Parameters, rows: int) -> Cost:
    """One QR of X serves every row; a further n extends it, so that the largest n decides."""
    n, dim = _samples(parameters), int(parameters["dim"])
    small, large = min(n, dim), max(n, dim)
    flops = 2.0 * small**2 * (large - small / 3)
    seconds = 2e-4 + rows * 3e-6 + _DRAW_SECONDS * n * dim + flops / _FLOPS
    copies = 2 if n <= dim else 4
    return Cost(seconds, 1e6 + rows * _ROW_BYTES + 8.0 * (copies * n * dim + (2 * dim**2 if n > dim else 0)))


def flow(parameters: Parameters, rows: int) -> Cost:
    """Gradient flow of the end-to-end map: a placeholder at ten times the end point until measured."""
    base = limit(parameters, rows)
    return Cost(10 * base.seconds + rows * 1e-3, 2 * base.peak_bytes)


def network(parameters: Parameters, rows: int) -> Cost:
    """Gradient descent on the layers: a placeholder from the operation count until measured."""
    steps = min(float(parameters["finetune_steps"]), 2e4)
    dim, depth = int(parameters["dim"]), int(parameters["depth"])
    work = 6.0 * dim**2 * depth
    return Cost(1e-2 + 2 * steps * rows * work / 1e10, 1e6 + rows * 8.0 * 8 * dim**2 * depth)


ENGINES: dict[str, Callable[[Parameters, int], Cost]] = {
    "theory": theory, "limit": limit, "flow": flow, "network": network,
}


def _samples(parameters: Parameters) -> int:
    return round(float(parameters["gamma"]) * int(parameters["dim"]))


def _distance(parameters: Parameters, rows: int) -> Cost:
    """Pairwise distances once a draw, then an assignment for each distinct pair of teachers (at most one a row)."""
    size, dim = int(parameters["distance_samples"]), int(parameters["dim"])
    if not size:
        return Cost(0.0, 0.0)
    return Cost(4e-10 * size**2 * dim + rows * 3e-9 * size**2.5, 8.0 * (4 * size**2 + 2 * size * dim))

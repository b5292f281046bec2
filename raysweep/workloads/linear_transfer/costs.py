"""What rows of one draw cost on one core, engine by engine; importable without torch and SciPy.

Each function takes one cell's parameters and the number of rows that share (engine, dim) and a seed, all priced like
that cell. Constants were measured on one core of a 2-core x86 machine (float64, one BLAS thread); expect a factor 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.linear_transfer import training_costs

Parameters = Mapping[str, Any]

_DRAW_SECONDS = 2e-8  # per number of X: drawing it and passing over it
_FLOPS = 3.5e10  # of LAPACK's blocked QR on one core
_ROW_BYTES = 1000.0  # columns, inner products and metrics of one row


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw (they share engine and dim), distances included.

    One factorization serves every row of `theory` and `limit`, so the largest n prices all of them; rows that are
    trained are priced one by one.
    """
    name, rows = str(columns["engine"][0]), len(columns["gamma"])
    largest = int(np.argmax(columns["gamma"]))
    parameters = {key: values[largest] for key, values in columns.items()}
    engine = TRAINED[name](columns) if name in TRAINED else ENGINES[name](parameters, rows)
    apart = _distance(parameters, rows)
    return Cost(engine.seconds + apart.seconds, max(engine.peak_bytes, apart.peak_bytes))


def theory(parameters: Parameters, rows: int) -> Cost:
    """Closed forms, most of them integrals for each distinct cell."""
    integral = 2e-4 if parameters["ridge"] > 0 or parameters["frozen_layers"] > 0 else 0.0
    several = 5e-5 + 0.012 / max(_samples(parameters), 1) if parameters["depth"] > 1 else 0.0
    memory = 1e6 + rows * _ROW_BYTES + (6e7 if integral + several > 0 else 0.0)
    return Cost(1e-4 + rows * (3e-6 + integral + several), memory)


def limit(parameters: Parameters, rows: int) -> Cost:
    """One QR of X serves every row; a further n extends it, so that the largest n decides."""
    n, dim = _samples(parameters), int(parameters["dim"])
    small, large = min(n, dim), max(n, dim)
    flops = 2.0 * small**2 * (large - small / 3)
    seconds = 2e-4 + rows * 3e-6 + _DRAW_SECONDS * n * dim + flops / _FLOPS
    copies = 2 if n <= dim else 4
    return Cost(seconds, 1e6 + rows * _ROW_BYTES + 8.0 * (copies * n * dim + (2 * dim**2 if n > dim else 0)))


ENGINES: dict[str, Callable[[Parameters, int], Cost]] = {"theory": theory, "limit": limit}
TRAINED: dict[str, Callable[[Columns], Cost]] = {"flow": training_costs.flow, "network": training_costs.network}


def _samples(parameters: Parameters) -> int:
    return round(float(parameters["gamma"]) * int(parameters["dim"]))


def _distance(parameters: Parameters, rows: int) -> Cost:
    """Pairwise distances once a draw, then an assignment for each distinct pair of teachers (at most one a row)."""
    size, dim = int(parameters["distance_samples"]), int(parameters["dim"])
    if not size:
        return Cost(0.0, 0.0)
    return Cost(4e-10 * size**2 * dim + rows * 3e-9 * size**2.5, 8.0 * (4 * size**2 + 2 * size * dim))

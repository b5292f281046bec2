"""What rows of one draw cost on one core, engine by engine; importable without torch and SciPy.

Rows share (engine, dim) and a seed. Constants were measured on one core of a 2-core x86 machine (float64, one BLAS
thread, torch 2.15). Expect an error of a factor 2; of 2-3 for trained rows, and more if the number of steps to
convergence is an estimate.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.theory.arrays import samples
from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Array, Columns, Cost
from raysweep.workloads.linear_transfer.target import signs

Parameters = Mapping[str, Any]

_DRAW_SECONDS = 2e-8  # per number of X: drawing it and one pass over it
_FLOPS = 3.5e10  # a second, for LAPACK's blocked QR on one core
_ROW_BYTES = 1000.0  # columns, inner products and metrics of one row
_FACTOR_SECONDS = 1.2e-9  # per n dim min(n, dim) of a singular value decomposition; per dim³ of an eigendecomposition
_SUBSTEPS = 55  # of an integrator step
_MODE_SECONDS = 3e-9  # per mode and substep
_STEP_SECONDS = 1.8e-3  # of an integrator step, for any number of rows
_PASS_SECONDS = 2.5e-5  # per layer (and one more) of a descent step of a chunk, for any number of rows
_BANDWIDTH = 1.6e10  # bytes/s when layers pass through memory
_CHUNK_BYTES = 8 << 20
_BASE_BYTES = 4e7  # work arrays of a chunk, for either engine
_STEP_CAP = 2e5


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw (they share engine and dim), including their distances.

    One factorization serves all rows of `theory` and `limit`, so the largest n decides their cost. The cost of trained
    rows is computed row by row.
    """
    rows, largest = len(columns["gamma"]), int(np.argmax(columns["gamma"]))
    parameters = {key: values[largest] for key, values in columns.items()}
    name, dim, size = str(columns["engine"][0]), int(parameters["dim"]), int(parameters["distance_samples"])
    choices, row = symmetric.expanded(columns, signs(columns))  # each sign choice is trained
    if name in ("flow", "network"):
        engine = flow(choices) if name == "flow" else network(choices)
    else:
        n = int(samples(columns)[largest])
        engine = theory(parameters, n, rows) if name == "theory" else limit(n, dim, len(row))
    # pairwise distances once a draw, then an assignment for each distinct pair of teachers
    seconds = 4e-10 * size**2 * dim + rows * 3e-9 * size**2.5
    return engine + Cost(seconds, 8.0 * (4 * size**2 + 2 * size * dim))


def theory(parameters: Parameters, n: int, rows: int) -> Cost:
    """Cost of the closed forms; most of them are integrals, one for each distinct cell."""
    integral = 2e-4 if parameters["ridge"] > 0 or parameters["frozen_layers"] > 0 else 0.0
    several = 5e-5 + 0.012 / max(n, 1) if parameters["depth"] > 1 else 0.0
    memory = 1e6 + rows * _ROW_BYTES + (6e7 if integral + several > 0 else 0.0)
    return Cost(1e-4 + rows * (3e-6 + integral + several), memory)


def limit(n: int, dim: int, rows: int) -> Cost:
    """Cost of `limit`: one QR of X serves all rows, and is extended to a larger n, so the largest n decides."""
    small, large = min(n, dim), max(n, dim)
    flops = 2.0 * small**2 * (large - small / 3)
    seconds = 2e-4 + rows * 3e-6 + _DRAW_SECONDS * n * dim + flops / _FLOPS
    copies = 2 if n <= dim else 4
    return Cost(seconds, 1e6 + rows * _ROW_BYTES + 8.0 * (copies * n * dim + (2 * dim**2 if n > dim else 0)))


def flow(columns: Columns) -> Cost:
    """Cost of `flow`: one factorization per n, then 50 to 300 integrator steps of all rows of a pack together."""
    n, dim = samples(columns), float(columns["dim"][0])
    modes = np.minimum(n, dim)
    time = np.asarray(columns["finetune_lr"], float) * np.asarray(columns["finetune_steps"], float)
    crowded = np.where(np.abs(n / dim - 1) < 0.2, 2.0, 1.0)  # slow modes
    steps = np.where(np.isinf(time), 50.0, 40 + 50 * np.log10(1 + np.where(np.isinf(time), 0.0, time))) * crowded
    steps = np.where(np.asarray(columns["depth"]) > 1, steps, 0.0)
    trained = 2 * steps * _SUBSTEPS * modes * _MODE_SECONDS
    seconds = 2e-3 + 2 * _STEP_SECONDS * steps.max() + trained.sum() + 3e-5 * len(n) + _factorizations(n, dim)
    memory = 8.0 * (4 * n.max() * dim + dim**2 + 6 * modes.sum()) + 2000.0 * len(n)
    return Cost(float(seconds), float(_BASE_BYTES + memory))


def network(columns: Columns) -> Cost:
    """Cost of `network`: each step of scratch and fine-tuning reads or writes the layers four times (layers.py)."""
    n, dim = samples(columns), float(columns["dim"][0])
    depth = np.asarray(columns["depth"], float)
    steps = _steps(columns, n, dim, depth)
    layer_bytes = 8 * dim**2 * (depth - 1)
    chunk_rows = np.maximum(1.0, _CHUNK_BYTES / (2 * layer_bytes + 8 * dim**2))
    seconds = 1e-2 + (steps * 2 * 4 * layer_bytes / _BANDWIDTH).sum() + _factorizations(n, dim)
    for layers in np.unique(depth):
        same = depth == layers
        chunks = np.ceil(same.sum() / chunk_rows[same][0])
        seconds += chunks * steps[same].max() * _PASS_SECONDS * (1 + layers)
    # twice the chunk, while finished rows are taken out
    resident = np.minimum(chunk_rows, len(n)) * (5 * layer_bytes + 24 * dim**2)
    return Cost(float(seconds), float(_BASE_BYTES + resident.max() + 8.0 * n.max() * dim + 2000.0 * len(n)))


def _factorizations(n: Array, dim: float) -> float:
    distinct = np.unique(n)
    factored = _FACTOR_SECONDS * np.maximum(distinct, dim) * dim * np.minimum(distinct, dim)
    return float((_DRAW_SECONDS * distinct * dim + factored).sum())


def _steps(columns: Columns, n: Array, dim: float, depth: Array) -> Array:
    """Descent steps of each row: finetune_steps, or an estimate from slowest mode and escape from the origin."""
    budget, lr = np.asarray(columns["finetune_steps"], float), np.asarray(columns["finetune_lr"], float)
    slowest = np.maximum((1 - np.sqrt(dim / np.maximum(n, 1.0))) ** 2, 1 / dim**2)
    alpha = np.asarray(columns["init_scale"], float)
    with np.errstate(over="ignore"):
        escape = np.where(depth == 2, -np.log(alpha), alpha ** (2.0 - depth) / np.maximum(depth - 2, 1.0))
        escape = np.where(depth > 1, np.maximum(escape, 0.0), 0.0)
    needed = (20 / slowest / depth + escape) / lr
    return np.where(n == 0, 0.0, np.where(np.isinf(budget), np.minimum(needed, _STEP_CAP), budget))

"""What rows of one draw cost on one core, engine by engine; importable without torch and SciPy.

Constants were measured on one core of a 2-core x86 machine (float64, one BLAS thread); expect an error of a factor 2.
"""

import numpy as np

from raysweep.workloads import symmetric
from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.linear_spectrum.tasks import signs, with_even_layers

_STEP_CAP = 1e5
_FLOPS = 2e10


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw, which share engine and dim."""
    engine, dim = str(columns["engine"][0]), int(columns["dim"][0])
    if engine != "theory":  # each sign choice is trained
        columns = with_even_layers(columns)
        columns, _ = symmetric.expanded(columns, signs(columns))
    rows, depth = len(columns["dim"]), np.asarray(columns["depth"], float)
    base = Cost(1e-3 + rows * (2e-5 + 4e-7 * dim), 1e6 + rows * (1000.0 + 200.0 * dim))
    if engine == "theory":
        return base
    layers = float(8 * (3 * depth.max() + 4) * dim**2)
    steps = np.where(np.asarray(columns["finetune_steps"]) > 0, np.minimum(columns["finetune_steps"], _STEP_CAP), 0.0)
    # seconds of a gradient, or of a perturbed product
    work = 6 * np.maximum(depth - 1, 0.5) * float(dim) ** 3 / _FLOPS + 5e-9 * depth * dim**2
    if engine == "flow":
        coupled = (np.asarray(columns["noise"]) != 0) | ((np.asarray(columns["overlap_angle"]) > 0) & (steps > 0))
        evaluations = np.where(coupled, np.where(steps > 0, 600.0, 1.0), 0.0)
        seconds = (evaluations * (2e-5 * depth + work) + np.where(coupled, 1e-4, 0.0)).sum()
        return Cost(base.seconds + float(seconds), base.peak_bytes + 20 * layers)
    # a step of a batch has a fixed time, which is charged to its longest row
    seconds = float(steps.max(initial=0.0)) * float(depth.max()) * 1.5e-5 + float((steps * work).sum())
    return Cost(base.seconds + 1e-2 + seconds, base.peak_bytes + min(rows * layers, 64e6 + layers))

"""What rows of one draw cost on one core; importable without SciPy.

Constants were measured on one core of a 2-core x86 machine (float64, one BLAS thread); expect an error of a factor 2.
"""

import numpy as np

from raysweep.workloads import image_data
from raysweep.workloads.declaration import Columns, Cost

_FLOPS = 2e10


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw, which share data and pair."""
    data = image_data.planned(str(columns["data"][0]))
    trained, tested = (2 * len(part.labels) / len(data.classes) for part in (data.train, data.test))
    size = float(np.prod(data.train.pixels.shape[1:]))
    samples, repeats = (np.asarray(columns[name], float) for name in ("target_samples", "repeats"))
    few = np.minimum(samples, size)
    draws = repeats * (3e-5 + 2e-8 * trained + (14 * few**2 * np.maximum(samples, size) + 4 * tested * size) / _FLOPS)
    # a process keeps the factorizations of both tasks for other seeds and other pairs of them: a fourth is counted
    tasks = 0.25 * 2 * (2 * trained * size**2 + 8 * size**3) / _FLOPS
    stored = 2 * 8 * size * (2 * size + 2 * trained) + 4 * 8 * float((repeats * samples).max()) * size
    read = 2 * float(data.train.pixels.nbytes + data.test.pixels.nbytes)
    rows = 1e-3 + (trained + tested) * size * 1.5e-9
    return Cost(tasks + float((draws + rows).sum()), 1e6 + read + stored + 64 * 8 * size**2)

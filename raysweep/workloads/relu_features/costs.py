"""What stages cost, on one core and on one GPU; importable without torch.

Core: measured on one core of a 2-core x86 machine (float64, one thread). Expect an error of a factor 2, and
of more with noise, where networks from scratch take longer to fit. GPU: a guess, see WORKLOAD.gpu_guess.
"""

import numpy as np

from raysweep.workloads.declaration import Columns, Cost

_BASE_BYTES = 3e8
_STEP = 6e-5  # fixed seconds of a step
_PAIR = 1.45e-8  # a step's seconds for a pair of features
_ACTIVATION = 3.1e-9  # a step's seconds for a sample of a neuron
_FLOPS = 7e10  # a second, of a step's products on a core
_SOLVE = 1e-10  # seconds of a fit per samples x neurons x the smaller of both; twice that of an eigenproblem
_RISK = 3e-8  # seconds of a risk for a pair of features
_ENDING = 1200.0  # flow time until networks from scratch fit n samples, times dim * teacher_width / n
_GPU_FLOPS, _GPU_BYTES, _GPU_STEP = 3e13, 2e12, 3e-4


def pretrain(columns: Columns) -> Cost:
    rows, steps = len(columns["dim"]), float(columns["steps"][0])
    dim, width, pairs = _shape(columns)
    flops = 4.0 * pairs * dim
    seconds = rows * (steps * (_STEP + pairs * _PAIR + flops / _FLOPS) + 3 * pairs * _RISK + 2e-11 * width**3)
    gpu = steps * max(_GPU_STEP, rows * (flops / _GPU_FLOPS + 120.0 * pairs / _GPU_BYTES))
    return Cost(seconds, _BASE_BYTES + 60.0 * pairs, gpu)


def target(columns: Columns) -> Cost:
    """Cost of rows of one draw: networks from scratch, once for all ablations, and fits."""
    datasets, rate = float(columns["datasets"][0]), float(columns["learning_rate"][0])
    dim, width, pairs = _shape(columns)
    distinct = np.unique(np.stack([columns["target_samples"], columns["noise"]]), axis=1)[0]
    steps = np.minimum(columns["steps"][0], _ENDING * distinct / (dim * float(columns["teacher_width"][0]) * rate))
    values = distinct * width
    flops = 4.0 * values * dim
    scratch = steps * (_STEP + values * _ACTIVATION + flops / _FLOPS) + pairs * _RISK
    every = np.asarray(columns["target_samples"], float)
    fits = _SOLVE * (every * width * np.minimum(every, width) + 2 * every**3) + 4e-9 * pairs
    ablations = len(np.unique(columns["ablation"]))
    seconds = datasets * float(scratch.sum() + fits.sum()) + ablations * pairs * _RISK
    on_gpu = steps * np.maximum(_GPU_STEP, datasets * (flops / _GPU_FLOPS + 40.0 * values / _GPU_BYTES))
    gpu = float(on_gpu.sum()) + datasets * float(fits.sum())
    return Cost(seconds, _BASE_BYTES + 32.0 * float(values.max()) + 16.0 * ablations * pairs, gpu)


def _shape(columns: Columns) -> tuple[float, float, float]:
    """dim, width, and the number of pairs of a feature with a feature or a teacher's."""
    dim, width, teachers = (float(columns[name][0]) for name in ("dim", "width", "teacher_width"))
    return dim, width, width * (width + teachers)

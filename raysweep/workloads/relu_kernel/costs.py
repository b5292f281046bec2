"""What rows of one draw cost, on one core; importable without torch.

Measured on one core of a 2-core x86 machine (float64, one thread), at the widths and samples of the packaged spaces;
expect an error of a factor 2. Gradient descent takes about 11 steps times the condition number of H∞. On the sphere its
largest eigenvalue is about n/4d + 1/2 and its smallest n^(-2/(d-1))/5 (measured, d from 5 to 30); on images it takes
about 70 n steps. A narrow network takes more.
"""

import numpy as np

from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.relu_kernel import tasks

STEP_CAP = 100_000  # steps, after which a network is not converged
_FLOPS = 3e10  # a second
_PASS = 2e-9  # seconds for what a step does to one neuron's answer to one sample, without its two products
_STEP = 2e-5  # fixed seconds of a step


def pretrain(columns: Columns) -> Cost:
    return _training(columns, np.array([columns["source_samples"][0]], float))


def finetune(columns: Columns) -> Cost:
    return _training(columns, np.asarray(columns["target_samples"], float))


def evaluate(columns: Columns) -> Cost:
    width, dim, source = _shape(columns)
    calls, rows = np.unique(np.asarray(columns["target_samples"], float), return_counts=True)
    everything = source + calls + tasks.TEST
    seconds = 0.02 + 5e-8 * everything * (source + calls) + 3e-10 * (source**3 + calls**3)
    memory = 3e8 + 16 * everything.max() * (source + calls.max())
    if np.isinf(width):
        seconds += 1e-8 * everything**2 + 8e-11 * everything**3
        return Cost(float(seconds.sum()), float(memory + 24 * everything.max() ** 2))
    seconds += (rows + 2) * width * (tasks.TEST + calls) * (2 * dim / _FLOPS + _PASS)
    return Cost(float(seconds.sum()), float(memory + 24 * rows.max() * width * dim))


def _training(columns: Columns, samples: np.ndarray) -> Cost:
    """samples: of each network."""
    width, dim, _ = _shape(columns)
    if np.isinf(width):
        return Cost(1e-3, 3e8)
    sphere = 55 * (samples / (4 * dim) + 0.5) * samples ** (2 / (dim - 1))
    steps = (sphere if columns["data"][0] == tasks.SPHERE else 70 * samples) / float(columns["rate"][0])
    seconds = np.clip(steps, 100.0, STEP_CAP) * (_STEP + width * samples * (4 * dim / _FLOPS + _PASS))
    memory = 3e8 + 24 * len(samples) * width * dim + 16 * width * samples.max()
    return Cost(float(seconds.sum()), float(memory))


def _shape(columns: Columns) -> tuple[float, int, float]:
    """Width, input dimension and source samples, in which the rows agree."""
    dim = tasks.dimension({name: columns[name][0] for name in ("data", "dim")})
    return float(columns["width"][0]), dim, float(columns["source_samples"][0])

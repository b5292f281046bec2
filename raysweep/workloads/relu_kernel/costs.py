"""What rows of one draw cost, on one core; importable without torch.

Measured on one core of a 2-core x86 machine (float64, one thread), at the widths and samples of the packaged spaces;
expect an error of a factor 2. How many steps gradient descent takes follows from the samples, and is only roughly known
in advance: about 50 n/d on the sphere and 70 n on images. A narrow network takes more.
"""

from __future__ import annotations

import numpy as np

from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.relu_kernel import tasks

_FLOPS = 3e10  # a second
_PASS = 2e-9  # seconds for what a step does to one neuron's answer to one sample, beside its two products
_STEP = 2e-5  # fixed seconds of a step


def pretrain(columns: Columns) -> Cost:
    """Cost of pretraining one network."""
    return _training(columns, int(columns["source_samples"][0]), 1)


def finetune(columns: Columns) -> Cost:
    """Cost of fine-tuning networks that start from one pretraining."""
    return _training(columns, int(columns["target_samples"][0]), len(columns["width"]))


def evaluate(columns: Columns) -> Cost:
    """Cost of measuring networks that start from one pretraining."""
    rows, dim = len(columns["width"]), _dimension(columns)
    source, target = float(columns["source_samples"][0]), float(columns["target_samples"][0])
    everything = source + target + tasks.TEST
    seconds = 0.02 + 5e-8 * everything * (source + target) + 1e-9 * (source**3 + target**3) / 3
    memory = 8 * everything * (source + target)
    if np.isinf(columns["width"][0]):
        return Cost(seconds + 1e-8 * everything**2 + 8e-11 * everything**3, 3e8 + memory + 24 * everything**2)
    seen = float(columns["width"][0]) * (tasks.TEST + target)
    return Cost(seconds + (rows + 2) * seen * (2 * dim / _FLOPS + _PASS), 3e8 + memory + _weights(columns, rows))


def _training(columns: Columns, samples: int, networks: int) -> Cost:
    width, dim = float(columns["width"][0]), _dimension(columns)
    if np.isinf(width):
        return Cost(1e-3, 3e8)
    steps = (50 / dim if columns["data"][0] == tasks.SPHERE else 70) * samples / float(columns["rate"][0])
    step = _STEP + width * samples * (4 * dim / _FLOPS + _PASS)
    memory = 3e8 + _weights(columns, networks) + 16 * width * samples
    return Cost(networks * max(steps, 100.0) * step, memory)


def _weights(columns: Columns, networks: int) -> float:
    return 24.0 * networks * float(columns["width"][0]) * _dimension(columns)


def _dimension(columns: Columns) -> int:
    return tasks.dimension({name: columns[name][0] for name in ("data", "dim")})

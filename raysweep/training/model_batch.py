"""How many models train side by side as one batch of matrix products: measured on a GPU, always one on a CPU.

On a GPU a small model alone leaves most of the GPU idle. The fastest number is timed once per shape and remembered. On
a CPU models train one after the other: batched products are no faster at the sizes of the packaged spaces (`python -m
benchmarks.language`), only for steps of a few hundred tokens. Training one at a time also keeps every row equal to the
last bit, however rows are packed.
"""

from __future__ import annotations

import contextlib
import functools
import time

import numpy as np
import torch

from raysweep.training import devices, optimizer, parallel, sizes
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.params import Model, initial

TIMED_STEPS = 3
MEMORY_SHARE = 0.6  # of the GPU's free memory
GAIN = 0.97  # of the time of one model alone, at most, to count as faster; less is timing error


def side_by_side(model: Model, batch: int, count: int, dropout: float = 0.0) -> int:
    """How many of `count` waiting models to train together, each on `batch` samples a step, with this dropout."""
    if count == 1 or devices.device().type == "cpu":
        return 1
    room = MEMORY_SHARE * parallel.least(_free_memory())
    fitting = [
        models for models in range(1, count + 1) if model.training_bytes(batch, models, dropout=dropout > 0) <= room
    ]
    most = sizes.models(max(fitting, default=1))
    candidates = sorted({1, *(2**power for power in range(1, 12) if 2**power < most), most})
    alone = GAIN * _seconds_per_model(model, batch, 1, dropout)
    return min(
        candidates, key=lambda models: alone if models == 1 else _seconds_per_model(model, batch, models, dropout)
    )


def _free_memory() -> float:
    """Bytes of the GPU that are free, or that torch keeps for this process and that no tensor has."""
    kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return float(torch.cuda.mem_get_info()[0] + kept)


@functools.lru_cache(maxsize=64)
def _seconds_per_model(model: Model, batch: int, models: int, dropout: float) -> float:
    """Seconds per model, by the slowest worker of a gang; infinite on all workers if one has too little memory.

    Each worker times its own share of the batch without the others: if one runs out of memory, no other waits for it in
    the middle of a step. The time to add up the gradients is left out; per model it is about the same for any number.
    """
    own, seconds = -(-batch // parallel.workers()), float("inf")
    with contextlib.suppress(torch.cuda.OutOfMemoryError), parallel.apart():
        seconds = _timed(model, own, models, dropout)
    if seconds == float("inf"):  # outside the `with`: an exception in flight would still hold its memory
        torch.cuda.empty_cache()
    return parallel.greatest(seconds)


def _timed(model: Model, batch: int, models: int, dropout: float) -> float:
    state = State.fresh(np.repeat(initial(model, 0)[None], models, 0))
    config = TrainConfig(model, np.full(models, 1e-4), lambda step: 1.0, dropout=dropout)
    samples = model.example(batch)
    optimizer.train(state, config, lambda step: samples, 2)
    torch.cuda.synchronize()
    started = time.perf_counter()
    optimizer.train(state, config, lambda step: samples, 2 + TIMED_STEPS)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / models

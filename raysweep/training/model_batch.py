"""How many models train side by side as one batch of matrix products: measured where it can pay, one where it cannot.

On a GPU a small model alone leaves most of it idle; what is fastest there is timed once per shape and kept. On a CPU
models take turns: batched products gain nothing there at the sizes of the packaged spaces (`python -m
benchmarks.language`; they do for steps of a few hundred tokens), and taking turns keeps every row equal to the last bit
however rows are packed.
"""

from __future__ import annotations

import contextlib
import functools
import time

import numpy as np
import torch

from raysweep.training import devices, optimizer, parallel
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.params import Model, initial

TIMED_STEPS = 3
MEMORY_SHARE = 0.6  # of what the GPU has free
GAIN = 0.97  # of the time of one alone, at most; less is within the error of the timing


def side_by_side(model: Model, batch: int, count: int) -> int:
    """Models to train together, of `count` that wait, each on `batch` samples a step."""
    if count == 1 or devices.device().type == "cpu":
        return 1
    free = parallel.least(torch.cuda.mem_get_info()[0])
    most = min(count, max(1, int(MEMORY_SHARE * free / model.training_bytes(batch))))
    candidates = sorted({1, *(2**power for power in range(1, 12) if 2**power < most), most})
    alone = GAIN * _seconds_per_model(model, batch, 1)
    return min(candidates, key=lambda models: alone if models == 1 else _seconds_per_model(model, batch, models))


@functools.lru_cache(maxsize=64)
def _seconds_per_model(model: Model, batch: int, models: int) -> float:
    """By the slowest worker of a gang; infinite, for all of them, if one has too little memory. Each times its own
    share of the batch, apart from the others: if one runs out of memory, none waits for it in the middle of a step.
    What it costs to add up the gradient of a model is left out; it is about the same however many train together."""
    own, seconds = -(-batch // parallel.workers()), float("inf")
    with contextlib.suppress(torch.cuda.OutOfMemoryError), parallel.apart():
        seconds = _timed(model, own, models)
    if seconds == float("inf"):  # only here, for what is being raised keeps hold of its memory
        torch.cuda.empty_cache()
    return parallel.greatest(seconds)


def _timed(model: Model, batch: int, models: int) -> float:
    state = State.fresh(np.repeat(initial(model, 0)[None], models, 0))
    config = TrainConfig(model, np.full(models, 1e-4), lambda step: 1.0)
    samples = model.example(batch)
    optimizer.train(state, config, lambda step: samples, 2)
    torch.cuda.synchronize()
    started = time.perf_counter()
    optimizer.train(state, config, lambda step: samples, 2 + TIMED_STEPS)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / models

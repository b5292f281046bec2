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

from raysweep.workloads import devices
from raysweep.workloads.language import model, parallel, training
from raysweep.workloads.language.shapes import Shape
from raysweep.workloads.language.training import Recipe, State

TIMED_STEPS = 3
MEMORY_SHARE = 0.6  # of what the GPU has free
GAIN = 0.97  # of the time of one alone, at most; less is within the error of the timing


def side_by_side(shape: Shape, batch: int, count: int) -> int:
    """Models to train together, of `count` that wait, each on `batch` sequences a step."""
    if count == 1 or devices.device().type == "cpu":
        return 1
    free = parallel.least(torch.cuda.mem_get_info()[0])
    most = min(count, max(1, int(MEMORY_SHARE * free / shape.training_bytes(batch))))
    candidates = sorted({1, *(2**power for power in range(1, 12) if 2**power < most), most})
    alone = GAIN * _seconds_per_model(shape, batch, 1)
    return min(candidates, key=lambda models: alone if models == 1 else _seconds_per_model(shape, batch, models))


@functools.lru_cache(maxsize=64)
def _seconds_per_model(shape: Shape, batch: int, models: int) -> float:
    """By the slowest worker of a gang; infinite, for all of them, if one has too little memory. Each times its own
    share of the batch, apart from the others: if one runs out of memory, none waits for it in the middle of a step.
    What it costs to add up the gradient of a model is left out; it is about the same however many train together."""
    own, seconds = -(-batch // parallel.workers()), float("inf")
    with contextlib.suppress(torch.cuda.OutOfMemoryError), parallel.apart():
        seconds = _timed(shape, own, models)
    if seconds == float("inf"):  # only here, for what is being raised keeps hold of its memory
        torch.cuda.empty_cache()
    return parallel.greatest(seconds)


def _timed(shape: Shape, batch: int, models: int) -> float:
    state = State.fresh(np.repeat(model.initial(shape, 0)[None], models, 0))
    recipe = Recipe(shape, np.full(models, 1e-4), lambda step: 1.0)
    tokens = np.zeros((batch, shape.context + 1), np.uint8)
    training.train(state, recipe, lambda step: tokens, 2)
    torch.cuda.synchronize()
    started = time.perf_counter()
    training.train(state, recipe, lambda step: tokens, 2 + TIMED_STEPS)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / models

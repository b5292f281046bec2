"""How many models train side by side as one batch of matrix products: measured where it can pay, one where it cannot.

On a CPU batched small products are slower than separate ones (1.6 to 2.6 times on two cores), so there models take
turns. On a GPU a small model alone leaves most of it idle; what is fastest there is timed once per shape and kept.
"""

from __future__ import annotations

import functools
import time

import numpy as np
import torch

from raysweep.workloads.language import model, training
from raysweep.workloads.language.shapes import Shape
from raysweep.workloads.language.training import Recipe, State

TIMED_STEPS = 3
MEMORY_SHARE = 0.6  # of what the GPU has free


def side_by_side(shape: Shape, batch: int, count: int) -> int:
    """Models to train together, of `count` that wait, each on `batch` sequences a step."""
    if count == 1 or training.device().type == "cpu":
        return 1
    free, _ = torch.cuda.mem_get_info()
    most = min(count, max(1, int(MEMORY_SHARE * free / model_bytes(shape, batch))))
    candidates = sorted({1, *(2**power for power in range(1, 12) if 2**power < most), most})
    return min(candidates, key=lambda models: _seconds_per_model(shape, batch, models))


def model_bytes(shape: Shape, batch: int) -> float:
    """Memory one model takes in training: weights, gradient, moments and scratch, and what the backward pass keeps."""
    kept = min(training.PIECE_BYTES, batch * shape.context * shape.kept_bytes())
    return 32.0 * shape.weights() + kept


@functools.lru_cache(maxsize=64)
def _seconds_per_model(shape: Shape, batch: int, models: int) -> float:
    state = State.fresh(np.repeat(model.initial(shape, 0)[None], models, 0))
    recipe = Recipe(shape, np.full(models, 1e-4), lambda step: 1.0)
    tokens = np.zeros((batch, shape.context + 1), np.uint8)
    training.train(state, recipe, lambda step: tokens, 2)
    torch.cuda.synchronize()
    started = time.perf_counter()
    training.train(state, recipe, lambda step: tokens, 2 + TIMED_STEPS)
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / models

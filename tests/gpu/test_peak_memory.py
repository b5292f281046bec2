"""The most memory that a piece of work takes on a GPU, counted on tensors without content."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from peak_memory import BLOCK, PeakMemory
from torch._subclasses.fake_tensor import FakeTensorMode

from raysweep.training.params import PIECE_BYTES
from raysweep.workloads.language import evaluation
from raysweep.workloads.language.model_config import PRESETS

WORDS = 50_304
SHAPES = {**PRESETS, "30m, many words": replace(PRESETS["30m"], vocabulary=WORDS)}


@pytest.mark.parametrize("mode", [FakeTensorMode, torch.no_grad], ids=["fake", "real"])
def test_the_counter_agrees_with_a_count_by_hand(mode: type) -> None:
    size = 4 * 1024
    with mode(), torch.enable_grad():
        start = torch.ones(1024, requires_grad=True)
        with PeakMemory() as count:
            kept = start.exp()  # kept for the backward pass
            assert count.held == size
            kept.view(32, 32).detach()  # no memory of its own
            assert count.held == size
            total = (kept * 2).sum()  # a product that is freed, and one number
            assert (count.held, count.peak) == (size + BLOCK, 2 * size + BLOCK)
            del kept
            assert count.held == size + BLOCK
            total.backward()
            assert start.grad is not None
            # the incoming gradient, its product with 2, and the gradient, which replaces what was kept
            assert count.held == size + BLOCK
            del total
            assert count.held == size
    assert 3 * size <= count.peak <= 3 * size + 4 * BLOCK


@pytest.mark.parametrize("which", SHAPES)
def test_curvature_takes_no_more_than_a_piece_of_a_training_step(which: str) -> None:
    config = SHAPES[which]
    count = min(evaluation.CURVATURE_SEQUENCES, 2 * max(1, int(PIECE_BYTES / config.curvature_bytes())))  # two parts
    sequences = np.zeros((count, config.context + 1), np.uint16)
    with FakeTensorMode(allow_non_fake_inputs=True):
        flat = torch.empty(1, config.weights())
        with PeakMemory() as memory:
            evaluation.quadratic_of(flat, sequences, config).product(flat[0])
    assert 0.4 * min(PIECE_BYTES, count * config.curvature_bytes()) < memory.peak < PIECE_BYTES + 32 * config.weights()

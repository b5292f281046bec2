"""The most memory that a piece of work takes on a GPU, counted on tensors without content."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from peak_memory import BLOCK, PeakMemory
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from benchmarks.cuda_types import cuda_types, kernels
from raysweep.training import compiled, devices, optimizer, sharding
from raysweep.training.dropout import Dropout
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.sizes import PIECE_BYTES
from raysweep.workloads.language import evaluation
from raysweep.workloads.language.model_config import PRESETS, ModelConfig

WORDS = 50_304
SHAPES = {
    **PRESETS,
    "tiny, many words": replace(PRESETS["tiny"], vocabulary=WORDS),
    "30m, many words": replace(PRESETS["30m"], vocabulary=WORDS),
}


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


@pytest.mark.parametrize("of", ["tensors without content", pytest.param("a real GPU", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("which", SHAPES)
def test_curvature_takes_no_more_than_a_piece_of_a_training_step(which: str, of: str) -> None:
    config = SHAPES[which]
    count = min(evaluation.CURVATURE_SEQUENCES, 2 * max(1, int(PIECE_BYTES / config.curvature_bytes())))  # two parts
    sequences = np.zeros((count, config.context + 1), np.uint16)

    def product() -> None:
        evaluation.quadratic_of(flat, sequences, config).product(flat[0])

    most = PIECE_BYTES + 32 * config.weights()
    if of == "tensors without content":
        with FakeTensorMode(allow_non_fake_inputs=True):
            flat = torch.empty(1, config.weights())
            with PeakMemory() as memory:
                product()
        peak = memory.peak
    else:
        flat = torch.zeros(1, config.weights(), device=devices.device())
        peak = peak_on_the_device(product, most)
    assert 0.4 * min(PIECE_BYTES, count * config.curvature_bytes()) < peak < most


class Operations(TorchDispatchMode):
    """Every operation, with types and shapes of its results."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not str(func).startswith("prim"):
            shapes = [(each.dtype, tuple(each.shape)) for each in tree_iter(result) if isinstance(each, Tensor)]
            self.seen.append((str(func), shapes))
        return result


@contextlib.contextmanager
def on_cuda() -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(kernels("AutocastCUDA"))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))  # before CUDA is said to be there
        for name in ("is_available", "is_bf16_supported"):
            stack.enter_context(mock.patch.object(torch.cuda, name, return_value=True))
        stack.enter_context(mock.patch.object(torch.cuda, "current_device", return_value=0))
        yield


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("words", [256, WORDS])
def test_operations_and_types_are_those_of_tensors_on_cuda(models: int, dropout: float, words: int) -> None:
    config = replace(PRESETS["tiny"], vocabulary=words, context=1024)
    masks = Dropout.of_step(dropout, 0, "a", 0, config.depth) if dropout else None
    seen = {}
    for where, mode in (("cuda", on_cuda), ("cpu", cuda_types)):
        with mode():
            flat = torch.empty(models, config.weights(), device=where)
            tokens = torch.zeros(8, config.context + 1, dtype=torch.int64, device=where)
            with Operations() as operations, optimizer.mixed_precision(flat.device):
                config.loss_sums(sharding.params(flat, config, torch.empty_like(flat)), tokens, masks)
        seen[where] = operations.seen
    assert len(seen["cpu"]) > 100
    assert seen["cpu"] == seen["cuda"]


def peak_of_a_step(config: ModelConfig, batch: int, models: int, dropout: float) -> int:
    with PeakMemory() as memory:
        take_a_step(config, batch, models, dropout)
    return memory.peak


def take_a_step(config: ModelConfig, batch: int, models: int, dropout: float) -> None:
    samples, start = config.example(batch), torch.zeros(models, config.weights(), device=devices.device())
    recipe = TrainConfig(config, np.full(models, 1e-3), lambda step: 1.0, weight_decay=0.1, dropout=dropout)
    optimizer.train(State.fresh(start), recipe, lambda step: samples, 1)


def peak_on_the_device(work: Callable[[], None], needed: float) -> int:
    """The most bytes that tensors had at a time. What stays in the allocator's cache is no tensor's; and workspaces of
    libraries and compiled kernels, which stay until the process ends, are there before."""
    gc.collect()
    torch.cuda.empty_cache()
    if 1.2 * needed > torch.cuda.mem_get_info()[0]:
        pytest.skip(f"needs {1.2 * needed / 1e9:.1f} GB of the GPU's memory")
    work()
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.parametrize("of", ["tensors without content", pytest.param("a real GPU", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("which", SHAPES)
@pytest.mark.parametrize("models", [1, 8, 27])
@pytest.mark.parametrize(("batch", "dropout"), [(1, 0.0), (8, 0.1), (64, 0.0), (64, 0.1)])
def test_training_takes_what_is_estimated_or_up_to_a_quarter_less(
    which: str, models: int, batch: int, dropout: float, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU compiled functions may take less."""
    config = SHAPES[which]
    each = config.sample_bytes(models, dropout=dropout > 0)
    batch = min(batch, 2 * max(1, int(PIECE_BYTES / (models * each))))  # further pieces take no more
    estimated = config.training_bytes(batch, models, dropout=dropout > 0)
    if of == "tensors without content":
        with cuda_types():
            peak = peak_of_a_step(config, batch, models, dropout)
    else:
        compiling = peak_on_the_device(lambda: take_a_step(config, batch, models, dropout), estimated)
        assert compiling <= estimated
        monkeypatch.setattr(compiled, "available", lambda: False)
        peak = peak_on_the_device(lambda: take_a_step(config, batch, models, dropout), estimated)
    assert 0.75 <= peak / estimated <= 1


@pytest.mark.parametrize("which", SHAPES)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_training_on_a_cpu_takes_what_is_estimated_or_up_to_a_quarter_less(which: str, dropout: float) -> None:
    config = SHAPES[which]
    no_look = mock.patch.object(Tensor, "is_cuda", property(lambda tensor: True))  # there is no content to look at
    with FakeTensorMode(allow_non_fake_inputs=True), no_look:
        peak = peak_of_a_step(config, 16, 1, dropout)
    assert 0.75 <= peak / config.training_bytes(16, dropout=dropout > 0, wide=True) <= 1

"""Work counted on the operations of real training steps, and what a GPU should make of it.

Run with: python -m benchmarks.roofline. On a GPU it times steps too.

Steps are those of training.optimizer, on tensors without content that have the types of a GPU
(benchmarks/cuda_types.py), so that the largest preset takes seconds. Every operation that is dispatched, in backward
passes too, counts as one kernel that reads its tensors once and writes its results once. Views start no kernel. Where
torch's compiler joins operations on a GPU, the kernels that it plans count instead (joined.py).

The time of that work is costs.Work.seconds, with shares of an H200's data sheet that are assumed, not measured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.flop_counter import flop_registry

from benchmarks import language
from raysweep.training import compiled, optimizer
from raysweep.training.optimizer import State, TrainConfig
from raysweep.workloads.language import costs
from raysweep.workloads.language.costs import Work
from raysweep.workloads.language.model_config import PRESETS, ModelConfig

_NO_KERNEL = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "device"}
_FILLS = {"zero_", "fill_"}  # write a tensor without reading it


Row = tuple[str, str, str]

STEPS = ((16_384, 1), (16_384, 8), (65_536, 1))
"""Tokens a step of each model, and models side by side."""
ORIENTATION = {("3m", 16_384, 1): 3.9, ("3m", 16_384, 8): 11.7, ("3m", 65_536, 1): 10.1}
"""Million tokens a second of another program with 3.1M weights on an H200; 3.9 and 11.7 are of fine-tunings."""


_uncounted: list[bool] = []


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """While the block runs, nothing is counted."""
    _uncounted.append(True)
    try:
        yield
    finally:
        _uncounted.pop()


class Counter(TorchDispatchMode):
    """Counts the work of all operations while the block runs."""

    def __init__(self) -> None:
        super().__init__()
        self.work = Work()  # so far

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if _uncounted or func.is_view or name in _NO_KERNEL:
            return result
        self.work = Work(
            self.work.flops + flops(func, name, args, result),
            self.work.bytes + moved(name, args, kwargs or {}, result),
            self.work.launches + 1,
        )
        return result


def moved(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """Bytes that an operation reads and writes."""
    written = sum(_size(each) for each in tree_iter(result) if isinstance(each, Tensor))
    read = [each for each in tree_iter((args, {**kwargs, "out": None})) if isinstance(each, Tensor)]
    if name in _FILLS or name.startswith("new_") or name.endswith("_like"):  # of the tensor only shape and type matter
        return written
    if name == "embedding":  # of the table, only what is looked up
        return 2 * written + _size(args[1])
    if name == "gather":
        return 2 * written + _size(args[2])
    if name == "scatter_add_":  # of the tensor, only where something is added
        return 3 * _size(args[3]) + _size(args[2])
    if name == "flash_attention_backward":  # the gradient of the queries is summed in float32 and rounded in the end
        return sum(map(_size, read)) + written + 2 * 4 * args[1].numel()
    return sum(map(_size, read)) + written


def _size(tensor: Tensor) -> int:
    """Bytes of a tensor, without its repetitions."""
    count = 1
    for length, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= length if stride else 1
    return count * tensor.element_size()


def flops(func: Any, name: str, args: tuple[Any, ...], result: Any) -> float:
    """Floating-point operations of an operation's products; 0 of others. Causality is not counted."""
    if name == "flash_attention":
        count, heads, length, width = args[0].shape
        return 4.0 * count * heads * length**2 * width
    if name == "flash_attention_backward":  # scores are computed again
        count, heads, length, width = args[1].shape
        return 10.0 * count * heads * length**2 * width
    counted = flop_registry.get(func.overloadpacket)
    return float(counted(*args, out_val=result)) if counted else 0.0


def step(config: ModelConfig, batch: int, models: int = 1, dropout: float = 0.0) -> Work:
    """The work of one training step of models side by side with weight decay, on `batch` sequences each.

    To be called within cuda_types.
    """
    samples = config.example(batch)
    state = State.fresh(torch.empty(models, config.weights()), torch.device("cpu"))
    recipe = TrainConfig(config, np.full(models, 1e-3), lambda step: 1.0, weight_decay=0.1, dropout=dropout)
    with Counter() as counter:
        optimizer.train(state, recipe, lambda step: samples, 1)
    return counter.work


def rows() -> list[Row]:
    """The lines of the table: what, counted and estimated (and measured, on a GPU), no bound."""
    from benchmarks import joined  # which needs this file

    found: list[Row] = []
    for preset, config in PRESETS.items():
        for tokens, models in STEPS:
            batch = tokens // config.context
            with joined.cuda_types():
                alone = step(config, batch, models)
            work = joined.step(config, batch, models)
            seconds, said = work.seconds(), "starting kernels"
            if seconds > work.launches * costs.GPU_LAUNCH:
                moving = work.bytes / costs.GPU_BYTES / seconds
                said = f"{moving:.0%} memory traffic, {1 - moving:.0%} products"
            what = (
                f"{work.flops / 1e12:.3g} Tflop; operation by operation {alone.bytes / 1e9:.3g} GB in "
                f"{alone.launches:,.0f} kernels, by the compiler's kernels {work.bytes / 1e9:.3g} GB in "
                f"{work.launches:,.0f}; on an H200 at the assumed shares {_speed(config, batch, models, seconds)} "
                f"({said}), without a compiler {_speed(config, batch, models, alone.seconds())}"
            )
            if torch.cuda.is_available():
                measured = min(language.seconds_a_step(config, batch, models) for _ in range(language.ROUNDS))
                expected = seconds if compiled.available() else alone.seconds()
                what += (
                    f"; on this {torch.cuda.get_device_name()} {_speed(config, batch, models, measured)}, "
                    f"{measured / expected:.2f} times the estimated time"
                )
            if (preset, tokens, models) in ORIENTATION:
                what += f"; another program {ORIENTATION[preset, tokens, models]:.1f}M"
            label = f"{models} models of preset {preset}" if models > 1 else f"preset {preset}"
            found.append((f"roofline of {label}, {tokens:,} tokens a step", what, ""))
    return found


def _speed(config: ModelConfig, batch: int, models: int, seconds: float) -> str:
    return f"{models * batch * config.context / seconds / 1e6:.2f}M tokens/s"


if __name__ == "__main__":
    for line in rows():
        print("| " + " | ".join(line) + " |", flush=True)

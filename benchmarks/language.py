"""Language models: a step of training against a bare loop of the same module, and against what a GPU can do.

Run with: python -m benchmarks.language. On a GPU it takes about two minutes; without one, its lines say so.

The bare loop makes the same step of the same module: loss, gradient, clipping, fused AdamW, and nothing else. Both take
turns in one run, and the least time of each counts: other work on the machine only adds to it. On a CPU time is that of
the process on one thread.

Utilization: flops a token (6 a weight of layers and head, and 12·width·context a layer for attention, causality
not counted: flops_per_token) times tokens a second, over the card's dense bfloat16 peak. The roofline beside it takes
for the layers the time of their flops at that peak, and for the head the longer of its flops at the peak and its memory
traffic at the card's bandwidth: a logit is LOGIT_BYTES of traffic. A head whose loss is fused with its product may beat
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from raysweep.training import trainer
from raysweep.training.trainer import BETAS, CLIP, Recipe, Trainer
from raysweep.workloads.language import model
from raysweep.workloads.language.costs import LOGIT_BYTES
from raysweep.workloads.language.model_config import PRESETS, ModelConfig

Row = tuple[str, str, str]

CARDS = {"H200": (989e12, 4.8e12), "H100": (989e12, 3.35e12), "A100": (312e12, 2.0e12)}
"""Dense bfloat16 flops and bytes a second, by the makers' data sheets."""
NOTHING = "not measured: no GPU"
AGAINST_BARE = (("tiny", 16, 40), ("3m-688", 4, 3))
"""Preset, sequences a step, and rounds of steps that take turns."""
MOST = 1.1  # times a bare loop
ON_GPU = (("3m-688", 256, 8e6, 0.0), ("30m", 64, 0.0, 0.35))
"""Preset, sequences a step, and what is asked: tokens a second, or a share of the peak."""
STEPS, ROUNDS = 10, 5


def trained(shape: ModelConfig, batch: int, compiles: bool = False) -> Callable[[int], None]:
    """A function that takes so many steps of training."""
    own = Trainer(
        model.decoder(shape, shape.initial(0), compiles=compiles),
        model.losses,
        Recipe(
            1e-4, lambda step: 1.0, 0.1, shape.lr_factors(), shape.sample_bytes(compiled=compiles), records=compiles
        ),
    )
    tokens = _tokens(shape, batch)
    return lambda steps: own.train(lambda step: tokens, own.step + steps)


def bare(shape: ModelConfig, batch: int) -> Callable[[int], None]:
    """A function that takes so many steps of a bare loop."""
    module = model.decoder(shape, shape.initial(0)).train()
    optimizer = torch.optim.AdamW(module.parameters(), 1e-4, BETAS, weight_decay=0.1, fused=True)
    tokens = torch.from_numpy(_tokens(shape, batch).astype(np.int64))

    def run(steps: int) -> None:
        for _ in range(steps):
            model.losses(module, tokens).mean().backward()
            nn.utils.clip_grad_norm_(module.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()

    return run


def _tokens(shape: ModelConfig, batch: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, shape.vocabulary, (batch, shape.context + 1)).astype(np.uint16)


def seconds_a_step(run: Callable[[int], None], steps: int = STEPS) -> float:
    """Seconds of a step."""
    started = _now()
    run(steps)
    return (_now() - started) / steps


def _now() -> float:
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def against_bare(shape: ModelConfig, batch: int, rounds: int) -> tuple[float, float]:
    """Seconds of a step of training on a CPU, and how many times those of a bare loop they are."""
    both = trained(shape, batch), bare(shape, batch)
    found = [[seconds_a_step(run) for run in both] for _ in range(rounds + 1)]
    ours, theirs = np.min(found[1:], 0)
    return float(ours), float(ours / theirs)


def roofline_seconds(shape: ModelConfig, flops: float, bandwidth: float) -> float:
    """Seconds a token can take at the least on a card of so many flops and bytes a second (module docstring)."""
    head = 6.0 * shape.vocabulary * shape.width
    return (shape.flops_per_token() - head) / flops + max(head / flops, LOGIT_BYTES * shape.vocabulary / bandwidth)


def utilization(shape: ModelConfig, tokens_a_second: float, flops: float) -> float:
    """Share of a card's flops that training uses (module docstring)."""
    return shape.flops_per_token() * tokens_a_second / flops


def card() -> tuple[str, float, float] | None:
    """Name, flops and bandwidth of the GPU here, if it is one whose data sheet is known."""
    if not torch.cuda.is_available():
        return None
    name = torch.cuda.get_device_name()
    return next(((short, *sheet) for short, sheet in CARDS.items() if short in name), None)


def tokens_a_second(shape: ModelConfig, batch: int, compiles: bool) -> float:
    """Tokens a second of training on the GPU, after steps in which kernels are compiled."""
    run = trained(shape, batch, compiles)
    run(3)
    return batch * shape.context / min(seconds_a_step(run, 2 * STEPS) for _ in range(ROUNDS))


def rows() -> list[Row]:
    """The lines of the table: what, measured, bound."""
    lines: list[Row] = []
    if not torch.cuda.is_available():
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as a trial has
        for preset, batch, rounds in AGAINST_BARE:
            shape = PRESETS[preset]
            seconds, ratio = against_bare(shape, batch, rounds)
            what = f"a step of training {preset} on a CPU core, {batch * shape.context:,} tokens, against a bare loop"
            lines.append((what, f"{1000 * seconds:.1f} ms = {ratio:.2f} x", f"{MOST:g} x or less"))
        torch.set_num_threads(threads)
    for preset, batch, least, share in ON_GPU:
        shape = PRESETS[preset]
        each_step = f"{batch * shape.context:,} tokens a step, compiled and recorded / neither"
        what = f"training {preset} in bfloat16 on a GPU, {each_step}"
        bound = f"{least / 1e6:g}M tokens/s or more" if least else f"{share:.0%} of the peak or more"
        lines.append((what, _on_gpu(shape, batch), bound))
    return lines


def _on_gpu(shape: ModelConfig, batch: int) -> str:
    if not torch.cuda.is_available():
        return NOTHING
    speeds = [tokens_a_second(shape, batch, compiles) for compiles in (True, False)]
    said = " / ".join(f"{speed / 1e6:.2f}M" for speed in speeds) + " tokens/s"
    if not trainer.compiler():
        said += " (no compiler here)"
    if (known := card()) is None:
        return f"{said} on {torch.cuda.get_device_name()}"
    name, flops, bandwidth = known
    shares = " / ".join(f"{utilization(shape, speed, flops):.0%}" for speed in speeds)
    roof = utilization(shape, 1 / roofline_seconds(shape, flops, bandwidth), flops)
    return f"{said} on {name} = {shares} of its peak (roofline {roof:.0%})"


if __name__ == "__main__":
    for line in rows():
        print("| " + " | ".join(line) + " |", flush=True)

"""Language models: many in one process against one after the other, and how near training comes to what a GPU can do.

Run with: python -m benchmarks.language. Lines that need a GPU say "not measured: no GPU" where there is none.

Utilization of the 30m preset with O's 50,304 words: flops a token (6 a weight of the layers and the head, and
12·width·context a layer for attention, causality not counted: flops_per_token) times tokens a second, over the
card's dense bfloat16 peak. The roofline beside it takes for the layers the time of their flops at that peak, and for
the head the longer of its flops at the peak and its memory traffic at the card's bandwidth: the logits of a token are
words x 30 bytes of traffic (written in bfloat16, read and written as float32 by the cast, the softmax and its
gradient). A head that never writes its logits out may beat it.

On a CPU time is that of the process on one thread, so that other work on the machine does not count.

A step of training against its bare matrix products: products of every matrix, of the layers and the head, forward and
both backward ones; and of attention six in each layer and head: scores and what is heard, and of each the gradients of
both factors. Their factors lie ready. Step and products take turns in one run, and the least time of each counts:
other work on the machine only adds to it.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from raysweep.training import model_batch, optimizer, params
from raysweep.training.optimizer import State, TrainConfig
from raysweep.workloads.language.model_config import PRESETS, ModelConfig

Row = tuple[str, str, str]

OLMO = dataclasses.replace(PRESETS["30m"], vocabulary=50_304)
CARDS = {"H200": (989e12, 4.8e12), "H100": (989e12, 3.35e12), "A100": (312e12, 2.0e12)}
"""Dense bfloat16 flops and bytes a second, by the makers' data sheets."""

LOGIT_BYTES = 30
NOTHING = "not measured: no GPU"
STEPS, ROUNDS = 4, 7
ON_CPU = (
    ("a step of 1,024 tokens, the tiny preset's", PRESETS["tiny"], 16, 7),
    ("a step of 256 tokens, the same model", PRESETS["tiny"], 4, 7),
)
BARE = ((16, 2.0), (4, 3.0))
"""Sequences a step of the tiny preset, and how many times its bare products a step may take."""
TURNS = 40
ON_GPU = (
    ("8 models of 3.1M weights, 16,384 tokens a step", PRESETS["3m-688"], 64, 8, 3.0),
    ("27 models of 3.1M weights, 4,096 tokens a step", PRESETS["3m-688"], 16, 27, 9.0),
)


def seconds_a_step(shape: ModelConfig, batch: int, models: int, steps: int = STEPS) -> float:
    """Time of a training step of models side by side, after one that does not count."""
    state = State.fresh(np.repeat(params.initial(shape, 0)[None], models, 0))
    recipe = TrainConfig(shape, np.full(models, 1e-4), lambda step: 1.0)
    tokens = np.random.default_rng(0).integers(0, shape.vocabulary, (batch, shape.context + 1)).astype(np.uint16)
    optimizer.train(state, recipe, lambda step: tokens, 1)
    started = _now()
    optimizer.train(state, recipe, lambda step: tokens, 1 + steps)
    return (_now() - started) / steps


def _now() -> float:
    if not torch.cuda.is_available():
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def bare_products(shape: ModelConfig, batch: int) -> Callable[[], None]:
    """A function that computes the matrix products of a training step, and nothing else (module docstring)."""

    def drawn(*size: int) -> torch.Tensor:
        return torch.randn(*size)

    width, mlp, count = shape.width, shape.mlp, batch * shape.context
    layer = ((width, 3 * width), (width, width), (width, 2 * mlp), (mlp, width))
    matrices = [
        (drawn(count, rows), drawn(rows, columns), drawn(count, columns))
        for rows, columns in (*layer * shape.depth, (width, shape.vocabulary))
    ]
    heads, length = batch * shape.heads, shape.context
    # queries, keys, values, the gradient of what is heard; probabilities and the gradient of the scores
    attention = [
        [drawn(heads, length, shape.head_width) for _ in range(4)] + [drawn(heads, length, length) for _ in range(2)]
        for _ in range(shape.depth)
    ]

    def compute() -> None:
        for before, matrix, above in matrices:
            before @ matrix, above @ matrix.T, before.T @ above
        for query, key, value, above, seen, scores in attention:
            query @ key.mT, seen @ value
            above @ value.mT, seen.mT @ above, scores @ key, scores.mT @ query

    return compute


def against_products(shape: ModelConfig, batch: int) -> float:
    """How many times its bare matrix products a training step takes (module docstring)."""
    products = bare_products(shape, batch)
    products()
    steps, bare = [], []
    for _ in range(TURNS):
        steps.append(seconds_a_step(shape, batch, 1, 10))
        started = time.process_time()
        for _ in range(10):
            products()
        bare.append((time.process_time() - started) / 10)
    return min(steps) / min(bare)


def compared(shape: ModelConfig, batch: int, count: int) -> tuple[float, float, int]:
    """How many times the tokens a second of one model at a time `count` side by side make, and the chosen number of
    them (1 if that is one at a time); and that number. Taking turns, medians of ROUNDS ratios."""
    chosen = model_batch.side_by_side(shape, batch, count)
    ratios, own = [], []
    for _ in range(ROUNDS):
        alone = seconds_a_step(shape, batch, 1)
        ratios.append(alone * count / seconds_a_step(shape, batch, count))
        own.append(1.0 if chosen == 1 else alone * chosen / seconds_a_step(shape, batch, chosen))
    return statistics.median(ratios), statistics.median(own), chosen


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


def rows() -> list[Row]:
    """The lines of the table: what, measured, bound."""
    found: list[Row] = []
    if not torch.cuda.is_available():
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as a trial has
        for what, shape, batch, count in ON_CPU:
            side_by_side, chosen, size = compared(shape, batch, count)
            found.append(
                (
                    f"{count} fine-tunings in one process on a CPU core, {what}: tokens/s against one at a time",
                    f"side by side {side_by_side:.2f} x; chosen ({size} at a time) {chosen:.2f} x",
                    "chosen: 0.95 x or more",
                )
            )
        for batch, most in BARE:
            shape = PRESETS["tiny"]
            found.append(
                (
                    f"a step of training on a CPU core, {batch * shape.context:,} tokens, the tiny preset's, against "
                    "its bare matrix products",
                    f"{against_products(shape, batch):.2f} x",
                    f"{most:g} x or less",
                )
            )
        torch.set_num_threads(threads)
    for what, shape, batch, count, bound in ON_GPU:
        label = f"fine-tuning {what}: tokens/s against one at a time"
        measured = NOTHING
        if torch.cuda.is_available():
            side_by_side, chosen, size = compared(shape, batch, count)
            measured = f"side by side {side_by_side:.1f} x; chosen ({size} at a time) {chosen:.1f} x"
        found.append((label, measured, f"{bound:g} x or more"))
    found.append(("model flop utilization, preset 30m with 50,304 words, bfloat16", *_busy()))
    return found


def _busy(batch: int = 64) -> tuple[str, str]:
    known = card()
    bound = "40 % or more, or 80 % of the roofline"
    if known is None:
        unknown = torch.cuda.is_available() and f"not measured: no data sheet of {torch.cuda.get_device_name()}"
        return unknown or NOTHING, bound
    name, flops, bandwidth = known
    speed = batch * OLMO.context / min(seconds_a_step(OLMO, batch, 1) for _ in range(ROUNDS))
    roof = 1 / roofline_seconds(OLMO, flops, bandwidth)
    return (
        f"{speed / 1e6:.2f}M tokens/s on {name} = {utilization(OLMO, speed, flops):.0%}; roofline "
        f"{roof / 1e6:.2f}M tokens/s = {utilization(OLMO, roof, flops):.0%}, of which {speed / roof:.0%}",
        bound,
    )


if __name__ == "__main__":
    for line in rows():
        print("| " + " | ".join(line) + " |")

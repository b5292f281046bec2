"""What rows of one draw cost, on one core and on one GPU; importable without torch.

Core: measured on one core of a 2-core x86 machine (float32, one thread), where a step of the tiny preset takes 11 ms
for 1024 tokens. Expect an error of a factor 2.

GPU: a roofline. A step takes the time to start its kernels or the time of its work, whichever is longer. The work is
the flops of its products plus the bytes that its kernels read and write. These three were counted on real steps of this
code: on its operations, and on the kernels that torch's compiler plans where it joins some (benchmarks/roofline.py and
joined.py). A test holds the formula to the counts. Without a compiler a step moves nearly twice the bytes, and with
dropout at a context of 1,024 about eight times. The card is an H200 by its data sheet, with a share of its peaks that
is usual, not measured. No GPU has confirmed the seconds, so they are a guess, within a factor of 5 either way
(WORKLOAD.gpu_guess).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.training.sizes import PIECE_BYTES
from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.language.chain import PER_MODEL, trunk_points
from raysweep.workloads.language.model_config import CHUNK, ModelConfig, config_of

EVALUATION = 64  # sequences evaluated at a time

_BASE_BYTES = 4e8  # memory of the process itself
_FLOPS = 6e10  # a second, for the matrix products of a wide model
_PER_VALUE = 9e-10  # seconds to read and write the values that one token leaves in one layer, per coordinate
_STEP = 2e-3  # fixed seconds of a step
_STEP_VALUE = 1.2e-8  # seconds of a step's optimizer per weight

GPU_FLOPS = 0.4 * 989e12  # a second in bfloat16: a share of what an H200's data sheet says
GPU_BYTES = 0.7 * 4.8e12  # a second, likewise
GPU_LAUNCH = 1e-5  # seconds from one operation to the next in Python


def trunk(columns: Columns, before: float, point: float) -> Cost:
    """Cost of the trunk of one row from one point to the next, in steps."""
    row = _first(columns)
    return pretraining(row, (point - before) * int(row["pretrain_batch"]) * config_of(row).context)


def pretrain(columns: Columns) -> Cost:
    """Cost of the pretraining of one row after its trunk."""
    row = _first(columns)
    shared = max(trunk_points(row), default=0) * int(row["pretrain_batch"]) * config_of(row).context
    return pretraining(row, float(row["pretrain_length"]) - shared)


def finetune(columns: Columns) -> Cost:
    """Cost of fine-tuning rows of one draw that start from one pretraining."""
    seconds = gpu_seconds = 0.0
    for row, count in _side_by_side(columns):
        config, steps, batch = config_of(row), int(row["finetune_steps"]), int(row["finetune_batch"])
        dropout = float(row["finetune_dropout"]) > 0
        looked = float(row["evaluation_tokens"]) * min(int(row["early_stopping"]), steps)
        core = token_seconds(config)
        step = _STEP + _STEP_VALUE * config.weights() + 1.05 * batch * config.context * core
        seconds += count * (steps * step + looked * core / 3)
        gpu_seconds += 1.05 * steps * gpu_step(config, batch, count, dropout) + _gpu_forward(config, looked, count)
    config = config_of(_first(columns))
    memory = _memory(config, int(np.max(columns["finetune_batch"])), columns["finetune_dropout"].max())
    return Cost(seconds, _BASE_BYTES + memory, gpu_seconds)


def evaluate(columns: Columns) -> Cost:
    """Cost of measuring rows of one draw that start from one pretraining: three losses after, and some before."""
    seconds = gpu_seconds = 0.0
    first = _first(columns)
    config = config_of(first)
    core = token_seconds(config)
    for row, count in _side_by_side(columns):
        tokens = float(row["evaluation_tokens"])
        seconds += count * 3.2 * tokens * core / 3
        gpu_seconds += _gpu_forward(config, 3 * tokens, count)
    iterations = int(first["sharpness_iterations"])
    # Hessian products, each of about two steps, and the real change of each row, of two thirds of a step
    curved = (4 * iterations + (2 + 2 / 3) * len(columns["finetune_lr"])) if iterations else 0.0
    seconds += curved * EVALUATION * config.context * core
    gpu_seconds += curved * gpu_step(config, EVALUATION)
    return Cost(seconds, _BASE_BYTES + _memory(config, EVALUATION, 0.0), gpu_seconds)


def _first(columns: Columns) -> dict[str, Any]:
    return {name: values[0] for name, values in columns.items()}


def pretraining(parameters: Mapping[str, Any], tokens: float) -> Cost:
    """What `tokens` tokens of a row's pretraining cost: all of the pretraining, or the part of one stage."""
    config, batch = config_of(parameters), int(parameters["pretrain_batch"])
    steps = tokens / (batch * config.context)
    seconds = steps * (_STEP + _STEP_VALUE * config.weights()) + tokens * token_seconds(config)
    dropout = float(parameters["pretrain_dropout"])
    gpu_seconds = steps * gpu_step(config, batch, dropout=dropout > 0)
    return Cost(seconds, _BASE_BYTES + _memory(config, batch, dropout), gpu_seconds)


def _memory(config: ModelConfig, batch: int, dropout: float) -> float:
    """Bytes that one model takes on a CPU, where models train one after the other and in float32."""
    return config.training_bytes(batch, dropout=dropout > 0, wide=True)


def token_seconds(config: ModelConfig) -> float:
    """Seconds that a core trains on one token, without the fixed time of a step."""
    coordinates = config.depth * (20 * config.width + 6 * config.mlp) + 6 * config.vocabulary
    return config.flops_per_token() / _FLOPS + coordinates * _PER_VALUE


@dataclass(frozen=True)
class Work:
    """What a GPU has to do: flops of products, bytes that kernels read and write, and number of kernels."""

    flops: float = 0.0
    bytes: float = 0.0
    launches: float = 0.0

    def seconds(self) -> float:
        """How long it takes."""
        return max(self.launches * GPU_LAUNCH, self.flops / GPU_FLOPS + self.bytes / GPU_BYTES)


def gpu_work(config: ModelConfig, batch: int, models: int = 1, dropout: bool = False) -> Work:
    """Work of one training step of models side by side, with weight decay, on `batch` sequences each.

    Each coefficient is in bytes: per token or per weight, and of the number of values that stands beside it.
    """
    depth, width, tokens = config.depth, config.width, batch * config.context
    of_end, kernels = (93, (48, 54)) if models > 1 else (69, (48, 48))
    token: float = depth * (214 * width + 34 * config.mlp) + of_end * width + 10 * config.vocabulary
    if dropout:  # masks are made once for all models
        token += (49 + 82 / models) * depth * width + (33 + 87 / models) * width
        kernels = (158, 101) if models > 1 else (158, 96)
    pieces, chunks = _cuts(config, batch, models, dropout)
    weights = (52 + 28 * pieces) * config.weights() + 13 * (chunks - pieces) * config.vocabulary * width
    # 6 a weight; attention's products 4 a coordinate and position, and 10 backward, where the scores come again
    products = config.vocabulary * width + depth * (config.layer_weights() - 2 * width)
    return Work(
        models * tokens * (6.0 * products + 14.0 * depth * width * config.context),
        models * (tokens * token + weights),
        10 + pieces * (kernels[0] * depth + kernels[1]) + 9 * (chunks - pieces),
    )


def _cuts(config: ModelConfig, batch: int, models: int, dropout: bool) -> tuple[int, int]:
    """In how many pieces a batch is computed, and in how many chunks its logits are."""
    most = max(1, int(PIECE_BYTES / (models * config.sample_bytes(models, dropout=dropout))))
    whole, rest = divmod(batch, most)
    rows = max(1, CHUNK // (models * config.vocabulary))
    chunks = [-(-count * config.context // rows) for count in (most, rest)]
    return whole + (rest > 0), whole * chunks[0] + chunks[1]


def gpu_step(config: ModelConfig, batch: int, models: int = 1, dropout: bool = False) -> float:
    """Seconds of one training step of `models` models side by side, on `batch` sequences each."""
    return gpu_work(config, batch, models, dropout).seconds()


def _gpu_forward(config: ModelConfig, tokens: float, models: int) -> float:
    """Seconds to evaluate models side by side on `tokens` tokens each: a third of the training time, batch by batch."""
    return tokens / (EVALUATION * config.context) * gpu_step(config, EVALUATION, models) / 3


def _side_by_side(columns: Columns) -> list[tuple[dict[str, Any], int]]:
    """Rows that can train side by side: the first row of each such set, and the number of rows in it."""
    apart = [values for name, values in columns.items() if name not in PER_MODEL]
    found: dict[tuple[Any, ...], list[int]] = {}
    for index in range(len(columns["finetune_lr"])):
        found.setdefault(tuple(values[index] for values in apart), []).append(index)
    return [
        ({name: values[members[0]] for name, values in columns.items()}, len(members)) for members in found.values()
    ]

"""What rows of one draw cost, on one core and on one GPU; importable without torch.

Core: measured on one core of a 2-core x86 machine (float32, one thread), where a step of the tiny preset takes 11 ms
for 1024 tokens. Expect an error of a factor 2.

GPU: an H200 in bfloat16, eager. A step takes either the time to start its kernels or the time of its work, whichever is
longer. The work is arithmetic (4e14 flops a second, 40 % of the card's peak) plus memory traffic (3.4e12 bytes a
second, 70 % of peak; each value that the forward pass keeps is counted once, as 4 bytes). These four numbers come from
three measurements of a 3.1M-weight decoder of 4 layers and context 256: 10.1 million tokens a second at 65,536 tokens
a step (this formula: 9.8); with 8 models side by side at 16,384 tokens each, 3.0 times the tokens a second of one model
(2.9); with 27 models at 4,096 tokens each, 9.7 times (10.7). That decoder was another program. This program was not
measured on a GPU, and other shapes are extrapolated, so the result is a guess, within a factor of 10 either way
(WORKLOAD.gpu_guess). For OLMo-30M's shape, a model of this code's memory traffic gives about 8 times the seconds on an
H100.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.language.chain import PER_MODEL, trunk_points
from raysweep.workloads.language.model_config import ModelConfig, config_of

EVALUATION = 64  # sequences evaluated at a time

_BASE_BYTES = 4e8  # memory of the process itself
_FLOPS = 6e10  # a second, for the matrix products of a wide model
_PER_VALUE = 9e-10  # seconds to read and write the values that one token leaves in one layer, per coordinate
_STEP = 2e-3  # fixed seconds of a step
_STEP_VALUE = 1.2e-8  # seconds of a step's optimizer per weight

_GPU_FLOPS = 4e14
_GPU_BYTES = 3.4e12
_GPU_LAUNCH, _GPU_LAUNCH_LAYER = 2e-4, 1.2e-3  # seconds to start a step's kernels
_GPU_STEP_VALUE = 60  # bytes that the optimizer moves per weight


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
        looked = float(row["evaluation_tokens"]) * int(row["early_stopping"]) if steps else 0.0
        core = token_seconds(config)
        step = _STEP + _STEP_VALUE * config.weights() + 1.05 * batch * config.context * core
        seconds += count * (steps * step + looked * core / 3)
        gpu_seconds += 1.05 * steps * gpu_step(config, batch, count) + _gpu_forward(config, looked, count)
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
    curved = 2 * int(first["sharpness_iterations"]) * 2  # Hessian products; each costs about two steps
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
    memory = _memory(config, batch, float(parameters["pretrain_dropout"]))
    return Cost(seconds, _BASE_BYTES + memory, steps * gpu_step(config, batch))


def _memory(config: ModelConfig, batch: int, dropout: float) -> float:
    """Bytes that one model takes on a CPU, where models train one after the other and in float32."""
    return config.training_bytes(batch, dropout=dropout > 0, wide=True)


def token_seconds(config: ModelConfig) -> float:
    """Seconds that a core trains on one token, without the fixed time of a step."""
    coordinates = config.depth * (20 * config.width + 6 * config.mlp) + 6 * config.vocabulary
    return config.flops_per_token() / _FLOPS + coordinates * _PER_VALUE


def gpu_token_seconds(config: ModelConfig) -> float:
    """Seconds that a busy GPU trains on one token: arithmetic and memory traffic."""
    moved = 4.0 * (config.depth * (20 * config.width + 6 * config.mlp) + 4 * config.vocabulary)
    return config.flops_per_token() / _GPU_FLOPS + moved / _GPU_BYTES


def gpu_step(config: ModelConfig, batch: int, models: int = 1) -> float:
    """Seconds of one training step of `models` models side by side, on `batch` sequences each."""
    busy = batch * config.context * gpu_token_seconds(config) + _GPU_STEP_VALUE * config.weights() / _GPU_BYTES
    return max(_GPU_LAUNCH + _GPU_LAUNCH_LAYER * config.depth, models * busy)


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

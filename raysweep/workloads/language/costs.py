"""What rows of one draw cost, on one core and on one GPU; importable without torch.

Core: measured on one core of a 2-core x86 machine (float32, one thread), where a step of the tiny preset takes 11 ms
for 1024 tokens. Expect an error of a factor 2. GPU: a step takes the time to start its kernels, or that of its flops
and of the logits that it reads and writes, whichever is longer, on an H200 at a share of the peaks of its data sheet
(WORKLOAD.gpu_guess; benchmarks/language.py measures it).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.language.model_config import ModelConfig, config_of, trunk_points

EVALUATION = 64  # sequences evaluated at a time

_BASE_BYTES = 4e8  # memory of the process itself
_FLOPS = 6e10  # a second, for the matrix products of a wide model
_PER_VALUE = 9e-10  # seconds to read and write the values that one token leaves in one layer, per coordinate
_STEP = 2e-3  # fixed seconds of a step
_STEP_VALUE = 1.2e-8  # seconds of a step's optimizer per weight

GPU_FLOPS = 0.3 * 989e12  # a second in bfloat16: a share of what an H200's data sheet says
GPU_BYTES = 0.7 * 4.8e12  # a second, likewise
GPU_LAUNCH = 1e-5  # seconds from one kernel to the next
LOGIT_BYTES = 30  # written in bfloat16; read and written as float32 by the cast, the softmax and its gradient


def trunk(columns: Columns, before: float, point: float) -> Cost:
    """Cost of the trunk of one row from one point to the next, in steps."""
    row = first_row(columns)
    return pretraining(row, (point - before) * int(row["pretrain_batch"]) * config_of(row).context)


def pretrain(columns: Columns) -> Cost:
    """Cost of the pretraining of one row after its trunk."""
    row = first_row(columns)
    shared = max(trunk_points(row), default=0) * int(row["pretrain_batch"]) * config_of(row).context
    return pretraining(row, float(row["pretrain_length"]) - shared)


def finetune(columns: Columns) -> Cost:
    row = first_row(columns)
    config, steps, batch = config_of(row), int(row["finetune_steps"]), int(row["finetune_batch"])
    looked = float(row["evaluation_tokens"]) * min(int(row["early_stopping"]), steps)
    trained = _training(config, batch, 1.05 * steps, float(row["finetune_dropout"]) > 0)
    return trained + _evaluation(config, looked)


def evaluate(columns: Columns) -> Cost:
    """Cost of measuring one row: three losses after, and some before, which rows of one pretraining share."""
    row = first_row(columns)
    config, iterations = config_of(row), int(row["sharpness_iterations"])
    measured = _evaluation(config, 3.2 * float(row["evaluation_tokens"]))
    # Hessian products, each of about two steps, and the real change of the row, of two thirds of a step
    return measured + _training(config, EVALUATION, 4 * iterations + 2 + 2 / 3) if iterations else measured


def pretraining(parameters: Mapping[str, Any], tokens: float) -> Cost:
    """What `tokens` tokens of a row's pretraining cost: all of the pretraining, or the part of one stage."""
    config, batch = config_of(parameters), int(parameters["pretrain_batch"])
    return _training(config, batch, tokens / (batch * config.context), float(parameters["pretrain_dropout"]) > 0)


def first_row(columns: Columns) -> dict[str, Any]:
    return {name: values[0] for name, values in columns.items()}


def _training(config: ModelConfig, batch: int, steps: float, dropout: bool = False) -> Cost:
    step = _STEP + _STEP_VALUE * config.weights() + batch * config.context * token_seconds(config)
    held = _BASE_BYTES + config.training_bytes(batch, dropout)
    return Cost(steps * step, held, steps * gpu_step(config, batch, dropout))


def _evaluation(config: ModelConfig, tokens: float) -> Cost:
    """The cost of the losses of these tokens: a third of that of training."""
    on_gpu = tokens / (EVALUATION * config.context) * gpu_step(config, EVALUATION) / 3
    return Cost(tokens * token_seconds(config) / 3, _BASE_BYTES + 8.0 * config.weights(), on_gpu)


def token_seconds(config: ModelConfig) -> float:
    """Seconds that a core trains on one token, without the fixed time of a step."""
    coordinates = config.depth * (20 * config.width + 6 * config.mlp) + 6 * config.vocabulary
    return config.flops_per_token() / _FLOPS + coordinates * _PER_VALUE


def gpu_step(config: ModelConfig, batch: int, dropout: bool = False) -> float:
    """Seconds of one training step on `batch` sequences."""
    launches = (40 + 20 * dropout) * config.depth + 60
    tokens = batch * config.context
    work = tokens * (config.flops_per_token() / GPU_FLOPS + LOGIT_BYTES * config.vocabulary / GPU_BYTES)
    return max(launches * GPU_LAUNCH, work + 40.0 * config.weights() / GPU_BYTES)

"""What rows of one draw cost, on one core and on one GPU; importable without torch.

Core: as measured on an x86 core in float32, within a factor of 2. GPU: a step takes the time to start its kernels, or
that of its flops and logits if that is longer, at a share of an H200's peaks (WORKLOAD.gpu_guess).
"""

from collections.abc import Mapping
from typing import Any

from raysweep.training.sizes import PIECE_BYTES
from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.language.model_config import CHUNK, ModelConfig, config_of, steps_of, trunk_points

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
    return training("pretrain", first_row(columns), point - before)


def pretrain(columns: Columns) -> Cost:
    """Cost of the pretraining of one row after its trunk."""
    row = first_row(columns)
    return training("pretrain", row, steps_of(row) - max(trunk_points(row), default=0))


def finetune(columns: Columns) -> Cost:
    row = first_row(columns)
    steps = int(row["finetune_steps"])
    looked = float(row["evaluation_tokens"]) * min(int(row["early_stopping"]), steps)
    return training("finetune", row, 1.05 * steps) + _evaluation(config_of(row), looked)


def evaluate(columns: Columns) -> Cost:
    """Cost of measuring one row: three losses after, and some before, which rows of one pretraining share."""
    row = first_row(columns)
    config, iterations = config_of(row), int(row["sharpness_iterations"])
    measured = _evaluation(config, 3.2 * float(row["evaluation_tokens"]))
    # Hessian products, each of about two steps, and the real change of the row, of two thirds of a step
    return measured + _training(config, EVALUATION, 4 * iterations + 2 + 2 / 3) if iterations else measured


def training(kind: str, row: Mapping[str, Any], steps: float) -> Cost:
    """What so many steps of a row's training cost. kind: pretrain or finetune, as its parameters begin."""
    return _training(config_of(row), int(row[f"{kind}_batch"]), steps, float(row[f"{kind}_dropout"]) > 0)


def first_row(columns: Columns) -> dict[str, Any]:
    return {name: values[0] for name, values in columns.items()}


def _training(config: ModelConfig, batch: int, steps: float, dropout: bool = False) -> Cost:
    step = _STEP + _STEP_VALUE * config.weights() + batch * config.context * token_seconds(config)
    each = config.sample_bytes(wide=True, dropout=dropout)
    sequences = min(batch, max(1, int(PIECE_BYTES / each)))
    logits = min(sequences * config.context * config.vocabulary, CHUNK)
    held = _BASE_BYTES + 20.0 * config.weights() + sequences * each + 12.0 * logits
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

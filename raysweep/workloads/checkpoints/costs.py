"""What rows cost, on one core and on one GPU; importable without torch.

Flops are counted: 6 a weight and token to train, 4 with adapters alone (no gradients of weights), 2 to evaluate. Speed
on a GPU is that which `language` assumes, and not measured here.
"""

from typing import Any

from raysweep.workloads.checkpoints import data, hub
from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.language.costs import GPU_FLOPS, first_row

_FLOPS = 3e10  # a second of one core
_READ = 1e9  # bytes a second from a disk
_BASE_BYTES = 6e8  # memory of the process itself
_STEP = 0.02  # fixed seconds of a step on a core
_GPU_STEP = 0.03  # on a GPU


def fetch(columns: Columns) -> Cost:
    row = first_row(columns)
    size = hub.shape(row)
    return Cost(size.bytes / _READ, _bytes(row, 2), size.bytes / _READ)


def finetune(columns: Columns) -> Cost:
    row = first_row(columns)
    size, length = hub.shape(row), int(row["context"])
    steps = data.steps(row, data.guessed_size(str(row["target"]), length) if row["epochs"] else 0.0)
    if not steps:
        return Cost(0.0, _BASE_BYTES, 0.0)
    tokens, lora = steps * int(row["finetune_batch"]) * length, row["finetune_method"] == "lora"
    flops = (4.0 if lora else 6.0) * size.parameters * tokens
    copies = 2 if lora else 6  # as read, in the module; and a gradient, two moments, what is kept
    return Cost(flops / _FLOPS + steps * _STEP, _bytes(row, copies), flops / GPU_FLOPS + steps * _GPU_STEP)


def evaluate(columns: Columns) -> Cost:
    """Cost of measuring one row: three losses after, and some before, which rows of one checkpoint share."""
    row = first_row(columns)
    flops = 2.0 * hub.shape(row).parameters * 3.2 * float(row["evaluation_tokens"])
    return Cost(flops / _FLOPS, _bytes(row, 3), flops / GPU_FLOPS)


def _bytes(row: dict[str, Any], copies: int) -> float:
    """Memory of the process with this number of copies of the weights."""
    return _BASE_BYTES + copies * (2.0 if row["precision"] == "bfloat16" else 4.0) * hub.shape(row).parameters

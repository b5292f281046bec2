"""What rows of one draw cost on one core; importable without torch.

Measured on one core of a 2-core x86 machine (float32, one thread): a step of the tiny preset takes 11 ms for 1024
tokens. Expect a factor 2, and on a GPU hundreds of times less.
"""

from __future__ import annotations

import numpy as np

from raysweep.workloads.declaration import Columns, Cost
from raysweep.workloads.language.shapes import shape_of

_FLOPS = 6e10  # products of a wide model
_PER_VALUE = 9e-10  # seconds to read and write what one token leaves behind in one layer, per coordinate
_STEP = 2e-3  # seconds of a step's own
_STEP_VALUE = 1.2e-8  # seconds of the optimizer per weight


def of_rows(columns: Columns) -> Cost:
    """Seconds and peak bytes of all rows of one draw, which share their pretraining."""
    first = {name: values[0] for name, values in columns.items()}
    shape = shape_of(first)
    coordinates = shape.depth * (20 * shape.width + 6 * shape.mlp) + 6 * shape.vocabulary
    token = shape.flops_per_token() / _FLOPS + coordinates * _PER_VALUE
    step = _STEP + _STEP_VALUE * shape.weights()
    batch = int(first["pretrain_batch"])
    steps = float(first["pretrain_length"]) / (batch * shape.context)
    tuned = np.asarray(columns["finetune_steps"], float)
    tokens = tuned * np.asarray(columns["finetune_batch"], float) * shape.context
    evaluated = np.asarray(columns["evaluation_tokens"], float) * (3.2 + np.asarray(columns["early_stopping"], float))
    seconds = steps * step + float(first["pretrain_length"]) * token
    seconds += float((tuned * step + (tokens * 1.05 + evaluated / 3) * token).sum())
    largest = max(batch, 64, int(np.max(columns["finetune_batch"])))  # 64: of an evaluation
    kept = min(8e9, largest * shape.context * shape.kept_bytes())  # 8e9: training.PIECE_BYTES, which needs torch
    return Cost(seconds, 4e8 + 32.0 * shape.weights() + kept)

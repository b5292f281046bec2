"""What rows of one draw cost, on one core; importable without torch.

Measured on one core of a 2-core x86 machine (float64, one thread); expect an error of a factor 2.
"""

from __future__ import annotations

import numpy as np

from raysweep.workloads.declaration import Columns, Cost


def pretrain(columns: Columns) -> Cost:
    """Cost of pretraining one network."""
    return Cost(0.1, 1e8)


def finetune(columns: Columns) -> Cost:
    """Cost of fine-tuning networks that start from one pretraining."""
    return Cost(0.1 * len(columns["width"]), 1e8)


def evaluate(columns: Columns) -> Cost:
    """Cost of measuring them."""
    return Cost(0.1 * len(columns["width"]), 1e8)

"""The workload `language`, brought by entry point, where the last worker of a gang has memory for few sequences.

Memory runs out in the middle of a step: in a backward pass, while the other workers wait for that worker's part of it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import torch

from raysweep.training import parallel, sharding
from raysweep.workloads import language
from raysweep.workloads.declaration import Parameter
from raysweep.workloads.language import evaluation, finetuning, pretraining
from raysweep.workloads.language.model_config import ModelConfig
from raysweep.workloads.rows import Result, Rows

STEPS = 2  # of a training, for which there is memory


@contextlib.contextmanager
def little_memory(room: int) -> Iterator[None]:
    """After some steps, the last of several workers has memory to train on so many sequences at a time."""
    sums, steps = ModelConfig.loss_sums, itertools.count()

    def loss_sums(config: ModelConfig, params: Any, samples: torch.Tensor, *rest: Any) -> torch.Tensor:
        found = sums(config, params, samples, *rest)
        last = parallel.workers() > 1 and parallel.rank() == parallel.workers() - 1
        if found.requires_grad and next(steps) >= STEPS and last and len(samples) > room:
            found.register_hook(run_out)
        return found

    def run_out(gradient: torch.Tensor) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with mock.patch.object(ModelConfig, "loss_sums", loss_sums):
        yield


def cramped(stage: Callable[..., Result]) -> Callable[..., Result]:
    """A stage with little memory."""

    def run(rows: Rows, parent: Any, context: Any) -> Result:
        row = rows.row()
        spread = {sharding.VARIABLE: "always" if row["spread"] else "never"}
        with little_memory(row["room"]), mock.patch.dict(os.environ, spread):
            return stage(rows, parent, context)

    return run


trunk, pretrain, finetune, evaluate = map(
    cramped, (pretraining.trunk, pretraining.pretrain, finetuning.finetune, evaluation.evaluate)
)

WORKLOAD = replace(
    language.WORKLOAD,
    name="cramped",
    parameters=(
        *language.PARAMETERS,
        Parameter("room", int, 1000, "sequences that the last worker has memory for", stage="trunk"),
        Parameter("spread", int, 0, "whether models are spread over workers", stage="trunk"),
    ),
    stages=tuple(replace(stage, run=f"cramped_workload:{stage.name}") for stage in language.WORKLOAD.stages),
)

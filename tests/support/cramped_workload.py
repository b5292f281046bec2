"""The workload `language`, brought by entry point, where the last worker of a gang has memory for few sequences.

Memory runs out in the middle of a step: in a backward pass, while the other workers wait for that worker's part of it.
"""

import contextlib
import itertools
from dataclasses import replace
from unittest import mock

import torch

from raysweep.training import parallel
from raysweep.workloads import language
from raysweep.workloads.declaration import Parameter
from raysweep.workloads.language import model, stages

STEPS = 2  # of a training, for which there is memory


@contextlib.contextmanager
def little_memory(room):
    """After some steps, the last of several workers has memory to train on so many sequences at a time."""
    plain, steps = model.losses, itertools.count()

    def losses(module, tokens):
        found = plain(module, tokens)
        last = parallel.workers() > 1 and parallel.rank() == parallel.workers() - 1
        if found.requires_grad and next(steps) >= STEPS and last and len(tokens) > room:
            found.register_hook(run_out)
        return found

    def run_out(gradient):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    with mock.patch.object(model, "losses", losses):
        yield


def cramped(stage):
    def run(rows, parent, context):
        with little_memory(rows.row()["room"]):
            return stage(rows, parent, context)

    return run


trunk, pretrain, finetune, evaluate = map(cramped, (stages.trunk, stages.pretrain, stages.finetune, stages.evaluate))

WORKLOAD = replace(
    language.WORKLOAD,
    name="cramped",
    parameters=(
        *language.PARAMETERS,
        Parameter("room", int, 1000, "sequences that the last worker has memory for", stage="trunk"),
    ),
    stages=tuple(replace(stage, run=f"cramped_workload:{stage.name}") for stage in language.WORKLOAD.stages),
)

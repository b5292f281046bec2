"""What the workers of test_parallel.py do: python -m tests.support.language_gang FOLDER RANK WORKERS JOBS GPUS

GPUS: pretended, or real; then each worker has one of its own.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch

from raysweep.executors.gang_stages import GangStages, waiting_group
from raysweep.stages.store import Store
from raysweep.training import devices, model_batch, optimizer, parallel, params, sharding
from raysweep.training.optimizer import State, TrainConfig
from raysweep.workloads.language.model_config import ModelConfig
from tests.support.language_rows import columns_of, compute
from tests.support.pretend_cuda import pretended_gpu

SMALL = ModelConfig(depth=2, width=16, heads=2, mlp=24, context=12, vocabulary=20)
DEEP = ModelConfig(depth=10, width=16, heads=2, mlp=24, context=12, vocabulary=20)
RATES = np.array([1e-4, 3e-4, 1e30])  # the last diverges at once
KEPT = (1, 5, 20)  # steps after which the weights are kept
QUICK: dict[str, Any] = {
    "width": 16,
    "depth": 1,
    "context": 16,
    "pretrain_batch": 5,
    "finetune_batch": 7,
    "pretrain_length": 40.0 * 5 * 16,
    "finetune_steps": 12,
    "evaluation_tokens": 528,
    "finetune_dropout": 0.1,
    "pretrain_dropout": 0.1,
}
ROWS: tuple[dict[str, Any], ...] = (
    {"finetune_lr": 2e-4},
    {"finetune_lr": 2e-4, "noise": 0.5},  # at 5e-4, one unit in the last place of each weight moves a loss by 8e-3
    {"noise": 1.0, "finetune_steps": 0},
    {"finetune_lr": 2e-4, "early_stopping": 3, "finetune_schedule": "constant"},
    {"finetune_lr": 1e7},
    {"target": "task:grammar:0.5", "context": 64, "pretrain_length": 10.0 * 5 * 64},
    {"pretrain_schedule": "wsd"},
    {"pretrain_lr": 1e6},
)
ON_GPU = [0, 3, 4]  # of these
a_gpu: Callable[[], contextlib.AbstractContextManager[Any]] = pretended_gpu  # of this process, in jobs that have one


def tokens(step: int, batch: int = 5) -> np.ndarray:
    """A batch that two workers cannot share out evenly, with tokens that are given in its first sequence."""
    stream = np.random.default_rng(step)
    rows = (stream.integers(0, 20, (batch, 1)) + 3 * np.arange(SMALL.context + 1)) % 20
    rows[0, :6] = -1 - rows[0, :6]
    return rows.astype(np.int16)


def train(kind: str, models: int = len(RATES), jolt: float = 0.0) -> dict[str, np.ndarray]:
    """Several models side by side, with dropout. jolt: relative change of every weight before, up or down."""
    start = np.stack([3 * params.initial(SMALL, 0).astype(np.float64)] * models).astype(kind)
    start *= 1 + np.asarray(jolt * np.random.default_rng(0).choice([-1, 1], start.shape), kind)
    state = State.fresh(start)
    recipe = TrainConfig(SMALL, RATES[:models], lambda step: 1.0, 0.1, dropout=0.1, seed=3, role="test")
    found = {}
    for step in KEPT:
        seen: list[np.ndarray] = []
        optimizer.train(state, recipe, tokens, step, lambda _, losses, seen=seen: seen.append(losses.double().numpy()))
        found[f"weights {step}"], found[f"losses {step}"] = state.params.numpy().copy(), np.mean(seen, 0)
    held_out = np.concatenate([tokens(1000 + number) for number in range(15)])
    return {
        **found,
        "alive": state.alive.numpy(),
        "start": start,
        "evaluation": optimizer.evaluate(state.params, held_out, SMALL),
    }


def rows(store: Any, chosen: tuple[dict[str, Any], ...] = ROWS) -> dict[str, np.ndarray]:
    """Whole rows, pretraining and all."""
    metrics, status = compute(columns_of(*chosen, **QUICK), np.zeros(len(chosen), int), store)
    return {**metrics, "status": status.astype(str)}


class Gathered:
    """Counts the weights that are gathered at a time: it stands before torch's own gathering."""

    def __init__(self) -> None:
        self.held = self.peak = 0
        self._gather = torch.distributed.all_gather_into_tensor
        torch.distributed.all_gather_into_tensor = self

    def __call__(self, whole: torch.Tensor, own: torch.Tensor, **how: Any) -> Any:
        work = self._gather(whole, own, **how)
        self.held += whole.numel()
        self.peak = max(self.peak, self.held)
        weakref.finalize(whole.untyped_storage(), self._gone, whole.numel())
        return work

    def _gone(self, count: int) -> None:
        self.held -= count


def spread() -> dict[str, np.ndarray]:
    """One model, each worker holding a share of it; what they hold of it at a time."""
    gathered = Gathered()
    own = sharding.row(lambda part: 2 * params.drawn(part, DEEP, 0), DEEP, torch.distributed.is_initialized())
    state = State.fresh(own[None].astype(np.float64))
    optimizer.train(
        state, TrainConfig(DEEP, np.array([1e-4]), lambda step: 1.0, 0.1, dropout=0.1, seed=3, role="test"), tokens, 6
    )
    counts = {
        "held": state.params.numel(),
        "moments": state.exp_avg.numel() + state.exp_avg_sq.numel(),
        "gathered": gathered.peak,
    }
    found = sharding.tensors(state.params, DEEP)
    return {
        **found,
        **{name: np.array(count) for name, count in counts.items()},
        "evaluation": optimizer.evaluate(state.params, tokens(99), DEEP),
        "norm": sharding.norm(state.params, DEEP).numpy(),
    }


def memory() -> dict[str, np.ndarray]:
    """How many models of 16 train side by side on a GPU whose memory on worker 1 is full in the
    second step of more than two; for how many a step was tried; and a sum over workers after it."""
    sums, steps = ModelConfig.loss_sums, Counter[int]()

    def full(config: ModelConfig, parameters: Any, *rest: Any) -> torch.Tensor:
        models = len(parameters["head"])
        steps[models] += 1
        if torch.distributed.get_rank() == 1 and models > 2 and steps[models] == 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return sums(config, parameters, *rest)

    with a_gpu(), devices.granted(1), mock.patch.object(ModelConfig, "loss_sums", full):
        chosen = model_batch.side_by_side(SMALL, 5, 16)
        total = parallel.add_up(torch.tensor([1.0 + parallel.rank()], device="cuda"))
        return {"chosen": np.array(chosen), "tried": np.array(sorted(steps)), "sum": total.cpu().numpy()}


def short() -> dict[str, np.ndarray]:
    """Training on a GPU whose memory on worker 1 is full from the second step on; and a sum over
    workers after it."""
    sums = ModelConfig.loss_sums
    with a_gpu(), devices.granted(1):
        state = State.fresh(3 * params.initial(SMALL, 0)[None])

        def full(*arguments: Any) -> torch.Tensor:
            if torch.distributed.get_rank() == 1 and state.step:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            return sums(*arguments)

        with mock.patch.object(ModelConfig, "loss_sums", full), contextlib.suppress(torch.cuda.OutOfMemoryError):
            optimizer.train(state, TrainConfig(SMALL, RATES[:1], lambda step: 1.0), tokens, 3)
        total = parallel.add_up(torch.tensor([1.0 + parallel.rank()], device="cuda"))
        return {"steps": np.array(state.step), "sum": total.cpu().numpy()}


def share() -> dict[str, np.ndarray]:
    """This worker's part of a batch of five sequences."""
    own, first = parallel.share(np.arange(5 * 4, dtype=np.uint8).reshape(5, 4))
    return {"own": own, "first": np.array(first)}


def wanted() -> dict[str, np.ndarray]:
    """Whether a model is spread where a GPU that is pretended has little memory, and much: by itself, always, never."""
    torch.cuda.is_available = lambda: True
    found = []
    for a_weight in (16.0, 100.0):
        gpu = SimpleNamespace(total_memory=a_weight * DEEP.weights())
        torch.cuda.get_device_properties = lambda gpu=gpu: gpu
        for said in ("", "always", "never"):
            os.environ[sharding.VARIABLE] = said
            found.append(sharding.wanted(DEEP))
    return {"wanted": np.array(found)}


JOBS = {"spread": spread, "memory": memory, "short": short, "share": share, "wanted": wanted}


def main(folder: Path, rank: int, workers: int, jobs: list[str], gpus: str) -> None:
    """Each job's results as FOLDER/JOB.RANK.npz."""
    global a_gpu
    torch.set_num_threads(1)
    gpu = None
    if gpus == "real":
        a_gpu, gpu = contextlib.nullcontext, torch.device("cuda", rank)
        torch.cuda.set_device(gpu)
    if workers > 1:
        torch.distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if gpu else "cpu:gloo,cuda:gloo",
            init_method=f"file://{folder}/meeting",
            rank=rank,
            world_size=workers,
            device_id=gpu,
        )
    for job in jobs:
        os.environ[sharding.VARIABLE] = "always" if "spread" in job else "never"
        if job.endswith("rows"):
            on_gpu = job.startswith("gpu")
            with a_gpu() if on_gpu else contextlib.nullcontext(), devices.granted(int(on_gpu)):
                before = torch.cuda.max_memory_allocated() if on_gpu else 0
                store = GangStages(Store(folder / f"{job}.store"), waiting_group())
                found = rows(store, tuple(ROWS[i] for i in ON_GPU) if on_gpu else ROWS)
                assert not on_gpu or torch.cuda.max_memory_allocated() > before, "nothing was computed on the GPU"
        else:
            with devices.granted(None if job == "wanted" else 0):  # also where there is a real GPU
                found = JOBS.get(job, functools.partial(train, job))()
        np.savez(folder / f"{job}.{rank}.npz", **found)
    if workers > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5])

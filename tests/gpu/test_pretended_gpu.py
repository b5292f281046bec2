"""Whole rows of every workload that uses torch, on a pretended GPU: they end as on the CPU, and no step waits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pretend_cuda import MixedDevices, Pretended, pretended_gpu

from raysweep import workloads
from raysweep.training import devices, optimizer
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.params import initial
from raysweep.trial.compute import compute
from raysweep.workloads.declaration import Columns, column
from raysweep.workloads.language.model_config import ModelConfig, config_of

LANGUAGE: dict[str, Any] = {
    "preset": "tiny",
    "pretrain_length": 2**13,
    "pretrain_batch": 16,
    "finetune_batch": 8,
    "finetune_steps": 6,
    "evaluation_tokens": 2048,
}


@pytest.fixture
def gpu() -> Iterator[Pretended]:
    with pretended_gpu() as found:
        yield found


def table(workload: str, rows: list[dict[str, Any]], **usual: Any) -> Columns:
    declared = workloads.get(workload).parameters
    values = [{**{p.name: p.default for p in declared}, **usual, **row} for row in rows]
    return {p.name: column(p, [p.coerce(row[p.name]) for row in values]) for p in declared}


def model(**changes: Any) -> ModelConfig:
    row: Mapping[str, Any] = {p.name: p.default for p in workloads.get("language").parameters} | LANGUAGE | changes
    return config_of(row)


# The pretence itself


def test_tensors_say_where_they_are_and_refuse_what_a_gpu_refuses(gpu: Pretended) -> None:
    here, there = torch.ones(3), torch.ones(3, device="cuda")
    assert (here.device.type, there.device.type) == ("cpu", "cuda")
    assert (there * 2 + torch.tensor(1.0)).is_cuda
    with pytest.raises(MixedDevices, match="aten.add"):
        here + there
    with pytest.raises(TypeError, match="can't convert cuda"):
        there.numpy()
    with pytest.raises(RuntimeError, match="cannot pin"):
        there.pin_memory()
    assert there.cpu().numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("waits", "name"),
    [
        (lambda x: x.sum().item(), "_local_scalar_dense"),
        (lambda x: float(x.sum()), "_local_scalar_dense"),
        (lambda x: bool((x > 0).all()), "_local_scalar_dense"),
        (lambda x: x.cpu(), "copy to the host"),
        (lambda x: torch.ones(3).to(x.device), "copy to the GPU"),
        (lambda x: torch.tensor([1.0, 2.0], device="cuda"), "copy to the GPU"),
        (lambda x: x[x > 0], "index by a mask"),
        (lambda x: torch.nonzero(x), "nonzero"),
        (lambda x: x[torch.tensor([0])], "index by indices of the host"),
    ],
)
def test_what_makes_host_and_gpu_wait_for_each_other_is_counted(waits: Any, name: str, gpu: Pretended) -> None:
    there = torch.ones(3, device="cuda")
    gpu.syncs.clear()
    waits(there)
    assert +gpu.syncs == Counter({name: 1})


def test_what_nobody_waits_for_is_not_counted(gpu: Pretended) -> None:
    moved = torch.ones(3).pin_memory().to("cuda", non_blocking=True)
    leaf = moved.clone().requires_grad_()
    (leaf.exp() * moved).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.is_cuda
    assert not +gpu.syncs


def test_products_are_in_bfloat16_under_autocast(gpu: Pretended) -> None:
    there = torch.ones(3, 3, device="cuda")
    with optimizer.mixed_precision(there.device):
        assert (there @ there).dtype == torch.bfloat16
    assert (there @ there).dtype == torch.float32


# Steps


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("recipe", [{}, {"dropout": 0.1}, {"weight_decay": 0.1}], ids=str)
def test_a_step_of_training_never_waits(models: int, recipe: dict[str, float], gpu: Pretended) -> None:
    def syncs(steps: int) -> Counter[str]:
        config = model()
        state = State.fresh(np.repeat(initial(config, 0)[None], models, 0))
        samples = config.example(4)
        gpu.syncs.clear()
        optimizer.train(
            state, TrainConfig(config, np.full(models, 1e-3), lambda step: 1.0, **recipe), lambda step: samples, steps
        )
        return +gpu.syncs

    assert syncs(6) == syncs(2)


# Whole rows

ROWS: dict[str, tuple[str, list[dict[str, Any]], dict[str, Any]]] = {
    "language": ("language", [{"finetune_lr": lr, "noise": n} for lr in (1e-3, 1e-2) for n in (0.0, 0.1)], LANGUAGE),
    "language, diverging": ("language", [{"finetune_lr": lr} for lr in (1e-3, 1e30)], LANGUAGE),
    "language, a shared trunk": (
        "language",
        [{"pretrain_length": length} for length in (2**13, 2**14)],
        {**LANGUAGE, "pretrain_schedule": "wsd"},
    ),
    "language, early stopping and dropout": (
        "language",
        [{"finetune_lr": lr} for lr in (1e-3, 3e-3)],
        {**LANGUAGE, "early_stopping": 2, "pretrain_dropout": 0.1, "finetune_dropout": 0.1},
    ),
    "language, curvature": ("language", [{}], {**LANGUAGE, "sharpness_iterations": 3}),
    "language, a task": ("language", [{}], {**LANGUAGE, "target": "task:{here}"}),
    "linear_transfer, layers": (
        "linear_transfer",
        [{"overlap_angle": angle, "finetune_lr": lr} for angle in (10.0, 60.0) for lr in (0.02, 5.0)],
        {"engine": "network", "dim": 30, "gamma": 0.5, "noise": 0.2, "finetune_steps": 100},
    ),
    "linear_transfer, flow": (
        "linear_transfer",
        [{"overlap_angle": angle, "depth": depth} for angle in (10.0, 60.0) for depth in (1, 3)],
        {"engine": "flow", "dim": 30, "gamma": 0.5, "noise": 0.2, "finetune_steps": 100},
    ),
    "linear_spectrum, layers": (
        "linear_spectrum",
        [{"finetune_lr": lr} for lr in (0.01, 5.0)],
        {"engine": "network", "finetune_steps": 50},
    ),
}


@pytest.mark.parametrize("which", ROWS)
def test_rows_end_as_on_the_cpu(which: str, tmp_path: Path) -> None:
    """Statuses are equal; float64 numbers are equal too, and those of bfloat16 products near."""
    workload, rows, usual = ROWS[which]
    if "target" in usual:
        examples = [{"text": "abc"[n % 3] * 9, "label": "xyz"[n % 3]} for n in range(300)]
        (tmp_path / "task.jsonl").write_text("\n".join(map(json.dumps, examples)))
        usual = {**usual, "target": f"task:{tmp_path}/task.jsonl"}
    columns, seeds = table(workload, rows, **usual), np.zeros(len(rows), np.int64)
    declared = workloads.get(workload)
    plain = compute(declared, columns, seeds, str(tmp_path / "cpu"))
    with pretended_gpu() as gpu, devices.granted(1):
        found = compute(declared, columns, seeds, str(tmp_path / "gpu"))
    assert gpu.syncs, "nothing was computed on the GPU"
    assert found.status.tolist() == plain.status.tolist()
    for name, values in plain.metrics.items():
        near = {"rtol": 0.05, "atol": 0.05} if workload == "language" else {"rtol": 1e-9, "atol": 1e-12}
        if "hessian" not in name and "sharpness" not in name and "perplexity" not in name:
            np.testing.assert_allclose(found.metrics[name], values, **near, err_msg=name)

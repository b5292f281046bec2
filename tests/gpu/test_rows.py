"""Whole rows of every workload that uses torch: on a GPU they end as on the CPU, and no step waits."""

import checkpoint_rows
import numpy as np
import pytest
import torch
from workload_rows import row_of, table_of

from raysweep import workloads
from raysweep.training import devices
from raysweep.training.sizes import PIECE_BYTES
from raysweep.training.trainer import Recipe, Trainer
from raysweep.trial.compute import compute
from raysweep.workloads.language import model
from raysweep.workloads.language.model_config import config_of
from raysweep.workloads.relu_features import descent

LANGUAGE = {
    "preset": "tiny",
    "pretrain_length": 2**13,
    "pretrain_batch": 16,
    "finetune_batch": 8,
    "finetune_steps": 6,
    "evaluation_tokens": 2048,
}


@pytest.mark.gpu
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_step_of_training_never_waits(dropout):
    config, steps, done = config_of(row_of("language")), 6, []

    def after_step(own, loss):
        torch.cuda.set_sync_debug_mode("error" if 2 <= own.step < steps else "default")
        done.append(own.step)

    recipe = Recipe(1e-3, lambda step: 1.0, 0.1, config.lr_factors(), dropout=dropout > 0)
    own = Trainer(model.decoder(config, config.initial(0), dropout), model.losses, recipe)
    samples = np.zeros((4, config.context + 1), np.uint8)
    try:
        own.train(lambda step: samples, steps, after_step)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert done == list(range(1, steps + 1))
    assert own.module.lm_head.weight.is_cuda


@pytest.mark.usefixtures("gpu")
def test_recorded_steps_are_those_that_are_not():
    """In two pieces of different sizes. Stated tolerance, bfloat16 products: 1e-3 nats in each of 8 steps."""
    config = config_of(row_of("language"))
    text = np.random.default_rng(0).integers(97, 105, (8, 10, config.context + 1)).astype(np.uint8)
    runs = []
    for records in (False, True):
        losses = []
        recipe = Recipe(1e-3, lambda step: 1.0, 0.1, config.lr_factors(), PIECE_BYTES / 6, records=records)
        own = Trainer(model.decoder(config, config.initial(0)), model.losses, recipe)
        own.train(lambda step: text[step], 8, lambda _, loss, losses=losses: losses.append(float(loss)))
        runs.append(losses)
    np.testing.assert_allclose(runs[1], runs[0], atol=1e-3)
    assert runs[0][-1] < runs[0][0]


@pytest.mark.gpu
@pytest.mark.parametrize("loss_on", ["population", "samples"])
def test_a_step_of_a_relu_network_never_waits(loss_on):
    stream = np.random.default_rng(0)
    shapes = (3, 8, 4), (5, 4), (3, 12, 4), (3, 12)
    start, teacher, inputs, labels = (
        torch.as_tensor(stream.standard_normal(each), device=devices.device()) for each in shapes
    )
    start, teacher = (rows / rows.norm(dim=-1, keepdim=True) for rows in (start, teacher))
    weights = torch.full((3, 5), 0.2, dtype=torch.float64, device=devices.device())
    task = descent.on_population(teacher, weights) if loss_on == "population" else descent.on_samples(inputs, labels)
    steps, taken = descent.LOOK - 2, []

    def watched(features, outputs):
        taken.append(len(taken))
        torch.cuda.set_sync_debug_mode("error" if 1 <= taken[-1] < steps else "default")
        return task(features, outputs)

    try:
        found = descent.descend(watched, start, descent.Recipe(1e-7, 0.5, steps, 0.0))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(taken) == steps + 1
    assert np.isfinite(found.loss).all()


ROWS = {
    # at a rate of 0.01 the first steps overshoot, and two processors that round alike end 0.1 nats apart
    "language": ("language", [{"finetune_lr": lr, "noise": n} for lr in (3e-4, 3e-3) for n in (0.0, 0.1)], LANGUAGE),
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
    "language, curvature": (
        "language",
        [{"interpolation": share, "noise": noise} for share in (0.5, 1.0) for noise in (0.0, 0.1)],
        {**LANGUAGE, "sharpness_iterations": 3},
    ),
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
    "relu_features": (
        "relu_features",
        [{"ablation": a, "target_samples": n} for a in (0.2, 0.6) for n in (10, 25)],
        {"dim": 6, "width": 30, "teacher_width": 10, "steps": 60, "datasets": 3},
    ),
    "relu_features, diverging": (
        "relu_features",
        [{"ablation": a, "learning_rate": 1000.0, "init_scale": 1000.0} for a in (0.2, 0.6)],
        {"dim": 6, "width": 30, "teacher_width": 10, "target_samples": 10},
    ),
    "linear_spectrum, layers": (
        "linear_spectrum",
        [{"finetune_lr": lr} for lr in (0.01, 5.0)],
        {"engine": "network", "finetune_steps": 50},
    ),
    "relu_kernel": (
        "relu_kernel",
        [{"overlap_angle": angle, "width": width} for angle in (10.0, 60.0) for width in (64.0, 200.0)],
        {"dim": 6, "source_samples": 20, "target_samples": 10},
    ),
    "vision": (
        "vision",
        [{"finetune_lr": lr, "pretrain_length": length} for lr in (0.01, 0.02) for length in (0, 2)],
        {"source_samples": 64, "target_samples": 20, "finetune_steps": 5},
    ),
}
FORMS = {
    "all weights": {"noise": 0.1},
    "adapters": {"finetune_method": "lora", "lora_rank": 4},
    "packed": {"packing": True, "epochs": 1.0, "finetune_steps": 0},
    "in bfloat16": {"precision": "bfloat16"},
}
ROWS |= {
    f"checkpoints, {name}": ("checkpoints", [{"finetune_lr": lr, **form} for lr in (1e-3, 1e-2)], checkpoint_rows.QUICK)
    for name, form in FORMS.items()
}


BFLOAT16 = {"rtol": 0.05, "atol": 0.05}
NEAR = {"language": BFLOAT16, "checkpoints": BFLOAT16, "vision": {"rtol": 0.02, "atol": 0.02}}
"""How near rows on a GPU are where nets are trained in bfloat16, or convolve in TF32; others are in float64."""


EACH = {"language", "linear_transfer, layers", "relu_kernel", "vision", "checkpoints, all weights"}
"""Of one kind each; the others are for `make test-long` and for real GPUs."""


@pytest.mark.parametrize("which", [row if row in EACH else pytest.param(row, marks=pytest.mark.long) for row in ROWS])
def test_rows_end_as_on_the_cpu(which, a_gpu, tmp_path, request):
    """Statuses are equal; float64 numbers are equal too, and those of bfloat16 products near."""
    workload, rows, usual = ROWS[which]
    if workload == "checkpoints":
        request.getfixturevalue("hub_cache")
        usual = usual | {"source": request.getfixturevalue("texts"), "target": request.getfixturevalue("chats")}
    # by chance seed 0 ends where the loss is far from quadratic, and then no two precisions agree on its curvature
    columns, seeds = table_of(workload, *(usual | row for row in rows)), np.ones(len(rows), int)
    declared = workloads.get(workload)
    with devices.granted(0):
        plain = compute(declared, columns, seeds, str(tmp_path / "cpu"))
    with a_gpu(), devices.granted(1):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.max_memory_allocated()
        found = compute(declared, columns, seeds, str(tmp_path / "gpu"))
        assert torch.cuda.max_memory_allocated() > before, "nothing was computed on the GPU"
    assert found.status.tolist() == plain.status.tolist()
    for name, values in plain.metrics.items():
        near = NEAR.get(workload, {"rtol": 1e-9, "atol": 1e-12})
        if all(word not in name for word in ("hessian", "sharpness", "perplexity", "trace")):
            np.testing.assert_allclose(found.metrics[name], values, **near, err_msg=name)

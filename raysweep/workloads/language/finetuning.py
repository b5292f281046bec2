"""Everything that starts from one checkpoint: perturbing, fine-tuning at many rates at a time, and measuring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raysweep.errors import InputError
from raysweep.training import devices, draws, hessian, model_batch, optimizer, parallel, schedules, sharding
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.params import Part, named, of_row
from raysweep.workloads.declaration import DIVERGED, OK, Status
from raysweep.workloads.language import corpus, model
from raysweep.workloads.language.evaluation import Examination, Examinations
from raysweep.workloads.language.model_config import ModelConfig, config_of
from raysweep.workloads.language.tasks import Task
from raysweep.workloads.language.texts import Mixture

Row = Mapping[str, Any]
CURVATURE_SEQUENCES = 64
"""Number of held-out sequences in the mean loss whose curvature is measured."""


@dataclass(frozen=True)
class Shared:
    """What rows share that start from one checkpoint and differ only in costs.PER_MODEL.

    start: the checkpoint's flat row (1, weights), or this worker's share of it.
    noise: a perturbation of strength 1 in the same form; None if no row asks for one.
    before: metrics that are equal for all rows.
    begun: losses on the last training batches before fine-tuning, by strength of noise; filled when needed.
    """

    parameters: Row
    seed: int
    config: ModelConfig
    mixture: Mixture
    examinations: Examinations
    start: Tensor
    noise: np.ndarray | None
    before: dict[str, float]
    begun: dict[float, np.ndarray] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Number of fine-tuning steps."""
        return int(self.parameters["finetune_steps"])

    def batches(self, step: int) -> np.ndarray:
        """The sequences of one fine-tuning step."""
        batch = int(self.parameters["finetune_batch"])
        return self.mixture.sequences(self.seed, step * batch, batch, self.config.context)


def run(base: np.ndarray, rows: list[Row], seed: int, size: int | None = None) -> list[tuple[dict[str, float], Status]]:
    """Metrics and status of rows that start from one checkpoint and differ only in costs.PER_MODEL.

    base: the checkpoint's flat row (1, weights).
    size: models side by side; None for the number that is measured to be fastest.
    """
    parameters = rows[0]
    config = config_of(parameters)
    source = str(parameters["source"])
    mixture = Mixture(corpus.load(str(parameters["target"]), source), corpus.load(source), float(parameters["overlap"]))
    count = max(1, int(parameters["evaluation_tokens"]) // config.context)
    examinations = Examinations.of(mixture, count, config)
    spread = sharding.wanted(config)
    start = torch.as_tensor(sharding.row(of_row(base[0], config), config, spread)[None], device=devices.device())
    before = {
        "pretrain_loss": float(examinations.source(start)[0][0]),
        "finetune_loss_before": float(examinations.test(start)[0][0]),
        "finetune_epochs": _epochs(parameters, config, mixture),
    }
    quadratic = None
    if iterations := int(parameters["sharpness_iterations"]):
        if spread:
            raise InputError(
                "sharpness_iterations",
                "curvature is measured of models that fit one GPU, and this one is spread over several: set it to 0",
            )
        held_out = mixture.source.held_out("test", count, config.context)
        quadratic = quadratic_of(start, held_out[:CURVATURE_SEQUENCES], config)
        before |= hessian.summary(quadratic, config, iterations, seed)
    noise = None
    if any(float(row["noise"]) for row in rows):
        noise = sharding.row(lambda part: noise_of(part, seed), config, spread)
    shared = Shared(parameters, seed, config, mixture, examinations, start, noise, before)
    size = 1 if spread else size
    if size is None:
        size = model_batch.side_by_side(config, int(parameters["finetune_batch"]), len(rows)) if shared.steps else 1
        size = int(parallel.of_first(size))
    results: list[tuple[dict[str, float], Status]] = []
    for first in range(0, len(rows), size):
        flat, own = _together(shared, rows[first : first + size])
        if quadratic is not None:
            for (metrics, _), moved in zip(own, flat - start, strict=True):
                metrics["quadratic_sensitivity"] = quadratic.change(moved)
        results += own
    return results


def quadratic_of(flat: Tensor, sequences: np.ndarray, config: ModelConfig) -> hessian.Quadratic:
    """The mean loss on sequences, with its gradient and Hessian at one model (1, weights)."""
    tokens = torch.from_numpy(sequences.astype(np.int64)).to(flat.device)
    return hessian.Quadratic(flat, lambda leaf: model.losses(named(leaf, config), tokens, config)[0])


def noise_of(part: Part, seed: int) -> np.ndarray:
    """One tensor's part of a random perturbation of strength 1, float32, flat.

    It is drawn from N(0, Σ), where Σ is the covariance of the initialization (O §3.3, eq. 1, App. C.2). Gains start at
    a fixed value, so they are not perturbed. All rows of one seed use one direction, at different strengths.
    """
    if part.deviation == 0:
        return np.zeros(part.size, np.float32)
    return (part.deviation * draws.normal(seed, f"language/noise/{part.name}", part.size)).astype(np.float32)


def _epochs(parameters: Row, config: ModelConfig, mixture: Mixture) -> float:
    """How often fine-tuning goes through the target's training text; 0 for an endless text."""
    sequences = int(parameters["finetune_steps"]) * int(parameters["finetune_batch"]) * (1 - mixture.overlap)
    if isinstance(mixture.target, Task):
        return sequences / mixture.target.size if mixture.target.size else 0.0
    return sequences * config.context / mixture.target.train_tokens if mixture.target.train_tokens else 0.0


def _together(shared: Shared, rows: list[Row]) -> tuple[Tensor, list[tuple[dict[str, float], Status]]]:
    """Compute rows as one batch of models: their final weights, metrics and status."""
    flat = shared.start.repeat(len(rows), 1)
    if shared.noise is not None:
        strength = torch.tensor([[float(row["noise"])] for row in rows], dtype=flat.dtype, device=flat.device)
        flat += strength * torch.as_tensor(shared.noise, device=flat.device)
    finite, rise = np.ones(len(rows), bool), np.zeros(len(rows))
    if shared.steps:
        flat, finite, rise = _finetune(shared, flat, rows)
    loss, accuracy = shared.examinations.test(flat)
    measured = {
        "pretrain_loss_after": shared.examinations.source(flat)[0],
        "finetune_loss": loss,
        "finetune_accuracy": accuracy,
        "finetune_loss_validation": shared.examinations.validation(flat)[0],
        "finetune_training_loss_rise": rise,
        "distance_moved": sharding.norm((flat - shared.start).double(), shared.config).cpu().numpy(),
    }
    results = []
    for index in range(len(rows)):
        metrics = {**shared.before, **{name: float(values[index]) for name, values in measured.items()}}
        metrics["sensitivity"] = metrics["pretrain_loss_after"] - metrics["pretrain_loss"]
        measurable = all(np.isfinite(value) for name, value in metrics.items() if name != "finetune_accuracy")
        results.append((metrics, OK if measurable and finite[index] else DIVERGED))
    return flat, results


def _finetune(shared: Shared, flat: Tensor, rows: list[Row]) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """Fine-tune the models. Returns three things for each model:

    - the weights that are kept;
    - whether every loss and gradient up to these weights was finite;
    - how much the loss on the last batches rose from the start to these weights (optimizer.mean_rise).
    """
    parameters, steps, config = shared.parameters, shared.steps, shared.config
    recipe = TrainConfig(
        config,
        np.array([float(row["finetune_lr"]) for row in rows]),
        schedules.schedule(str(parameters["finetune_schedule"]), steps),
        float(parameters["finetune_weight_decay"]),
        dropout=float(parameters["finetune_dropout"]),
        seed=shared.seed,
        role="finetune",
    )
    state = State.fresh(flat, flat.device)
    looks = int(parameters["early_stopping"])
    best = Best(state, shared.examinations.validation, {round(steps * (i + 1) / looks) for i in range(looks)} - {0})
    optimizer.train(state, recipe, shared.batches, steps, best if best.looks else None)
    kept, finite = (best.flat, best.found) if best.looks else (state.params, state.alive)
    noises = [float(row["noise"]) for row in rows]
    for index, noise in enumerate(noises):  # rows with equal noise have the same start
        if noise not in shared.begun:
            start = flat[index : index + 1]
            shared.begun[noise] = optimizer.last_losses(start, shared.batches, steps, config)
    rise = optimizer.mean_rise(
        np.concatenate([shared.begun[noise] for noise in noises], 1),
        optimizer.last_losses(kept, shared.batches, steps, config),
    )
    return kept, finite.cpu().numpy(), rise


class Best:
    """Early stopping: keeps the weights of each model at its lowest validation loss. Called after every step.

    The validation loss is computed only at the steps `looks`. Once a model is frozen, its kept weights stay as they
    are; if it is frozen before the first look, it has none (found).
    """

    def __init__(self, state: State, validation: Examination, looks: set[int]) -> None:
        self.flat, self.looks, self._validation = state.params.clone(), looks, validation
        self._loss = torch.full((len(state.params),), torch.inf, dtype=torch.float64, device=state.params.device)

    def __call__(self, state: State, losses: Tensor) -> None:
        if state.step in self.looks:
            loss = torch.as_tensor(self._validation(state.params)[0], device=state.params.device)
            better = state.alive & (loss < self._loss)
            self._loss = torch.where(better, loss, self._loss)
            self.flat = torch.where(better.unsqueeze(1), state.params, self.flat)

    @property
    def found(self) -> Tensor:
        """Which models have kept weights, (models,). A model that was frozen before its first look has none."""
        return torch.isfinite(self._loss)

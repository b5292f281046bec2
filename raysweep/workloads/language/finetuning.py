"""What one checkpoint becomes: perturbed, fine-tuned at many rates at a time, and measured before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raysweep.errors import InputError
from raysweep.workloads import devices
from raysweep.workloads.declaration import DIVERGED, OK, Status
from raysweep.workloads.language import (
    classification,
    corpus,
    fusion,
    parallel,
    perturbation,
    schedules,
    sharding,
    sharpness,
    training,
)
from raysweep.workloads.language.shapes import Shape, shape_of
from raysweep.workloads.language.tasks import Task
from raysweep.workloads.language.texts import Corpus, Mixture
from raysweep.workloads.language.training import Recipe, State

Row = Mapping[str, Any]
Examination = Callable[[Tensor], tuple[np.ndarray, np.ndarray]]
"""Models (models, weights) -> their loss and their accuracy (NaN where there is none), (models,) each."""


@dataclass(frozen=True)
class Examinations:
    """What models are held against: the source's held-out text, the target's validation and test documents."""

    source: Examination
    validation: Examination
    test: Examination


def examination(target: Mixture | Corpus, split: str, count: int, shape: Shape) -> Examination:
    """On up to `count` held-out sequences of text, or examples of a task."""
    own = target.target if isinstance(target, Mixture) else target
    if isinstance(own, Task):
        asked, truth = own.questions(split, count, shape.context)

        def examine(flat: Tensor) -> tuple[np.ndarray, np.ndarray]:
            scored = classification.score(flat, asked, truth, shape)
            return scored.loss, scored.accuracy

        return examine
    sequences = target.held_out(split, count, shape.context)
    return lambda flat: (training.evaluate(flat, sequences, shape), np.full(len(flat), np.nan))


def run(base: np.ndarray, rows: list[Row], seed: int, size: int | None = None) -> list[tuple[dict[str, float], Status]]:
    """Metrics and status of rows that start from one checkpoint and agree in all but costs.PER_MODEL.

    base: the checkpoint's flat row (1, weights); size: models side by side, None for what is measured to be fastest.
    """
    parameters = rows[0]
    shape = shape_of(parameters)
    source = str(parameters["source"])
    mixture = Mixture(corpus.load(str(parameters["target"]), source), corpus.load(source), float(parameters["overlap"]))
    count = max(1, int(parameters["evaluation_tokens"]) // shape.context)
    examinations = Examinations(
        examination(mixture.source, "test", count, shape),
        examination(mixture, "validation", count, shape),
        examination(mixture, "test", count, shape),
    )
    spread = sharding.wanted(shape)
    start = torch.as_tensor(sharding.row(sharding.of_row(base[0], shape), shape, spread)[None], device=devices.device())
    before = {
        "pretrain_loss": float(examinations.source(start)[0][0]),
        "finetune_loss_before": float(examinations.test(start)[0][0]),
        "finetune_epochs": _epochs(parameters, shape, mixture),
    }
    quadratic = None
    if int(parameters["sharpness_iterations"]):
        if spread:
            raise InputError(
                "sharpness_iterations",
                "curvature is measured of models that fit one GPU, and this one is spread over several: set it to 0",
            )
        quadratic = sharpness.Quadratic(start, mixture.source.held_out("test", count, shape.context), shape)
        before |= sharpness.summary(quadratic, shape, int(parameters["sharpness_iterations"]), seed)
    noise = None
    if any(float(row["noise"]) for row in rows):
        noise = sharding.row(lambda part: perturbation.drawn(part, seed), shape, spread)
    size = 1 if spread else size
    if size is None:
        size = fusion.side_by_side(shape, int(parameters["finetune_batch"]), len(rows)) if steps_of(rows[0]) else 1
        size = int(parallel.of_first(size))
    results: list[tuple[dict[str, float], Status]] = []
    begun: dict[float, np.ndarray] = {}
    for first in range(0, len(rows), size):
        flat, own = _together(
            start, rows[first : first + size], seed, shape, mixture, examinations, noise, before, begun
        )
        if quadratic is not None:
            for (metrics, _), moved in zip(own, flat - start, strict=True):
                metrics["quadratic_sensitivity"] = quadratic.change(moved)
        results += own
    return results


def steps_of(row: Row) -> int:
    """Fine-tuning steps of a row."""
    return int(row["finetune_steps"])


def _epochs(parameters: Row, shape: Shape, mixture: Mixture) -> float:
    sequences = steps_of(parameters) * int(parameters["finetune_batch"]) * (1 - mixture.overlap)
    if isinstance(mixture.target, Task):
        return sequences / mixture.target.size if mixture.target.size else 0.0
    return sequences * shape.context / mixture.target.train_tokens if mixture.target.train_tokens else 0.0


def _together(
    start: Tensor,
    rows: list[Row],
    seed: int,
    shape: Shape,
    mixture: Mixture,
    examinations: Examinations,
    noise: np.ndarray | None,
    before: Mapping[str, float],
    begun: dict[float, np.ndarray],
) -> tuple[Tensor, list[tuple[dict[str, float], Status]]]:
    """Rows as one batch of models: where they ended, metrics and status."""
    flat = start.repeat(len(rows), 1)
    if noise is not None:
        strength = torch.tensor([[float(row["noise"])] for row in rows], dtype=flat.dtype, device=flat.device)
        flat += strength * torch.as_tensor(noise, device=flat.device)
    finite, rise = np.ones(len(rows), bool), np.zeros(len(rows))
    if steps_of(rows[0]):
        flat, finite, rise = _finetune(flat, rows, seed, shape, mixture, examinations.validation, begun)
    loss, accuracy = examinations.test(flat)
    measured = {
        "pretrain_loss_after": examinations.source(flat)[0],
        "finetune_loss": loss,
        "finetune_accuracy": accuracy,
        "finetune_loss_validation": examinations.validation(flat)[0],
        "finetune_training_loss_rise": rise,
        "distance_moved": sharding.norm((flat - start).double(), shape).cpu().numpy(),
    }
    results = []
    for index in range(len(rows)):
        metrics = {**before, **{name: float(values[index]) for name, values in measured.items()}}
        metrics["sensitivity"] = metrics["pretrain_loss_after"] - metrics["pretrain_loss"]
        measurable = all(np.isfinite(value) for name, value in metrics.items() if name != "finetune_accuracy")
        results.append((metrics, OK if measurable and finite[index] else DIVERGED))
    return flat, results


def _finetune(
    flat: Tensor,
    rows: list[Row],
    seed: int,
    shape: Shape,
    mixture: Mixture,
    validation: Examination,
    begun: dict[float, np.ndarray],
) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """The models after fine-tuning, at the weights that are kept; for which of them every loss and gradient up to these
    weights was finite; and by how much their loss on the last batches is above that at the start (training.mean_rise).
    begun: losses at the start by noise, filled as needed."""
    parameters, steps = rows[0], steps_of(rows[0])
    batch = int(parameters["finetune_batch"])
    recipe = Recipe(
        shape,
        np.array([float(row["finetune_lr"]) for row in rows]),
        schedules.schedule(str(parameters["finetune_schedule"]), steps),
        float(parameters["finetune_weight_decay"]),
        dropout=float(parameters["finetune_dropout"]),
        seed=seed,
        role="finetune",
    )

    def batches(step: int) -> np.ndarray:
        return mixture.sequences(seed, step * batch, batch, shape.context)

    state = State.fresh(flat, flat.device)
    best = Best(state, validation, _looks(steps, int(parameters["early_stopping"])))
    training.train(state, recipe, batches, steps, best if best.looks else None)
    kept, finite = (best.flat, best.found) if best.looks else (state.flat, state.alive)
    for index, row in enumerate(rows):  # rows of one noise start alike
        if float(row["noise"]) not in begun:
            begun[float(row["noise"])] = training.last_losses(flat[index : index + 1], batches, steps, shape)
    rise = training.mean_rise(
        np.concatenate([begun[float(row["noise"])] for row in rows], 1),
        training.last_losses(kept, batches, steps, shape),
    )
    return kept, finite.cpu().numpy(), rise


def _looks(steps: int, count: int) -> set[int]:
    return {round(steps * (number + 1) / count) for number in range(count)} - {0}


class Best:
    """Early stopping: the weights of each model at the lowest validation loss among the looks, itself called after
    every step. A model that was frozen by then is looked at no more: one frozen before its first look has no kept
    weights (found)."""

    def __init__(self, state: State, validation: Examination, looks: set[int]) -> None:
        self.flat, self.looks, self._validation = state.flat.clone(), looks, validation
        self._loss = torch.full((len(state.flat),), torch.inf, dtype=torch.float64, device=state.flat.device)

    def __call__(self, state: State) -> None:
        if state.step in self.looks:
            loss = torch.as_tensor(self._validation(state.flat)[0], device=state.flat.device)
            better = state.alive & (loss < self._loss)
            self._loss = torch.where(better, loss, self._loss)
            self.flat = torch.where(better.unsqueeze(1), state.flat, self.flat)

    @property
    def found(self) -> Tensor:
        """Which models have kept weights, (models,): a model frozen before its first look has no kept weights."""
        return torch.isfinite(self._loss)

"""The stage finetune: perturbs a pretraining and fine-tunes it, at many rates side by side."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from raysweep.training import devices, draws, model_batch, optimizer, parallel, schedules, sharding
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.params import Part, named
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language import corpus
from raysweep.workloads.language.chain import PER_MODEL
from raysweep.workloads.language.examination import Examination, examination
from raysweep.workloads.language.model_config import ModelConfig, config_of, share_of
from raysweep.workloads.language.texts import Mixture
from raysweep.workloads.rows import Result, Rows

if TYPE_CHECKING:
    from raysweep.stages.artifacts import Artifact
    from raysweep.trial.context import Context

Row = Mapping[str, Any]


def side_by_side(rows: Rows) -> int:
    """How many of these rows to fine-tune as one batch of models."""
    parameters = rows.row()
    config = config_of(parameters)
    if not parameters["finetune_steps"] or sharding.wanted(config):
        return 1
    batch, dropout = int(parameters["finetune_batch"]), float(parameters["finetune_dropout"])
    return int(parallel.of_first(model_batch.side_by_side(config, batch, len(rows), dropout)))


def finetune(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Perturb and fine-tune the models of rows that start from one pretraining and differ only in PER_MODEL.

    The artifact has the weights of each model. A row is diverged if a loss or gradient up to these weights was not
    finite. With early stopping the kept weights are older than the last, and the status is about these.
    """
    parameters = rows.row()
    config = config_of(parameters)
    start = start_of(parent, config)
    flat = start.repeat(len(rows), 1)
    strengths = rows["noise"].astype(np.float64)
    if strengths.any():
        noise = parent.once("noise", lambda: _noise(rows.seed, config, start.device))
        flat += torch.as_tensor(strengths, dtype=flat.dtype, device=flat.device).unsqueeze(1) * noise
    finite, rise = np.ones(len(rows), bool), np.zeros(len(rows))
    if parameters["finetune_steps"]:
        flat, finite, rise = _train(rows, parent, flat, config, context)
    good = finite & np.isfinite(rise)
    return Result(
        _artifact(flat, config, context.kept), {"finetune_training_loss_rise": rise}, np.where(good, OK, DIVERGED)
    )


def start_of(pretraining: Artifact, config: ModelConfig) -> Tensor:
    """The weights of a pretraining as a flat row (1, weights) on the device, or this worker's share of it."""

    def load() -> Tensor:
        weights = pretraining.tensors()["weights"]
        values = sharding.row(lambda part: weights[part.name], config, sharding.wanted(config))
        return torch.as_tensor(values[None], device=devices.device())

    return pretraining.once("start", load)


def mixture_of(parameters: Row) -> Mixture:
    """The target's text, with the share of the source's text that overlap_angle says."""
    source, target = str(parameters["source"]), str(parameters["target"])
    return Mixture(corpus.load(target, source), corpus.load(source), share_of(float(parameters["overlap_angle"])))


def _artifact(flat: Tensor, config: ModelConfig, kept: bool) -> dict[str, Any]:
    """Fine-tuned models: flat rows in memory, and named weights, with one entry per model, for the store."""
    if not kept:
        return {"flat": flat}
    if sharding.is_share(flat, config):  # a model that is spread is fine-tuned alone
        return {"weights": {name: values[None] for name, values in sharding.tensors(flat, config).items()}}
    return {"weights": named(flat, config)}


def flat_of(finetuned: Mapping[str, Any], config: ModelConfig) -> Tensor:
    """The flat rows (models, weights) of fine-tuned models from their artifacts, or this worker's share of them."""
    if "flat" in finetuned:
        flat: Tensor = finetuned["flat"]
        return flat
    weights, spread = finetuned["weights"], sharding.wanted(config)
    count = len(next(iter(weights.values())))
    rows = [sharding.row(lambda part, i=i: weights[part.name][i], config, spread) for i in range(count)]  # type: ignore[misc]
    return torch.as_tensor(np.stack(rows), device=devices.device())


def _noise(seed: int, config: ModelConfig, where: torch.device) -> Tensor:
    values = sharding.row(lambda part: noise_of(part, seed), config, sharding.wanted(config))
    return torch.as_tensor(values, device=where)


def noise_of(part: Part, seed: int) -> np.ndarray:
    """One tensor's part of a random perturbation of strength 1, float32, flat.

    It is drawn from N(0, Σ), where Σ is the covariance of the initialization (O §3.3, eq. 1, App. C.2). Gains start at
    a fixed value, so they are not perturbed. All rows of one seed use one direction, at different strengths.
    """
    if part.deviation == 0:
        return np.zeros(part.size, np.float32)
    return (part.deviation * draws.normal(seed, f"language/noise/{part.name}", part.size)).astype(np.float32)


def _train(
    rows: Rows, parent: Artifact, flat: Tensor, config: ModelConfig, context: Context
) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """Fine-tune the models. Returns three things for each model:

    - the weights that are kept;
    - whether every loss and gradient up to these weights was finite;
    - how much the loss on the last batches rose from the start to these weights (optimizer.mean_rise).
    """
    parameters = rows.row()
    steps, batch, mixture = int(parameters["finetune_steps"]), int(parameters["finetune_batch"]), mixture_of(parameters)

    def batches(step: int) -> np.ndarray:
        return mixture.sequences(rows.seed, step * batch, batch, config.context)

    recipe = TrainConfig(
        config,
        rows["finetune_lr"].astype(np.float64),
        schedules.schedule(str(parameters["finetune_schedule"]), steps),
        float(parameters["finetune_weight_decay"]),
        dropout=float(parameters["finetune_dropout"]),
        seed=rows.seed,
        role="finetune",
    )
    state = State.fresh(flat, flat.device)
    looks = int(parameters["early_stopping"])
    best = None
    if looks:
        count = max(1, int(parameters["evaluation_tokens"]) // config.context)
        validation = parent.once(
            ("validation", *_alike(parameters)), lambda: examination(mixture, "validation", count, config)
        )
        best = Best(state, validation, {round(steps * (i + 1) / looks) for i in range(looks)} - {0})

    def after_step(state: State, losses: Tensor) -> None:
        context.log(state.step, training_loss=losses)
        if best is not None:
            best(state, losses)

    optimizer.train(state, recipe, batches, steps, after_step)
    kept, finite = (best.flat, best.found) if best is not None else (state.params, state.alive)

    def begun(index: int) -> np.ndarray:  # rows with equal noise have the same start
        key = ("begun", float(rows["noise"][index]), *_alike(parameters))
        return parent.once(key, lambda: optimizer.last_losses(flat[index : index + 1], batches, steps, config))

    rise = optimizer.mean_rise(
        np.concatenate([begun(index) for index in range(len(rows))], 1),
        optimizer.last_losses(kept, batches, steps, config),
    )
    return kept, finite.cpu().numpy(), rise


def _alike(parameters: Row) -> tuple[Hashable, ...]:
    """What rows of one call have in common."""
    return tuple(value for name, value in parameters.items() if name not in PER_MODEL)


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

"""The stage finetune: perturbs a pretraining and fine-tunes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from raysweep.training import schedules, trainer
from raysweep.training.trainer import Trainer
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language.corpus import mixture_of
from raysweep.workloads.language.evaluation import examination
from raysweep.workloads.language.model_config import config_of
from raysweep.workloads.language.pretraining import Row, Weights, last_losses, mean_rise, start_of, trainer_of
from raysweep.workloads.rows import Result, Rows

if TYPE_CHECKING:
    from raysweep.stages.artifacts import Artifact
    from raysweep.trial.context import Context


def finetune(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Perturb and fine-tune one pretraining. A row is diverged if a loss or gradient up to the weights that are kept
    was not finite; with early stopping these are older than the last."""
    parameters = rows.row()
    start, config = perturbed(start_of(parent), parameters, parent), config_of(parameters)
    steps, batch, seed = (int(parameters[name]) for name in ("finetune_steps", "finetune_batch", "seed"))
    if not steps:
        return Result({"weights": start}, {"finetune_training_loss_rise": 0.0})
    mixture = mixture_of(parameters)

    def batches(step: int) -> np.ndarray:
        return mixture.sequences(seed, step * batch, batch, config.context)

    factor = schedules.schedule(str(parameters["finetune_schedule"]), steps)
    trained = trainer_of("finetune", parameters, config, start, factor, steps)
    # what rows have in common that differ in rate and noise alone
    alike = tuple(value for name, value in parameters.items() if name not in ("finetune_lr", "noise"))
    at_start = ("begun", float(parameters["noise"]), *alike)
    begun = parent.once(at_start, lambda: last_losses(trained.module, batches, steps))

    def log(trained: Trainer, loss: Tensor) -> None:
        context.log(trained.step, training_loss=loss)

    if looks := int(parameters["early_stopping"]):
        validation = parent.once(("validation", *alike), lambda: examination(mixture, "validation", parameters))
        kept, lowest, finite = start, np.inf, False
        for look in sorted({round(steps * (i + 1) / looks) for i in range(looks)} - {0}):
            trained.train(batches, look, log)
            if (loss := validation(trained.module)[0]) < lowest and trained.alive:
                kept, lowest, finite = trainer.weights_of(trained.module), loss, True
        trainer.load(trained.module, kept)
    else:
        trained.train(batches, steps, log)
        kept, finite = trainer.weights_of(trained.module, not context.kept), trained.alive
    rise = mean_rise(begun, last_losses(trained.module, batches, steps))
    status = OK if finite and np.isfinite(rise) else DIVERGED
    return Result({"weights": kept}, {"finetune_training_loss_rise": rise}, status)


def perturbed(start: Weights, parameters: Row, pretraining: Artifact) -> Weights:
    """These weights with the row's noise."""
    strength, parts = float(parameters["noise"]), config_of(parameters).parts()
    if not strength:
        return start
    noise = pretraining.once("noise", lambda: {part.name: part.noise(int(parameters["seed"])) for part in parts})
    return {name: weight + torch.as_tensor(strength * noise[name]).to(weight) for name, weight in start.items()}

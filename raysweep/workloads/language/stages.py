"""The stages trunk, pretrain and finetune: a model is pretrained, perturbed and fine-tuned.

cosine and constant: every length is trained by itself, and there is no trunk. wsd: lengths share a trunk at constant
rate, kept at steps on a fixed geometric grid, so that any two sweeps share it, whatever their lengths. The pretraining
of a length goes on from the last trunk before its branching point, and then anneals.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from raysweep.training import schedules, trainer
from raysweep.training.schedules import Factor
from raysweep.training.trainer import Recipe, Trainer
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language import corpus, model
from raysweep.workloads.language.model_config import config_of, steps_of
from raysweep.workloads.rows import Artifact, Context, Result, Rows

Row = Mapping[str, Any]
Weights = dict[str, Tensor]  # by name, in the host's memory
COMPILED_STEPS = 500  # from these on, a compiler gains more time than it takes


def trunk(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """Train at constant rate up to the step `context.point`."""
    row = rows.row()
    constant = schedules.schedule("constant_warmup", 0, int(row["pretrain_warmup"]) or schedules.TRUNK_WARMUP)
    trained = _pretrained(row, parent, context, constant, int(context.point or 0))
    return Result(trained.state(not context.kept), status=OK if trained.alive else DIVERGED)


def pretrain(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """Train to the end of the row's pretraining. Diverged: a loss or gradient was not finite."""
    row = rows.row()
    steps, kind = steps_of(row), str(row["pretrain_schedule"])
    kind = "constant_warmup" if kind == "constant" else kind
    factor = schedules.schedule(kind, steps, int(row["pretrain_warmup"]))
    trained = _pretrained(row, parent, context, factor, steps)
    size = corpus.load(str(row["source"])).train_tokens
    epochs = steps * int(row["pretrain_batch"]) * config_of(row).context / size if size else 0.0
    left = {"weights": trainer.weights_of(trained.module, not context.kept)}
    return Result(left, {"epochs": epochs}, OK if trained.alive else DIVERGED)


def _pretrained(row: Row, parent: Artifact | None, context: Context, factor: Factor, until: int) -> Trainer:
    """A model trained up to a step: from its parent, else from initialization."""
    config, text, batch = config_of(row), corpus.load(str(row["source"])), int(row["pretrain_batch"])
    trained = trainer_of("pretrain", row, config.initial(row["seed"]), factor, until)
    if parent is not None:
        trained.restore(parent.tensors())

    def batches(step: int) -> np.ndarray:
        return text.sequences("train", row["seed"], "pretrain", step * batch, batch, config.context)

    trained.train_stage(batches, until, context)
    return trained


def finetune(rows: Rows, parent: Artifact, context: Context) -> Result:
    """Perturb and fine-tune one pretraining. A row is diverged if a loss or gradient up to the weights that are kept
    was not finite; with early stopping these are older than the last."""
    row = rows.row()
    start, config, mixture, strength = start_of(parent), config_of(row), corpus.mixture_of(row), float(row["noise"])
    steps, batch, looks = (int(row[name]) for name in ("finetune_steps", "finetune_batch", "early_stopping"))
    if strength:
        noise = parent.once("noise", lambda: {part.name: part.noise(int(row["seed"])) for part in config.parts()})
        start = {name: weight + torch.as_tensor(strength * noise[name]).to(weight) for name, weight in start.items()}
    if not steps:
        return Result({"weights": start})
    trained = trainer_of("finetune", row, start, schedules.schedule(str(row["finetune_schedule"]), steps), steps)

    def batches(step: int) -> np.ndarray:
        return mixture.sequences(row["seed"], step * batch, batch, config.context)

    def log(trained: Trainer, loss: Tensor) -> None:
        context.log(trained.step, training_loss=loss)

    kept, lowest, finite = start, np.inf, False
    for look in sorted({round(steps * (i + 1) / looks) for i in range(looks)} - {0}):
        trained.train(batches, look, log)
        loss = trainer.mean_loss(trained.module, model.losses, [corpus.held_out(row, parent)["target", "validation"]])
        if loss < lowest and trained.alive:
            kept, lowest, finite = trainer.weights_of(trained.module), loss, True
    if not looks:
        trained.train(batches, steps, log)
        kept, finite = trainer.weights_of(trained.module, not context.kept), trained.alive
    return Result({"weights": kept}, status=OK if finite else DIVERGED)


def start_of(pretraining: Artifact) -> Weights:
    """The weights that a pretraining left."""
    read = pretraining.tensors
    return pretraining.once("start", lambda: {name: torch.as_tensor(each) for name, each in read()["weights"].items()})


def trainer_of(kind: str, row: Row, weights: Mapping[str, Any], factor: Factor, steps: int) -> Trainer:
    """What trains a row's model from these weights, by name. kind: pretrain or finetune, as its parameters begin."""
    config = config_of(row)
    lr, decay, dropout = (float(row[f"{kind}_{name}"]) for name in ("lr", "weight_decay", "dropout"))
    seed, compiled = int(row["seed"]), steps >= COMPILED_STEPS and trainer.compiler()
    size = 0.0 if config.recomputes() else config.sample_bytes(dropout=dropout > 0, compiled=compiled)
    recipe = Recipe(lr, factor, decay, config.lr_factors(), size, dropout > 0, seed, f"language/{kind}", records=True)
    return Trainer(model.decoder(config, weights, dropout, compiled), model.losses, recipe)

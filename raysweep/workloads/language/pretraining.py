"""Pretraining: the stages trunk and pretrain.

cosine and constant: every length is trained by itself, and there is no trunk. wsd: lengths share a trunk at constant
rate, kept at steps on a fixed geometric grid, so that any two sweeps share it, whatever their lengths. The pretraining
of a length goes on from the last trunk before its branching point, and then anneals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from raysweep.training import schedules, trainer
from raysweep.training.schedules import Factor
from raysweep.training.trainer import Batches, Recipe, Trainer
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language import corpus, model
from raysweep.workloads.language.model_config import ModelConfig, config_of, steps_of
from raysweep.workloads.rows import Result, Rows

if TYPE_CHECKING:
    from raysweep.stages.artifacts import Artifact
    from raysweep.trial.context import Context

Row = Mapping[str, Any]
Weights = dict[str, Tensor]
"""Weights by name, in the host's memory."""
COMPILED_STEPS = 500  # from these on, a compiler gains more time than it takes
LAST_BATCHES = 10  # start and end of a training are compared on these


def trunk(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """Train at constant rate up to the step `context.point`."""
    parameters = rows.row()
    warmup = int(parameters["pretrain_warmup"]) or schedules.TRUNK_WARMUP
    constant = schedules.schedule("constant_warmup", 0, warmup)
    trained = _train(parameters, parent, context, constant, int(context.point or 0))
    return Result(trained.state(not context.kept), status=OK if trained.alive else DIVERGED)


def pretrain(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """Train to the end of the row's pretraining. Diverged: a loss, gradient or weight was not finite. A loss that ends
    above its start is not a divergence but a metric."""
    parameters = rows.row()
    steps, kind = steps_of(parameters), str(parameters["pretrain_schedule"])
    kind = "constant_warmup" if kind == "constant" else kind
    factor = schedules.schedule(kind, steps, int(parameters["pretrain_warmup"]))
    trained = _train(parameters, parent, context, factor, steps)
    weights, batches = trainer.weights_of(trained.module, not context.kept), _batches(parameters)
    ended = last_losses(trained.module, batches, steps)
    trainer.load(trained.module, config_of(parameters).initial(rows.seed))
    rise = mean_rise(last_losses(trained.module, batches, steps), ended)
    tokens = steps * int(parameters["pretrain_batch"]) * config_of(parameters).context
    source = str(parameters["source"])
    size = corpus.load(source).train_tokens
    metrics = {"epochs": tokens / size if size else 0.0, "pretrain_training_loss_rise": rise}
    status = OK if trained.alive and np.isfinite(rise) else DIVERGED
    return Result({"weights": weights} | corpus.tokenizer_of(source), metrics, status)


def _train(
    parameters: dict[str, Any], parent: Artifact | None, context: Context, factor: Factor, until: int
) -> Trainer:
    """Train up to a step: from its parent, else from initialization."""
    config = config_of(parameters)
    trained = trainer_of("pretrain", parameters, config, config.initial(parameters["seed"]), factor, until)
    if parent is not None:
        trained.restore(parent.tensors())
    trained.train_stage(_batches(parameters), until, context)
    return trained


def start_of(pretraining: Artifact) -> Weights:
    """The weights that a pretraining left."""
    read = pretraining.tensors
    return pretraining.once("start", lambda: {name: torch.as_tensor(each) for name, each in read()["weights"].items()})


def trainer_of(kind: str, row: Row, config: ModelConfig, weights: Row, factor: Factor, steps: int) -> Trainer:
    """What trains a row's model from these weights, by name. kind: pretrain or finetune, as its parameters begin."""
    lr, decay, dropout = (float(row[f"{kind}_{name}"]) for name in ("lr", "weight_decay", "dropout"))
    seed, compiled = int(row["seed"]), steps >= COMPILED_STEPS and trainer.compiler()
    size = 0.0 if config.recomputes() else config.sample_bytes(dropout=dropout > 0, compiled=compiled)
    recipe = Recipe(lr, factor, decay, config.lr_factors(), size, dropout > 0, seed, f"language/{kind}", records=True)
    return Trainer(model.decoder(config, weights, dropout, compiled), model.losses, recipe)


def _batches(parameters: dict[str, Any]) -> Batches:
    """The batch of text of each pretraining step."""
    text, batch, seed = corpus.load(str(parameters["source"])), int(parameters["pretrain_batch"]), parameters["seed"]
    length = config_of(parameters).context
    return lambda step: text.sequences("train", seed, "pretrain", step * batch, batch, length)


def last_losses(module: nn.Module, batches: Batches, until: int) -> np.ndarray:
    """Loss on the last of `until` batches, without dropout, float64 (batches,). Two sets of weights are compared on the
    same batches, so that the difficulty of a batch cancels."""
    steps = range(max(0, until - LAST_BATCHES), until)
    return np.array([trainer.mean_loss(module, model.losses, batches(step)) for step in steps])


def mean_rise(begun: np.ndarray, ended: np.ndarray) -> float:
    """Mean rise of the loss from the start to the end of a training, both of `last_losses`; NaN if not finite."""
    with np.errstate(invalid="ignore"):  # inf - inf
        return float((ended - begun).mean())

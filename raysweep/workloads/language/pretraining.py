"""Pretraining: the stages trunk and pretrain.

cosine and constant: every length is trained by itself, and there is no trunk. wsd: lengths share a trunk at constant
rate, kept at steps on a fixed geometric grid, so that any two sweeps share it, whatever their lengths. The pretraining
of a length goes on from the last trunk before its branching point, and then anneals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from raysweep.training import optimizer, schedules, sharding
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.params import drawn
from raysweep.training.schedules import Factor
from raysweep.workloads.declaration import DIVERGED, OK
from raysweep.workloads.language import corpus
from raysweep.workloads.language.model_config import ModelConfig, config_of, steps_of
from raysweep.workloads.rows import Result, Rows

if TYPE_CHECKING:
    from raysweep.stages.artifacts import Artifact
    from raysweep.trial.context import Context


def trunk(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """Train at constant rate up to the step `context.point`."""
    parameters = rows.row()
    warm = int(parameters["pretrain_warmup"]) or schedules.TRUNK_WARMUP
    state = _train(parameters, parent, context, lambda at: schedules.warmed(at, warm), int(context.point or 0))
    return Result(record(state, config_of(parameters)), status=_status(state))


def pretrain(rows: Rows, parent: Artifact | None, context: Context) -> Result:
    """Train to the end of the row's pretraining.

    Its status is diverged if a loss, gradient or weight was not finite. A loss that ends above its start is not a
    divergence but a metric.
    """
    parameters = rows.row()
    steps, kind = steps_of(parameters), str(parameters["pretrain_schedule"])
    warmup = int(parameters["pretrain_warmup"])
    if kind == "wsd":
        factor = schedules.trunk_and_anneal(steps, warmup)[1]
    else:
        factor = schedules.schedule("constant_warmup" if kind == "constant" else kind, steps, warmup)
    state = _train(parameters, parent, context, factor, steps)
    config, batches = config_of(parameters), _batches(parameters)
    initial = _initial(config, rows.seed, sharding.wanted(config))
    begun, ended = (optimizer.last_losses(one.params, batches, steps, config) for one in (initial, state))
    rise = float(optimizer.mean_rise(begun, ended)[0])
    tokens, text = steps * int(parameters["pretrain_batch"]) * config.context, corpus.load(str(parameters["source"]))
    return Result(
        record(state, config),
        {"epochs": tokens / text.train_tokens if text.train_tokens else 0.0, "pretrain_training_loss_rise": rise},
        _status(state) if np.isfinite(rise) else DIVERGED,
    )


def _train(parameters: dict[str, Any], parent: Artifact | None, context: Context, factor: Factor, until: int) -> State:
    """Train up to the step `until`: from the last checkpoint of this stage, or else from its parent, or else from
    initialization."""
    config = config_of(parameters)
    spread = sharding.wanted(config)
    start = context.restored() or (parent.tensors() if parent is not None else None)
    state = restore(start, config, spread) if start is not None else _initial(config, parameters["seed"], spread)

    def after_step(state: State, losses: torch.Tensor) -> None:
        context.log(state.step, training_loss=losses)
        if state.step < until:
            context.checkpoint(lambda: record(state, config))

    recipe = TrainConfig(
        config,
        np.array([float(parameters["pretrain_lr"])]),
        factor,
        float(parameters["pretrain_weight_decay"]),
        dropout=float(parameters["pretrain_dropout"]),
        seed=parameters["seed"],
        role="pretrain",
    )
    optimizer.train(state, recipe, _batches(parameters), until, after_step)
    return state


def _status(state: State) -> str:
    return OK if bool(state.alive.all()) else DIVERGED


def _batches(parameters: dict[str, Any]) -> optimizer.Batches:
    """The batch of text of each pretraining step."""
    text, batch, seed = corpus.load(str(parameters["source"])), int(parameters["pretrain_batch"]), parameters["seed"]
    length = config_of(parameters).context
    return lambda step: text.sequences("train", seed, "pretrain", step * batch, batch, length)


def record(state: State, config: ModelConfig) -> dict[str, Any]:
    """One model in training as an artifact: its named weights, both moments, the step, and whether it is frozen.

    If the model is spread over workers, they are gathered, and only the first worker gets them.
    """
    return {
        "weights": sharding.tensors(state.params, config),
        "exp_avg": sharding.tensors(state.exp_avg, config),
        "exp_avg_sq": sharding.tensors(state.exp_avg_sq, config),
        "step": state.step,
        "frozen": not bool(state.alive.all()),
    }


def restore(artifact: dict[str, Any], config: ModelConfig, spread: bool = False) -> State:
    """A model in training, from its artifact; spread: only this worker's share of it."""

    def of(named: dict[str, np.ndarray]) -> np.ndarray:
        return sharding.row(lambda part: named[part.name], config, spread)[None]

    state = State.fresh(of(artifact["weights"]))
    state.exp_avg, state.exp_avg_sq = (
        torch.as_tensor(of(artifact[name]), device=state.params.device) for name in ("exp_avg", "exp_avg_sq")
    )
    state.step = int(artifact["step"])
    state.alive &= not artifact["frozen"]
    return state


def _initial(config: ModelConfig, seed: int, spread: bool) -> State:
    return State.fresh(sharding.row(lambda part: drawn(part, config, seed), config, spread)[None])

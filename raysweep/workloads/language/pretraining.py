"""Pretraining: computes the stages of pretraining_identity.py into the store, each distinct one once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from raysweep.training import optimizer, parallel, schedules, sharding
from raysweep.training.optimizer import State, TrainConfig
from raysweep.training.params import drawn, of_row, row
from raysweep.workloads.language import corpus, pretraining_identity
from raysweep.workloads.language.model_config import ModelConfig, config_of

if TYPE_CHECKING:
    from raysweep.stages.store import Entry, Progress, Store

CHECKPOINT_SECONDS = 60.0  # between two checkpoints of a long pretraining
EXP_AVG, EXP_AVG_SQ = "adamw.first", "adamw.second"  # names of tensors in the store
RISE = "training_loss_rise"  # a key in the meta of a pretraining


def pretrained(parameters: Mapping[str, Any], seed: int, store: Store) -> Entry:
    """A row's pretraining from the store; it is computed if it is missing."""
    steps = pretraining_identity.steps_of(parameters)
    stage = pretraining_identity.identity(parameters, seed)
    describe = pretraining_identity.describe(parameters, seed, "pretrain")
    kind, warmup = str(parameters["pretrain_schedule"]), int(parameters["pretrain_warmup"])
    parent: Entry | None = None
    if kind == "wsd":
        branch, factor = schedules.trunk_and_anneal(steps, warmup)
        found = store.fetch(stage)
        if found is not None:
            return found
        parent = _trunk(parameters, seed, store, schedules.trunk_steps(branch))
    else:
        factor = schedules.schedule("constant_warmup" if kind == "constant" else kind, steps, warmup)

    def compute(progress: Progress) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return _advance(parameters, seed, factor, steps, parent, progress, ends=True)

    return store.once(stage, compute, describe=describe)


def _trunk(parameters: Mapping[str, Any], seed: int, store: Store, grid: list[int]) -> Entry | None:
    """The trunk at the last step of a grid; missing trunks before it are computed first."""
    entry, missing = None, []
    for step in reversed(grid):
        entry = store.fetch(pretraining_identity.identity(parameters, seed, step))
        if entry is not None:
            break
        missing.append(step)
    warm = int(parameters["pretrain_warmup"]) or schedules.TRUNK_WARMUP
    for step in reversed(missing):

        def compute(progress: Progress, step: int = step, parent: Entry | None = entry) -> Any:
            return _advance(parameters, seed, lambda at: schedules.warmed(at, warm), step, parent, progress)

        describe = pretraining_identity.describe(parameters, seed, "trunk", step)
        entry = store.once(pretraining_identity.identity(parameters, seed, step), compute, describe=describe)
    return entry


def _advance(
    parameters: Mapping[str, Any],
    seed: int,
    factor: Any,
    until: int,
    parent: Entry | None,
    progress: Progress,
    ends: bool = False,
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Train up to the step `until`.

    Training starts from the last checkpoint of this stage, or else from its parent, or else from initialization.
    ends: pretraining ends here (a trunk goes on); its effect on the training loss is then recorded.
    """
    config, batch = config_of(parameters), int(parameters["pretrain_batch"])
    text = corpus.load(str(parameters["source"]))
    start = progress.load() or parent
    spread = sharding.wanted(config)
    state = restore(start, config, spread) if start is not None else _initial(config, seed, spread)
    saved = time.monotonic()

    def checkpoint(state: State, losses: torch.Tensor) -> None:
        nonlocal saved
        due = time.monotonic() - saved > CHECKPOINT_SECONDS
        if spread:  # saving gathers the model from all workers
            due = bool(parallel.of_first(due))
        if due and state.step < until:
            progress.save(*record(state, config, batch, text.train_tokens))
            saved = time.monotonic()

    recipe = TrainConfig(
        config,
        np.array([float(parameters["pretrain_lr"])]),
        factor,
        float(parameters["pretrain_weight_decay"]),
        dropout=float(parameters["pretrain_dropout"]),
        seed=seed,
        role="pretrain",
    )
    optimizer.train(state, recipe, _batches(parameters, seed), until, checkpoint)
    tensors, meta = record(state, config, batch, text.train_tokens)
    return tensors, {**meta, RISE: _rise(state, parameters, seed)} if ends else meta


def training_loss_rise(entry: Entry, parameters: Mapping[str, Any], seed: int) -> float:
    """How much a pretraining raised the loss on its own last batches, in nats (optimizer.mean_rise).

    The value is kept with the entry. Older entries lack it: then all workers of a gang measure it now.
    """
    if RISE in entry.meta:
        return float(entry.meta[RISE])
    config = config_of(parameters)
    return _rise(restore(entry, config, sharding.wanted(config)), parameters, seed)


def _rise(state: State, parameters: Mapping[str, Any], seed: int) -> float:
    config, batches = config_of(parameters), _batches(parameters, seed)
    steps = pretraining_identity.steps_of(parameters)
    begun, ended = (
        optimizer.last_losses(one.params, batches, steps, config)
        for one in (_initial(config, seed, sharding.wanted(config)), state)
    )
    return float(optimizer.mean_rise(begun, ended)[0])


def _batches(parameters: Mapping[str, Any], seed: int) -> optimizer.Batches:
    """The batch of text of each pretraining step."""
    text, batch = corpus.load(str(parameters["source"])), int(parameters["pretrain_batch"])
    length = config_of(parameters).context
    return lambda step: text.sequences("train", seed, "pretrain", step * batch, batch, length)


def record(
    state: State, config: ModelConfig, batch: int, train_tokens: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """One model in training, as the store keeps it: (tensors, meta).

    The tensors are the weights by name and both moments. The meta says how far the model is in its data, and whether it
    is frozen because a number was not finite. If the model is spread over workers, only the first worker gets the
    tensors.
    """
    tensors = sharding.tensors(state.params, config)
    for name, moment in ((EXP_AVG, state.exp_avg), (EXP_AVG_SQ, state.exp_avg_sq)):
        found = [values.ravel() for values in sharding.tensors(moment, config).values()]
        tensors |= {name: np.concatenate(found)} if found else {}
    tokens = state.step * batch * config.context
    return tensors, {
        "step": state.step,
        "tokens": tokens,
        "sequences": state.step * batch,
        "epochs": tokens / train_tokens if train_tokens else 0.0,
        "frozen": not bool(state.alive.all()),
    }


def restore(entry: Entry, config: ModelConfig, spread: bool = False) -> State:
    """A model in training, from its record; spread: only this worker's share of it."""
    tensors = entry.tensors()
    state = State.fresh(sharding.row(lambda part: tensors[part.name], config, spread)[None])
    moments = (sharding.row(of_row(tensors[name], config), config, spread) for name in (EXP_AVG, EXP_AVG_SQ))
    state.exp_avg, state.exp_avg_sq = (torch.as_tensor(moment, device=state.params.device)[None] for moment in moments)
    state.step = int(entry.meta["step"])
    state.alive &= not entry.meta["frozen"]
    return state


def _initial(config: ModelConfig, seed: int, spread: bool) -> State:
    return State.fresh(sharding.row(lambda part: drawn(part, config, seed), config, spread)[None])


def flat_of(tensors: Mapping[str, np.ndarray], config: ModelConfig) -> np.ndarray:
    """Named weights as one flat row, shape (1, weights)."""
    return row(lambda part: tensors[part.name], config)[None]

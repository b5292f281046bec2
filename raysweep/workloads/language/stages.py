"""Pretraining, every distinct one once: how the store comes to hold the stages of tree.py."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from raysweep.workloads.language import corpus, model, parallel, schedules, sharding, training, tree
from raysweep.workloads.language.shapes import Shape, shape_of
from raysweep.workloads.language.training import Recipe, State

if TYPE_CHECKING:
    from raysweep.stages.store import Entry, Progress, Store

CHECKPOINT_SECONDS = 60.0  # between two checkpoints of a long pretraining
FIRST, SECOND = "adamw.first", "adamw.second"
RISE = "training_loss_rise"  # in the meta of a pretraining


def pretrained(parameters: Mapping[str, Any], seed: int, store: Store) -> Entry:
    """A row's pretraining out of the store, computed if nobody has."""
    steps = tree.steps_of(parameters)
    stage = tree.identity(parameters, seed)
    describe = tree.describe(parameters, seed, "pretrain")
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
    """The trunk at the last step of a grid, its ancestors computed as far as they are missing."""
    entry, missing = None, []
    for step in reversed(grid):
        entry = store.fetch(tree.identity(parameters, seed, step))
        if entry is not None:
            break
        missing.append(step)
    warm = int(parameters["pretrain_warmup"]) or schedules.TRUNK_WARMUP
    for step in reversed(missing):

        def compute(progress: Progress, step: int = step, parent: Entry | None = entry) -> Any:
            return _advance(parameters, seed, lambda at: schedules.warmed(at, warm), step, parent, progress)

        describe = tree.describe(parameters, seed, "trunk", step)
        entry = store.once(tree.identity(parameters, seed, step), compute, describe=describe)
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
    """Train from the last checkpoint of this stage, or else its parent, or else from the start. ends: pretraining ends
    here (a trunk goes on), and what it did to the training loss is kept with it."""
    shape, batch = shape_of(parameters), int(parameters["pretrain_batch"])
    text = corpus.load(str(parameters["source"]))
    start = progress.load() or parent
    spread = sharding.wanted(shape)
    state = restore(start, shape, spread) if start is not None else _initial(shape, seed, spread)
    saved = time.monotonic()

    def checkpoint(state: State) -> None:
        nonlocal saved
        due = time.monotonic() - saved > CHECKPOINT_SECONDS
        if spread:  # all gather what is saved
            due = bool(parallel.of_first(due))
        if due and state.step < until:
            progress.save(*record(state, shape, batch, text.train_tokens))
            saved = time.monotonic()

    recipe = Recipe(
        shape,
        np.array([float(parameters["pretrain_lr"])]),
        factor,
        float(parameters["pretrain_weight_decay"]),
        dropout=float(parameters["pretrain_dropout"]),
        seed=seed,
        role="pretrain",
    )
    training.train(state, recipe, _batches(parameters, seed), until, checkpoint)
    tensors, meta = record(state, shape, batch, text.train_tokens)
    return tensors, {**meta, RISE: _rise(state, parameters, seed)} if ends else meta


def training_loss_rise(entry: Entry, parameters: Mapping[str, Any], seed: int) -> float:
    """By how much a pretraining raised the loss on its own last batches, in nats (training.mean_rise). It is kept with
    the entry; for one that was stored before it was, it is measured now, by all workers of a gang."""
    if RISE in entry.meta:
        return float(entry.meta[RISE])
    shape = shape_of(parameters)
    return _rise(restore(entry, shape, sharding.wanted(shape)), parameters, seed)


def _rise(state: State, parameters: Mapping[str, Any], seed: int) -> float:
    shape, steps, batches = shape_of(parameters), tree.steps_of(parameters), _batches(parameters, seed)
    begun, ended = (
        training.last_losses(one.flat, batches, steps, shape)
        for one in (_initial(shape, seed, sharding.wanted(shape)), state)
    )
    return float(training.mean_rise(begun, ended)[0])


def _batches(parameters: Mapping[str, Any], seed: int) -> training.Batches:
    """The text that each step of a pretraining sees."""
    text, batch = corpus.load(str(parameters["source"])), int(parameters["pretrain_batch"])
    length = shape_of(parameters).context
    return lambda step: text.sequences("train", seed, "pretrain", step * batch, batch, length)


def record(state: State, shape: Shape, batch: int, train_tokens: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """One model in training as the store keeps it: weights by name, both moments, how far it is in its data, and
    whether it is frozen, having met a number that is not finite. Of a model that is spread over workers, the first has
    the tensors and the others none."""
    tensors = sharding.tensors(state.flat, shape)
    for name, moment in ((FIRST, state.first), (SECOND, state.second)):
        found = [values.ravel() for values in sharding.tensors(moment, shape).values()]
        tensors |= {name: np.concatenate(found)} if found else {}
    tokens = state.step * batch * shape.context
    return tensors, {
        "step": state.step,
        "tokens": tokens,
        "sequences": state.step * batch,
        "epochs": tokens / train_tokens if train_tokens else 0.0,
        "frozen": not bool(state.alive.all()),
    }


def restore(entry: Entry, shape: Shape, spread: bool = False) -> State:
    """A model in training as it was recorded; spread: this worker's share of it."""
    tensors = entry.tensors()
    state = State.fresh(sharding.row(lambda part: tensors[part.name], shape, spread)[None])
    moments = (sharding.row(sharding.of_row(tensors[name], shape), shape, spread) for name in (FIRST, SECOND))
    state.first, state.second = (torch.as_tensor(moment, device=state.flat.device)[None] for moment in moments)
    state.step = int(entry.meta["step"])
    state.alive &= not entry.meta["frozen"]
    return state


def _initial(shape: Shape, seed: int, spread: bool) -> State:
    return State.fresh(sharding.row(lambda part: model.drawn(part, seed), shape, spread)[None])


def flat_of(tensors: Mapping[str, np.ndarray], shape: Shape) -> np.ndarray:
    """Named weights as one flat row, shape (1, weights)."""
    return model.row(lambda part: tensors[part.name], shape)[None]

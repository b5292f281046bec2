"""A model that does not fit one GPU, spread over the workers of a gang (ZeRO-3, Rajbhandari et al. 2020; FSDP).

Each worker holds a share of every unit (embedding, each layer, head): of its weights, its gradient and both of AdamW's
moments. In the forward pass a unit is gathered where it is needed and let go; a layer is computed again in the backward
pass, gathered a second time, and its gradient is added up and shared out. So beyond its share a worker never holds more
than a unit. The result is that of the whole model but for the order of sums.

A row of weights is whole or a share, told apart by its length; a share is the concatenation of the unit's, each unit
padded to a multiple of the workers. Shared out is what AdamW and the norm need, which go weight by weight.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed
from torch.utils.checkpoint import checkpoint

from raysweep.training import devices, parallel
from raysweep.training import params as whole
from raysweep.training.params import WEIGHT_BYTES, Model, OfPart, Params, Part

VARIABLE = "RAYSWEEP_SHARDING"
"""Environment: always, never, or (unset) where a model and its training do not fit the GPU."""
MEMORY_SHARE = 0.9  # of a GPU


@dataclass(frozen=True)
class Unit:
    """What is gathered at a time. parts: its tensors; size: their weights; each: how many a worker holds of them; at:
    where those begin in its row."""

    name: str
    parts: tuple[Part, ...]
    size: int
    each: int
    at: int


def wanted(model: Model) -> bool:
    """Whether a model is to be spread over the workers there are."""
    if parallel.workers() == 1:
        return False
    said = os.environ.get(VARIABLE, "")
    spread = said == "always"
    if said not in ("always", "never") and devices.usable():
        spread = model.weights() * WEIGHT_BYTES > MEMORY_SHARE * torch.cuda.get_device_properties().total_memory
    return bool(parallel.of_first(spread))


def units(model: Model) -> tuple[Unit, ...]:
    """The units of a model, in the order of its row."""
    return _units(model, parallel.workers())


@functools.lru_cache(maxsize=16)
def _units(model: Model, workers: int) -> tuple[Unit, ...]:
    found: dict[str, list[Part]] = {}
    for part in model.parts():
        found.setdefault(part.unit, []).append(part)
    units, at = [], 0
    for name, parts in found.items():
        size = sum(part.size for part in parts)
        units.append(Unit(name, tuple(parts), size, -(-size // workers), at))
        at += units[-1].each
    return tuple(units)


def is_share(rows: Tensor, model: Model) -> bool:
    """Whether rows (models, …) are this worker's share of the weights."""
    return rows.shape[1] != model.weights()


def row(of: OfPart, model: Model, share: bool) -> np.ndarray:
    """Values of every weight as a row, float32: whole, or this worker's share, for which a unit is held at a time."""
    if not share:
        return whole.row(of, model)
    own = np.zeros(sum(unit.each for unit in units(model)), np.float32)
    for unit in units(model):
        values = np.concatenate([np.asarray(of(part), np.float32).ravel() for part in unit.parts])
        values = values[parallel.rank() * unit.each :][: unit.each]
        own[unit.at : unit.at + len(values)] = values
    return own


def norm(rows: Tensor, model: Model) -> Tensor:
    """Length of each row over all workers, (models,)."""
    own = rows.norm(dim=1)
    return parallel.add_up(own.square()).sqrt() if is_share(rows, model) else own


def tensors(rows: Tensor, model: Model) -> dict[str, np.ndarray]:
    """The named tensors of the first model, in the host's memory; of one that is spread, on the first worker (and none
    on the others), gathered unit by unit."""
    if not is_share(rows, model):
        return {name: view[0].cpu().numpy().copy() for name, view in whole.named(rows, model).items()}
    found: dict[str, np.ndarray] = {}
    for unit in units(model):
        gathered = _gathered(rows[0, unit.at : unit.at + unit.each])
        if parallel.rank() == 0:
            found |= {
                part.name: view[0].cpu().numpy().copy()
                for part, view in zip(unit.parts, _views(gathered, unit).values(), strict=True)
            }
    return found


def params(rows: Tensor, model: Model, gradient: Tensor | None = None) -> Params:
    """What the model computes with, out of rows (models, …); with a gradient of that shape, leaves that add to it."""
    if is_share(rows, model):
        return Shards(rows, model, gradient)
    views = whole.named(rows, model)
    if gradient is None:
        return views
    slots = whole.named(gradient, model)
    return {name: _leaf(view, slots[name]) for name, view in views.items()}


class Shards:
    """One model's parameters as this worker's share (1, …). Satisfies params.Units. All workers must ask for the same
    units in the same order."""

    def __init__(self, rows: Tensor, model: Model, gradient: Tensor | None) -> None:
        if len(rows) != 1:
            raise ValueError(f"expected one model, got {len(rows)}: spread models train in turn")
        self._units = {unit.name: unit for unit in units(model)}
        self._own = {}
        for unit in self._units.values():
            part = slice(unit.at, unit.at + unit.each)
            own = rows[0, part]
            self._own[unit.name] = own if gradient is None else _leaf(own, gradient[0, part])

    def applied(self, unit: str, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """compute(the unit's tensors, *inputs); a layer is computed again in the backward pass."""

        def run(own: Tensor, *inputs: Tensor) -> Tensor:
            gathered: Tensor = _Gather.apply(own)
            return compute(_views(gathered, self._units[unit]), *inputs)

        if torch.is_grad_enabled() and unit.isdigit():
            found: Tensor = checkpoint(run, self._own[unit], *inputs, use_reentrant=False, preserve_rng_state=False)
            return found
        return run(self._own[unit], *inputs)


def _leaf(view: Tensor, slot: Tensor) -> Tensor:
    leaf = view.detach().requires_grad_()
    leaf.grad = slot
    return leaf


def _views(gathered: Tensor, unit: Unit) -> dict[str, Tensor]:
    views, at = {}, 0
    for part in unit.parts:
        views[part.own] = gathered[at : at + part.size].view(1, *part.shape)
        at += part.size
    return views


def _gathered(own: Tensor) -> Tensor:
    gathered = own.new_empty(len(own) * parallel.workers())
    distributed.all_gather_into_tensor(gathered, own.contiguous())
    return gathered


class _Gather(torch.autograd.Function):
    """A unit from the shares of all; its gradient, added up, back to the shares."""

    @staticmethod
    def forward(context: Any, own: Tensor) -> Tensor:
        """All of the unit, from this worker's share of it."""
        return _gathered(own)

    @staticmethod
    def backward(context: Any, above: Tensor) -> Tensor:
        """This worker's share of the sum over workers."""
        each = len(above) // parallel.workers()
        if above.is_cuda:
            own = above.new_empty(each)
            distributed.reduce_scatter_tensor(own, above.contiguous())
            return own
        # not every gloo can scatter sums
        return parallel.add_up(above.clone())[parallel.rank() * each :][:each].clone()

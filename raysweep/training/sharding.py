"""A model that does not fit one GPU, spread over the workers of a gang (ZeRO-3, Rajbhandari et al. 2020; FSDP).

Each worker holds a share of every unit (embedding, each layer, head): a share of its weights, its gradient and both of
AdamW's moments. In the forward pass a unit is gathered where it is needed and then freed. In the backward pass a layer
is gathered again and computed again; its gradient is summed over the workers, and each worker keeps its share. So a
worker never holds more than its share and one unit. The result is that of the whole model, except for the order of
sums.

A row of weights is either whole or a share; the two differ in length. A share is the concatenation of the units'
shares; each unit is padded to a multiple of the number of workers. AdamW and the gradient norm go weight by weight, so
they can work on shares.
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
"""Environment variable: always, never, or unset (spread a model if it does not fit the GPU in training)."""
MEMORY_SHARE = 0.9  # of a GPU's memory


@dataclass(frozen=True)
class Unit:
    """Tensors that are gathered together.

    parts: the tensors.
    size: number of weights in all of them.
    each: number of weights that one worker holds.
    at: where these weights begin in the worker's row.
    """

    name: str
    parts: tuple[Part, ...]
    size: int
    each: int
    at: int


def wanted(model: Model) -> bool:
    """Whether to spread a model over the workers of this gang."""
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
    """Whether rows (models, …) are this worker's share of the weights, not whole rows."""
    return rows.shape[1] != model.weights()


def row(of: OfPart, model: Model, share: bool) -> np.ndarray:
    """Values of all weights as a row, float32: the whole row, or this worker's share, made one unit at a time."""
    if not share:
        return whole.row(of, model)
    own = np.zeros(sum(unit.each for unit in units(model)), np.float32)
    for unit in units(model):
        values = np.concatenate([np.asarray(of(part), np.float32).ravel() for part in unit.parts])
        values = values[parallel.rank() * unit.each :][: unit.each]
        own[unit.at : unit.at + len(values)] = values
    return own


def norm(rows: Tensor, model: Model) -> Tensor:
    """The Euclidean norm of each row, over all workers, (models,)."""
    own = rows.norm(dim=1)
    return parallel.add_up(own.square()).sqrt() if is_share(rows, model) else own


def tensors(rows: Tensor, model: Model) -> dict[str, np.ndarray]:
    """The named tensors of the first model, in the host's memory.

    If the model is spread, they are gathered unit by unit onto the first worker; the other workers get an empty dict.
    """
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
    """Parameters for the model, from rows (models, …). With a gradient of that shape, backward passes add to it."""
    if is_share(rows, model):
        return Shards(rows, model, gradient)
    views = whole.named(rows, model)
    if gradient is None:
        return views
    slots = whole.named(gradient, model)
    return {name: _leaf(view, slots[name]) for name, view in views.items()}


class Shards:
    """One model's parameters as this worker's share (1, …). Satisfies params.Units.

    All workers must ask for the same units in the same order.
    """

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
    """Gathers a unit from all workers' shares; its backward pass sums the gradient and returns this worker's share."""

    @staticmethod
    def forward(context: Any, own: Tensor) -> Tensor:
        """The whole unit, from this worker's share of it."""
        return _gathered(own)

    @staticmethod
    def backward(context: Any, above: Tensor) -> Tensor:
        """This worker's share of the gradient summed over the workers."""
        each = len(above) // parallel.workers()
        if above.is_cuda:
            own = above.new_empty(each)
            distributed.reduce_scatter_tensor(own, above.contiguous())
            return own
        # some versions of gloo cannot do reduce-scatter
        return parallel.add_up(above.clone())[parallel.rank() * each :][:each].clone()

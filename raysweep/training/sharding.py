"""A model that does not fit one GPU, spread over the workers of a gang (ZeRO-3, Rajbhandari et al. 2020; FSDP).

Each worker holds a share of every unit (embedding, each layer, head): a share of its weights, its gradient and both of
AdamW's moments. In the forward pass a unit is gathered where it is needed and then freed. In the backward pass a layer
is gathered again and computed again; its gradient is summed over the workers, and each worker keeps its share. While
one unit computes, the next one is on its way. So a worker never holds more than its share and two units. The result is
that of the whole model, except for the order of sums.

A layer's matrices are gathered in the type in which they are multiplied, bfloat16 on a GPU, which halves the traffic
and changes no digit; its gains, and the units that are used otherwise too, as they are. Gradients are summed in
float32.

A row of weights is either whole or a share; the two differ in length. A share is the concatenation of the bundles'
shares; each bundle is padded to a multiple of the number of workers. AdamW and the gradient norm go weight by weight,
so they can work on shares.

Why not torch's own FSDP2 (fully_shard): it shards each tensor along its first axis, which here is that of the models
(one worker would get all, the others nothing); it needs modules and one parameter a tensor, where AdamW and clipping
are a handful of operations on one row; and in bfloat16 it would gather the gains too, so that a row would depend on how
many workers computed it.
"""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from raysweep.training import devices, parallel
from raysweep.training import params as whole
from raysweep.training.gathering import Gathered, Gathering
from raysweep.training.params import WEIGHT_BYTES, Model, OfPart, Params, Part

VARIABLE = "RAYSWEEP_SHARDING"
"""Environment variable: always, never, or unset (spread a model if it does not fit the GPU in training)."""
MEMORY_SHARE = 0.9  # of a GPU's memory


@dataclass(frozen=True)
class Bundle:
    """Tensors that are gathered in one piece: those of a unit, or of a layer its gains and its matrices by themselves.

    unit: the name of the unit.
    narrow: whether they are gathered in the type of products.
    parts: the tensors.
    size: number of weights in all of them.
    each: number of weights that one worker holds.
    at: where these weights begin in the worker's row.
    """

    unit: str
    narrow: bool
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


def bundles(model: Model) -> tuple[Bundle, ...]:
    """The bundles of a model, in the order of a share."""
    return _bundles(model, parallel.workers())


@functools.lru_cache(maxsize=16)
def _bundles(model: Model, workers: int) -> tuple[Bundle, ...]:
    found: dict[tuple[str, bool], list[Part]] = {}
    for part in model.parts():
        found.setdefault((part.unit, _is_layer(part.unit) and len(part.shape) > 1), []).append(part)
    bundles, at = [], 0
    for (unit, narrow), parts in found.items():
        size = sum(part.size for part in parts)
        bundles.append(Bundle(unit, narrow, tuple(parts), size, -(-size // workers), at))
        at += bundles[-1].each
    return tuple(bundles)


def _is_layer(unit: str) -> bool:
    return unit.isdigit()


def is_share(rows: Tensor, model: Model) -> bool:
    """Whether rows (models, …) are this worker's share of the weights, not whole rows."""
    return rows.shape[1] != model.weights()


def row(of: OfPart, model: Model, share: bool) -> np.ndarray:
    """Values of all weights as a row, float32: the whole row, or this worker's share, made one bundle at a time."""
    if not share:
        return whole.row(of, model)
    own = np.zeros(sum(bundle.each for bundle in bundles(model)), np.float32)
    for bundle in bundles(model):
        values = np.concatenate([np.asarray(of(part), np.float32).ravel() for part in bundle.parts])
        values = values[parallel.rank() * bundle.each :][: bundle.each]
        own[bundle.at : bundle.at + len(values)] = values
    return own


def norm(rows: Tensor, model: Model) -> Tensor:
    """The Euclidean norm of each row, over all workers, (models,)."""
    own = rows.norm(dim=1)
    return parallel.add_up(own.square()).sqrt() if is_share(rows, model) else own


def tensors(rows: Tensor, model: Model) -> dict[str, np.ndarray]:
    """The named tensors of the first model, in the host's memory.

    If the model is spread, they are gathered piece by piece onto the first worker; the others get an empty dict.
    """
    if not is_share(rows, model):
        return {name: view[0].cpu().numpy().copy() for name, view in whole.named(rows, model).items()}
    found: dict[str, np.ndarray] = {}
    for bundle in bundles(model):
        (gathered,) = Gathering([rows[0, bundle.at : bundle.at + bundle.each]]).end()
        if parallel.rank() == 0:
            views = _views(gathered, bundle)
            found |= {part.name: views[part.own][0].cpu().numpy().copy() for part in bundle.parts}
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

    All workers must ask for the same units in the same order, from the first to the last.
    """

    def __init__(self, rows: Tensor, model: Model, gradient: Tensor | None) -> None:
        if len(rows) != 1:
            raise ValueError(f"expected one model, got {len(rows)}: spread models train in turn")
        self._bundles: dict[str, list[Bundle]] = {}
        self._own: dict[str, list[Tensor]] = {}
        for bundle in bundles(model):
            part = slice(bundle.at, bundle.at + bundle.each)
            own = rows[0, part]
            self._bundles.setdefault(bundle.unit, []).append(bundle)
            self._own.setdefault(bundle.unit, []).append(own if gradient is None else _leaf(own, gradient[0, part]))
        self._order = list(self._bundles)
        self._ahead: dict[str, Gathering] = {}

    def applied(self, unit: str, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """compute(the unit's tensors, *inputs); a layer is computed again in the backward pass."""
        count, again = len(self._bundles[unit]), False

        def run(*values: Tensor) -> Tensor:
            nonlocal again
            following, again = self._following(unit, again), True
            gathered = Gathered.apply(self._gathering(unit, following), *values[:count])
            views = [_views(each, bundle) for each, bundle in zip(gathered, self._bundles[unit], strict=True)]
            return compute(functools.reduce(operator.or_, views), *values[count:])

        if torch.is_grad_enabled() and _is_layer(unit):
            found: Tensor = checkpoint(run, *self._own[unit], *inputs, use_reentrant=False, preserve_rng_state=False)
            return found
        return run(*self._own[unit], *inputs)

    def _following(self, unit: str, again: bool) -> str:
        """The unit that is needed next: a forward pass goes up, and a backward pass down through the layers."""
        place, last = self._order.index(unit), len(self._order) - 1
        up = not again and place < last
        if not (up or again or torch.is_grad_enabled()):
            return ""
        following = self._order[place + 1 if up else place - 1] if up or place else ""
        return following if up or _is_layer(following) else ""

    def _gathering(self, unit: str, following: str) -> Gathering:
        """What brings this unit; the following one is sent for too."""
        if unit == self._order[0]:
            self._ahead.clear()  # what a pass that was broken off has left
        found = self._ahead.pop(unit, None) or self._begun(unit)
        if following:
            self._ahead[following] = self._begun(following)
        return found

    def _begun(self, unit: str) -> Gathering:
        return Gathering(
            [
                own.detach().to(_product_type(own)) if bundle.narrow else own.detach()
                for own, bundle in zip(self._own[unit], self._bundles[unit], strict=True)
            ]
        )


def _product_type(own: Tensor) -> torch.dtype:
    kind = own.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else own.dtype


def _leaf(view: Tensor, slot: Tensor) -> Tensor:
    leaf = view.detach().requires_grad_()
    leaf.grad = slot
    return leaf


def _views(gathered: Tensor, bundle: Bundle) -> dict[str, Tensor]:
    views, at = {}, 0
    for part in bundle.parts:
        views[part.own] = gathered[at : at + part.size].view(1, *part.shape)
        at += part.size
    return views

"""The parameters of a model: named tensors in one flat row, and what training needs from a model. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from raysweep.training import draws

if TYPE_CHECKING:
    from torch import Tensor

    from raysweep.training.dropout import Dropout

WEIGHT_BYTES = 32
"""Bytes per weight in training: the weight, its gradient, two moments, and AdamW's temporary values, in float32."""


@dataclass(frozen=True)
class Part:
    """One named tensor of a model.

    deviation: its standard deviation at initialization; 0 for gains, which start at 1.
    lr_factor: its learning rate relative to the stated rate.
    decays: whether weight decay applies to it.
    unit: the group of tensors that are gathered together when a model is spread over workers (sharding.py). Each layer
        is a unit, named by its number, and is computed again in the backward pass.
    """

    name: str
    shape: tuple[int, ...]
    deviation: float
    lr_factor: float
    decays: bool
    unit: str

    @property
    def size(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)

    @property
    def own(self) -> str:
        """Its name within its unit."""
        return self.name.rpartition(".")[2]


class Units(Protocol):
    """Parameters that are not all in memory: a unit's tensors are gathered where they are needed, and then freed."""

    def applied(self, unit: str, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """compute(the unit's tensors by their name within the unit, *inputs)."""


Params = Mapping[str, "Tensor"] | Units
"""The named tensors of models, each with a leading axis of models; or an object that gathers them unit by unit."""


class Model(Protocol):
    """What training needs from a model. Hashable: equal models are the same. Samples are rows of integers."""

    @property
    def name(self) -> str:
        """A name; the roles of the model's random draws begin with it."""

    @property
    def depth(self) -> int:
        """Number of layers."""

    def __hash__(self) -> int:
        """A hash; equal models have equal hashes."""

    def parts(self) -> Sequence[Part]:
        """Its tensors, in the order of its flat row."""

    def weights(self) -> int:
        """Number of weights in all of its parts."""

    def loss_sums(self, params: Params, samples: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Sum of the losses of each model, (models,), over everything that is to be predicted in samples (count, …)."""

    def predictions(self, samples: np.ndarray) -> int:
        """How many losses `loss_sums` adds up."""

    def example(self, count: int) -> np.ndarray:
        """`count` samples to time a step with."""

    def sample_bytes(
        self, models: int = 1, *, spread: bool = False, dropout: bool = False, wide: bool = False
    ) -> float:
        """Bytes per sample and model that forward and backward passes take at a time.

        models: how many train side by side.
        spread: the model is spread over workers.
        dropout: there are masks.
        wide: products are in float32, not in bfloat16.
        """

    def training_bytes(self, batch: int, models: int = 1, *, dropout: bool = False, wide: bool = False) -> float:
        """Bytes that training models side by side takes, with `batch` samples a step for each."""


OfPart = Callable[[Part], np.ndarray]
"""Maps a tensor of a model to its values, of any shape."""


def row(of: OfPart, model: Model) -> np.ndarray:
    """The values of all weights of a model as its flat row, float32, shape (weights,)."""
    return np.concatenate([np.asarray(of(part), np.float32).ravel() for part in model.parts()])


def of_row(whole: np.ndarray, model: Model) -> OfPart:
    """A function that takes a tensor's values out of a whole row (weights,)."""
    ends = np.cumsum([part.size for part in model.parts()])
    last = {part.name: int(end) for part, end in zip(model.parts(), ends, strict=True)}
    return lambda part: whole[last[part.name] - part.size : last[part.name]]


def named(flat: Tensor, model: Model) -> dict[str, Tensor]:
    """The named tensors (models, *shape) as views of flat rows (models, weights)."""
    views, at = {}, 0
    for part in model.parts():
        views[part.name] = flat[:, at : at + part.size].unflatten(1, part.shape)
        at += part.size
    return views


def drawn(part: Part, model: Model, seed: int) -> np.ndarray:
    """Initial values of one tensor, flat, drawn from (seed, its name)."""
    if part.deviation == 0:
        return np.ones(part.size)
    return part.deviation * draws.normal(seed, f"{model.name}/initial/{part.name}", *part.shape).ravel()


def initial(model: Model, seed: int) -> np.ndarray:
    """A model's flat row at initialization."""
    return row(lambda part: drawn(part, model, seed), model)

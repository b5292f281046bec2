"""The parameters of a model: named tensors in one flat row, and what training asks of a model. Imports no torch."""

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
"""Memory of a weight in training: itself, its gradient, two moments, and what AdamW computes with, in float32."""
PIECE_BYTES = 8e9
"""What the backward pass of all models may keep at a time; a larger batch is taken in pieces whose gradients add up. A
constant, so that no result depends on how much memory a machine has free."""


@dataclass(frozen=True)
class Part:
    """One named tensor of a model.

    deviation: its standard deviation at initialization; 0 for gains, which start at 1.
    lr_factor: its learning rate relative to the stated one.
    decays: whether weight decay applies.
    unit: the tensors of one unit are gathered together where a model is spread over workers (sharding.py). Layers are
        units with a number, and are computed again in the backward pass.
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
        """Its name within the unit."""
        return self.name.rpartition(".")[2]


class Units(Protocol):
    """Parameters that are not all in memory: those of a unit are gathered where they are needed, and freed."""

    def applied(self, unit: str, compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        """compute(the unit's tensors by their name within it, *inputs)."""


Params = Mapping[str, "Tensor"] | Units
"""The named tensors of models, each with a leading axis of models; or what brings them unit by unit."""


class Model(Protocol):
    """What training asks of a model. Hashable: equal models are the same. Samples are rows of integers."""

    @property
    def name(self) -> str:
        """The roles of its random draws begin with it."""

    @property
    def depth(self) -> int:
        """Number of layers."""

    def __hash__(self) -> int:
        """Equal models have equal ones."""

    def parts(self) -> Sequence[Part]:
        """Its tensors, in the order of its flat row."""

    def weights(self) -> int:
        """Number of weights in all of its parts."""

    def loss_sums(self, params: Params, samples: Tensor, dropout: Dropout | None = None) -> Tensor:
        """Sum of the losses of each model, (models,), over all that is to be predicted in samples (count, …)."""

    def predictions(self, samples: np.ndarray) -> int:
        """How many losses `loss_sums` adds up."""

    def example(self, count: int) -> np.ndarray:
        """So many samples to time a step with."""

    def sample_bytes(self, spread: bool = False) -> float:
        """What the forward pass keeps for the backward pass, a sample; spread: of a model that is spread."""

    def training_bytes(self, batch: int) -> float:
        """Memory that training takes, on so many samples a step."""


OfPart = Callable[[Part], np.ndarray]
"""A tensor of a model -> its values, of any shape."""


def row(of: OfPart, model: Model) -> np.ndarray:
    """Values of every weight of a model as its flat row, float32, shape (weights,)."""
    return np.concatenate([np.asarray(of(part), np.float32).ravel() for part in model.parts()])


def of_row(whole: np.ndarray, model: Model) -> OfPart:
    """A tensor's values out of a whole row (weights,)."""
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
    """One tensor at initialization, flat, drawn from (seed, its name)."""
    if part.deviation == 0:
        return np.ones(part.size)
    return part.deviation * draws.normal(seed, f"{model.name}/initial/{part.name}", *part.shape).ravel()


def initial(model: Model, seed: int) -> np.ndarray:
    """A model's flat row at initialization."""
    return row(lambda part: drawn(part, model, seed), model)

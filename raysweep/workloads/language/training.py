"""Training one model or many side by side: AdamW with clipping and a schedule, each model at a rate of its own.

Weights, gradient and both moments are flat rows (models, weights), so that a step of the optimizer is a handful of
operations however many tensors and models there are. A model whose loss or gradient is not finite is frozen where it
last was finite, and its neighbours never notice.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from raysweep.workloads import devices
from raysweep.workloads.language import model, parallel, sharding
from raysweep.workloads.language.dropout import Dropout
from raysweep.workloads.language.shapes import PIECE_BYTES, Shape

FIRST_DECAY, SECOND_DECAY, ADAM_EPSILON, CLIP = 0.9, 0.95, 1e-8, 1.0  # O Table 3

# Views of many models' flat rows are strided; torch says so once, and that it is no error.
warnings.filterwarnings("ignore", message="grad and param do not obey the gradient layout contract")

REMEMBERED = 1000  # steps
LOOKED = 10  # training batches on which start and end are compared

Batches = Callable[[int], np.ndarray]
"""Step number -> tokens (batch, length + 1) of that step."""


@dataclass
class State:
    """Models in training. flat, first, second: (models, weights), or a share of that (sharding.py); alive: (models,);
    step: how many were taken."""

    flat: Tensor
    first: Tensor
    second: Tensor
    alive: Tensor
    step: int = 0

    @classmethod
    def fresh(cls, rows: np.ndarray | Tensor, where: torch.device | None = None) -> State:
        """Models at the given weights (models, weights), the optimizer at rest."""
        flat = torch.as_tensor(rows, device=where or devices.device()).clone()
        return cls(
            flat,
            torch.zeros_like(flat),
            torch.zeros_like(flat),
            torch.ones(len(flat), dtype=torch.bool, device=flat.device),
        )


@dataclass(frozen=True)
class Recipe:
    """How to train. rates: the peak rate of each model; factor: step -> multiple of it; decay: AdamW's, decoupled;
    dropout: the share that is dropped, by masks that (seed, role) stand for."""

    shape: Shape
    rates: np.ndarray
    factor: Callable[[int], float]
    decay: float = 0.0
    clip: float = CLIP
    dropout: float = 0.0
    seed: int = 0
    role: str = ""


@dataclass
class Watch:
    """What training tells of itself: the loss of every model at each of the last REMEMBERED steps."""

    losses: deque[Tensor] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def last(self, count: int) -> np.ndarray:
        """Mean over the last steps, shape (models,)."""
        return torch.stack(list(self.losses)[-count:]).double().mean(0).cpu().numpy()


def train(
    state: State, recipe: Recipe, batches: Batches, until: int, after_step: Callable[[State], None] | None = None
) -> Watch:
    """Take steps until state.step == until, in place.

    In a gang every worker calls this with the same arguments, takes its share of each batch, and adds its gradient and
    losses to those of the others, once a step; the states stay equal to the last bit. The batch, and so the result, is
    that of one worker but for the order in which float32 numbers are added.
    """
    shape, where = recipe.shape, state.flat.device
    # gradient and losses lie side by side, so that workers need one sum a step
    both = state.flat.new_zeros(state.flat.numel() + len(state.flat))
    gradient, losses = both[: state.flat.numel()].view_as(state.flat), both[state.flat.numel() :]
    spread = sharding.is_share(state.flat, shape)
    weights = sharding.weights(state.flat, shape, gradient)
    rate = torch.as_tensor(recipe.rates, dtype=state.flat.dtype, device=where).unsqueeze(1)
    relative, decays = (
        torch.as_tensor(sharding.row(of, shape, spread), device=where)
        for of in (lambda part: np.full(part.size, part.rate), lambda part: np.full(part.size, float(part.decays)))
    )
    watch = Watch()
    while state.step < until:
        batch = batches(state.step)
        predicted = int((batch[:, 1:] >= 0).sum())
        own, first = parallel.share(batch)
        tokens = on_device(own, where)
        dropout = (
            Dropout.of_step(recipe.dropout, recipe.seed, recipe.role, state.step, shape.depth)
            if (recipe.dropout)
            else None
        )
        both.zero_()
        for piece in tokens.split(_piece(shape, len(state.flat), spread)):
            with mixed_precision(where):
                part = model.loss_sums(weights, piece, shape, dropout and dropout.at(first)) / predicted
            part.sum().backward()
            losses += part.detach()
            first += len(piece)
        parallel.add_up(losses if spread else both)  # a spread model's gradient is added up as it is computed
        watch.losses.append(losses.clone())
        _adamw(state, gradient, losses, rate * recipe.factor(state.step), relative, decays, recipe)
        if after_step is not None:
            after_step(state)
    return watch


def on_device(sequences: np.ndarray, where: torch.device) -> Tensor:
    """Sequences of tokens as int64 on a device. To a GPU they travel in the type they have, while it works on."""
    narrow = sequences.astype(np.int32) if sequences.dtype.kind == "u" and sequences.itemsize > 1 else sequences
    tokens = torch.from_numpy(np.ascontiguousarray(narrow))
    if where.type == "cuda":
        tokens = tokens.pin_memory()
    return tokens.to(where, non_blocking=True).long()


def _piece(shape: Shape, models: int, spread: bool = False) -> int:
    """Sequences whose backward pass fits PIECE_BYTES, at least 1. Logits are not counted: there are never many
    (head.py)."""
    kept = shape.kept_bytes() - 16 * shape.vocabulary
    if spread:  # what lies between layers, and one layer's own
        kept = kept / shape.depth + 4.0 * shape.depth * shape.width
    return max(1, int(PIECE_BYTES / (models * kept * shape.context)))


@torch.no_grad()
def _adamw(
    state: State, gradient: Tensor, losses: Tensor, rate: Tensor, relative: Tensor, decays: Tensor, recipe: Recipe
) -> None:
    """One step. Memory traffic on a GPU, in bytes a weight: 108 (gradient set to zero 4, norm 4, clipped 8, masked 8,
    first moment 12, second 20, root 16, update 36 in three passes), and 28 more with weight decay."""
    norm = sharding.norm(gradient, recipe.shape)
    state.alive &= torch.isfinite(losses) & torch.isfinite(norm)
    state.step += 1
    gradient.mul_((recipe.clip / (norm + 1e-6)).clamp(max=1).unsqueeze(1))
    if gradient.is_cuda or not bool(state.alive.all()):  # on a GPU asking would cost more than masking
        dead = ~state.alive.unsqueeze(1)
        gradient.masked_fill_(dead, 0.0)
        rate = rate.masked_fill(dead, 0.0)
    first, second = 1 - FIRST_DECAY**state.step, math.sqrt(1 - SECOND_DECAY**state.step)
    state.first.lerp_(gradient, 1 - FIRST_DECAY)
    state.second.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1 - SECOND_DECAY)
    root = state.second.sqrt().add_(ADAM_EPSILON * second)  # the root of the corrected moment, times `second`
    if recipe.decay:
        # decay follows the stated rate, not the tensor's: muP keeps the two apart, or narrow models would decay faster
        state.flat.mul_(torch.addcmul(torch.ones_like(decays), decays, -recipe.decay * rate))
    state.flat.addcdiv_((state.first * relative).mul_(rate * (second / first)), root, value=-1)


def mixed_precision(where: torch.device) -> torch.autocast:
    """bfloat16 products on a GPU; nothing on a CPU."""
    return torch.autocast(where.type, dtype=torch.bfloat16, enabled=where.type == "cuda")


@torch.no_grad()
def evaluate(flat: Tensor, sequences: np.ndarray, shape: Shape, batch: int = 64) -> np.ndarray:
    """Mean loss of each model in nats a token, float64 (models,), on sequences (count, length + 1).

    Shared out over workers like training, and added up in float64.
    """
    weights = sharding.weights(flat, shape)
    own, _ = parallel.share(sequences)
    total = torch.zeros(len(flat), dtype=torch.float64, device=flat.device)
    for start in range(0, len(own), batch):
        with mixed_precision(flat.device):
            total += model.loss_sums(weights, on_device(own[start : start + batch], flat.device), shape).double()
    return parallel.add_up(total).cpu().numpy() / float((sequences[:, 1:] >= 0).sum())


def last_losses(flat: Tensor, batches: Batches, until: int, shape: Shape) -> np.ndarray:
    """Loss of each model on the last LOOKED training batches of a training of `until` steps, without dropout, float64
    (batches, models). Two sets of weights are compared on the same batches, so that how hard a text is cancels."""
    return np.stack([evaluate(flat, batches(step), shape) for step in range(max(0, until - LOOKED), until)])


def mean_rise(begun: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """By how much the loss of each model rose from the start to the end of its training, float64 (models,): the mean
    over the batches of last_losses, (batches, models) each. NaN where a loss is no number."""
    with np.errstate(invalid="ignore"):  # of what is infinite
        return np.asarray((ended - begun).mean(0))

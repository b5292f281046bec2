"""Training one model or many side by side: AdamW with clipping and a schedule, each model at a rate of its own.

Weights, gradient and both moments are flat rows (models, weights), so that a step of the optimizer is a handful of
operations however many tensors and models there are. A model whose loss or gradient is not finite is frozen where it
last was finite, and its neighbours never notice.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from raysweep.workloads.language import model
from raysweep.workloads.language.shapes import Shape

FIRST_DECAY, SECOND_DECAY, ADAM_EPSILON, CLIP = 0.9, 0.95, 1e-8, 1.0  # O Table 3

# Views of many models' flat rows are strided; torch says so once, and that it is no error.
warnings.filterwarnings("ignore", message="grad and param do not obey the gradient layout contract")

REMEMBERED = 1000  # steps
PIECE_BYTES = 8e9
"""What the backward pass of all models may keep at a time; a larger batch is taken in pieces whose gradients add up. A
constant, so that no result depends on how much memory a machine has free."""

Batches = Callable[[int], np.ndarray]
"""Step number -> tokens (batch, length + 1) of that step."""


def device() -> torch.device:
    """Where models live: the GPU if there is one that this process may use."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass
class State:
    """Models in training. flat, first, second: (models, weights); alive: (models,); step: how many were taken."""

    flat: Tensor
    first: Tensor
    second: Tensor
    alive: Tensor
    step: int = 0

    @classmethod
    def fresh(cls, rows: np.ndarray | Tensor, where: torch.device | None = None) -> State:
        """Models at the given weights (models, weights), the optimizer at rest."""
        flat = torch.as_tensor(rows, device=where or device()).clone()
        return cls(flat, torch.zeros_like(flat), torch.zeros_like(flat),
                   torch.ones(len(flat), dtype=torch.bool, device=flat.device))


@dataclass(frozen=True)
class Recipe:
    """How to train. rates: the peak rate of each model; factor: step -> multiple of it; decay: AdamW's, decoupled."""

    shape: Shape
    rates: np.ndarray
    factor: Callable[[int], float]
    decay: float = 0.0
    clip: float = CLIP


@dataclass
class Watch:
    """What training tells of itself: the loss of every model at each of the last REMEMBERED steps."""

    losses: deque[Tensor] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def last(self, count: int) -> np.ndarray:
        """Mean over the last steps, shape (models,)."""
        return torch.stack(list(self.losses)[-count:]).double().mean(0).cpu().numpy()


def train(state: State, recipe: Recipe, batches: Batches, until: int,
          after_step: Callable[[State], None] | None = None) -> Watch:
    """Take steps until state.step == until, in place."""
    shape, where = recipe.shape, state.flat.device
    gradient = torch.zeros_like(state.flat)
    leaves = model.named(state.flat, shape)
    slots = model.named(gradient, shape)
    for name, leaf in leaves.items():
        leaves[name] = leaf.detach().requires_grad_()
        leaves[name].grad = slots[name]
    pieces = model.parts(shape)
    rate = torch.as_tensor(recipe.rates, dtype=state.flat.dtype, device=where).unsqueeze(1)
    relative = torch.as_tensor(model.per_weight(shape, {p.name: p.rate for p in pieces}), device=where)
    decays = torch.as_tensor(model.per_weight(shape, {p.name: float(p.decays) for p in pieces}), device=where)
    watch = Watch()
    while state.step < until:
        tokens = torch.from_numpy(batches(state.step).astype(np.int64)).to(where, non_blocking=True)
        gradient.zero_()
        losses = torch.zeros(len(state.flat), dtype=state.flat.dtype, device=where)
        predicted = (tokens[:, 1:] >= 0).sum()
        for piece in tokens.split(_piece(shape, len(state.flat))):
            with mixed_precision(where):
                own = model.token_losses(leaves, piece, shape).sum((1, 2)) / predicted
            own.sum().backward()
            losses += own.detach()
        watch.losses.append(losses)
        _adamw(state, gradient, losses, rate * recipe.factor(state.step), relative, decays, recipe)
        if after_step is not None:
            after_step(state)
    return watch


def _piece(shape: Shape, models: int) -> int:
    """Sequences whose backward pass fits PIECE_BYTES, at least 1."""
    return max(1, int(PIECE_BYTES / (models * shape.kept_bytes() * shape.context)))


@torch.no_grad()
def _adamw(state: State, gradient: Tensor, losses: Tensor, rate: Tensor, relative: Tensor, decays: Tensor,
           recipe: Recipe) -> None:
    norm = gradient.norm(dim=1)
    state.alive &= torch.isfinite(losses) & torch.isfinite(norm)
    state.step += 1
    alive = state.alive.unsqueeze(1)
    gradient.mul_((recipe.clip / (norm + 1e-6)).clamp(max=1).unsqueeze(1))
    if not gradient.is_cuda and bool(state.alive.all()):
        pass  # nothing to mask; on a GPU asking would cost more than masking
    else:
        gradient.copy_(torch.where(alive, gradient, torch.zeros_like(gradient)))
        rate = torch.where(alive, rate, torch.zeros_like(rate))
    state.first.lerp_(gradient, 1 - FIRST_DECAY)
    state.second.mul_(SECOND_DECAY).addcmul_(gradient, gradient, value=1 - SECOND_DECAY)
    scale = relative * rate
    root = (state.second / (1 - SECOND_DECAY**state.step)).sqrt_().add_(ADAM_EPSILON)
    if recipe.decay:
        # decay follows the stated rate, not the tensor's: muP keeps the two apart, or narrow models would decay faster
        state.flat.mul_(1 - rate * decays * recipe.decay)
    state.flat.sub_(scale * (state.first / (1 - FIRST_DECAY**state.step)) / root)


def mixed_precision(where: torch.device) -> torch.autocast:
    """bfloat16 products on a GPU; nothing on a CPU."""
    return torch.autocast(where.type, dtype=torch.bfloat16, enabled=where.type == "cuda")


@torch.no_grad()
def evaluate(flat: Tensor, sequences: np.ndarray, shape: Shape, batch: int = 64) -> np.ndarray:
    """Mean loss of each model in nats a token, float64 (models,), on sequences (count, length + 1)."""
    weights = model.named(flat, shape)
    total = torch.zeros(len(flat), dtype=torch.float64, device=flat.device)
    for start in range(0, len(sequences), batch):
        part = torch.from_numpy(sequences[start:start + batch].astype(np.int64)).to(flat.device)
        with mixed_precision(flat.device):
            total += model.losses(weights, part, shape).double() * len(part)
    return (total / len(sequences)).cpu().numpy()

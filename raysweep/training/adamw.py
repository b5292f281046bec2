"""AdamW on the flat rows of many models: one step, as one function of tensors that a compiler makes one pass of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from raysweep.training import compiled, sharding

if TYPE_CHECKING:
    from raysweep.training.optimizer import State, TrainConfig

BETAS, EPSILON = (0.9, 0.95), 1e-8  # O Table 3


@torch.no_grad()
def step(
    state: State, gradient: Tensor, losses: Tensor, lr: Tensor, lr_factors: Tensor, decays: Tensor, config: TrainConfig
) -> None:
    """Take one step of AdamW with clipping, in place.

    gradient: (models, weights), or this worker's share of it; overwritten. losses: of the step, (models,).
    lr: the stated rate of each model at this step, (models, 1). lr_factors, decays: of each weight, (weights,).
    """
    norm = sharding.norm(gradient, config.model)
    state.step += 1
    first, second = 1 - BETAS[0] ** state.step, math.sqrt(1 - BETAS[1] ** state.step)
    _update(
        gradient,
        state.params,
        state.exp_avg,
        state.exp_avg_sq,
        state.alive,
        losses,
        norm,
        # what changes from step to step and from row to row comes as tensors: a number would be compiled in
        gradient.new_full((), config.clip),
        lr * (second / first),
        gradient.new_full((), EPSILON * second),
        lr_factors,
        # decay uses the stated rate, not the tensor's own: with muP's rates, narrow models would decay faster
        -config.weight_decay * lr if config.weight_decay else None,
        decays,
        not gradient.is_cuda,
    )


def updated(
    gradient: Tensor,
    params: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    alive: Tensor,
    losses: Tensor,
    norm: Tensor,
    clip: Tensor,
    rate: Tensor,
    epsilon: Tensor,
    lr_factors: Tensor,
    shrinkage: Tensor | None,
    decays: Tensor,
    look: bool,
) -> None:
    """Take one step of AdamW, in place, in a handful of passes over memory; a compiler makes one of them.

    Memory traffic on a GPU, in bytes a weight, operation by operation: 100 (clipped 8, masked 8, first moment 12,
    second 20, root 16, update 36 in three passes), and 28 more with weight decay.

    gradient: (models, weights); overwritten. params, exp_avg, exp_avg_sq, alive: as in State.
    losses, norm: of the step and of the gradient, (models,).
    clip: the largest norm. rate: of each model, with both corrections of bias, (models, 1). epsilon: what is added to
        the root of the second moment before its correction of bias.
    lr_factors, decays: of each weight, (weights,).
    shrinkage: minus weight decay times rate, (models, 1); None without decay.
    look: whether to look if a model is frozen, and mask only then. On a GPU looking would cost more than masking.
    """
    alive &= torch.isfinite(losses) & torch.isfinite(norm)
    gradient.mul_(((norm + 1e-6).reciprocal() * clip).clamp(max=1).unsqueeze(1))
    if not look or not bool(alive.all()):
        dead = ~alive.unsqueeze(1)
        gradient.masked_fill_(dead, 0.0)
        rate = rate.masked_fill(dead, 0.0)
        shrinkage = None if shrinkage is None else shrinkage.masked_fill(dead, 0.0)
    exp_avg.lerp_(gradient, 1 - BETAS[0])
    exp_avg_sq.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    root = exp_avg_sq.sqrt().add_(epsilon)
    if shrinkage is not None:
        params.mul_(torch.addcmul(torch.ones_like(decays), decays, shrinkage))
    params.addcdiv_((exp_avg * lr_factors).mul_(rate), root, value=-1)


_update = compiled.where_possible(updated)

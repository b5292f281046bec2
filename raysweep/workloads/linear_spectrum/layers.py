"""Gradient descent on the layers of linear networks, many networks at once.

A network is W_1 … W_L, each d × d, with loss ‖W_1…W_L - M‖_F². A step costs about 6 L matrix products of 2 d³ flops.
"""

from __future__ import annotations

import math

import torch

CHECK_EVERY = 50  # steps between looks at convergence and divergence
BLOWUP = 1e6  # times the goal's size; an endless training whose distance from the goal is larger has diverged
OK, NOT_CONVERGED, DIVERGED = 0, 1, 2


def product(layers: list[torch.Tensor]) -> torch.Tensor:
    """W_1 W_2 … W_L, (rows, d, d)."""
    result = layers[0]
    for layer in layers[1:]:
        result = torch.bmm(result, layer)
    return result


def gradients(layers: list[torch.Tensor], goal: torch.Tensor) -> list[torch.Tensor]:
    """Gradient of the loss with respect to each layer, (rows, d, d) each."""
    after = [layers[-1]]  # after[i] = W_(L-i) … W_L
    for layer in reversed(layers[:-1]):
        after.append(torch.bmm(layer, after[-1]))
    up = 2 * (after[-1] - goal)  # (W_1 … W_(l-1))ᵀ 2(P - M)
    result = []
    for index, layer in enumerate(layers):
        last = index == len(layers) - 1
        result.append(up if last else torch.bmm(up, after[len(layers) - 2 - index].transpose(1, 2)))
        if not last:
            up = torch.bmm(layer.transpose(1, 2), up)
    return result


def descend(
    layers: list[torch.Tensor],
    goal: torch.Tensor,
    lr: torch.Tensor,
    steps: torch.Tensor,
    tolerance: float,
    at_rest: float,
    cap: int,
) -> torch.Tensor:
    """Train every network in place. Returns how each ended (OK, NOT_CONVERGED, DIVERGED), shape (rows,) int64.

    layers: L tensors (rows, d, d).
    goal: (rows, d, d).
    lr: (rows,).
    steps: (rows,); inf for training to convergence.

    Training to convergence ends when ‖P - M‖ <= tolerance · size, where size is the larger of ‖M‖ and ‖P - M‖ at the
    start, or when the gradient is at most at_rest · size^(2-1/L), or after `cap` steps. A network has diverged if its
    loss is not finite. In training to convergence it has also diverged if its distance exceeds BLOWUP; a training of
    finitely many steps takes all of them, however high the loss. A network that has ended leaves the batch, so that no
    other network waits for it or is disturbed by its divergence.
    """
    depth, rows = len(layers), torch.arange(len(goal), device=goal.device)
    status = torch.full_like(rows, OK)
    batch = list(layers)
    size = torch.maximum((product(batch) - goal).norm(dim=(1, 2)), goal.norm(dim=(1, 2)))
    step = 0
    while len(rows):
        miss = (product(batch) - goal).norm(dim=(1, 2))
        endless = torch.isinf(steps)
        lost = ~torch.isfinite(miss) | (endless & (miss > BLOWUP * size))
        rest = miss <= tolerance * size
        if bool(endless.any()):
            slope = torch.stack([each.norm(dim=(1, 2)) for each in gradients(batch, goal)]).norm(dim=0)
            rest |= slope <= at_rest * size ** (2 - 1 / depth)
        given_up = endless & ~rest & (step >= cap)
        done = lost | (endless & rest) | given_up | (steps <= step)
        if bool(done.any()):
            status[rows[given_up]] = NOT_CONVERGED
            status[rows[lost]] = DIVERGED
            for whole, part in zip(layers, batch, strict=True):
                if whole is not part:
                    whole[rows[done]] = part[done]
            keep = torch.nonzero(~done).squeeze(1)
            rows, size, lr, steps, goal = (each[keep] for each in (rows, size, lr, steps, goal))
            batch = [part[keep] for part in batch]
            if not len(rows):
                break
        until = int(min(step - step % CHECK_EVERY + CHECK_EVERY, float(steps.min()), cap if cap > step else math.inf))
        rate = lr[:, None, None]
        for _ in range(until - step):
            slopes = gradients(batch, goal)
            for part, slope in zip(batch, slopes, strict=True):
                part.sub_(rate * slope)
        step = until
    return status

"""Full-batch gradient descent on the real layers of deep linear networks, many networks at once.

A network is W_1 … W_{L-1} (dim × dim) and a last layer w_L (dim). Its end-to-end map is β = W_1ᵀ … W_{L-1}ᵀ w_L. Its
loss is a quadratic with gradient g = A β - q in β (on samples A = XᵀX/n, q = Xᵀy/n). The gradient of a layer is the
outer product of two vectors, one passed down through the layers and one passed up. A step reads each hidden layer three
times, writes it once, and reads A. Per network that is 6 (L-1) dim² + 2 dim² flops, 8 (4 (L-1) + 1/C) dim² bytes of
traffic and 8 (L-1 + 2/C) dim² bytes held, where C networks share one A. Memory bandwidth limits the speed, not flops.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray
CHECK_EVERY = 50  # steps between looks at convergence and divergence
BLOWUP = 1e6  # times the size of |g| at the start and at β = 0; an endless training with a larger |g| has diverged
OK, NOT_CONVERGED, DIVERGED = 0, 1, 2


@dataclass
class Networks:
    """Networks of one width and depth that are trained together; every tensor is float64, and all are on one device.

    hidden: L-1 tensors (rows, dim, dim), W_1 first. last: (rows, dim). gram: (groups, dim, dim), the matrices A.
    group: (rows,), which matrix each network has. moment: (rows, dim), q. lr: (rows,).
    steps: (rows,) float64, inf for training to convergence. frozen: (rows,), how many first layers stay as they are.
    precision: (groups, dim, dim), the pseudo-inverses of A.
    collapse: (rows,); a network with |β| below this has ended at 0 (0: never).

    A network without frozen layers has converged when |A⁺g| <= tolerance |A⁺q|. This is the distance to the nearest
    minimum, so slow modes count fully. A network with frozen layers has converged when |F g| <= tolerance |F q|, where
    F = W_k … W_1 is the frozen product.
    """

    hidden: list[Tensor]
    last: Tensor
    gram: Tensor
    precision: Tensor
    group: Tensor
    moment: Tensor
    lr: Tensor
    steps: Tensor
    frozen: Tensor
    collapse: Tensor


def end_to_end(hidden: list[Tensor], last: Tensor) -> Tensor:
    """The maps β, shape (rows, dim)."""
    return _backward(hidden, last)[-1]


def _backward(hidden: list[Tensor], last: Tensor) -> list[Tensor]:
    """w_L, then w_L W_{L-1}, and so on down to β: for each layer, the product of everything above it."""
    down = [last]
    for layer in reversed(hidden):
        down.append(torch.bmm(down[-1].unsqueeze(1), layer).squeeze(1))
    return down


def _forward(hidden: list[Tensor], vector: Tensor) -> list[Tensor]:
    """v, W_1 v, … up to W_{L-1} … W_1 v."""
    up = [vector]
    for layer in hidden:
        up.append(torch.bmm(layer, up[-1].unsqueeze(2)).squeeze(2))
    return up


class _Grouped:
    """Multiplies each network's vector by its own one of several symmetric matrices, one matrix product per matrix."""

    def __init__(self, group: Tensor) -> None:
        """group: (rows,), which matrix each network has; every number from 0 to the largest occurs."""
        counts = torch.bincount(group)
        rows = torch.arange(len(group), device=group.device)
        order = torch.argsort(group, stable=True)
        position = torch.empty_like(order)
        position[order] = rows - (torch.cumsum(counts, 0) - counts)[group[order]]
        self.groups, self.width = len(counts), int(counts.max())
        self.slot = group * self.width + position
        self.dense = self.groups * self.width == len(group) and bool((self.slot == rows).all())

    def apply(self, matrices: Tensor, vectors: Tensor) -> Tensor:
        """matrices (groups, dim, dim), vectors (rows, dim) -> (rows, dim)."""
        dim = vectors.shape[1]
        if self.dense:
            return torch.bmm(vectors.view(self.groups, self.width, dim), matrices).view(-1, dim)
        padded = vectors.new_zeros(self.groups * self.width, dim)
        padded[self.slot] = vectors
        return torch.bmm(padded.view(self.groups, self.width, dim), matrices).view(-1, dim)[self.slot]


def descend(networks: Networks, tolerance: float, cap: int) -> Tensor:
    """Train every network in place. Returns how each ended (OK, NOT_CONVERGED, DIVERGED), shape (rows,) int64.

    A network with a finite number of steps takes exactly those. Another one takes steps until it has converged, at
    most `cap`. A network has diverged if its gradient is not finite; in training to convergence also if the gradient
    exceeds BLOWUP. A training of finitely many steps takes all of them, however high the loss. A network that has ended
    leaves the batch, so no other network waits for it. The layers of a diverged network are meaningless. The numbers of
    a network do not depend on the networks that are trained with it.
    """
    rows = torch.arange(len(networks.last), device=networks.last.device)
    status = torch.full_like(rows, OK)
    batch, grouped = networks, _Grouped(networks.group)
    start = grouped.apply(batch.gram, end_to_end(batch.hidden, batch.last)) - batch.moment
    # if the target is 0, only the start gives a scale
    size = torch.maximum(_size(batch, grouped, batch.moment), 1e-3 * _size(batch, grouped, start))
    ceiling = BLOWUP * torch.maximum(batch.moment.norm(dim=1), start.norm(dim=1))
    step = 0
    while True:
        product = end_to_end(batch.hidden, batch.last)
        residual = grouped.apply(batch.gram, product) - batch.moment
        endless, miss = torch.isinf(batch.steps), residual.norm(dim=1)
        diverged = ~torch.isfinite(miss) | (endless & (miss > ceiling))
        ended = (_size(batch, grouped, residual) <= tolerance * size) | (product.norm(dim=1) <= batch.collapse)
        converged = endless & ended
        given_up = endless & ~ended & (step >= cap)
        done = diverged | converged | given_up | (batch.steps <= step)
        if bool(done.any()):
            status[rows[diverged]] = DIVERGED
            status[rows[given_up & ~diverged]] = NOT_CONVERGED
            for whole, part in zip([*networks.hidden, networks.last], [*batch.hidden, batch.last], strict=True):
                if whole is not part:
                    whole[rows[done]] = part[done]
            keep = torch.nonzero(~done).squeeze(1)
            if len(keep) == 0:
                return status
            rows, size, ceiling = rows[keep], size[keep], ceiling[keep]
            batch, grouped = _select(batch, keep)
        until = min(step - step % CHECK_EVERY + CHECK_EVERY, float(batch.steps.min()), cap if cap > step else math.inf)
        _steps(batch, grouped, int(until) - step)
        step = int(until)


def _select(batch: Networks, keep: Tensor) -> tuple[Networks, _Grouped]:
    """Copies of the networks `keep`, with only the matrices that they use."""
    present, group = torch.unique(batch.group[keep], return_inverse=True)
    matrices = {name: getattr(batch, name) for name in ("gram", "precision")}
    if len(present) < len(batch.gram):
        matrices = {name: matrix[present] for name, matrix in matrices.items()}
    each = {name: getattr(batch, name)[keep] for name in ("last", "moment", "lr", "steps", "frozen", "collapse")}
    return Networks([layer[keep] for layer in batch.hidden], group=group, **matrices, **each), _Grouped(group)


def _size(batch: Networks, grouped: _Grouped, vector: Tensor) -> Tensor:
    """The size of a gradient in β, for the test of convergence: |A⁺v|, or |W_k … W_1 v| behind k frozen layers."""
    size = grouped.apply(batch.precision, vector).norm(dim=1)
    if bool((batch.frozen > 0).any()):
        reach = torch.stack([each.norm(dim=1) for each in _forward(batch.hidden, vector)])
        size = torch.where(batch.frozen > 0, reach.gather(0, batch.frozen.unsqueeze(0)).squeeze(0), size)
    return size


def _steps(batch: Networks, grouped: _Grouped, count: int) -> None:
    rate = -batch.lr.unsqueeze(1)
    scales = [torch.where((batch.frozen > i).unsqueeze(1), 0.0, rate) for i in range(len(batch.hidden))]
    for _ in range(count):
        down = _backward(batch.hidden, batch.last)
        up = _forward(batch.hidden, grouped.apply(batch.gram, down[-1]).sub_(batch.moment))
        for i, (layer, scale) in enumerate(zip(batch.hidden, scales, strict=True)):
            layer.baddbmm_((down[-2 - i] * scale).unsqueeze(2), up[i].unsqueeze(1))
        batch.last.addcmul_(up[-1], rate)


def descend_readout(
    curvature: np.ndarray, pull: np.ndarray, start: np.ndarray, lr: np.ndarray, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradient descent on the last layer alone. It is linear, so any number of steps is computed in closed form.

    Returns the weight after `steps` steps of w ← w - lr (curvature w - pull), and the gradient there; (rows,) each.
    Overflows to inf or NaN if lr is too large for the curvature.

    curvature (including the penalty), pull, start, lr, steps: (rows,), finite.
    """
    factor, gradient = 1 - lr * curvature, curvature * start - pull
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        contracting = factor > 0
        power = np.where(
            contracting,
            np.exp(steps * np.log1p(-np.where(contracting, lr * curvature, 0.0))),
            np.where(steps == 0, 1.0, np.abs(factor) ** steps * np.where(steps % 2 == 0, 1.0, -1.0)),
        )
        slow = contracting & (steps * lr * curvature < 1e-6)  # here 1 - power would lose its digits
        total = np.where(
            slow,
            lr * steps * (1 - 0.5 * lr * curvature * np.maximum(steps - 1, 0)),
            (1 - power) / np.where(curvature > 0, curvature, 1.0),
        )
        return start - gradient * total, gradient * power

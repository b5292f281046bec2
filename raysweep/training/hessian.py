"""Curvature of a loss at a checkpoint: largest Hessian eigenvalue, trace, and the quadratic model (O App. D).

Everything is computed from products of the Hessian with vectors, by differentiating twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from raysweep.training import draws
from raysweep.training.params import Model, row


class Quadratic:
    """The loss near one model: its gradient (weights,) and products with its Hessian.

    flat: the model's weights, (1, weights).
    losses: functions that map such a row to a loss; the loss is their sum. Each must be differentiable twice.

    Memory is taken for one of the losses at a time. What a single loss keeps for differentiating again is held as long
    as this object; with several, the gradient of each is computed again for every product.
    """

    def __init__(self, flat: Tensor, losses: Sequence[Callable[[Tensor], Tensor]]) -> None:
        self._leaf = flat.detach().clone().requires_grad_()
        self._losses, self._kept = losses, self._differentiable(losses[0]) if len(losses) == 1 else None
        if self._kept is not None:
            self.gradient = self._kept.detach()[0]
        else:
            self.gradient = torch.zeros_like(flat[0])
            for loss in losses:
                with sdpa_kernel(SDPBackend.MATH):
                    self.gradient += torch.autograd.grad(loss(self._leaf), self._leaf)[0][0]

    def product(self, vector: Tensor) -> Tensor:
        """Hessian times a vector (weights,)."""
        if self._kept is not None:
            return self._product(self._kept, vector, keep=True)
        total = torch.zeros_like(vector)
        for loss in self._losses:
            total += self._product(self._differentiable(loss), vector, keep=False)
        return total

    def _differentiable(self, loss: Callable[[Tensor], Tensor]) -> Tensor:
        """The gradient (1, weights) of a loss, with what is needed to differentiate it again."""
        with sdpa_kernel(SDPBackend.MATH):  # the only attention that can be differentiated twice
            (gradient,) = torch.autograd.grad(loss(self._leaf), self._leaf, create_graph=True)
        return gradient

    def _product(self, gradient: Tensor, vector: Tensor, keep: bool) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH):
            (result,) = torch.autograd.grad(gradient, self._leaf, vector[None], retain_graph=keep)
        return result[0].detach()

    def change(self, move: Tensor) -> float:
        """Change of the loss under a move of the weights (weights,), by the quadratic model."""
        return float(self.gradient.double() @ move.double() + 0.5 * (move.double() @ self.product(move).double()))

    @torch.no_grad()
    def real_change(self, move: Tensor) -> float:
        """Change of the loss itself under a move of the weights (weights,)."""
        return sum(float(loss(self._leaf + move).double() - loss(self._leaf).double()) for loss in self._losses)


def largest_eigenvalue(product: Callable[[Tensor], Tensor], start: Tensor, iterations: int) -> float:
    """The largest eigenvalue, by Lanczos with full reorthogonalization from a start vector.

    The result is a lower bound that rises with the iterations. NaN if the Hessian is not finite, as for a diverged
    model.
    """
    basis: list[Tensor] = []
    diagonal: list[float] = []
    beside: list[float] = []
    vector = start / start.norm()
    for _ in range(min(iterations, len(start))):
        basis.append(vector)
        image = product(vector)
        diagonal.append(float(vector @ image))
        if not np.isfinite(diagonal[-1]):
            return float("nan")
        for _ in range(2):
            for earlier in basis:
                image = image - (earlier @ image) * earlier
        length = float(image.norm())
        if not np.isfinite(length):
            return float("nan")
        if length <= 1e-6 * max(map(abs, diagonal)):
            break
        beside.append(length)
        vector = image / length
    off = beside[: len(diagonal) - 1]
    return float(np.linalg.eigvalsh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))[-1])


def scaled_trace(
    product: Callable[[Tensor], Tensor], deviations: Tensor, probes: int, stream: np.random.Generator
) -> float:
    """Tr(ΣH) by Hutchinson's estimate, with Σ = diag(deviations²).

    It is twice the quadratic model's sensitivity to noise of strength 1 (O Prop. D.1).
    """
    total = 0.0
    for _ in range(probes):
        signs = torch.as_tensor(
            stream.integers(0, 2, len(deviations)) * 2.0 - 1.0, dtype=deviations.dtype, device=deviations.device
        )
        probe = deviations * signs
        total += float(probe.double() @ product(probe).double()) / probes
    return total


def summary(quadratic: Quadratic, model: Model, iterations: int, seed: int) -> dict[str, float]:
    """The metrics sharpness and hessian_trace."""
    gradient = quadratic.gradient
    deviations = torch.as_tensor(
        row(lambda part: np.full(part.size, part.deviation), model), dtype=gradient.dtype, device=gradient.device
    )
    start = torch.as_tensor(
        draws.normal(seed, f"{model.name}/lanczos", len(gradient)), dtype=gradient.dtype, device=gradient.device
    )
    return {
        "sharpness": largest_eigenvalue(quadratic.product, start, iterations),
        "hessian_trace": scaled_trace(
            quadratic.product, deviations, iterations, draws.generator(seed, f"{model.name}/probes")
        ),
    }

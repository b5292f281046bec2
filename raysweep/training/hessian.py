"""Curvature of a loss, by products of its Hessian: largest eigenvalues, trace, the quadratic model (O App. D)."""

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import grad, vjp
from torch.nn.attention import SDPBackend, sdpa_kernel


class Quadratic:
    """The loss near one model: its gradient (weights,) and products with its Hessian.

    flat: the model's weights, (weights,). losses: functions of such a row, differentiable twice; the loss is their sum.

    Memory is taken for one of the losses at a time. What a single loss keeps for differentiating again is held as long
    as this object; with several, the gradient of each is computed again for every product.
    """

    def __init__(self, flat: Tensor, losses: Sequence[Callable[[Tensor], Tensor]]) -> None:
        self._flat, self._losses = flat.detach(), losses
        with sdpa_kernel(SDPBackend.MATH):  # the only attention that can be differentiated twice
            self._kept = [vjp(grad(losses[0]), self._flat)] if len(losses) == 1 else None
            each = (one.detach() for one, _ in self._kept) if self._kept else (grad(one)(self._flat) for one in losses)
            self.gradient = sum(each, torch.zeros_like(self._flat))

    def product(self, vector: Tensor) -> Tensor:
        """Hessian times a vector (weights,)."""
        with sdpa_kernel(SDPBackend.MATH):
            parts = self._kept or (vjp(grad(loss), self._flat) for loss in self._losses)
            return sum((multiply(vector)[0].detach() for _, multiply in parts), torch.zeros_like(vector))

    def change(self, move: Tensor) -> float:
        """Change of the loss under a move of the weights (weights,), by the quadratic model."""
        return float(self.gradient.double() @ move.double() + 0.5 * (move.double() @ self.product(move).double()))

    @torch.no_grad()
    def real_change(self, move: Tensor) -> float:
        """Change of the loss itself under a move of the weights (weights,)."""
        return sum(float(loss(self._flat + move).double() - loss(self._flat).double()) for loss in self._losses)


def named(row: Tensor, module: nn.Module) -> dict[str, Tensor]:
    """The weights of a module by name, as views of a row (weights,) that has them in its order."""
    like = dict(module.named_parameters())
    parts = row.split([weights.numel() for weights in like.values()])
    return {name: part.view(like[name].shape) for name, part in zip(like, parts, strict=True)}


def largest_eigenvalue(product: Callable[[Tensor], Tensor], start: Tensor, iterations: int) -> float:
    """The largest eigenvalue, by Lanczos with full reorthogonalization from a start vector: a lower bound that rises
    with the iterations. NaN if the Hessian is not finite, as for a diverged model."""
    steps = [([float("nan")], list[float](), list[Tensor]()), *itertools.islice(lanczos(product, start), iterations)]
    diagonal, off_diagonal, _ = steps[-1]
    if not np.isfinite([*diagonal, *off_diagonal]).all():
        return float("nan")
    off = off_diagonal[: len(diagonal) - 1]
    return float(np.linalg.eigvalsh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))[-1])


def lanczos(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    starts: Callable[[], Tensor] | None = None,
    fixed: Sequence[Tensor] = (),
) -> Iterator[tuple[list[float], list[float], list[Tensor]]]:
    """(diagonal, off-diagonal, basis) after each product: the tridiagonal matrix, and the vectors in which it is that.

    All grow by one, the off-diagonal by the length of what is left of the product. There are at most as many products
    as the matrix has rows, less the number of `fixed` vectors: orthonormal ones to which all others are orthogonal.
    Where nothing is left, it goes on from a new vector of `starts`, and ends if there is none. A number that is not
    finite ends it.
    """
    basis: list[Tensor] = []
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    vector = _orthogonal(start, fixed)
    vector = vector / vector.norm()
    while len(basis) < len(start) - len(fixed):
        basis.append(vector)
        image = product(vector)
        diagonal.append(float(vector @ image))
        length = float("nan")
        if np.isfinite(diagonal[-1]):
            image = _orthogonal(image, [*fixed, *basis])
            length = float(image.norm())
        over = length <= (1e-6 if image.dtype == torch.float32 else 1e-12) * max(map(abs, diagonal))
        off_diagonal.append(0.0 if over and starts else length)
        yield diagonal, off_diagonal, basis
        if not np.isfinite(length) or (over and starts is None):
            return
        if over and starts and len(basis) < len(start) - len(fixed):
            image = _orthogonal(starts(), [*fixed, *basis])
            length = float(image.norm())
        vector = image / length


def _orthogonal(vector: Tensor, basis: Sequence[Tensor]) -> Tensor:
    """What of a vector is orthogonal to orthonormal vectors, to the last digit."""
    for _ in range(2):
        for earlier in basis:
            vector = vector - (earlier @ vector) * earlier
    return vector


def probed(
    product: Callable[[Tensor], Tensor], deviations: Tensor, probes: int, stream: np.random.Generator
) -> Iterator[float]:
    """zᵀHz for z of random signs times the deviations: Hutchinson's estimates of Tr(ΣH), Σ = diag(deviations²)."""
    for _ in range(probes):
        probe = deviations * torch.as_tensor(stream.integers(0, 2, len(deviations)) * 2.0 - 1.0).to(deviations)
        yield float(probe.double() @ product(probe).double())

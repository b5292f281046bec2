"""Curvature of a loss at a checkpoint: largest Hessian eigenvalues, trace, and the quadratic model (O App. D).

Everything is computed from products of the Hessian with vectors, by torch.func.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import grad, vjp
from torch.nn.attention import SDPBackend, sdpa_kernel


class Quadratic:
    """The loss near one model: its gradient (weights,) and products with its Hessian.

    flat: the model's weights, (weights,).
    losses: functions that map such a row to a loss; the loss is their sum. Each must be differentiable twice.

    Memory is taken for one of the losses at a time. What a single loss keeps for differentiating again is held as long
    as this object; with several, the gradient of each is computed again for every product.
    """

    def __init__(self, flat: Tensor, losses: Sequence[Callable[[Tensor], Tensor]]) -> None:
        self._flat, self._losses = flat.detach(), losses
        self._kept = self._differentiated(losses[0]) if len(losses) == 1 else None
        if self._kept is not None:
            self.gradient = self._kept[0].detach()
        else:
            with sdpa_kernel(SDPBackend.MATH):
                self.gradient = sum((grad(loss)(self._flat) for loss in losses), torch.zeros_like(self._flat))

    def product(self, vector: Tensor) -> Tensor:
        """Hessian times a vector (weights,)."""
        with sdpa_kernel(SDPBackend.MATH):
            if self._kept is not None:
                return self._kept[1](vector)[0].detach()
            total = torch.zeros_like(vector)
            for loss in self._losses:
                total += self._differentiated(loss)[1](vector)[0]
            return total

    def _differentiated(
        self, loss: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        """The gradient of a loss, and the function that multiplies a vector by its Hessian."""
        with sdpa_kernel(SDPBackend.MATH):  # the only attention that can be differentiated twice
            gradient, multiply = vjp(grad(loss), self._flat)
        return gradient, multiply

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


@dataclass(frozen=True)
class Eigenvalues:
    """The largest eigenvalues of a symmetric matrix, largest first, and how far from right each may be.

    values, residuals: (count,). An eigenvalue lies no further from each value than its residual, a bound of ‖Hv - λv‖.
        Where it is not known how often eigenvalues occur, a residual is at least the distance to the largest value, as
        the eigenvalue of this place in the order may lie anywhere up to it. NaN if the matrix is not finite.
    products: how many products with the matrix were taken.
    """

    values: np.ndarray
    residuals: np.ndarray
    products: int


def largest_eigenvalue(product: Callable[[Tensor], Tensor], start: Tensor, iterations: int) -> float:
    """The largest eigenvalue, by Lanczos with full reorthogonalization from a start vector.

    The result is a lower bound that rises with the iterations. NaN if the Hessian is not finite, as for a diverged
    model.
    """
    last = deque([([float("nan")], list[float](), list[Tensor]())], maxlen=1)
    last.extend(itertools.islice(_lanczos(product, start), iterations))
    diagonal, beside, _ = last[0]
    if not np.isfinite([*diagonal, *beside]).all():
        return float("nan")
    off = beside[: len(diagonal) - 1]
    return float(np.linalg.eigvalsh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))[-1])


def largest_eigenvalues(
    product: Callable[[Tensor], Tensor],
    starts: Callable[[], Tensor],
    count: int,
    tolerance: float = 1e-3,
    most_products: int = 400,
) -> Eigenvalues:
    """The `count` largest eigenvalues (all, if there are fewer), each as often as it occurs, by Lanczos.

    From one vector, Lanczos reaches one eigenvector of each eigenvalue, however often that occurs. So it starts again,
    orthogonal to the vectors that it has found, until the largest eigenvalue of the rest is not above the smallest one
    kept.

    starts: gives a new random vector at each call.
    tolerance: a pass ends when the residual of each value is at most this share of the value (of a millionth of the
        largest, if the value is smaller). An eigenvalue that is above the smallest one kept by less may be missing.
    most_products: a pass ends here too, and is the last one; then residuals say what is not resolved.

    Of p products of a pass all vectors are held: p + count times the memory of the model's weights. Take products in
    float64, as residuals do not count rounding.
    """
    start = starts()
    kept = _pass(product, start, starts, count, tolerance, most_products)
    products, converged, complete = kept.products, kept.converged, kept.products == len(start)
    while converged and not complete:
        rest = _pass(product, starts(), starts, count, tolerance, most_products, kept)
        products, converged = products + rest.products, rest.converged
        complete = converged and not rest.vectors
        if converged:
            kept = _merged(kept, rest)
    # each value found may occur more often than it was seen, the largest too
    missing = 0.0 if complete else kept.values[:1] - kept.values
    return Eigenvalues(kept.values, np.maximum(kept.residuals, missing), products)


@dataclass(frozen=True)
class _Pairs:
    """Ritz values, largest first, and their residuals, (count,), with their vectors, if all have converged."""

    values: np.ndarray
    residuals: np.ndarray
    vectors: list[Tensor]
    products: int
    converged: bool


def _pass(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    starts: Callable[[], Tensor],
    count: int,
    tolerance: float,
    most_products: int,
    kept: _Pairs | None = None,
) -> _Pairs:
    """The `count` largest Ritz pairs from one start; or those orthogonal to pairs kept and above the smallest of these.

    The residual of a Ritz pair with the eigenvector s of the tridiagonal matrix is β_p |s_p| (Parlett, The symmetric
    eigenvalue problem, §13.2).
    """
    from scipy.linalg import eigh_tridiagonal

    known, largest, floor = (kept.vectors, abs(kept.values[0]), kept.values[-1]) if kept else ([], 0.0, -np.inf)
    most = len(start) - len(known)
    wanted = min(count, most)
    values, residuals, vectors, taken, converged = np.empty(0), np.empty(0), list[Tensor](), 0, False
    for diagonal, beside, basis in itertools.islice(_lanczos(product, start, starts, known), most_products):
        taken = len(diagonal)
        if not np.isfinite([diagonal[-1], beside[-1]]).all():
            values = residuals = np.full(wanted, np.nan)
            break
        last = taken in (most, most_products)
        if taken < wanted or not (last or (taken % 10 == 0 and beside[-1] > 0)):
            continue
        chosen = (taken - wanted, taken - 1)
        found, parts = eigh_tridiagonal(diagonal, beside[:-1], select="i", select_range=chosen)
        values, residuals = found[::-1], beside[-1] * np.abs(parts[-1, ::-1])
        accuracy = tolerance * np.maximum(np.abs(values), 1e-6 * max(abs(values[0]), largest))
        above = values - accuracy > floor
        converged = bool((residuals <= accuracy)[above | (np.arange(wanted) == 0)].all())
        if converged:
            values, residuals = values[above], residuals[above]
            vectors = [_sum(part, basis) for part in parts.T[::-1][above]]
            break
    return _Pairs(values, residuals, vectors, taken, converged)


def _merged(kept: _Pairs, new: _Pairs) -> _Pairs:
    """As many pairs as were kept, the largest of both."""
    # the product with a new vector may have parts along those kept, by symmetry no longer than the residuals of these
    far = np.hypot(new.residuals, np.linalg.norm(kept.residuals))
    values, residuals = np.append(kept.values, new.values), np.append(kept.residuals, far)
    order = np.argsort(-values, kind="stable")[: len(kept.values)]
    vectors = [*kept.vectors, *new.vectors]
    return _Pairs(values[order], residuals[order], [vectors[place] for place in order], new.products, new.converged)


def _sum(parts: np.ndarray, basis: Sequence[Tensor]) -> Tensor:
    """The vector with these parts along the vectors of a basis."""
    total = torch.zeros_like(basis[0])
    for part, vector in zip(parts, basis, strict=True):
        total += float(part) * vector
    return total


def _lanczos(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    starts: Callable[[], Tensor] | None = None,
    known: Sequence[Tensor] = (),
) -> Iterator[tuple[list[float], list[float], list[Tensor]]]:
    """(diagonal, beside, basis) after each product: of the tridiagonal matrix, the vectors in which it is that.

    All grow by one, `beside` by the length of what is left of the product. At most as many products as the matrix has
    rows, fewer by vectors known, orthonormal ones to which all others are orthogonal. Where nothing is left, it goes on
    from a new vector of `starts`, and ends if there is none. It ends after a number that is not finite.
    """
    basis: list[Tensor] = []
    diagonal: list[float] = []
    beside: list[float] = []
    vector = _orthogonal(start, known)
    vector = vector / vector.norm()
    while len(basis) < len(start) - len(known):
        basis.append(vector)
        image = product(vector)
        diagonal.append(float(vector @ image))
        length = float("nan")
        if np.isfinite(diagonal[-1]):
            image = _orthogonal(image, [*known, *basis])
            length = float(image.norm())
        over = length <= (1e-6 if image.dtype == torch.float32 else 1e-12) * max(map(abs, diagonal))
        beside.append(0.0 if over and starts else length)
        yield diagonal, beside, basis
        if not np.isfinite(length) or (over and starts is None):
            return
        if over and starts and len(basis) < len(start) - len(known):
            image = _orthogonal(starts(), [*known, *basis])
            length = float(image.norm())
        vector = image / length


def _orthogonal(vector: Tensor, basis: Sequence[Tensor]) -> Tensor:
    """What of a vector is orthogonal to orthonormal vectors, to the last digit."""
    for _ in range(2):
        for earlier in basis:
            vector = vector - (earlier @ vector) * earlier
    return vector


def scaled_trace(
    product: Callable[[Tensor], Tensor], deviations: Tensor, probes: int, stream: np.random.Generator
) -> float:
    """Tr(ΣH) by Hutchinson's estimate, with Σ = diag(deviations²).

    It is twice the quadratic model's sensitivity to noise of strength 1 (O Prop. D.1).
    """
    return float(sum(value / probes for value in _probed(product, deviations, probes, stream)))


def trace(
    product: Callable[[Tensor], Tensor], like: Tensor, probes: int, stream: np.random.Generator
) -> tuple[float, float]:
    """(Tr(H), its standard error) by Hutchinson's estimate from at least two probes; like: a vector of H's size."""
    values = np.array(list(_probed(product, torch.ones_like(like), probes, stream)))
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(probes))


def _probed(
    product: Callable[[Tensor], Tensor], deviations: Tensor, probes: int, stream: np.random.Generator
) -> Iterator[float]:
    """zᵀHz for vectors z of random signs times the deviations."""
    for _ in range(probes):
        signs = torch.as_tensor(
            stream.integers(0, 2, len(deviations)) * 2.0 - 1.0, dtype=deviations.dtype, device=deviations.device
        )
        probe = deviations * signs
        yield float(probe.double() @ product(probe).double())

"""The largest eigenvalues and the trace of the Hessian of a net's loss in all its weights (D Fig. 3 and App. A).

D takes power methods on products with the Hessian and shows the 20 largest eigenvalues; here it is Lanczos, in float64.
Which images D takes the loss of is not said.
"""

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from raysweep.training import draws, hessian

PROBES = 30  # random vectors of the trace
TOLERANCE = 1e-3
"""A pass ends when the residual of each value is at most this share of the value (of a millionth of the largest, if the
value is smaller). An eigenvalue that is above the smallest one kept by less may be missing."""
_PIECE = 256  # images whose graph is held at once


@dataclass(frozen=True)
class Eigenvalues:
    """The largest eigenvalues of a symmetric matrix, largest first, and how far from right each may be.

    values, residuals: (count,). An eigenvalue lies no further from each value than its residual, a bound of ‖Hv - λv‖.
        Where it is not known how often eigenvalues occur, a residual is at least the distance to the largest value, as
        the eigenvalue of this place in the order may lie anywhere up to it. NaN if the matrix is not finite.
    products: how many products with the matrix were taken.
    vectors: those of the values if all have converged, else none. converged: whether they have.
    """

    values: np.ndarray
    residuals: np.ndarray
    products: int
    vectors: list[Tensor]
    converged: bool


def largest_eigenvalues(
    product: Callable[[Tensor], Tensor], starts: Callable[[], Tensor], count: int, most_products: int = 400
) -> Eigenvalues:
    """The `count` largest eigenvalues (all, if there are fewer), each as often as it occurs, by Lanczos.

    From one vector, Lanczos reaches one eigenvector of each eigenvalue, however often that occurs. So it starts again,
    orthogonal to the vectors that it has found, until the largest eigenvalue of the rest is not above the smallest one
    kept.

    starts: gives a new random vector at each call.
    most_products: a pass ends here at the latest, and is the last one then; residuals say what is not resolved.

    Of p products of a pass all vectors are held: p + count times the memory of the model's weights. Take products in
    float64, as residuals do not count rounding.
    """
    first = starts()
    kept = _pass(product, first, starts, (count, most_products))
    products, converged, complete = kept.products, kept.converged, kept.products == len(first)
    while converged and not complete:
        rest = _pass(product, starts(), starts, (count, most_products), kept)
        products, converged = products + rest.products, rest.converged
        complete = converged and not rest.vectors
        if converged:
            kept = _merged(kept, rest)
    # each value found may occur more often than it was seen, the largest too
    missing = 0.0 if complete else kept.values[:1] - kept.values
    return replace(kept, residuals=np.maximum(kept.residuals, missing), products=products)


def _pass(
    product: Callable[[Tensor], Tensor],
    start: Tensor,
    starts: Callable[[], Tensor],
    limits: tuple[int, int],
    kept: Eigenvalues | None = None,
) -> Eigenvalues:
    """The largest Ritz pairs from one start; or those orthogonal to pairs kept and above the smallest of these.

    limits: count and most_products.

    The residual of a Ritz pair with the eigenvector s of the tridiagonal matrix is β_p |s_p| (Parlett, The symmetric
    eigenvalue problem, §13.2).
    """
    from scipy.linalg import eigh_tridiagonal

    count, most_products = limits
    fixed, largest, floor = (kept.vectors, abs(kept.values[0]), kept.values[-1]) if kept else ([], 0.0, -np.inf)
    most = len(start) - len(fixed)
    size = min(count, most)
    values, residuals, vectors, taken, converged = np.empty(0), np.empty(0), list[Tensor](), 0, False
    steps = hessian.lanczos(product, start, starts, fixed)
    for diagonal, off_diagonal, basis in itertools.islice(steps, most_products):
        taken = len(diagonal)
        if not np.isfinite([diagonal[-1], off_diagonal[-1]]).all():
            values = residuals = np.full(size, np.nan)
            break
        last = taken in (most, most_products)
        if taken < size or not (last or (taken % 10 == 0 and off_diagonal[-1] > 0)):
            continue
        chosen = (taken - size, taken - 1)
        ritz, parts = eigh_tridiagonal(diagonal, off_diagonal[:-1], select="i", select_range=chosen)
        values, residuals = ritz[::-1], off_diagonal[-1] * np.abs(parts[-1, ::-1])
        accuracy = TOLERANCE * np.maximum(np.abs(values), 1e-6 * max(abs(values[0]), largest))
        above = values - accuracy > floor
        converged = bool((residuals <= accuracy)[above | (np.arange(size) == 0)].all())
        if converged:
            values, residuals = values[above], residuals[above]
            vectors = [
                sum(float(part) * vector for part, vector in zip(of_basis, basis, strict=True))
                for of_basis in parts.T[::-1][above]
            ]
            break
    return Eigenvalues(values, residuals, taken, vectors, converged)


def _merged(kept: Eigenvalues, new: Eigenvalues) -> Eigenvalues:
    """As many pairs as were kept, the largest of both."""
    # the product with a new vector may have parts along those kept, by symmetry no longer than the residuals of these
    far = np.hypot(new.residuals, np.linalg.norm(kept.residuals))
    values, residuals = np.append(kept.values, new.values), np.append(kept.residuals, far)
    order = np.argsort(-values, kind="stable")[: len(kept.values)]
    vectors = [*kept.vectors, *new.vectors]
    return Eigenvalues(values[order], residuals[order], new.products, [vectors[place] for place in order], True)


def trace(
    product: Callable[[Tensor], Tensor], like: Tensor, probes: int, stream: np.random.Generator
) -> tuple[float, float]:
    """(Tr(H), its standard error) by Hutchinson's estimate from at least two probes; like: a vector of H's size."""
    values = np.array(list(hessian.probed(product, torch.ones_like(like), probes, stream)))
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(probes))


def measured(
    net: nn.Module, pixels: Tensor, labels: Tensor, seed: int, count: int = 20
) -> tuple[Eigenvalues, float, float]:
    """Curvature of the mean cross-entropy of some images, the net in evaluation mode and in float64.

    pixels: (images, channels, height, width). labels: (images,). seed: of the random vectors.

    Gives the `count` largest eigenvalues of the Hessian, largest first, with bounds of their residuals; and
    Hutchinson's estimate of its trace, with the standard error over probes.
    """
    flat, losses = flattened(net, pixels, labels)
    quadratic = hessian.Quadratic(flat, losses)
    starts = draws.generator(seed, "vision/lanczos")

    def start() -> Tensor:
        return torch.as_tensor(starts.standard_normal(len(flat))).to(flat)

    largest = largest_eigenvalues(quadratic.product, start, count)
    probes = draws.generator(seed, "vision/trace probes")
    return largest, *trace(quadratic.product, flat, PROBES, probes)


def flattened(net: nn.Module, pixels: Tensor, labels: Tensor) -> tuple[Tensor, list[Callable[[Tensor], Tensor]]]:
    """(the weights of a net as one row (weights,) in float64, functions of such a row whose sum is the mean loss)."""
    copied = copy.deepcopy(net).double().eval()

    def loss_of(some: Tensor, right: Tensor) -> Callable[[Tensor], Tensor]:
        def loss(row: Tensor) -> Tensor:
            outputs = functional_call(copied, hessian.named(row, copied), (some,))
            return cross_entropy(outputs, right, reduction="sum") / len(labels)

        return loss

    pieces = zip(pixels.double().split(_PIECE), labels.split(_PIECE), strict=True)
    flat = torch.cat([weights.detach().reshape(-1) for weights in copied.parameters()])
    return flat, [loss_of(some, right) for some, right in pieces]


def unresolved(spectrum: Eigenvalues, tolerance: float = 0.01) -> np.ndarray:
    """Whether the residual of each eigenvalue is more than this share of it (or it is not finite)."""
    return ~(spectrum.residuals <= tolerance * np.abs(spectrum.values))

"""Decompositions of the data of draws in float64: one after the other on a CPU, and batched on a GPU.

LAPACK on a CPU takes one matrix at a time; NumPy calls it with less around it than torch, and its last digits are those
of rows computed before. On a GPU one call takes matrices of one shape together, which keeps it busy. Signs of vectors,
and the vectors of equal values, differ between the two: whoever uses them must not depend on either.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray
_BATCH_BYTES = 1 << 30  # of matrices that a GPU takes in one call; vectors and workspace are a few times as much


def singular(matrices: Iterable[Array], device: torch.device) -> Iterator[tuple[Array, Array, Array]]:
    """The thin singular value decomposition X = U diag(s) Vᵀ of each of some matrices (n, dim) of one shape.

    Gives (U, s, Vᵀ) of shapes (n, r), (r,) and (r, dim), r = min(n, dim), s falling; on the host.
    """
    if device.type == "cpu":
        for matrix in matrices:
            yield np.linalg.svd(matrix, full_matrices=False)
        return
    waiting = iter(matrices)
    for first in waiting:
        batch = np.stack([first, *islice(waiting, _at_once(first) - 1)])
        parts = torch.linalg.svd(torch.as_tensor(batch, device=device), full_matrices=False)
        yield from zip(*(part.cpu().numpy() for part in parts), strict=True)


def pseudo_inverses(matrices: Array, ranks: Array, device: torch.device) -> Tensor:
    """Pseudo-inverses (count, dim, dim), on the device, of symmetric matrices (count, dim, dim) without negative
    eigenvalues and of known rank (count,)."""
    if device.type == "cpu" or not len(matrices):
        return torch.from_numpy(_one_by_one(matrices, ranks)).to(device)
    given, rank = torch.as_tensor(matrices, device=device), torch.as_tensor(ranks, device=device)
    place = torch.arange(matrices.shape[1], device=device)
    inverses = []
    for some, seen in zip(*(each.split(_at_once(matrices[0])) for each in (given, rank)), strict=True):
        values, vectors = torch.linalg.eigh(some)
        inverse = torch.where(place >= len(place) - seen.unsqueeze(1), 1 / values, 0.0)
        inverses.append((vectors * inverse.unsqueeze(1)) @ vectors.mT)
    return torch.cat(inverses)


def _one_by_one(matrices: Array, ranks: Array) -> Array:
    inverses = np.zeros_like(matrices)
    for i, rank in enumerate(ranks):
        if rank > 0:
            values, vectors = np.linalg.eigh(matrices[i])
            seen = slice(max(0, len(values) - int(rank)), None)  # the others are 0 except for rounding
            inverses[i] = (vectors[:, seen] / values[seen]) @ vectors[:, seen].T
    return inverses


def _at_once(matrix: Array | Tensor) -> int:
    return max(1, _BATCH_BYTES // max(1, int(matrix.nbytes)))

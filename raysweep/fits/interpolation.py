"""Curves between grid points: interpolations that are linear in the values, so that means and errors follow.

Within a cell [x_k, x_k+1] every draw that was measured at both ends takes part, and no other: a missing value is
never filled in. `linear` joins the ends; `cubic` is the polynomial through the ends and their two neighbours; `left`
and `right` are the parabolas through the ends and one neighbour. A neighbour beyond the rim of the grid, or where a
taking-part draw lacks a value, is left out. The two parabolas disagree where the grid is too coarse for the curve,
which is what they are for. `before` and `after` prolong the straight line of the cell before or after: what a curve
with a kink in the cell may do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NEIGHBOURS = {"cubic": (-1, 2), "linear": (), "left": (-1,), "right": (2,), "before": (-1,), "after": (2,)}
PROLONGED = {"before": (-1, 0), "after": (1, 2)}
# The first gives the estimate, the largest difference between them the method spread.
METHODS = tuple(name for name in NEIGHBOURS if name not in PROLONGED)
SUBSTEPS = 32


@dataclass(frozen=True)
class Sampled:
    """Curves sampled finely: position (samples,), cell index (samples,), and each cell's draws."""

    position: np.ndarray
    cell: np.ndarray
    cells: list[np.ndarray]  # one array (draws, SUBSTEPS + 1) per cell


def sample(u: np.ndarray, values: np.ndarray, method: str) -> Sampled:
    """values[draw, point] over u, sampled at SUBSTEPS + 1 places in every cell, both ends included."""
    present = np.isfinite(values)
    fraction = np.linspace(0.0, 1.0, SUBSTEPS + 1)
    position, cell, cells = [], [], []
    for k in range(len(u) - 1):
        taking_part = present[:, k] & present[:, k + 1]
        stencil = [k, k + 1]
        for neighbour in (k + offset for offset in NEIGHBOURS[method]):
            if 0 <= neighbour < len(u) and present[taking_part, neighbour].all():
                stencil.append(neighbour)
        if method in PROLONGED and len(stencil) == 3:
            stencil = [k + offset for offset in PROLONGED[method]]
        at = u[k] + fraction * (u[k + 1] - u[k])
        weights = lagrange(u[stencil], at)
        cells.append(values[np.ix_(taking_part, stencil)] @ weights.T)
        position.append(at)
        cell.append(np.full(len(at), k))
    return Sampled(np.concatenate(position), np.concatenate(cell), cells)


def lagrange(nodes: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Weights (places, nodes) of the polynomial through the nodes."""
    weights = np.ones((len(at), len(nodes)))
    for i in range(len(nodes)):
        for j in range(len(nodes)):
            if i != j:
                weights[:, i] *= (at - nodes[j]) / (nodes[i] - nodes[j])
    return weights

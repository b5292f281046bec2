"""One factorization of a draw's inputs, which serves every angle, noise, depth and pretraining length (THEORY §4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from raysweep.training import draws
from raysweep.workloads.linear_transfer import target

Array = np.ndarray
SOURCE, PARTNER, SCRATCH = 0, 1, 2  # the directions e_s, e_u and the one that training from scratch starts in


@dataclass(frozen=True)
class Spectrum:
    """A draw of n inputs seen from the eigenbasis of XᵀX/n, with r = min(n, dim) modes.

    eigenvalues: (r,). directions: (r, 3), the three unit vectors' coordinates. noise: (r,), coordinates of X⁺ε for
    unit noise. outside: (3, 3), inner products of the directions' parts outside the row space of X.
    alignment: e_sᵀXᵀX[e_s, e_u, scratch]/n, (3,), and noise_alignment: e_sᵀXᵀε/n.
    """

    eigenvalues: Array
    directions: Array
    noise: Array
    outside: Array
    alignment: Array
    noise_alignment: float


def spectrum(seed: int, dim: int, n: int) -> Spectrum:
    """The Spectrum of one draw; O(n dim min(n, dim))."""
    directions = np.vstack([target.teacher_directions(seed, dim), draws.unit_vectors(seed, "scratch", 1, dim)])
    if n == 0:
        nothing = np.zeros(0)
        return Spectrum(nothing, np.zeros((0, 3)), nothing, directions @ directions.T, np.zeros(3), 0.0)
    left, singular, right = np.linalg.svd(target.inputs(seed, n, dim), full_matrices=False)
    coordinates = right @ directions.T
    if n >= dim:
        outside = np.zeros((3, 3))
    else:
        rest = directions.T - right.T @ coordinates
        rest -= right.T @ (right @ rest)  # what is left of the row space after rounding
        outside = rest.T @ rest
    eigenvalues = singular**2 / n
    noise = (left.T @ target.label_noise(seed, n)) / singular
    weighted = eigenvalues * coordinates[:, SOURCE]
    return Spectrum(eigenvalues, coordinates, noise, outside, weighted @ coordinates, float(weighted @ noise))

"""Gaussian noise on the weights, in units of each tensor's deviation at initialization (O §3.3, eq. 1, App. C.2)."""

from __future__ import annotations

import numpy as np

from raysweep.workloads import draws
from raysweep.workloads.language.model import Part


def drawn(part: Part, seed: int) -> np.ndarray:
    """One tensor's share of a draw of noise at strength 1, float32, flat: N(0, Σ), Σ the initialization's covariance.

    Gains start at a fixed value, so they have no share in it. Rows of one seed get one direction at several strengths.
    """
    if part.deviation == 0:
        return np.zeros(part.size, np.float32)
    return (part.deviation * draws.normal(seed, f"language/noise/{part.name}", part.size)).astype(np.float32)

"""Overlap angles in degrees."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def cosine_sine(angle: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of angles in degrees (shape kept), exact at 0, 90 and 180, where rounding otherwise shows."""
    degrees = np.asarray(angle, dtype=float)
    radians = np.deg2rad(degrees)
    return (np.where(degrees == 90.0, 0.0, np.cos(radians)), np.where(degrees == 180.0, 0.0, np.sin(radians)))

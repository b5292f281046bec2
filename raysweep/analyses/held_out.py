"""Places as a law takes them, their law, and whether the largest values of an axis lie as the smaller ones forecast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from raysweep.analyses.finding import Outcome
from raysweep.fits.statistics import normal_quantile
from raysweep.fits.surface.law import Law, Place, fit_law, held_out

DRAWS = 400
ABOVE = (Outcome.EDGE_HIGH, Outcome.BOUND_HIGH)
BELOW = (Outcome.EDGE_LOW, Outcome.BOUND_LOW)
LONGEST = 5
"""With so many values of the first axis the two largest are held out, if the others have a law; else the largest."""


def law_of(places: Sequence[Place], axes: np.ndarray, outcomes: Iterable[str]) -> Law:
    """The law of places; none if fewer are located than it has coefficients, as bounds alone fit any steeper power.

    axes: (places, axes), above 0. outcomes: of the places."""
    return fit_law(places if enough(outcomes, axes) else [], axes)


def enough(outcomes: Iterable[str], axes: np.ndarray) -> bool:
    """Whether as many of the places are located as a law has coefficients. axes: (places, axes)."""
    return sum(one == Outcome.LOCATED for one in outcomes) > axes.shape[1]


def largest_out(places: Sequence[Place], axes: np.ndarray, outcomes: np.ndarray, level: float) -> np.ndarray:
    """Whether each place at the largest values of the first axis lies in the interval that the law of the others
    forecasts; NaN without a law. axes: (places, axes). outcomes: of the places."""
    values = np.unique(axes[:, 0])
    for count in (2, 1) if len(values) >= LONGEST else (1,):
        out = np.isin(axes[:, 0], values[-count:])
        hits = held_out(places, axes, out, level) if enough(outcomes[~out], axes) else np.full(out.sum(), np.nan)
        if np.isfinite(hits).any():
            break
    return hits


def place(row: Mapping[str, Any], edges: np.ndarray, level: float) -> Place | None:
    """A place of a curve as the law takes it: normal on either side of the estimate, in log; None where nothing is
    located. row: outcome, estimate, low and high. edges: of the curves' axis, in log."""
    low, high = edges.tolist()
    if row["outcome"] == Outcome.BOUND_HIGH:  # it lies above a bound, which may be far from the edge
        high = float(np.log(row["low"]))
    if row["outcome"] == Outcome.BOUND_LOW:
        low = float(np.log(row["high"]))
    if row["outcome"] in ABOVE + BELOW:
        above = float(row["outcome"] in ABOVE)
        return Place(np.empty(0), low, high, 1 - above, above)
    if row["outcome"] != Outcome.LOCATED or not row["estimate"] > 0:
        return None
    centre = np.log(row["estimate"])
    below, above = centre - np.log(max(row["low"], np.exp(low))), np.log(row["high"]) - centre
    z = ndtri((np.arange(DRAWS // 2) + DRAWS / 2 + 0.5) / DRAWS)
    spread = np.r_[-z * max(below, 1e-9), z * max(above, 1e-9)] / normal_quantile(level)
    return Place(centre + spread, low, high, 0.0, 0.0)

"""What the grid leaves open: where between its points a curve can have its minimum, whatever interpolation says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from raysweep.fits.two_way_anova import Anova

COARSE, BEYOND = 3.0, 2.0  # curvatures that differ by more, by so many standard errors, make a grid too coarse
POWERS, CORNER, UNEVEN = (1.5, 2.0), 1.0, 3.0
EDGE_POWERS, EDGE_UNEVEN = (1.0, 1.5, 2.0, 3.0), 4.0


@dataclass(frozen=True)
class Curvatures:
    """Curvature at the lowest grid point and at its inner neighbours: each as weights on the curve's values, and the
    standard error of a combination of them."""

    at: np.ndarray
    weights: np.ndarray
    error: Callable[[np.ndarray], float]

    def contrast(self, ratio: float) -> tuple[float, float]:
        """(largest - ratio times smallest curvature, its standard error)."""
        largest, smallest = int(np.argmax(self.at)), int(np.argmin(self.at))
        return float(self.at[largest] - ratio * self.at[smallest]), self.error(
            self.weights[largest] - ratio * self.weights[smallest]
        )


def curvatures(u: np.ndarray, values: np.ndarray, fit: Anova, index: int, smooth: bool) -> Curvatures | None:
    """Curvatures around the lowest grid point `index`; None where fewer than two can be had."""
    nodes = [k for k in (index - 1, index, index + 1) if 0 < k < len(u) - 1]
    if len(nodes) < 2:
        return None
    weights = np.zeros((len(nodes), len(u)))
    for row, k in enumerate(nodes):
        left, right = u[k] - u[k - 1], u[k + 1] - u[k]
        weights[row, k - 1 : k + 2] = [1 / left, -1 / left - 1 / right, 1 / right]
        weights[row] /= (left + right) / 2
    complete = values[np.isfinite(values).all(axis=1)]

    def error(contrast: np.ndarray) -> float:
        if smooth and len(complete) > 1:
            return float((complete @ contrast).std(ddof=1) / np.sqrt(len(complete)))
        return float(np.sqrt(np.sum((contrast @ fit.factor) ** 2)))

    return Curvatures(weights @ fit.curve, weights, error)


def unresolved(around: Curvatures | None, times: float = 1.0) -> bool:
    """Whether the curvatures differ more than threefold, beyond noise (that of `times` as many draws): the grid is then
    too coarse for any interpolation to be trusted."""
    if around is None:
        return False
    contrast, error = around.contrast(COARSE)
    return bool(contrast > BEYOND * error / np.sqrt(times))


def unevenness(around: Curvatures | None, times: float = 1.0) -> float:
    """The largest ratio of curvatures that the data do not speak against, at most UNEVEN; with `times` the draws."""
    if around is None:
        return UNEVEN
    for ratio in np.geomspace(1, UNEVEN, 9)[:-1]:
        contrast, error = around.contrast(float(ratio))
        if contrast < -error / np.sqrt(times):
            return float(ratio)
    return UNEVEN


def convex_range(u: np.ndarray, curve: np.ndarray, index: int) -> tuple[float, float]:
    """Where a curve that is convex around its lowest grid point can have its minimum, whatever else its shape.

    On either side the minimum lies no farther than where the line through the next two points comes down to that
    value; on a side where the curve is not convex, no farther than the next point.
    """
    ends = []
    for step in (-1, 1):
        near, far = index + step, index + 2 * step
        if not 0 <= near < len(u):
            ends.append(float(u[index]))
            continue
        end = float(u[near])
        if 0 <= far < len(u) and curve[far] > curve[near]:
            slope = (curve[far] - curve[near]) / (u[far] - u[near])
            inner = (curve[near] - curve[index]) / (u[near] - u[index])
            if abs(slope) >= abs(inner):
                end = float(u[near] - (curve[near] - curve[index]) / slope)
        ends.append(end)
    return ends[0], ends[1]


def uneven_range(
    u: np.ndarray, curve: np.ndarray, index: int, around: Curvatures | None, times: float = 1.0
) -> tuple[float, float]:
    """Where a curve through the lowest grid point and its two neighbours has its minimum, if around it the curve is a
    power (POWERS) of the distance, steeper on one side than on the other by as much as the curvatures around it allow;
    where they allow three times and more, it may as well have a corner. Next to an edge, where nothing is known of the
    curve on one side, more is allowed."""
    if not 0 < index < len(u) - 1:
        return float(u[index]), float(u[index])
    beside_edge = index in (1, len(u) - 2)
    ratio = EDGE_UNEVEN if beside_edge else unevenness(around, times)
    powers = EDGE_POWERS if beside_edge else POWERS if ratio < UNEVEN else (CORNER, *POWERS)
    drops = curve[index - 1] - curve[index], curve[index + 1] - curve[index]
    found = [
        power_place(u[index - 1 : index + 2], drops, power, each)
        for power in powers
        for each in (1 / ratio, 1.0, ratio)
    ]
    return min(found), max(found)


def power_place(x: np.ndarray, drops: tuple[float, float], power: float, ratio: float) -> float:
    """The minimum v of the curve that is (v - x)^power on its left and ratio (x - v)^power on its right, up to a
    factor, and lies higher by `drops` at the first and last of three points than at the middle one."""
    left_drop, right_drop = drops
    left, right = np.linspace(x[0], x[1], 65), np.linspace(x[1], x[2], 65)[1:]
    at = np.concatenate([left, right])
    # the mismatch between the two drops falls through 0 where their ratio is the one seen
    on_left = left_drop * ratio * ((x[2] - left) ** power - (x[1] - left) ** power) - right_drop * (
        (left - x[0]) ** power - ratio * (x[1] - left) ** power
    )
    on_right = left_drop * (ratio * (x[2] - right) ** power - (right - x[1]) ** power) - right_drop * (
        (right - x[0]) ** power - (right - x[1]) ** power
    )
    mismatch = np.concatenate([on_left, on_right])
    crossing = np.flatnonzero((mismatch[:-1] >= 0) & (mismatch[1:] <= 0))
    if not len(crossing):
        return float(x[1])
    k = int(crossing[0])
    step = mismatch[k] - mismatch[k + 1]
    return float(at[k] + (mismatch[k] / step if step > 0 else 0.5) * (at[k + 1] - at[k]))

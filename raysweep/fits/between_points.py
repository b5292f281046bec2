"""The place of the minimum of a curve that is known exactly at grid points, and how far the points leave it open.

Curves with noise have a posterior instead (`posterior`). The constants without another source were chosen with
`benchmarks/coverage.py`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

POWER = 1.5  # the third interpolation uses (height above the lowest point) ** POWER
FINE = 12  # samples per cell in the search for a minimum
COARSE = 3.0  # a grid is too coarse to interpolate if curvatures differ by more than this factor
# Shapes around a minimum: powers of the distance, the power of a corner, the largest ratio between the two sides.
POWERS, CORNER, UNEVEN = (1.5, 2.0), 1.0, 3.0
EDGE_POWERS, EDGE_UNEVEN = (1.0, 1.5, 2.0, 3.0), 4.0  # powers and largest ratio next to an edge of the grid


def possible_places(u: np.ndarray, curve: np.ndarray) -> tuple[float, float, float, bool]:
    """(estimate, low, high, whether the grid is too coarse to interpolate): the minimum of a curve over u, (points,)
    each, without noise.

    The estimate is the mean of the minima of an Akima and a cubic spline. The range covers the minimum of each
    interpolation (`lowest_places`); the minima of curves that are steeper on one side (`uneven_range`); and, if the
    grid is too coarse, the minima of all convex curves (`convex_range`).
    """
    places = [float(place[0]) for place in lowest_places(u, curve[None])]
    index = int(np.argmin(curve))
    bends = curvatures(u, curve, index)
    # If curvatures differ by more than a factor of 3, no interpolation is reliable.
    coarse = len(bends) > 1 and bool(bends.max() > COARSE * bends.min())
    bounds = [*places, *uneven_range(u, curve, index, bends)]
    if coarse:
        bounds += convex_range(u, curve, index)
    return float(np.mean(places[:2])), min(bounds), max(bounds), coarse


def lowest_places(u: np.ndarray, curves: np.ndarray) -> list[np.ndarray]:
    """The place of the minimum of each curve (..., points), one array per interpolation.

    The interpolations are an Akima spline, a cubic spline, and a cubic spline of (height above the lowest point) **
    POWER. The power does not move the minimum; it fits curves better whose minimum is sharper than a parabola.
    """
    from scipy.interpolate import Akima1DInterpolator, CubicSpline

    fine = np.unique(np.concatenate([np.linspace(a, b, FINE + 1) for a, b in pairwise(u)]))
    powered = (curves - curves.min(axis=-1, keepdims=True)) ** POWER
    akima = Akima1DInterpolator(u, curves, axis=-1, method="makima")
    splines = akima, CubicSpline(u, curves, axis=-1), CubicSpline(u, powered, axis=-1)
    return [lowest_on(np.broadcast_to(fine, (*curves.shape[:-1], len(fine))), spline(fine))[1] for spline in splines]


def lowest_on(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the lowest sample of each curve, its minimum by the parabola through that sample and its two neighbours).

    x, y: (..., samples); both results (...).
    """
    index = y.argmin(axis=-1)[..., None]
    inner = np.clip(index, 1, x.shape[-1] - 2)
    (x0, x1, x2), (y0, y1, y2) = (
        [np.take_along_axis(each, inner + step, axis=-1)[..., 0] for step in (-1, 0, 1)] for each in (x, y)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        left, right = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
        vertex = (x0 + x1) / 2 - left * (x2 - x0) / 2 / (right - left)
    at = np.take_along_axis(x, index, axis=-1)[..., 0]
    return at, np.where((index == inner)[..., 0] & np.isfinite(vertex), np.clip(vertex, x0, x2), at)


def curvatures(u: np.ndarray, curve: np.ndarray, index: int) -> np.ndarray:
    """The curvatures of a curve at its lowest grid point `index` and its two neighbours, as far as they are inside."""
    nodes = [k for k in (index - 1, index, index + 1) if 0 < k < len(u) - 1]
    slopes = np.diff(curve) / np.diff(u)
    return np.array([(slopes[k] - slopes[k - 1]) / (u[k + 1] - u[k - 1]) * 2 for k in nodes])


def convex_range(u: np.ndarray, curve: np.ndarray, index: int) -> list[float]:
    """[low, high] of the possible minima of all curves that are convex around their lowest grid point `index`.

    On each side, the line through the next two grid points is continued down to the lowest value. The minimum lies no
    farther away than the place where this line reaches it. If the curve is not convex on a side, the next grid point is
    the end.
    """
    bounds = []
    for step in (-1, 1):
        near, far = index + step, index + 2 * step
        bound = float(u[near if 0 <= near < len(u) else index])
        if 0 <= near < len(u) and 0 <= far < len(u) and curve[far] > curve[near]:
            slope = (curve[far] - curve[near]) / (u[far] - u[near])
            inner = (curve[near] - curve[index]) / (u[near] - u[index])
            if abs(slope) >= abs(inner):
                bound = float(u[near] - (curve[near] - curve[index]) / slope)
        bounds.append(bound)
    return bounds


def uneven_range(u: np.ndarray, curve: np.ndarray, index: int, bends: np.ndarray) -> tuple[float, float]:
    """(low, high) of the possible minima of curves that may be steeper on one side of the minimum than on the other.

    The curve goes through the lowest grid point `index` and its two neighbours. Around the minimum it is a power
    (POWERS) of the distance. One side may be steeper by the smallest ratio, at most UNEVEN, that explains all bends
    (UNEVEN if there are too few); at UNEVEN the minimum may also be a corner. Next to an edge of the grid more shapes
    are allowed (EDGE_POWERS, EDGE_UNEVEN), because the curve is unknown beyond the edge.
    """
    if not 0 < index < len(u) - 1:
        return float(u[index]), float(u[index])
    beside_edge = index in (1, len(u) - 2)
    ratios = np.geomspace(1, UNEVEN, 9)[:-1].tolist() if len(bends) > 1 else []
    explained = next((ratio for ratio in ratios if bends.max() < ratio * bends.min()), UNEVEN)
    ratio = EDGE_UNEVEN if beside_edge else explained
    powers = EDGE_POWERS if beside_edge else POWERS if ratio < UNEVEN else (CORNER, *POWERS)
    drops = curve[index - 1] - curve[index], curve[index + 1] - curve[index]
    minima = [
        power_place(u[index - 1 : index + 2], drops, power, each)
        for power in powers
        for each in (1 / ratio, 1.0, ratio)
    ]
    return min(minima), max(minima)


def power_place(x: np.ndarray, drops: tuple[float, float], power: float, ratio: float) -> float:
    """The place v of the minimum of a curve with known shape, from its values at three points.

    Up to a common factor the curve is (v - x)^power to the left of v and ratio * (x - v)^power to the right.

    x: (3,), the minimum lies between the first and the last.
    drops: how much higher the curve is at the first and at the last point than at the middle one.
    """
    at = np.concatenate([np.linspace(x[0], x[1], 65), np.linspace(x[1], x[2], 65)[1:]])
    first, middle, last = (np.maximum(at - each, 0) ** power + ratio * np.maximum(each - at, 0) ** power for each in x)
    # At the right v the two drops have the observed ratio; there the mismatch changes from positive to negative.
    mismatch = drops[0] * (last - middle) - drops[1] * (first - middle)
    crossing = np.flatnonzero((mismatch[:-1] >= 0) & (mismatch[1:] <= 0))
    if not len(crossing):
        return float(x[1])
    k = int(crossing[0])
    step = mismatch[k] - mismatch[k + 1]
    return float(at[k] + (mismatch[k] / step if step > 0 else 0.5) * (at[k + 1] - at[k]))

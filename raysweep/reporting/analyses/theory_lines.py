"""The workload's closed form as smooth curves, zero lines and turning points, from the formula and not from the
grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.draws import log_axis
from raysweep.reporting.selection import columns_of, parameters_of
from raysweep.workloads.declaration import Workload, column

if TYPE_CHECKING:
    import pandas as pd

Curve = Callable[..., np.ndarray]


def closed_form_curve(part: pd.DataFrame, x: str, metric: str, workload: Workload) -> Curve | None:
    """The closed form of the metric as a function of x alone, everything else as in the rows of `part`.

    None where there is none: no closed form, not for this metric, x is no parameter, or another moves along with it.
    """
    if workload.closed_form is None or not len(part) or x not in workload.by_name:  # places of categories are no x
        return None
    if any(part[name].nunique(dropna=False) > 1 for name in parameters_of(part, workload) if name != x):
        return None
    base = columns_of(part.iloc[:1], workload)
    if metric not in workload.closed_form(base):
        return None
    form = workload.closed_form

    def curve(at: np.ndarray) -> np.ndarray:
        columns = {name: np.repeat(values, len(at)) for name, values in base.items()}
        columns[x] = column(workload.by_name[x], list(at))
        return np.asarray(form(columns)[metric], dtype=np.float64)

    return curve


def smooth(part: pd.DataFrame, name: str, workload: Workload, count: int = 121) -> np.ndarray:
    """Finely spaced values of an axis over its range; its own values where only whole numbers have a meaning."""
    values = np.sort(part[name].unique().astype(float))
    values = values[np.isfinite(values)]
    parameter = workload.by_name[name]
    if parameter.type is int or parameter.whole or len(values) < 2:
        return values
    spaced = np.geomspace if log_axis(values, workload.logarithmic(name)) else np.linspace
    return spaced(values[0], values[-1], count)


def zeros(surface: Curve, low: float, high: float, logarithmic: bool, rows: int = 1) -> list[np.ndarray]:
    """All sign changes on [low, high] of `rows` curves, by bisection to the last digits from 241 samples.

    surface takes (x, row number), both of one shape, and is called once for the samples and once a bisection step.
    """
    at = np.geomspace(low, high, 241) if logarithmic else np.linspace(low, high, 241)
    row, place = np.repeat(np.arange(rows), len(at)), np.tile(at, rows)
    value = surface(place, row)
    size = np.nanmax(np.abs(value[np.isfinite(value)]), initial=0.0)
    value = np.where(np.abs(value) <= 1e-12 * size, 0.0, value)
    kept = np.flatnonzero(np.isfinite(value) & (value != 0))  # an exact zero between two signs is inside their bracket
    row, place, value = row[kept], place[kept], value[kept]
    change = np.flatnonzero((value[:-1] * value[1:] < 0) & (row[:-1] == row[1:]))
    which, left, right, sign = row[change], place[change], place[change + 1], np.sign(value[change])
    for _ in range(50 if len(change) else 0):
        middle = (left + right) / 2
        ahead = sign * surface(middle, which) > 0
        left, right = np.where(ahead, middle, left), np.where(ahead, right, middle)
    return [((left + right) / 2)[which == k] for k in range(rows)]


def zero_line(
    part: pd.DataFrame, x: str, y: str | None, metric: str, workload: Workload, at: np.ndarray
) -> list[np.ndarray]:
    """The closed form's zeros in x, one array for each of the given values of y (one array if y is None).

    Empty arrays where there is no closed form, or where it does not depend on x and y alone within `part`.
    """
    count = len(at) if y else 1
    nothing = [np.empty(0)] * count
    if workload.closed_form is None or not len(part):
        return nothing
    free = {x, y} if y else {x}
    if any(part[name].nunique(dropna=False) > 1 for name in parameters_of(part, workload) if name not in free):
        return nothing
    base = columns_of(part.iloc[:1], workload)
    if metric not in workload.closed_form(base):
        return nothing
    form = workload.closed_form

    def surface(place: np.ndarray, row: np.ndarray) -> np.ndarray:
        columns = {name: np.repeat(values, len(place)) for name, values in base.items()}
        columns[x] = column(workload.by_name[x], list(place))
        if y:
            columns[y] = column(workload.by_name[y], list(np.asarray(at)[row]))
        return np.asarray(form(columns)[metric], dtype=np.float64)

    values = part[x].unique().astype(float)
    values = np.sort(values[np.isfinite(values)])
    if not len(values):  # all that one of several sweeps has may be at infinity
        return nothing
    return zeros(surface, values[0], values[-1], log_axis(values, workload.logarithmic(x)), count)


def turning_point(curve: Curve, low: float, high: float, turn: str, logarithmic: bool) -> float:
    """Where the curve is lowest (highest) on [low, high]; NaN at an end, and of a curve that is known nowhere. Zooms in
    on the best of 800 samples."""
    sign = 1 if turn == "min" else -1
    to, back = (np.log, np.exp) if logarithmic else (np.asarray, np.asarray)
    first, last = float(to(low)), float(to(high))
    for step in range(5):
        at = np.linspace(first, last, 801)
        values = sign * curve(back(at))
        if np.isnan(values).all():
            return float("nan")
        index = int(np.nanargmin(values))
        if step == 0 and index in (0, 800):
            return float("nan")
        first, last = float(at[max(index - 1, 0)]), float(at[min(index + 1, 800)])
        if (last - first) <= 1e-5 * max(abs(first), abs(last), 1e-3):  # beyond, rounding of the values decides
            break
    return float(back(np.array((first + last) / 2)))


def turning_points(rows: pd.DataFrame, x: str, metric: str, workload: Workload, turn: str) -> np.ndarray:
    """The closed form's own turning point within the finite range of x, shape (1,); empty if it has none there."""
    curve = closed_form_curve(rows, x, metric, workload)
    values = np.sort(rows[x].unique().astype(float))
    values = values[np.isfinite(values)]
    if curve is None or len(values) < 2:
        return np.empty(0)
    place = turning_point(curve, values[0], values[-1], turn, log_axis(values, workload.logarithmic(x)))
    return np.array([place]) if np.isfinite(place) else np.empty(0)

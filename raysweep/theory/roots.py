"""Zeros and extrema of curves that are formulas, to the last digits."""

from collections.abc import Callable

import numpy as np

Curve = Callable[..., np.ndarray]


def zeros(
    surface: Curve, low: float, high: float, logarithmic: bool, rows: int = 1, samples: int = 241
) -> list[np.ndarray]:
    """All sign changes of `rows` curves on [low, high], one array per curve.

    The brackets come from evenly spaced samples; Chandrupatla's method then refines each root to the last digits.

    surface: the curves as a function of (x, row number), two arrays of the same shape. It is called once for all
        samples and once for each of about ten steps.
    """
    at = np.geomspace(low, high, samples) if logarithmic else np.linspace(low, high, samples)
    row, place = np.repeat(np.arange(rows), len(at)), np.tile(at, rows)
    value = surface(place, row)
    size = np.nanmax(np.abs(value[np.isfinite(value)]), initial=0.0)
    value = np.where(np.abs(value) <= 1e-12 * size, 0.0, value)
    kept = np.flatnonzero(np.isfinite(value) & (value != 0))  # a bracket contains the exact zeros between its ends
    row, place, value = row[kept], place[kept], value[kept]
    change = np.flatnonzero((value[:-1] * value[1:] < 0) & (row[:-1] == row[1:]))
    which, brackets = row[change], (place[change], place[change + 1])

    def curve(x: np.ndarray) -> np.ndarray:
        roots = surface(x, which)
        return np.where(np.isnan(roots), value[change + 1], roots)  # without a value: behind the root

    roots = refined(curve, brackets, (value[change], value[change + 1])) if len(which) else np.empty(0)
    return [roots[which == k] for k in range(rows)]


def refined(curve: Curve, brackets: tuple[np.ndarray, np.ndarray], values: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The zeros of `curve` between `brackets`, where it has `values` of opposite signs, to the last digits.

    Chandrupatla (1997), doi.org/10.1016/s0965-9978(96)00051-8: steps of inverse quadratic interpolation where they are
    safe, else halves. `scipy.optimize.elementwise.find_root` does the same, but takes 0.2 s to import.
    """
    (a, b), (value_a, value_b) = brackets, values
    at = np.full(len(a), 0.5)
    for _ in range(100):
        x = a + at * (b - a)
        value = curve(x)
        same = np.sign(value) == np.sign(value_a)
        c, value_c = np.where(same, a, b), np.where(same, value_a, value_b)
        b, value_b = np.where(same, b, a), np.where(same, value_b, value_a)
        a, value_a = x, value
        best = np.where(np.abs(value_a) < np.abs(value_b), a, b)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            least = 2 * np.finfo(float).eps * np.abs(best) / np.abs(b - a)
            if ((least > 0.5) | (value_a == 0) | (value_b == 0)).all():
                break
            share, rise = (a - b) / (c - b), (value_a - value_b) / (value_c - value_b)
            safe = (rise**2 < share) & ((1 - rise) ** 2 < 1 - share)
            quick = value_a / (value_b - value_a) * value_c / (value_b - value_c)
            quick += (c - a) / (b - a) * value_a / (value_c - value_a) * value_b / (value_c - value_b)
        at = np.clip(np.where(safe, quick, 0.5), np.minimum(least, 0.5), 1 - np.minimum(least, 0.5))
    return best


def extremum(curve: Curve, low: float, high: float, turn: str, logarithmic: bool) -> float:
    """The place of the minimum (or maximum) of a curve on [low, high], refined from the best of 800 samples.

    It is NaN if the extremum lies at an end, or if the curve has no finite value.
    """
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
        if (last - first) <= 1e-5 * max(abs(first), abs(last), 1e-3):  # rounding errors decide below this
            break
    return float(back(np.array((first + last) / 2)))

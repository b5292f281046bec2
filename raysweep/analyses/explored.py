"""What the page lets a reader explore of a finding: every setting's means, draws and closed form, as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding
from raysweep.analyses.question import Question
from raysweep.analyses.rows import CellMeans, cell_means, finite_values, groups, is_number, places_on, with_choice
from raysweep.analyses.series import theory_line
from raysweep.fits.draws import log_axis, not_zero
from raysweep.fits.lost_draws import can_be_fitted
from raysweep.lazy import pd
from raysweep.numbers import number
from raysweep.space.analyses import metrics_of

THEORY_POINTS = 41
"""Places through which a closed form is drawn: enough for the eye, few enough for a small file."""
STEPS = 4000
"""Values are rounded to the range of a curve divided by this number, which no screen resolves."""


def explored_of(finding: Finding, asked: Question) -> list[Callable[[], dict[str, Any]]]:
    """The curves of a finding: each metric over the axis (lr in a regime); empty where the axis is no parameter.

    asked: with the rows of the analysis. If the finding has a row per curve, its place stands in the curve.
    """
    x = asked.options.get("lr") or asked.options.get("x")
    metrics = [name for name in metrics_of(asked.options) if name in asked.rows]
    if x not in asked.workload.by_name or not metrics:
        return []
    options = (asked.options.get(key) or [] for key in ("length", "over", "y"))
    keys = asked.keys(str(x), *(name for one in options for name in (one if isinstance(one, list) else [one])))
    rows = with_choice(asked.rows, str(x), keys)
    places = finding.table if finding.x == x and set(finding.keys) == set(keys) and len(metrics) == 1 else None
    return [partial(explored, asked, rows, str(x), metric, keys, places) for metric in metrics]


def explored(
    asked: Question, rows: pd.DataFrame, x: str, metric: str, keys: Sequence[str], places: pd.DataFrame | None
) -> dict[str, Any]:
    """A metric over an axis, one curve per setting of the keys, as plain data for JSON.

    places: the table of a finding; its row of a setting stands in the curve as `row`, by position.

    Positions of categories are 0, 1, …; an axis at infinity is None, since JSON has no such number.
    """
    workload = asked.workload
    frame, at, categories = places_on(rows, x, workload, asked.design)
    positions = {} if places is None else {labels(row): k for k, row in enumerate(places[list(keys)].to_numpy(object))}
    values, names = finite_values(frame, at), [*keys, *(["cell"] if "cell" in frame.columns else [])]
    grids, settings, ends = dict[tuple[Any, ...], int](), list[dict[str, Any]](), list[np.ndarray]()
    for _, part in groups(frame, keys):
        means = cell_means(part, at, metric, workload)
        if not len(means.x):  # no usable row
            continue
        ends += means.bars
        theory_x, theory = theory_line(part, at, metric, workload, THEORY_POINTS)
        theory_x, theory = theory_x[np.isfinite(theory)], theory[np.isfinite(theory)]
        good = part[(part["status"] == "ok") & can_be_fitted(part[metric].to_numpy(float))]
        made = curve(means, good[at].to_numpy(float), good[metric].to_numpy(float), good["seed"].to_numpy(), theory)
        # Most closed forms are drawn through the same places, which stand in the file once.
        made["theory"] = [grids.setdefault(written(theory_x.tobytes(), 4), len(grids)), made["theory"]]
        row = next(part[names].itertuples(index=False, name=None))
        setting = {"values": list(row[: len(keys)]), "row": positions.get(labels(row[: len(keys)])), **made}
        settings.append(setting | ({"cell": str(row[-1])} if len(names) > len(keys) else {}))
    numbers = [key for key in keys if is_number(rows, key) and rows[key].nunique() > 1]

    def is_log(values: np.ndarray, name: str) -> bool:
        return bool(log_axis(values, workload.logarithmic(name)))

    return {
        "metric": metric,
        "x": x,
        "log": not categories and bool(len(values)) and is_log(not_zero(values), x),
        "linear_width": asinh_width(np.concatenate(ends)) if ends else 0.0,
        "categories": categories,
        "keys": [
            {"name": key, "number": key in numbers, "log": key in numbers and is_log(finite_values(rows, key), key)}
            for key in keys
        ],
        "grids": [list(grid) for grid in grids],
        "settings": settings,
    }


def labels(values: Sequence[Any]) -> tuple[str, ...]:
    """The values of a setting as text, in which NaN equals NaN."""
    return tuple(number(value, 6) for value in values)


def curve(means: CellMeans, x: np.ndarray, values: np.ndarray, seeds: np.ndarray, theory: np.ndarray) -> dict[str, Any]:
    """The mean, its error bar, every draw and the closed form of one setting. x, values, seeds: of its ok rows."""
    different, row = np.unique(seeds, return_inverse=True)
    draws = np.full((len(different), len(means.x)), np.nan)
    draws[row[::-1], np.searchsorted(means.x, x)[::-1]] = values[::-1]  # of equal rows the first one counts
    low, high = means.bars
    rounded = rounding(np.concatenate([draws.ravel(), low, high]))
    return {
        "x": list(written(means.x.tobytes(), 9)),
        "mean": rounded(means.centre),
        "low": rounded(low),
        "high": rounded(high),
        "median": bool(means.median.any()),
        "seeds": different.tolist(),
        "draws": [rounded(row) for row in draws],
        "theory": rounded(theory),
    }


def rounding(every: np.ndarray) -> Callable[[np.ndarray], list[Any]]:
    """A function that rounds numbers which are drawn on the scale of all these, to plain numbers."""
    top, bottom = float(np.fmax.reduce(every, axis=None)), float(np.fmin.reduce(every, axis=None))
    span = top - bottom or max(abs(top), abs(bottom)) or 1.0
    decimals = min(math.ceil(-math.log10(span / STEPS)), 290)  # more are beyond what floats can be rounded to
    return lambda numbers: [plain_number(value) for value in np.round(numbers, decimals).tolist()]


@lru_cache(maxsize=1024)
def written(packed: bytes, digits: int) -> tuple[Any, ...]:
    """Numbers, as bytes of float64, rounded to significant digits: many curves have the same places."""
    return tuple(plain_number(float(f"{value:.{digits}g}")) for value in np.frombuffer(packed))


def asinh_width(values: np.ndarray) -> float:
    """The width of the linear part of an asinh axis if the values span decades; 0 for a linear axis."""
    sizes = np.abs(values[np.isfinite(values)])
    sizes = sizes[sizes > 0]
    if not len(sizes) or sizes.max() < 12 * np.quantile(sizes, 0.75):
        return 0.0
    return float(np.quantile(sizes, 0.5))


def plain_number(value: Any) -> Any:
    """The number; None if it is not finite; without a point if it is whole, which is shorter."""
    value = float(value)
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 1e15 else value

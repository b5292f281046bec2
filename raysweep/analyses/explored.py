"""What the page lets a reader explore of a finding: every setting's means, draws and closed form, as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.closed_form import closed_form, smooth
from raysweep.analyses.finding import Finding
from raysweep.analyses.question import Question
from raysweep.analyses.rows import CellMeans, cell_means, finite_values, groups, is_number, places_on, with_choice
from raysweep.analyses.series import grid_theory
from raysweep.fits.draws import arranged, log_axis, not_zero
from raysweep.fits.lost_draws import can_be_fitted
from raysweep.numbers import number
from raysweep.space.analyses import metrics_of

if TYPE_CHECKING:
    import pandas as pd

THEORY_POINTS = 41
"""A closed form is drawn through so many places: enough for the eye, few enough for a small file."""
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
    given = (asked.options.get(key) or [] for key in ("length", "over", "y"))
    named = [name for one in given for name in (one if isinstance(one, list) else [one])]
    keys = asked.keys(str(x), *named)
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
    positions, at, categories = places_on(rows, x, workload, asked.design)
    known = {} if places is None else {labels(row): k for k, row in enumerate(places[list(keys)].to_numpy(object))}
    values = finite_values(positions, at)
    curves = [(own, part, cell_means(part, at, metric, workload)) for own, part in groups(positions, list(keys))]
    curves = [(own, part, means) for own, part, means in curves if len(means.x)]
    settings = [
        {
            "values": list(own),
            "row": known.get(labels(own)),
            **curve(part, at, metric, means, asked),
            **({"cell": str(part["cell"].iloc[0])} if "cell" in part.columns else {}),
        }
        for own, part, means in curves
    ]
    grids = list[list[Any]]()  # most closed forms are drawn through the same places, which stand in the file once
    for one in settings:
        grid, line = one["theory"]
        grids += [] if grid in grids else [grid]
        one["theory"] = [grids.index(grid), line]
    ends = [end for _, _, means in curves for end in means.bars]
    numbers = [key for key in keys if is_number(rows, key) and rows[key].nunique() > 1]
    return {
        "metric": metric,
        "x": x,
        "log": not categories and bool(len(values)) and log_axis(not_zero(values), workload.logarithmic(x)),
        "linear_width": asinh_width(np.concatenate(ends)) if ends else 0.0,
        "categories": categories,
        "keys": [
            {"name": key, "number": key in numbers, "log": key in numbers and _is_log(rows, key, asked)} for key in keys
        ],
        "grids": grids,
        "settings": settings,
    }


def _is_log(rows: pd.DataFrame, key: str, asked: Question) -> bool:
    return bool(log_axis(finite_values(rows, key), asked.workload.logarithmic(key)))


def labels(values: Sequence[Any]) -> tuple[str, ...]:
    """The values of a setting as text, by which it is found: NaN equals NaN."""
    return tuple(number(value, 6) for value in values)


def curve(part: pd.DataFrame, at: str, metric: str, means: CellMeans, asked: Question) -> dict[str, Any]:
    """The mean, its error bar, every draw and the closed form of one setting."""
    good = part[(part["status"] == "ok") & can_be_fitted(part[metric].to_numpy(float))]
    first = good if len(good) < 2 else good.drop_duplicates(["seed", at])
    places, values, seeds = arranged(first, at, metric, "seed")
    draws = np.full((len(seeds), len(means.x)), np.nan)
    shown, known = np.isin(means.x, places), np.isin(places, means.x)
    draws[:, shown] = values[:, known]
    theory_x, theory = theory_line(part, at, metric, asked)
    low, high = means.bars
    rounded = rounding(np.concatenate([draws.ravel(), low, high]))
    return {
        "x": [plain_number(float(f"{value:.9g}")) for value in means.x],
        "mean": rounded(means.centre),
        "low": rounded(low),
        "high": rounded(high),
        "median": bool(means.median.any()),
        "seeds": [int(seed) for seed in seeds],
        "draws": [rounded(row) for row in draws],
        "theory": [[plain_number(float(f"{value:.4g}")) for value in theory_x], rounded(theory)],
    }


def rounding(every: np.ndarray) -> Callable[[np.ndarray], list[Any]]:
    """A function that rounds numbers which are drawn on the scale of all these, to plain numbers."""
    span = float(np.nanmax(every) - np.nanmin(every)) or float(np.nanmax(np.abs(every))) or 1.0
    decimals = min(math.ceil(-math.log10(span / STEPS)), 290)  # more are beyond what floats can be rounded to
    return lambda numbers: [plain_number(value) for value in np.round(np.asarray(numbers, float), decimals).tolist()]


def theory_line(part: pd.DataFrame, at: str, metric: str, asked: Question) -> tuple[np.ndarray, np.ndarray]:
    """The closed form of one setting over the axis, where it is finite; empty without one."""
    form = closed_form(part, metric, asked.workload, at)
    if form is None:
        return grid_theory(part, at, metric)
    fine = smooth(part, at, asked.workload, THEORY_POINTS)
    line = form(fine)
    finite = np.isfinite(line)
    return fine[finite], line[finite]


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

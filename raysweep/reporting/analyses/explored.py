"""What the page lets a reader explore of an analysis: every setting's curve, draws, fitted place and next step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.closed_form import closed_form, smooth
from raysweep.analyses.question import Question
from raysweep.analyses.rows import CellMeans, cell_means, finite_values, groups, is_number, places_on, with_choice
from raysweep.analyses.series import grid_theory
from raysweep.fits.draws import arranged, log_axis, not_zero
from raysweep.fits.lost_draws import can_be_fitted
from raysweep.fits.result import Status
from raysweep.numbers import number
from raysweep.report.figures.scales import asinh_width
from raysweep.report.names import axis_label, settings, unit_of
from raysweep.space.analyses import metrics_of

if TYPE_CHECKING:
    import pandas as pd

THEORY_POINTS = 41
"""A closed form is drawn through so many places: enough for the eye, few enough for a small file."""
STEPS = 4000
"""Values are rounded to the range of a curve divided by this number, which no screen resolves."""


def explored(
    asked: Question,
    rows: pd.DataFrame,
    metric: str,
    keys: Sequence[str],
    places: Sequence[Mapping[str, Any]] = (),
    what: str = "",
    along: str | None = None,
) -> dict[str, Any]:
    """A metric over the axis of the question, one curve per setting of the keys, as plain data for JSON.

    rows: all rows of the curves.
    places: for settings with a fit, the values of the keys and: status, estimate, low, high, theory, `lines` (sentences
        for a reader) and `next` (see `narrower`). Empty for curves without fits.
    what: the kind of place, in words. along: the key over which places are drawn first; None for the first number.

    An axis at infinity is None, since JSON has no such number.
    """
    x, workload = asked.x, asked.workload
    positions, at, categories = places_on(rows, x, workload, asked.design)
    parts = list(groups(positions, list(keys)))
    known = {labels([place[key] for key in keys]): place for place in places}
    values = finite_values(positions, at)
    curves = [(own, part, cell_means(part, at, metric, workload)) for own, part in parts]
    curves = [(own, part, means) for own, part, means in curves if len(means.x)]
    ends = [end for _, _, means in curves for end in means.bars]
    order = [along, *keys] if along else keys
    number_keys = [key for key in keys if is_number(rows, key) and rows[key].nunique() > 1]
    over = next((key for key in order if key in number_keys), None)
    made = [
        {
            "said": settings(keys, own, workload),
            "values": list(labels(own)),
            "at": [plain_number(value) if key in number_keys else None for key, value in zip(keys, own, strict=True)],
            **curve(part, at, metric, means, asked),
            **place_of(known.get(labels(own)), part, at),
        }
        for own, part, means in curves
    ]
    grids: list[list[Any]] = []  # most closed forms are drawn through the same places, which stand in the file once
    for one in made:
        grid, line = one["theory"]
        grids += [] if grid in grids else [grid]
        one["theory"] = [grids.index(grid), line]
    return {
        "metric": axis_label(metric, workload),
        "name": metric,
        "x": axis_label(x, workload),
        "axis": x,
        "unit": unit_of(x, workload),
        "log": not categories and bool(len(values)) and log_axis(not_zero(values), workload.logarithmic(x)),
        "width": asinh_width(np.concatenate(ends)) if ends else 0.0,
        "categories": categories,
        "keys": [
            {
                "label": axis_label(key, workload),
                "number": key in number_keys,
                "log": key in number_keys and log_axis(finite_values(rows, key), workload.logarithmic(key)),
            }
            for key in keys
        ],
        "along": list(keys).index(over) if over else -1,
        "what": what,
        "percent": asked.percent,
        "grids": grids,
        "settings": made,
    }


def every_curve(asked: Question) -> list[Callable[[], dict[str, Any]]]:
    """The curves of a section that fits no places: each metric over its axis (lr in a regime), where it has one."""
    x = asked.options.get("lr") or asked.options.get("x")
    if x not in asked.workload.by_name:  # nothing, or a metric
        return []
    over = replace(asked, options={**asked.options, "x": x})
    named = [asked.options[key] for key in ("length", "over", "y") if asked.options.get(key)]
    keys = over.keys(str(x), *named)
    rows = with_choice(asked.rows, str(x), keys)
    return [partial(explored, over, rows, metric, keys) for metric in metrics_of(asked.options)]


def labels(own: Sequence[Any]) -> tuple[str, ...]:
    """The values of a setting as text, by which it is found: NaN equals NaN."""
    return tuple(number(value, 6) for value in own)


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
    """How numbers are rounded that are drawn on the scale of all these, as plain numbers."""
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


def place_of(place: Mapping[str, Any] | None, part: pd.DataFrame, at: str) -> dict[str, Any]:
    """The fitted place of one setting, what is said about it, and its cell: the nearest to the place."""
    if place is None:
        return {}
    located = place["status"] == Status.LOCATED
    ends = [place[name] for name in ("estimate", "low", "high", "theory")]
    out: dict[str, Any] = {
        "place": [plain_number(float(f"{end:.6g}")) for end in ends],
        "located": bool(located),
        "lines": list(place["lines"]),
        "next": place["next"],
    }
    if "cell" in part.columns:
        nearest = int(np.argmin(np.abs(part[at].to_numpy(float) - place["estimate"]))) if located else 0
        out["cell"] = str(part["cell"].iloc[nearest])
    return out


def plain_number(value: Any) -> Any:
    """The number; None if it is not finite; without a point if it is whole, which is shorter."""
    value = float(value)
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 1e15 else value

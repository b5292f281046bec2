"""What the page lets a reader explore of a finding: every setting's means, draws and closed form, as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from raysweep.analyses.closed_form import closed_forms
from raysweep.analyses.finding import Finding
from raysweep.analyses.question import Question
from raysweep.analyses.rows import (
    CellMeans,
    finite_values,
    is_number,
    means_by,
    numbered,
    places_on,
    slices_of,
    with_choice,
)
from raysweep.analyses.series import single_valued
from raysweep.fits.draws import log_axis, not_zero
from raysweep.fits.lost_draws import can_be_fitted
from raysweep.lazy import pd
from raysweep.numbers import number
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

THEORY_POINTS = 41
"""Places through which a closed form is drawn: enough for the eye, few enough for a small file."""
STEPS = 4000
"""Values are rounded to the range of a curve divided by this number, which no screen resolves."""


def explored_of(finding: Finding, asked: Question) -> list[Callable[[], dict[str, Any]]]:
    """The curves of a finding: each metric over the axis (lr in a regime); empty where the axis is no parameter. If the
    finding has a row per curve, its place stands in the curve."""
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
    """A metric over an axis, one curve per setting of the keys, as plain data for JSON. Positions of categories are 0,
    1, …; an axis at infinity is None, since JSON has no such number.

    places: the table of a finding; its row of a setting stands in the curve as `row`, by position.
    """
    workload = asked.workload
    frame, at, categories = places_on(rows, x, workload, asked.design)
    positions = {} if places is None else {labels(row): k for k, row in enumerate(places[list(keys)].to_numpy(object))}
    values = finite_values(frame, at)
    frame, number = numbered(frame, list(keys))
    count, first = len(np.unique(number)), np.unique(number, return_index=True)[1]
    owner, means = means_by(frame, number, at, metric, workload)
    low, high = means.bars
    good = ((frame["status"] == "ok") & can_be_fitted(frame[metric].to_numpy(float))).to_numpy()
    draws = [frame[name].to_numpy(kind)[good] for name, kind in ((at, float), (metric, float), ("seed", None))]
    grids, settings = dict[tuple[Any, ...], int](), list[dict[str, Any]]()
    for row, cells, some, (theory_x, theory) in zip(
        frame[[*keys, "cell"]].iloc[first].itertuples(index=False, name=None),
        slices_of(owner, count),
        slices_of(number[good], count),
        theory_lines(frame, number, at, metric, workload),
        strict=True,
    ):
        if cells.start == cells.stop:  # no usable row
            continue
        at_x, heights, seeds = (each[some] for each in draws)
        made = curve(means.part(cells), at_x, heights, seeds, theory)
        # Most closed forms are drawn through the same places, which stand in the file once.
        made["theory"] = [grids.setdefault(written(theory_x.tobytes(), 4), len(grids)), made["theory"]]
        *where, cell = row
        settings.append({"values": where, "row": positions.get(labels(where)), **made, "cell": str(cell)})
    numbers = [key for key in keys if is_number(rows, key) and rows[key].nunique() > 1]
    logarithmic = {key: log_axis(finite_values(rows, key), workload.logarithmic(key)) for key in numbers}
    return {
        "metric": metric,
        "x": x,
        "log": not categories and len(values) > 0 and bool(log_axis(not_zero(values), workload.logarithmic(x))),
        "linear_width": asinh_width(np.concatenate([low, high])) if len(low) else 0.0,
        "categories": categories,
        "keys": [{"name": key, "number": key in numbers, "log": bool(logarithmic.get(key))} for key in keys],
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


def theory_lines(
    frame: pd.DataFrame, number: np.ndarray, at: str, metric: str, workload: Workload
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The closed form over the axis in each setting, (places, values), where it is finite; empty without one."""
    count, theory = len(np.unique(number)), f"{metric}_theory"
    nothing = [(np.empty(0), np.empty(0))] * count
    lines = closed_forms(frame, number, at, metric, workload, THEORY_POINTS) or nothing
    if theory in frame.columns:
        x, values = (frame[name].to_numpy(float) for name in (at, theory))
        pairs = zip(lines, slices_of(number, count), strict=True)
        lines = [line if len(line[0]) else single_valued(x[part], values[part]) for line, part in pairs]
    return [(x[np.isfinite(line)], line[np.isfinite(line)]) for x, line in lines]


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

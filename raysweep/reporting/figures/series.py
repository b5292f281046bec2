"""The lines that sections draw: the means over one axis with the closed form and the base model beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.result import Status
from raysweep.reporting.analyses.theory_lines import closed_form_curve, smooth
from raysweep.reporting.figures.lines import Series
from raysweep.reporting.figures.style import picked
from raysweep.reporting.selection import CellMeans, cell_means
from raysweep.reporting.words import settings
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def one_series(part: pd.DataFrame, x: str, metric: str, workload: Workload, key: Any, label: str) -> Series | None:
    """The rows of one line, with the closed form on a fine grid; None if no row is usable."""
    means = cell_means(part, x, metric, workload)
    if not len(means.x):
        return None
    curve = closed_form_curve(part, x, metric, workload)
    base = base_means(part, x, metric, workload)
    if curve is None:  # along zipped axes only the grid itself has a closed form
        return Series(key, label, means, *grid_theory(part, x, metric), base=base)
    at = smooth(part, x, workload, 241)
    known = curve(at)
    if not np.isfinite(known).any():  # a formula without a value here is no closed form of this line
        at = known = np.empty(0)
    at_infinity = float(curve(np.array([np.inf]))[0]) if np.isinf(means.x).any() else np.nan
    return Series(key, label, means, at, known, theory_at_infinity=at_infinity, base=base)


def with_theory(panels: list[tuple[str, list[Series]]]) -> bool:
    """Whether a closed form is drawn in some panel, so that words about it have something to be about."""
    lines = [line for _, lines in panels for line in lines]
    return any(len(line.theory) or np.isfinite(line.theory_at_infinity) for line in lines)


def panels_of(
    rows_of: list[tuple[Any, pd.DataFrame]],
    whole: pd.DataFrame,
    keys: list[str],
    x: str,
    metric: str,
    workload: Workload,
) -> list[tuple[str, list[Series]]]:
    """Lines by the first key, panels by the rest, with the fitted places marked."""
    panels: dict[Any, list[Series]] = {}
    for (values, rows), row in zip(rows_of, whole.to_dict("records"), strict=True):
        one = one_series(
            rows, x, metric, workload, values[0] if values else "", settings(keys[:1], values[:1], workload)
        )
        if one is None:
            continue
        if row["status"] == Status.LOCATED:
            one = replace(one, marks=[(row["estimate"], row["low"], row["high"], row["theory"])])
        panels.setdefault(tuple(values[1:]), []).append(one)
    names = list(panels)
    return [
        (settings(keys[1:], names[k], workload), [panels[names[k]][j] for j in picked(len(panels[names[k]]), 8)])
        for k in picked(len(names), 9)
    ]


def base_metric(metric: str, workload: Workload) -> str:
    """What METRIC_after was for the base model, before anything was done to it: METRIC; empty if there is none."""
    before = metric.removesuffix("_after")
    return before if before != metric and any(before == known.name for known in workload.metrics) else ""


def base_means(part: pd.DataFrame, x: str, metric: str, workload: Workload) -> CellMeans | None:
    """The base model's own metric over x."""
    before = base_metric(metric, workload)
    if not before or before not in part.columns:
        return None
    means = cell_means(part, x, before, workload)
    return means if len(means.x) else None


def grid_theory(part: pd.DataFrame, x: str, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows' own closed form at each finite x; empty without one, or if it is not one number there."""
    theory = f"{metric}_theory"
    if theory not in part.columns:
        return np.empty(0), np.empty(0)
    known = part[np.isfinite(part[x].astype(float)) & np.isfinite(part[theory].astype(float))]
    by_x = known.groupby(x)[theory]
    if not len(known) or (by_x.nunique() > 1).any():
        return np.empty(0), np.empty(0)
    return by_x.first().index.to_numpy(float), by_x.first().to_numpy(float)

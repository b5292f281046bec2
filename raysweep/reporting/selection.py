"""Which rows of a results table belong together: groups, slices, and the settings the closed form needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from raysweep.fits.statistics import standard_error
from raysweep.reporting.design import NOTHING_DECLARED, Design
from raysweep.reporting.words import number
from raysweep.workloads.declaration import Workload, column

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

PLACE = "_place"  # the column of a category's place; no parameter's name begins with an underscore


def parameters_of(frame: pd.DataFrame, workload: Workload) -> list[str]:
    """The workload's parameters that are columns of the frame."""
    return [parameter.name for parameter in workload.parameters if parameter.name in frame.columns]


def better_extremum(metric: str, workload: Workload, otherwise: str = "min") -> str:
    """Which extreme of a metric is its best: max if it is to be maximized, min if minimized, else `otherwise`."""
    direction = next(known.direction for known in workload.metrics if known.name == metric)
    return {"maximize": "max", "minimize": "min"}.get(direction, otherwise)


def all_keys(
    frame: pd.DataFrame, workload: Workload, x: str | None, keys: list[str], design: Design = NOTHING_DECLARED
) -> list[str]:
    """`keys`, and every other parameter that varies on its own: rows that differ in it must not be averaged, nor
    joined to one curve. Only a parameter that the design says moves with x and the keys is none."""
    chosen = list(keys)
    names, between = parameters_of(frame, workload), design.between()
    for name in sorted(names, key=lambda name: name not in between):  # these tell sweeps apart, whatever else they zip
        if name == x or name in chosen or frame[name].nunique(dropna=False) < 2:
            continue
        if not design.follows(name, [*chosen, *([x] if x else [])]):
            chosen.append(name)
    return chosen


def groups(frame: pd.DataFrame, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """(values of the keys, rows) in sorted order; one group of everything if there are no keys."""
    if not keys:
        yield (), frame
        return
    yield from frame.groupby(keys, sort=True, dropna=False)


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` of the items, spread evenly, ends included."""
    if len(items) <= most:
        return list(items)
    return [items[k] for k in sorted({round(k * (len(items) - 1) / (most - 1)) for k in range(most)})]


def finite_values(frame: pd.DataFrame, name: str) -> np.ndarray:
    """The different finite numbers in a column, sorted."""
    values = np.sort(frame[name].unique().astype(float))
    return values[np.isfinite(values)]


def with_choice(frame: pd.DataFrame, x: str, keys: list[str]) -> pd.DataFrame:
    """The rows of settings in which x takes more than one value; all rows if there is no such setting. Cells that are
    only perturbed have a rate as a parameter, and no choice of it."""
    if not keys:
        return frame
    chosen = frame[frame.groupby(keys, dropna=False)[x].transform("nunique") > 1]
    return chosen if len(chosen) else frame


def places_on(
    frame: pd.DataFrame, x: str, workload: Workload, design: Design = NOTHING_DECLARED
) -> tuple[pd.DataFrame, str, list[str]]:
    """(rows, the column that says where they stand along x, the categories there are). Numbers stand at themselves,
    and are no categories; words, true and false stand side by side in the order of the axis."""
    if not workload.by_name[x].categorical:
        return frame, x, []
    there = list(dict.fromkeys(frame[x]))
    order = [value for value in design.values(x) if value in there] or there
    order += [value for value in there if value not in order]
    places = {value: float(place) for place, value in enumerate(order)}
    return frame.assign(**{PLACE: frame[x].map(places).astype(float)}), PLACE, [number(value) for value in order]


@dataclass(frozen=True)
class CellMeans:
    """One metric over one axis: centre with its interval's ends; `median` where draws have no variance."""

    x: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    median: np.ndarray


def cell_means(part: pd.DataFrame, x: str, metric: str, workload: Workload) -> CellMeans:
    """Mean ± standard error at each x over the ok rows; where draws have no variance the median, and the order
    statistics that are one standard error of its rank away (for figures, not a test)."""
    good = part[(part["status"] == "ok") & np.isfinite(part[metric].astype(float))]
    places = good[x].to_numpy(float)
    order = np.argsort(places, kind="stable")  # once, not a look at every row for every x
    xs, starts = np.unique(places[order], return_index=True)
    table = np.split(good[metric].to_numpy(float)[order], starts)[1:]
    heavy = heavy_rows(good, metric, workload)[order]
    flags = np.array([part.any() for part in np.split(heavy, starts)[1:]], dtype=bool)
    centre, low, high = [], [], []
    for values, is_heavy in zip(table, flags, strict=True):
        if is_heavy:
            step = 0.5 / np.sqrt(len(values))
            below, middle, above = np.quantile(values, [max(0.5 - step, 0), 0.5, min(0.5 + step, 1)])
        else:
            mean, error, _ = standard_error(values[:, None])
            middle, half = mean[0], np.nan_to_num(error[0])
            below, above = middle - half, middle + half
        centre.append(middle)
        low.append(below)
        high.append(above)
    return CellMeans(xs, np.array(centre), np.array(low), np.array(high), flags)


def heavy_rows(frame: pd.DataFrame, metric: str, workload: Workload) -> np.ndarray:
    """For each row, whether the workload says that draws of its cell have no variance."""
    if workload.heavy_tailed is None or not len(frame):
        return np.zeros(len(frame), dtype=bool)
    return np.asarray(workload.heavy_tailed(metric, columns_of(frame, workload)), dtype=bool)


def columns_of(frame: pd.DataFrame, workload: Workload) -> dict[str, np.ndarray]:
    """The parameters of the rows as the workload's functions take them."""
    out = {}
    for parameter in workload.parameters:
        if parameter.name in frame.columns:
            out[parameter.name] = column(parameter, frame[parameter.name].tolist())
        else:
            out[parameter.name] = column(parameter, [parameter.default] * len(frame))
    return out


def is_exact(frame: pd.DataFrame, metric: str) -> bool:
    """Whether the rows are the closed form itself, without noise."""
    theory = f"{metric}_theory"
    if theory not in frame.columns or not len(frame):
        return False
    value, known = frame[metric].to_numpy(float), frame[theory].to_numpy(float)
    both = np.isfinite(value) & np.isfinite(known)
    return bool(both.any() and np.allclose(value[both], known[both], rtol=1e-12, atol=1e-300))


def is_number(frame: pd.DataFrame, name: str) -> bool:
    """Whether a column holds numbers and not words."""
    return frame[name].dtype.kind in "if"


def means_table(frame: pd.DataFrame, keys: list[str], metric: str, workload: Workload) -> pd.DataFrame:
    """Mean, standard error, median, number of draws and closed form of every cell, and whether its draws are known to
    have no variance (then only the median means something)."""
    import pandas as pd

    good = frame[(frame["status"] == "ok") & np.isfinite(frame[metric].astype(float))]
    names = [*keys, "mean", "standard_error", "median", "draws", "no_variance"]
    if not len(good):
        return pd.DataFrame(columns=names)
    good = good.assign(no_variance=heavy_rows(good, metric, workload))
    grouped = good.groupby(keys, dropna=False)
    table = grouped[metric].agg(mean="mean", standard_error="sem", median="median", draws="count").reset_index()
    table["no_variance"] = grouped["no_variance"].any().to_numpy()
    if f"{metric}_theory" in good.columns:
        table["theory"] = grouped[f"{metric}_theory"].first().to_numpy()
    return table

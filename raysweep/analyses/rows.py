"""Select and group rows of a results table: groups, slices, cell means, and the parameters for the closed form."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from raysweep.analyses.design import NOTHING_DECLARED, Design
from raysweep.fits.draws import in_log
from raysweep.fits.lost_draws import losses_of
from raysweep.fits.statistics import LEVEL, half_width, normal_quantile, sign_test_limit
from raysweep.lazy import pd
from raysweep.numbers import number
from raysweep.workloads.declaration import Workload, column

T = TypeVar("T")
Where = Mapping[str, Any]
"""What distinguishes some rows, a line or a panel from the others: the values of axes."""
Part = tuple[Where, "pd.DataFrame"]
"""(values of the keys, rows with these values)."""

ERROR = "_standard_error"
"""What follows the name of a metric in the name of the column of its given standard errors."""
ROW = 3  # panels stand in rows of at most three
MEANS = ("mean", "standard_error", "median", "draws", "computed", "no_variance", "theory")
"""The columns of `means_table` after the keys."""
PLACE = "_place"  # the column for the position of a category; no parameter name begins with an underscore


def parameters_of(frame: pd.DataFrame, workload: Workload) -> list[str]:
    """The workload's parameters that are columns of the frame."""
    return [parameter.name for parameter in workload.parameters if parameter.name in frame.columns]


def better_extremum(metric: str, workload: Workload) -> str:
    """The extremum that is best for a metric: max if its direction is maximize, else min."""
    return "max" if any(one.direction == "maximize" for one in workload.metrics if one.name == metric) else "min"


def error_column(frame: pd.DataFrame, metric: str, workload: Workload) -> str | None:
    """The column of the given standard errors of a metric, if all ok rows have one: METRIC_standard_error, which no
    workload measures; or the one that the workload declares, where each cell has one draw."""
    declared = next((one.error for one in workload.metrics if one.name == metric), "")
    if declared in frame.columns and not frame.duplicated(frame.columns.intersection(["sweep", "cell"])).any():
        return declared
    name = f"{metric}{ERROR}"
    if name not in frame.columns or name in workload.metric_names():
        return None
    return name if frame.loc[frame["status"] == "ok", name].notna().all() else None  # one of two tables may have none


def without_zero_errors(frame: pd.DataFrame, metric: str, workload: Workload) -> pd.DataFrame:
    """The rows with the smallest other standard error of the metric instead of 0, which is what an accuracy of 0 or 1
    is given; without errors if all are 0."""
    column = error_column(frame, metric, workload)
    if column is None or not (zero := frame[column].astype(float) == 0).any():
        return frame
    if zero.all():
        return frame.drop(columns=column)
    errors = frame[column].astype(float)
    return frame.assign(**{column: errors.mask(zero, errors[~zero].min())})


def signs_of(metric: str, workload: Workload) -> tuple[str, str]:
    """What positive and negative values of a metric mean; empty if they mean nothing in particular."""
    return next(((each.positive, each.negative) for each in workload.metrics if each.name == metric), ("", ""))


def bounds_of(metric: str, workload: Workload) -> tuple[float, float]:
    """Between which values a metric lies, and with it any mean of it."""
    return (0.0, 1.0) if any(each.share for each in workload.metrics if each.name == metric) else (-np.inf, np.inf)


def all_keys(
    frame: pd.DataFrame, workload: Workload, x: str | None, keys: list[str], design: Design = NOTHING_DECLARED
) -> list[str]:
    """`keys` and all other parameters that vary, so that no rows that differ in one are averaged or joined to one curve
    over x; except those that x and the keys determine by the design (`Design.follows`)."""
    chosen, names, between = list(keys), parameters_of(frame, workload), design.between()
    for name in sorted(names, key=lambda name: name not in between):  # first the ones that differ between sweeps
        if name == x or name in chosen or frame[name].nunique(dropna=False) < 2:
            continue
        if not design.follows(name, [*chosen, *([x] if x else [])]):
            chosen.append(name)
    return chosen


def groups(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[Part]:
    """The rows of each setting of the keys, in sorted order; one group of everything if there are no keys."""
    if not keys:
        yield {}, frame
        return
    for values, rows in frame.groupby(list(keys), sort=True, dropna=False):
        yield dict(zip(keys, values, strict=True)), rows


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most `most` of the items, evenly spaced, including the first and the last; of one, the middle."""
    if len(items) <= most:
        return list(items)
    if most == 1:
        return [items[len(items) // 2]]
    return [items[k] for k in sorted({round(k * (len(items) - 1) / (most - 1)) for k in range(most)})]


def in_order(value: Any) -> tuple[bool, Any]:
    """The key to sort the values of an axis by: numbers before words, and words by the numbers in them: 70m, 160m."""
    if not isinstance(value, str):
        return False, value
    return True, [(int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", value)]


def comparable(settings: Sequence[tuple[Any, ...]], most: int, located: Collection[int] = ()) -> list[int]:
    """The places of at most `most` of the settings, chosen so that they can be compared: a few values of each axis
    (the first, the last and some between; of the last of several axes at most `ROW`), and all their combinations that
    are there. If most of these are not there (axes that move together, a search), the settings are evenly spaced.

    settings: the values of the axes, without repeats. located: the places of the settings in which something was
        located; values of an axis at which nothing was are left out first; without any, all settings count.
    """
    every = list(range(len(settings)))
    if len(every) <= most:
        return every
    good = [k for k in every if k in located] if located else every
    axes = [sorted({settings[k][axis] for k in good}, key=in_order) for axis in range(len(settings[0]))]
    counts = [len(values) for values in axes]
    if len(axes) > 1:
        counts[-1] = min(counts[-1], ROW)
    while math.prod(counts) > most:
        counts[counts.index(max(counts))] -= 1
    kept = [set(spread(values, count)) for values, count in zip(axes, counts, strict=True)]
    chosen = [k for k in every if all(value in few for value, few in zip(settings[k], kept, strict=True))]
    return chosen if 2 * len(chosen) >= math.prod(counts) else spread(good, most)


def finite(values: np.ndarray) -> np.ndarray:
    """The finite ones of some numbers, sorted, without repeats."""
    return np.unique(values[np.isfinite(values)])


def finite_values(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Those of a column."""
    return finite(frame[name].unique().astype(float))


def edges_of(frame: pd.DataFrame, name: str) -> tuple[float, float]:
    """The smallest and the largest finite number in a column; NaN without one."""
    values = finite_values(frame, name)
    return (float(values[0]), float(values[-1])) if len(values) else (np.nan, np.nan)


def with_choice(frame: pd.DataFrame, x: str, keys: list[str]) -> pd.DataFrame:
    """The rows of the settings in which x has more than one value; all rows if there is no such setting."""
    if not keys:
        return frame
    chosen = frame[frame.groupby(keys, dropna=False)[x].transform("nunique") > 1]
    return chosen if len(chosen) else frame


def places_on(
    frame: pd.DataFrame, x: str, workload: Workload, design: Design = NOTHING_DECLARED
) -> tuple[pd.DataFrame, str, list[str]]:
    """(rows, the column with their positions along x, the names of the categories). A number is its own position, and
    there are no categories. Words and booleans get the positions 0, 1, ... in the order of the axis."""
    if not workload.by_name[x].categorical:
        return frame, x, []
    there = list(dict.fromkeys(frame[x]))
    order = [value for value in design.values(x) if value in there] or there
    order += [value for value in there if value not in order]
    places = {value: float(place) for place, value in enumerate(order)}
    return frame.assign(**{PLACE: frame[x].map(places).astype(float)}), PLACE, [number(value) for value in order]


@dataclass(frozen=True)
class CellMeans:
    """One metric over one axis, one entry per x.

    centre: the mean over draws, or where `median`, because draws have no variance, the median.
    low, high: the ends of its interval; centre for a single draw, infinite if there are too few draws for a median's.
    given_errors: whether intervals are those of given standard errors.
    """

    x: np.ndarray
    centre: np.ndarray
    low: np.ndarray
    high: np.ndarray
    median: np.ndarray
    given_errors: bool = False

    @property
    def bars(self) -> tuple[np.ndarray, np.ndarray]:
        """The ends of the error bars: the interval where it is finite, else nothing."""
        low, high = (np.where(np.isfinite(end), end, self.centre) for end in (self.low, self.high))
        return low, high

    def part(self, some: slice | np.ndarray) -> CellMeans:
        """Some of the entries."""
        return replace(self, **{name: getattr(self, name)[some] for name in ("x", "centre", "low", "high", "median")})


def plain_means(x: np.ndarray, centre: np.ndarray, low: np.ndarray, high: np.ndarray) -> CellMeans:
    """Values with intervals, none of them a median."""
    return CellMeans(x, centre, low, high, np.zeros(len(x), dtype=bool))


def cell_means(part: pd.DataFrame, x: str, metric: str, workload: Workload, level: float = LEVEL) -> CellMeans:
    """The mean of the ok rows at each x, with Student's t interval over draws, that of a share cut at 0 and 1; the
    interval of given standard errors if there is one draw everywhere; if draws have no variance, the median and the
    order statistics at which a sign test rejects it."""
    return means_by(part, np.zeros(len(part), dtype=int), x, metric, workload, level)[1]


def means_by(
    frame: pd.DataFrame, number: np.ndarray, x: str, metric: str, workload: Workload, level: float = LEVEL
) -> tuple[np.ndarray, CellMeans]:
    """`cell_means` of many settings at once: (the number of the setting of each cell, all cells, sorted by it and then
    by x). number: that of the setting of each row."""
    usable = (frame["status"] == "ok").to_numpy() & np.isfinite(frame[metric].to_numpy(float))
    good, values = frame[usable], frame[metric].to_numpy(float)[usable]
    xs, column = np.unique(good[x].to_numpy(float), return_inverse=True)
    cells, cell, draws = np.unique(number[usable] * max(len(xs), 1) + column, return_inverse=True, return_counts=True)
    centre = np.bincount(cell, values, len(cells)) / draws
    square = np.bincount(cell, (values - centre[cell]) ** 2, len(cells))
    error = np.sqrt(square / np.maximum(draws - 1, 1) / draws)
    half = np.where(draws > 1, half_width(level, error, np.maximum(draws, 2)), 0.0)
    errors = error_column(frame, metric, workload)
    given_errors = bool(errors) and len(draws) > 0 and int(draws.max()) == 1
    if given_errors:
        half = normal_quantile(level) * np.bincount(cell, good[errors].to_numpy(float), len(cells))
    bounds = bounds_of(metric, workload)
    low, high = np.clip(centre - half, *bounds), np.clip(centre + half, *bounds)
    heavy = np.bincount(cell, heavy_rows(good, metric, workload), len(cells)) > 0
    for k in np.flatnonzero(heavy):
        ordered, limit = np.sort(values[cell == k]), sign_test_limit(level, draws[k])
        centre[k] = np.median(ordered)
        low[k], high[k] = (ordered[limit], ordered[-1 - limit]) if limit >= 0 else (-np.inf, np.inf)
    owner, place = np.divmod(cells, max(len(xs), 1))
    return owner, CellMeans(xs[place], centre, low, high, heavy, given_errors)


def numbered(frame: pd.DataFrame, keys: list[str]) -> tuple[pd.DataFrame, np.ndarray]:
    """(the rows, sorted by their setting of the keys, the number of the setting of each row), as `groups` has them."""
    if not keys:
        return frame, np.zeros(len(frame), dtype=int)
    number = frame.groupby(keys, sort=True, dropna=False).ngroup().to_numpy()
    order = np.argsort(number, kind="stable")
    return frame.iloc[order], number[order]


def slices_of(number: np.ndarray, count: int) -> list[slice]:
    """Where each of `count` settings stands. number: of the setting of each row, sorted."""
    return [slice(*edges) for edges in pairwise(np.searchsorted(number, np.arange(count + 1)).tolist())]


def interval(table: pd.DataFrame, bounds: tuple[float, float], level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """(low, high) of Student's t intervals of a table with mean, standard_error and draws, NaN for a single draw.
    bounds: of the metric, see `bounds_of`."""
    mean, error = (table[name].to_numpy(float) for name in ("mean", "standard_error"))
    half = half_width(level, error, table["draws"].to_numpy())
    return np.clip(mean - half, *bounds), np.clip(mean + half, *bounds)


def heavy_rows(frame: pd.DataFrame, metric: str, workload: Workload) -> np.ndarray:
    """Whether the workload says that draws of the cell have no variance, for each row."""
    if workload.heavy_tailed is None or not len(frame):
        return np.zeros(len(frame), dtype=bool)
    return np.asarray(workload.heavy_tailed(metric, columns_of(frame, workload)), dtype=bool)


def columns_of(frame: pd.DataFrame, workload: Workload) -> dict[str, np.ndarray]:
    """The parameters of the rows, in the form that the functions of the workload expect."""
    return {
        one.name: column(one, frame[one.name].tolist() if one.name in frame.columns else [one.default] * len(frame))
        for one in workload.parameters
    }


def is_exact(frame: pd.DataFrame, metric: str) -> bool:
    """Whether the metric equals its closed form in all rows, up to rounding, so that there is no noise."""
    theory = f"{metric}_theory"
    if theory not in frame.columns or not len(frame):
        return False
    value, expected = frame[metric].to_numpy(float), frame[theory].to_numpy(float)
    both = np.isfinite(value) & np.isfinite(expected)
    return bool(both.any() and np.allclose(value[both], expected[both], rtol=1e-12, atol=1e-300))


def is_logarithmic(frame: pd.DataFrame, axis: str, workload: Workload) -> bool:
    """Whether best values of an axis are sought in log: as declared, else as `in_log` chooses."""
    declared = workload.logarithmic(axis)
    return in_log(frame[axis].to_numpy(float)) if declared is None else declared


def zero_may_be_best(frame: pd.DataFrame, x: str, metric: str, keys: Sequence[str], turn: str) -> bool:
    """Whether the metric at x = 0 is no worse than the median over its other values in some setting of the keys. A
    surface in log leaves a 0 out, and says nothing of it."""
    means = frame[frame["status"] == "ok"].groupby([*keys, x], dropna=False)[metric].mean().dropna()
    parts = [part for _, part in groups((means * (-1 if turn == "max" else 1)).reset_index(), keys)]
    return any((part.loc[part[x] == 0, metric] <= part.loc[part[x] != 0, metric].median()).any() for part in parts)


def varying(keys: Sequence[str], table: pd.DataFrame) -> list[str]:
    """The keys that have more than one value in a table."""
    return [key for key in keys if table[key].nunique(dropna=False) > 1]


def is_number(frame: pd.DataFrame, name: str) -> bool:
    """Whether a column has a numeric type."""
    return frame[name].dtype.kind in "if"


def means_table(frame: pd.DataFrame, keys: list[str], metric: str, workload: Workload) -> pd.DataFrame:
    """One row per cell: mean, standard error, median, number of draws, no_variance and, if there is one, closed form.

    draws: how many are ok and have a value. computed: how many there are, with those that are not ok.
    no_variance: whether the workload says that draws have no variance. Then only the median is meaningful.
    """
    good = frame[(frame["status"] == "ok") & np.isfinite(frame[metric].astype(float))]
    if not len(good):
        return pd.DataFrame(columns=[*keys, *MEANS[:-1]])
    good = good.assign(_heavy=heavy_rows(good, metric, workload))
    grouped = good.groupby(keys, dropna=False)
    table = grouped[metric].agg(mean="mean", standard_error="sem", median="median", draws="count").reset_index()
    computed = frame[~np.isnan(losses_of(frame, metric))].groupby(keys, dropna=False).size()
    table = table.merge(computed.rename("computed").reset_index(), on=keys)
    table["no_variance"] = grouped["_heavy"].any().to_numpy()
    if f"{metric}_theory" in good.columns:
        table["theory"] = grouped[f"{metric}_theory"].first().to_numpy()
    return table

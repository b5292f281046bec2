"""Compare fitted places with the closed form of the workload, whose curves, zeros and extrema are computed from the
formula, not from its values on the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from raysweep.analyses.rows import columns_of, finite, finite_values, parameters_of
from raysweep.fits.comparison import ROUNDING
from raysweep.fits.crossing import lagrange
from raysweep.fits.draws import log_axis, not_zero, usable
from raysweep.fits.result import Status, without_chance
from raysweep.fits.statistics import normal_quantile
from raysweep.lazy import pd
from raysweep.theory.roots import Curve, extremum, zeros
from raysweep.workloads.declaration import Workload, column


def closed_form(part: pd.DataFrame, metric: str, workload: Workload, *free: str) -> Curve | None:
    """The closed form of the metric as a function of the parameters `free`, an array for each, all of the same length;
    others have their values in `part`. None if the workload or the metric has no closed form, if a name in `free` is
    not a parameter, or if another parameter varies within `part`."""
    form = workload.closed_form
    if form is None or not len(part) or not workload.by_name.keys() >= set(free):  # e.g. positions of categories
        return None
    if any(part[name].nunique(dropna=False) > 1 for name in parameters_of(part, workload) if name not in free):
        return None
    base = columns_of(part.iloc[:1], workload)
    if metric not in form(base):
        return None

    def curve(*places: np.ndarray) -> np.ndarray:
        columns = {name: np.repeat(values, len(places[0])) for name, values in base.items()}
        columns |= {name: column(workload.by_name[name], list(at)) for name, at in zip(free, places, strict=True)}
        return np.asarray(form(columns)[metric], dtype=np.float64)

    return curve


def closed_forms(
    frame: pd.DataFrame, number: np.ndarray, x: str, metric: str, workload: Workload, count: int
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """The closed form of the metric over x in many settings at once: (finely spaced places, values) of each, empty in a
    setting within which another parameter varies; None where `closed_form` is None for all. number: of the setting of
    each row, sorted, 0, 1, ... count: of places, see `fine`."""
    form, (_, first) = workload.closed_form, np.unique(number, return_index=True)
    if form is None or x not in workload.by_name or not len(frame):
        return None
    base = columns_of(frame.iloc[first], workload)
    if metric not in form({name: values[:1] for name, values in base.items()}):
        return None
    single = np.ones(len(first), dtype=bool)
    for name in parameters_of(frame, workload):
        if name != x and frame[name].nunique(dropna=False) > 1:
            single &= (frame.groupby(number)[name].nunique(dropna=False) == 1).to_numpy()
    every = np.split(frame[x].to_numpy(float), first[1:])
    places = [
        fine(finite(values), x, workload, count) if k else np.empty(0) for values, k in zip(every, single, strict=True)
    ]
    lengths = [len(at) for at in places]
    columns = {name: np.repeat(values, lengths) for name, values in base.items()}
    columns[x] = column(workload.by_name[x], np.concatenate(places).tolist())
    values = np.asarray(form(columns)[metric], dtype=np.float64)
    return list(zip(places, np.split(values, np.cumsum(lengths)[:-1]), strict=True))


def fine(values: np.ndarray, name: str, workload: Workload, count: int) -> np.ndarray:
    """So many values over the range of the sorted values of an axis; these if only whole numbers are valid on it."""
    parameter = workload.by_name[name]
    if parameter.type is int or parameter.whole or len(values) < 2:
        return values
    if log_axis(not_zero(values), workload.logarithmic(name)):
        return np.geomspace(not_zero(values)[0], values[-1], count)
    return np.linspace(values[0], values[-1], count)


def zero_line(
    part: pd.DataFrame, x: str, y: str | None, metric: str, workload: Workload, at: np.ndarray, samples: int = 241
) -> list[np.ndarray]:
    """The zeros of the closed form in x, one array for each value of y in `at` (one array if y is None); empty ones if
    there is no closed form or if it depends on more than x and y within `part`. Two zeros between neighbouring ones of
    the samples in x are not seen."""
    count = len(at) if y else 1
    curve = closed_form(part, metric, workload, x, *([y] if y else []))
    values = finite_values(part, x)
    if curve is None or not len(values):  # a sweep may have no finite x
        return [np.empty(0)] * count

    def surface(place: np.ndarray, row: np.ndarray) -> np.ndarray:
        return curve(place, np.asarray(at)[row]) if y else curve(place)

    return zeros(surface, values[0], values[-1], log_axis(values, workload.logarithmic(x)), count, samples)


def extrema(rows: pd.DataFrame, x: str, metric: str, workload: Workload, turn: str) -> np.ndarray:
    """The extremum of the closed form within the finite range of x, shape (1,); an empty array if there is none."""
    curve, values = closed_form(rows, metric, workload, x), finite_values(rows, x)
    log = log_axis(not_zero(values), workload.logarithmic(x))
    values = not_zero(values) if log else values
    if curve is None or len(values) < 2:
        return np.empty(0)
    place = extremum(curve, values[0], values[-1], turn, log)
    return np.array([place]) if np.isfinite(place) else np.empty(0)


def distances(table: pd.DataFrame, expected: Sequence[float] | np.ndarray, level: float) -> np.ndarray:
    """z of each row: (estimate - expected) in units of the error on that side of the estimate; NaN if one is not known.
    |z| exceeds the normal quantile of the level exactly if the interval does not contain the expected place."""
    estimate, low, high = table[["estimate", "low", "high"]].to_numpy(float).T
    place = np.asarray(expected, dtype=float)
    apart = estimate - place
    half = np.where(place < estimate, estimate - low, high - estimate)
    equal = np.abs(apart) <= 1e-6 * np.maximum(np.abs(place), 1e-12)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(half > 0, normal_quantile(level) * apart / half, np.where(equal, 0.0, np.inf))
    return np.where(np.isfinite(apart), z, np.nan)


def add_theory(table: pd.DataFrame, expected: Sequence[np.ndarray], level: float) -> pd.DataFrame:
    """Add the columns `theory` and `z` (see `distances`) to a table of fitted places.

    theory: the place of the closed form nearest to the estimate; its only one also without an estimate.
    z: NaN if the curve has no noise, because its interval is then the spread of the interpolations and not an error.
    """
    places = []
    for estimate, roots in zip(table["estimate"], expected, strict=True):
        known = len(roots) and (len(roots) == 1 or np.isfinite(estimate))
        places.append(float(min(roots, key=lambda root: abs(root - estimate))) if known else np.nan)
    z = np.where(without_chance(table), np.nan, distances(table, places, level))
    return table.assign(theory=places, z=z)


def add_lines(table: pd.DataFrame, lines: Mapping[str, float], level: float) -> pd.DataFrame:
    """Add for each reference line the columns `z NAME` (distance to the line) and `excluded NAME` to the table."""
    for name, value in lines.items():
        outside = ((value < table["low"]) | (value > table["high"])) & can_say(table)
        z = distances(table, np.full(len(table), value), level)
        table = table.assign(**{f"z {name}": z, f"excluded {name}": outside})
    return table


def can_say(table: pd.DataFrame) -> np.ndarray:
    """Whether each slice can be compared with the closed form: located or censored, and a fit of the mean."""
    of_mean = table["scale"] != "sign" if "scale" in table else True
    return (table["status"].isin([Status.LOCATED, Status.CENSORED_LOW, Status.CENSORED_HIGH]) & of_mean).to_numpy()


def displacements(rows: pd.DataFrame, table: pd.DataFrame, x: str, y: str | None, metric: str) -> pd.DataFrame:
    """The distance of each draw's zero from the zero of the closed form, to first order: the value of the draw there,
    divided by the slope of the mean. One column per slice that is located, is a fit of the mean and has a closed form,
    but those in which every draw has the closed form's zero up to rounding: their scatter is rounding too."""
    good, _ = usable(rows, metric, [x, "seed"])
    columns = []
    for row in table.to_dict("records"):
        if row["status"] != Status.LOCATED or row["scale"] == "sign" or not np.isfinite(row["theory"]):
            continue
        part = good[good[y] == row[y]] if y else good
        wide = part.pivot_table(index="seed", columns=x, values=metric, aggfunc="mean")
        draws = wide.notna().sum()
        at = draws.index[2 * draws >= draws.max()].to_numpy(float)  # with a precision, cells have unequal draws
        first = int(np.clip(np.searchsorted(at, row["theory"]) - 2, 0, max(len(at) - 4, 0)))
        at = at[first : first + 4]  # around the zero
        wide = wide[at.tolist()].dropna()
        if len(at) < 2 or len(wide) < 2:
            continue
        step = 0.01 * float(np.diff(at).min())
        weights = lagrange(at, row["theory"] + step * np.array([-1.0, 0.0, 1.0]))
        values = wide.to_numpy(float) @ weights.T
        slope = float((values[:, 2] - values[:, 0]).mean()) / (2 * step)
        distance = -values[:, 1] / slope if slope else np.full(len(wide), np.nan)
        if not (np.abs(distance) <= ROUNDING * (at[-1] - at[0])).all():
            columns.append(pd.Series(distance, index=wide.index))
    return pd.concat(columns, axis=1) if columns else pd.DataFrame(index=sorted(good["seed"].unique()))

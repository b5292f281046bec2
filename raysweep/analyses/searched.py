"""The axes of a search: their scales, where they are inactive, and what share of the variance each carries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.analyses.design import Design
from raysweep.analyses.explored import asinh_width
from raysweep.analyses.rows import in_order, spread
from raysweep.fits.draws import log_axis
from raysweep.lazy import pd
from raysweep.workloads.declaration import Workload

LISTED = 12
"""More numbers than these are read as a range."""
TICKS = 4
FEWEST, MOST = 12, 300
"""A forest learns nothing from fewer configurations; of more, so many are taken, evenly by their rank."""
TREES = 64


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of a search. values: those of a list, in order; empty for a range from low to high. whole: whether all
    values of the range are whole numbers."""

    name: str
    values: Sequence[Any]
    low: float = math.nan
    high: float = math.nan
    log: bool = False
    whole: bool = False

    def places(self, column: Sequence[Any]) -> np.ndarray:
        """The position of each value, from 0 to 1: on the scale of a range, in equal steps of a list; NaN without."""
        if self.values:
            positions = {value: (place + 0.5) / len(self.values) for place, value in enumerate(self.values)}
            return np.array([positions.get(value, math.nan) for value in column], dtype=float)
        form = np.log if self.log else np.asarray
        numbers = np.array([math.nan if value is None else value for value in column], dtype=float)
        low, high = float(form(self.low)), float(form(self.high))
        return np.asarray((form(numbers) - low) / (high - low))

    def ticks(self) -> list[tuple[float, Any]]:
        """(position, value) of a few values, with both ends of a range."""
        if self.values:
            shown = list(spread(self.values, LISTED))
        else:
            inner = round_numbers(self.low, self.high, self.whole)
            if self.log:  # decades
                inner = [10.0**k for k in range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)]
            apart = [one for one in inner if 0.1 < self.places([one])[0] < 0.9]
            shown = [self.low, *spread(apart, TICKS), self.high]
        return list(zip(self.places(shown).tolist(), shown, strict=True))


def round_numbers(low: float, high: float, whole: bool) -> list[float]:
    """Three to ten numbers from low to high in steps of 1, 2 or 5 times a power of ten; whole ones if asked for."""
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size for size in (power, 2 * power, 5 * power, 10 * power) if size >= rough)
    step = max(step, 1.0) if whole else step
    first = math.ceil(low / step)
    return [float(f"{k * step:.9g}") for k in range(first, math.floor(high / step) + 1)]


def axes_of(frame: pd.DataFrame, keys: Sequence[str], design: Design, workload: Workload) -> list[Axis]:
    """The keys that vary and that no earlier one determines. frame: with None where an axis is inactive."""
    out: list[Axis] = []
    for name in keys:
        there = [value for value in frame[name].unique() if value is not None]
        if len(there) < 2 or design.follows(name, [one.name for one in out]):
            continue
        scales = [space["ranges"][name] for space in design.spaces if name in (space.get("ranges") or {})]
        order = [value for value in design.values(name) if value in there]
        rest = sorted((value for value in there if value not in order), key=in_order)
        numbers = not any(isinstance(value, (str, bool, np.bool_)) for value in there) and np.isfinite(there).all()
        if numbers and (scales or len(there) > LISTED):
            extremes = [*there, *(design.values(name) if scales else [])]
            low, high = float(min(extremes)), float(max(extremes))
            log = scales[0] == "log" if scales else log_axis(np.sort(there), workload.logarithmic(name))
            whole = all(float(value).is_integer() for value in there)
            out.append(Axis(name, (), low, high, bool(log) and low > 0, whole))
        else:
            out.append(Axis(name, tuple(sorted([*order, *rest], key=in_order) if numbers else [*order, *rest])))
    return out


def active(frame: pd.DataFrame, keys: Sequence[str], design: Design) -> pd.DataFrame:
    """The frame with None at the keys that are inactive in a row, by the conditions that all spaces declare."""
    gone = {name: np.ones(len(frame), dtype=bool) for name in keys}
    for space in design.spaces:
        absent: dict[str, np.ndarray] = {}
        for name, condition in (space.get("when") or {}).items():
            absent[name] = np.zeros(len(frame), dtype=bool)
            for other, values in condition.items():
                if other in frame:
                    absent[name] |= absent.get(other, False) | ~frame[other].isin(values).to_numpy()
        for name in keys:
            gone[name] &= absent.get(name, False)
    if not design.spaces:
        return frame
    return frame.assign(**{name: frame[name].astype(object).mask(gone[name], None) for name in keys if any(gone[name])})


def importance(frame: pd.DataFrame, axes: Sequence[Axis], target: np.ndarray) -> dict[str, float]:
    """The share of the variance of a metric that each axis carries alone, the largest first; the rest lies in
    combinations. Empty with fewer than `FEWEST` configurations or two axes, or if the metric cannot be predicted.

    frame: one row per configuration, None where an axis is inactive. target: its metric.

    It is Optuna's functional ANOVA of a random forest (Hutter, Hoos, Leyton-Brown, ICML 2014), of the scaled metric if
    that spans decades. An inactive axis has a place of its own, below all values, as wide as it is frequent.
    """
    if len(axes) < 2 or len(frame) < FEWEST or not np.ptp(target) > 0:
        return {}
    import optuna
    from sklearn.ensemble import RandomForestRegressor

    kept = np.sort(spread(np.argsort(target, kind="stable").tolist(), MOST))
    frame, target = frame.iloc[kept], target[kept]
    if width := asinh_width(target):
        target = np.arcsinh(target / width)
    target = (target - target.min()) / np.ptp(target)
    columns, spans = {}, {}
    for axis in axes:
        places = axis.places(frame[axis.name].tolist())
        share = float(np.isnan(places).mean())
        room = share / (1 - share)
        columns[axis.name] = np.where(np.isnan(places), -room / 2, np.clip(places, 0, 1))
        spans[axis.name] = optuna.distributions.FloatDistribution(-room, 1.0)
    table = np.column_stack(list(columns.values()))
    if not RandomForestRegressor(TREES, oob_score=True, random_state=0).fit(table, target).oob_score_ > 0:
        return {}  # else the shares of noise would look like those of an effect
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study()
        for row, value in zip(table.tolist(), target.tolist(), strict=True):
            params = dict(zip(columns, row, strict=True))
            study.add_trial(optuna.trial.create_trial(params=params, distributions=spans, value=value))
        shares: Mapping[str, float] = optuna.importance.FanovaImportanceEvaluator(seed=0, n_trees=TREES).evaluate(study)
    finally:
        optuna.logging.set_verbosity(before)
    return dict(sorted(((name, float(share)) for name, share in shares.items()), key=lambda one: -one[1]))

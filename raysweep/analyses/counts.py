"""How many settings of a finding have which outcome, which these are, and between what their places lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.rows import varying
from raysweep.lazy import pd
from raysweep.numbers import NOTHING

EXPLAINED = 0.5
"""The least share of the variance of estimates that lies between the values of an axis that is named beside them."""
FARTHER = 0.1
"""The share of a range of medians by which all estimates may reach farther without a word."""
KEYS, LISTED = 2, 3
"""The most axes of a condition, and the most values that one lists."""
NEARLY = 0.85
"""A condition nearly holds if this share of the settings that meet it have the outcome, and the same share of those."""


@dataclass(frozen=True)
class Condition:
    """What the values of one axis have in common: `relation` is one of =, <=, >=, between and in."""

    key: str
    relation: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Group:
    """The settings of one outcome.

    count: how many there are. where: what they have in common and no other setting has; empty if that takes more than
    `KEYS` conditions, or if they are all settings. nearly: `where` holds for most of them and few others.
    low, high: the smallest and the largest estimate; of one-sided settings with a bound the loosest one; else NaN.
    error: the median half width of the intervals; NaN without one.
    ends: two conditions on one axis, if it drives the estimates: where they are smallest and where largest, by the
    median at each of its values, which low and high then are; empty if none does. medians: whether all estimates
    reach farther than these medians, by a tenth of what lies between.
    reach: the middle of the estimates, and from where to where the intervals reach, if one is wider than the range of
    the estimates, which alone would look too certain; of a single setting its estimate and interval; else empty.
    """

    outcome: Outcome
    count: int
    where: tuple[Condition, ...]
    nearly: bool
    low: float
    high: float
    error: float = np.nan
    ends: tuple[Condition, ...] = ()
    medians: bool = False
    reach: tuple[float, ...] = ()


def groups_of(finding: Finding) -> list[Group]:
    """The outcomes of a finding, the most frequent first."""
    table = finding.table
    out = []
    for outcome, count in table["outcome"].value_counts(sort=True).items():
        chosen = (table["outcome"] == outcome).to_numpy()
        some = table[chosen]
        located = some["estimate"].replace([np.inf, -np.inf], np.nan)
        exact = conditions(table, chosen, finding.keys)
        where = exact or nearly(table, chosen, finding.keys)
        if outcome in (Outcome.BOUND_LOW, Outcome.BOUND_HIGH):
            located = some["high"].max() if outcome == Outcome.BOUND_LOW else some["low"].min()
        low, high, ends = driven(some.assign(estimate=located), finding.keys)
        reach = reach_of(some, every=finding.kind == "regime")  # a verdict is of the interval
        error = float(((some["high"] - some["low"]).replace(np.inf, np.nan) / 2).median())
        medians = bool(ends) and float(np.ptp(located)) > (1 + FARTHER) * (high - low)
        about = (not exact and bool(where), low, high, error, ends, medians, reach)
        out.append(Group(Outcome(outcome), int(count), where, *about))
    return out


def reach_of(table: pd.DataFrame, every: bool = False) -> tuple[float, ...]:
    """`reach` of a `Group`; for `every` group with intervals."""
    values = table[["estimate", "low", "high"]].to_numpy(float)
    if len(values) == 1:
        return tuple(values[0]) if np.isfinite(values).all() and values[0, 1] < values[0, 2] else ()
    values = values[np.isfinite(values).all(axis=1)]
    if not len(values):
        return ()
    scaled = np.log(values) if (values > 0).all() else values
    wide = (scaled[:, 2] - scaled[:, 1] > np.ptp(scaled[:, 0]) + NOTHING).any()
    return (float(np.median(values[:, 0])), values[:, 1].min(), values[:, 2].max()) if wide or every else ()


def driven(table: pd.DataFrame, keys: Sequence[str]) -> tuple[float, float, tuple[Condition, ...]]:
    """(low, high, ends) of a `Group`. Of settings that differ in one axis alone it drives the estimates if the
    intervals of the smallest and the largest have nothing in common."""
    values, ends = table["estimate"], tuple[Condition, ...]()
    low, high = float(values.min()), float(values.max())
    varied = varying(keys, table)
    if len(table) < 2 or not varied or not low < high or values.isna().any():
        return low, high, ends
    scale = np.log(values) if low > 0 else values
    means = {key: scale.groupby(table[key]).transform("mean") for key in varied}
    key = max(varied, key=lambda one: means[one].var())
    smallest, largest = table.loc[values.idxmin()], table.loc[values.idxmax()]
    alone = len(table) == table[key].nunique()
    if largest["low"] > smallest["high"] if alone else means[key].var() >= EXPLAINED * scale.var():
        medians = values.groupby(table[key]).median()
        ends = tuple(Condition(key, "=", (at,)) for at in (medians.idxmin(), medians.idxmax()))
        low, high = float(medians.min()), float(medians.max())
    return low, high, ends


def conditions(table: pd.DataFrame, chosen: np.ndarray, keys: Sequence[str]) -> tuple[Condition, ...]:
    """What the chosen settings have in common and no other setting has; empty if they are none or all, or if it takes
    more than `KEYS` axes or `LISTED` values. table: one row per setting. chosen: one boolean per row."""
    if not chosen.any() or chosen.all():
        return ()
    some, varied = table[chosen], varying(keys, table)
    inside = {key: table[key].isin(some[key].unique()).to_numpy() for key in varied}
    needed = [key for key in varied if not inside[key].all()]
    for key in needed[::-1]:  # of axes that vary together, the first says it
        rest = [other for other in needed if other != key]
        if rest and (_all_of(inside, rest) == _all_of(inside, needed)).all():
            needed = rest
    if not needed or len(needed) > KEYS or (_all_of(inside, needed) & ~chosen).any():
        return ()
    made = [_condition(key, some[key].unique(), table[key].unique()) for key in needed]
    return tuple(one for one in made if one) if all(made) else ()


def nearly(table: pd.DataFrame, chosen: np.ndarray, keys: Sequence[str]) -> tuple[Condition, ...]:
    """The condition on one axis that nearly tells the chosen settings from the others; empty without one."""
    best, out = NEARLY, tuple[Condition, ...]()
    for key in varying(keys, table) if not chosen.all() else ():
        values = table[key].unique()
        shares = {value: chosen[(table[key] == value).to_numpy()].mean() for value in values}
        held = [value for value in values if shares[value] > 0.5]
        inside = table[key].isin(held).to_numpy()
        both = (inside & chosen).sum() / max(inside.sum(), chosen.sum())
        if held and both >= best and not inside.all() and (made := _condition(key, held, values)):
            best, out = both, (made,)
    return out


class Way(StrEnum):
    """What means do along an axis, as far as their intervals show it."""

    RISES = "rises"
    FALLS = "falls"
    LOWEST = "lowest"
    """Lowest between the ends of the axis."""
    HIGHEST = "highest"
    UNCLEAR = "unclear"


def ways(finding: Finding) -> Counter[Way]:
    """In how many settings means do what along the axis of the finding; empty if they are not all measured there."""
    table, x, out = finding.table, finding.x, Counter[Way]()
    measured = (table["outcome"] == Outcome.MEASURED).all() and table["estimate"].notna().all()
    if not measured or x not in finding.keys or "metric" in finding.keys or isinstance(table[x].iloc[0], str):
        return out
    others = [key for key in finding.keys if key != x]
    for _, line in table.sort_values(x).groupby(others, dropna=False) if others else [((), table.sort_values(x))]:
        low, high, middle = (line[name].to_numpy() for name in ("low", "high", "estimate"))
        bottom, top = middle.argmin(), middle.argmax()
        if high[bottom] < min(low[0], low[-1]):
            out[Way.LOWEST] += 1
        elif low[top] > max(high[0], high[-1]):
            out[Way.HIGHEST] += 1
        else:
            out[Way.RISES if low[-1] > high[0] else Way.FALLS if high[-1] < low[0] else Way.UNCLEAR] += 1
    return out


def told_by(finding: Finding, key: str) -> pd.Series:
    """What the values of an axis tell of a setting: the share of the variance between them, of each outcome as an
    indicator and of `rank`, that of the estimate."""
    table = finding.table
    indicators = pd.get_dummies(table["outcome"]).astype(float).assign(rank=table["estimate"].rank())
    means = indicators.groupby(table[key]).transform("mean").where(indicators.notna())
    return (means.var(ddof=0) / indicators.var(ddof=0)).fillna(0.0)


def telling_axis(finding: Finding) -> str:
    """The axis whose values tell most."""
    return max(varying(finding.keys, finding.table), key=lambda key: float(told_by(finding, key).sum()))


def _condition(key: str, values: Sequence[Any], every: Sequence[Any]) -> Condition | None:
    """What some values of an axis are among all of it; None if that is a long list."""
    if len(values) == 1:
        return Condition(key, "=", (values[0],))
    if not any(isinstance(value, (str, bool)) or value is None or value != value for value in every):
        values, every = sorted(values), sorted(every)
        if values == every[-len(values) :]:
            return Condition(key, ">=", (values[0],))
        if values == every[: len(values)]:
            return Condition(key, "<=", (values[-1],))
        if len(values) > LISTED and values == every[every.index(values[0]) :][: len(values)]:
            return Condition(key, "between", (values[0], values[-1]))
    return Condition(key, "in", tuple(values)) if len(values) <= LISTED else None


def _all_of(inside: dict[str, np.ndarray], keys: Sequence[str]) -> np.ndarray:
    return np.logical_and.reduce([inside[key] for key in keys])

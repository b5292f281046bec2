"""How many settings of a finding have which outcome, which these are, and between what their places lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.places import turns
from raysweep.analyses.rows import in_order, varying
from raysweep.fits.statistics import all_at_once
from raysweep.lazy import pd
from raysweep.numbers import NOTHING

EXPLAINED = 0.5
"""The least share of the variance of estimates that lies between the values of an axis that is named beside them."""
FARTHER, ORDERED, CLOSE, UNSURE, NEAR = 0.1, 0.9, 1.15, 2.0, 3.0
"""The share of a range of medians by which all estimates may reach farther without a word, the rank correlation of
estimates that go one way, the largest ratios of two estimates that are about one value, and the largest between
estimates and an axis that they are a multiple of."""
KEYS, LISTED = 2, 3
"""The most axes of a condition, and the most values that one lists."""
NEARLY = 0.85
"""A condition nearly holds if this share of the settings that meet it have the outcome, and the same share of those."""

ONE_SIDED = (Outcome.BOUND_LOW, Outcome.BEYOND_LOW, Outcome.BOUND_HIGH, Outcome.BEYOND_HIGH)
"""Of the first two the upper end is known, of the others the lower one."""


@dataclass(frozen=True)
class Condition:
    """What the values of one axis have in common: `relation` is one of =, <=, >=, between and in."""

    key: str
    relation: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Drive:
    """The axis that drives estimates, and their medians at two of its values.

    first, last: (value of the axis, median): at its ends if it drives them `one_way`, that is if their rank correlation
    is at least `ORDERED` and no intervals show a turn; else the smallest median and the largest. medians: whether all
    estimates reach farther than these two, by a tenth of what lies between.
    """

    key: str
    first: tuple[Any, float]
    last: tuple[Any, float]
    one_way: bool
    medians: bool


@dataclass(frozen=True)
class Apart:
    """The value of an axis of words whose estimates lie between `low` and `high`; all others are about `others`.

    drive: the axis that drives its estimates; None if none does.
    """

    key: str
    value: str
    low: float
    high: float
    others: float
    drive: Drive | None


@dataclass(frozen=True)
class Group:
    """The settings of one outcome.

    count: how many there are. where: what they have in common and no other setting has; empty if that takes more than
    `KEYS` conditions, or if they are all settings. nearly: `where` holds for most of them and few others.
    low, middle, high: the smallest estimate, the median and the largest; of one-sided settings the loosest bound; else
    NaN. error: the median half width of the intervals; NaN without one.
    alike: whether estimates of a place are about one value, by `CLOSE`, or by `UNSURE` if most intervals are
    wider than their range; of two only then.
    drive: the axis that drives them; None if none does.
    times: (an axis, what the estimates are about so many times of); empty if they are not.
    apart: the settings of one value of an axis, the only ones whose estimates are not about one value; None if all are,
    or an axis drives them.
    reach: the estimate and the interval of a single setting; empty without an interval, or of several settings.
    span: from the lowest end of their intervals to the highest; empty unless all have one.
    """

    outcome: Outcome
    count: int
    where: tuple[Condition, ...]
    nearly: bool
    low: float
    middle: float
    high: float
    error: float = np.nan
    alike: bool = False
    drive: Drive | None = None
    times: tuple[str, float] | tuple[()] = ()
    apart: Apart | None = None
    reach: tuple[float, ...] = ()
    span: tuple[float, ...] = ()


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
        if outcome in ONE_SIDED:
            located = some["high"].max() if outcome in ONE_SIDED[:2] else some["low"].min()
        some = some.assign(estimate=located)
        values, width = some["estimate"], (some["high"] - some["low"]).replace(np.inf, np.nan)
        low, middle, high = (float(values.quantile(share)) for share in (0, 0.5, 1))
        wide = bool(width.median() > high - low + NOTHING * abs(high))
        most = 1.0 if outcome == Outcome.MEASURED else UNSURE if wide else CLOSE
        times = () if wide else multiple(some, finding.keys)
        drive = None if wide or times else driven(some, finding.keys)
        interval = some[["estimate", "low", "high"]].to_numpy(float)[0]
        sure = count == 1 and np.isfinite(interval).all() and interval[1] < interval[2]
        ends = some["low"].to_numpy(float), some["high"].to_numpy(float)
        out.append(
            Group(
                Outcome(outcome),
                int(count),
                where,
                not exact and bool(where),
                *(low, middle, high, float(width.median() / 2)),
                alike=low < high and _close(values, most) and (count > 2 or wide),
                drive=drive,
                times=times,
                apart=None if wide or times or drive else standing_apart(some, finding.keys),
                reach=tuple(interval) if sure else (),
                span=(ends[0].min(), ends[1].max()) if np.isfinite(ends).all() else (),
            )
        )
    return out


def driven(table: pd.DataFrame, keys: Sequence[str]) -> Drive | None:
    """The axis that drives the estimates: `EXPLAINED` of their variance lies between its values. Of settings that
    differ in one axis alone it drives them if the intervals of the smallest and the largest have nothing in common, of
    all settings at once."""
    values, varied = table["estimate"], varying(keys, table)
    if len(table) < 2 or not varied or not values.min() < values.max() or values.isna().any():
        return None
    scale = np.log(values) if values.min() > 0 else values
    means = {key: scale.groupby(table[key]).transform("mean") for key in varied}
    key = max(varied, key=lambda one: means[one].var())
    if not crossed(table, key, varied):
        return None
    low, high = all_at_once(table["low"].to_numpy(float), table["high"].to_numpy(float))
    alone, apart = len(table) == table[key].nunique(), low[values.argmax()] > high[values.argmin()]
    if not (apart if alone else means[key].var() >= EXPLAINED * scale.var()):
        return None
    medians = values.groupby(table[key]).median()
    order = np.corrcoef(medians.rank(), np.arange(len(medians)))[0, 1]
    one_way = bool(table[key].dtype.kind in "if" and abs(order) >= ORDERED)
    if one_way and alone:
        rows = np.argsort(table[key].to_numpy())
        one_way = not turns(low[rows], high[rows])
    ends = medians.iloc[[0, -1] if one_way else [medians.argmin(), medians.argmax()]]
    farther = float(np.ptp(values)) > (1 + FARTHER) * float(np.ptp(medians))
    first, last = zip(ends.index, ends.tolist(), strict=True)
    return Drive(key, first, last, one_way=one_way, medians=farther)


def crossed(table: pd.DataFrame, key: str, keys: Sequence[str]) -> bool:
    """Whether the values of an axis can be compared: most settings of the other axes are there at most of them. Axes
    of which each of its values has one value do not count."""
    others = [one for one in keys if one != key and table.groupby(key)[one].nunique(dropna=False).max() > 1]
    settings = len(table.drop_duplicates(others)) if others else 1
    return 2 * len(table) >= settings * table[key].nunique()


def multiple(table: pd.DataFrame, keys: Sequence[str]) -> tuple[str, float] | tuple[()]:
    """The axis of which estimates are about so many times, over at least a factor 2; empty if there is none."""
    for key in varying(keys, table):
        if table[key].dtype.kind in "if" and table[key].min() > 0 and table[key].max() >= 2 * table[key].min():
            ratio = table["estimate"] / table[key]
            if ratio.min() > 1 / NEAR and ratio.max() < min(NEAR, CLOSE * ratio.min()):
                return key, float(ratio.median())
    return ()


def standing_apart(table: pd.DataFrame, keys: Sequence[str]) -> Apart | None:
    """The only value of an axis of words without which all estimates are about one value, by `CLOSE`. Most of its own
    intervals, of all settings at once, have nothing in common with the others."""
    estimates, out = table["estimate"], list[Apart]()
    if estimates.isna().any() or _close(estimates):
        return None
    low, high = all_at_once(table["low"].fillna(estimates).to_numpy(), table["high"].fillna(estimates).to_numpy())
    for key in (one for one in varying(keys, table) if isinstance(table[one].iloc[0], str)):
        for value in dict.fromkeys(table[key].loc[[estimates.idxmin(), estimates.idxmax()]]):
            inside = (table[key] == value).to_numpy()
            some, others = estimates[inside], estimates[~inside]
            outside = (low[inside] > others.max()) | (high[inside] < others.min())
            if len(others) > 1 and _close(others) and outside.mean() > 1 / 2:
                drive = driven(table[inside], keys)
                out.append(Apart(key, value, float(some.min()), float(some.max()), float(others.median()), drive))
    return out[0] if len(out) == 1 else None


def _close(values: pd.Series, most: float = CLOSE) -> bool:
    """Whether values are about one: of one sign, and no two farther apart than by this factor."""
    low, high = sorted((abs(values.min()), abs(values.max())))
    return bool(values.min() * values.max() > 0 and high <= most * low)


def conditions(table: pd.DataFrame, chosen: np.ndarray, keys: Sequence[str]) -> tuple[Condition, ...]:
    """What the chosen settings have in common and no other setting has; empty if they are none or all, or if it takes
    more than `KEYS` axes or `LISTED` values. table: one row per setting. chosen: one boolean per row."""
    if not chosen.any() or chosen.all():
        return ()
    some, varied = table[chosen], varying(keys, table)
    inside = pd.DataFrame({key: table[key].isin(some[key].unique()) for key in varied})
    needed = [key for key in varied if not inside[key].all()]
    for key in needed[::-1]:  # of axes that vary together, the first says it
        rest = [other for other in needed if other != key]
        if rest and (inside[rest].all(axis=1) == inside[needed].all(axis=1)).all():
            needed = rest
    if not needed or len(needed) > KEYS or (inside[needed].all(axis=1) & ~chosen).any():
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


def clear_sides(finding: Finding) -> list[tuple[Condition, pd.Series]]:
    """The condition on one axis under which settings have a clearly best predictor, that of the others, and which
    settings meet each; empty if there is none."""
    table = finding.table
    holds = [table["outcome"] == Outcome.BEST, table["outcome"] != Outcome.BEST]
    sides = [conditions(table, some.to_numpy(), finding.keys) for some in holds]
    if [len(one) for one in sides] != [1, 1] or sides[0][0].key != sides[1][0].key:
        return []
    return [(one, some) for (one,), some in zip(sides, holds, strict=True)]


class Way(StrEnum):
    """What means do along an axis, as far as their intervals show it."""

    RISES = "rises"
    FALLS = "falls"
    LOWEST = "lowest"
    """Lowest between the ends of the axis."""
    HIGHEST = "highest"
    UNCLEAR = "unclear"


def ways(finding: Finding) -> pd.DataFrame:
    """What means do along the axis of the finding: the keys of each setting, whether a mean goes `back` from the one
    before, and its `way` in the last column; empty if they are not all measured at the same values, or if it is asked
    on which side of something they lie."""
    table, x = finding.table.sort_values(finding.x), finding.x
    if finding.facts.get("of_sides") and (table["outcome"] != Outcome.MEASURED).any():
        return pd.DataFrame()
    if x not in finding.keys or "metric" in finding.keys or isinstance(table[x].iloc[0], str):
        return pd.DataFrame()
    table = table[~table[x].isin(unmeasured(finding))]
    if table[x].nunique() < 2 or table["estimate"].isna().any():
        return pd.DataFrame()
    others, out = [key for key in finding.keys if key != x], list[dict[str, Any]]()
    for _, line in table.groupby(others, dropna=False) if others else [((), table)]:
        low, high, middle = (line[name].to_numpy() for name in ("low", "high", "estimate"))
        bottom, top = middle.argmin(), middle.argmax()
        if high[bottom] < min(low[0], low[-1]):
            way = Way.LOWEST
        elif low[top] > max(high[0], high[-1]):
            way = Way.HIGHEST
        else:
            way = Way.RISES if low[-1] > high[0] else Way.FALLS if high[-1] < low[0] else Way.UNCLEAR
        steps = np.diff(middle) * (1 if way == Way.RISES else -1)
        back = way in (Way.RISES, Way.FALLS) and bool((steps < -NOTHING * np.ptp(middle)).any())
        out.append({**line[others].iloc[0], "back": back, "way": way})
    return pd.DataFrame(out)


def unmeasured(finding: Finding) -> list[Any]:
    """The values of the axis at which no setting has a mean."""
    there = finding.table["estimate"].notna().groupby(finding.table[finding.x]).any()
    return there.index[~there].tolist()


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


def within(table: pd.DataFrame, outcome: str, keys: Sequence[str]) -> Condition | None:
    """What the settings of an outcome have in common, though others have it too, by the axis on which fewest share it;
    None if most of all have it."""
    chosen, out = (table["outcome"] == outcome).to_numpy(), list[tuple[float, Condition]]()
    for key in varying(keys, table):
        values = table.loc[chosen, key].unique().tolist()
        if one := _condition(key, values, table[key].unique().tolist(), LISTED + 1):
            out.append((float(table[key].isin(values).mean()), one))
    few = [pair for pair in out if pair[0] <= 1 / 2]
    return min(few, key=lambda pair: pair[0])[1] if few else None


def _condition(key: str, values: Sequence[Any], every: Sequence[Any], most: int = LISTED) -> Condition | None:
    """What some values of an axis are among all of it; None if that is a list of more than `most`."""
    if len(values) == 1:
        return Condition(key, "=", (values[0],))
    if not any(isinstance(value, (str, bool)) or value is None or value != value for value in every):
        values, every = sorted(values), sorted(every)
        if values == every[-len(values) :]:
            return Condition(key, ">=", (values[0],))
        if values == every[: len(values)]:
            return Condition(key, "<=", (values[-1],))
        if len(values) > most and values == every[every.index(values[0]) :][: len(values)]:
            return Condition(key, "between", (values[0], values[-1]))
    if len(values) > most:
        return None
    words = all(isinstance(value, str) for value in values)
    return Condition(key, "in", tuple(sorted(values, key=in_order) if words else values))

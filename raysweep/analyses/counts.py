"""How many settings of a finding have which outcome, which these are, and between what their places lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.finding import Finding, Outcome

if TYPE_CHECKING:
    import pandas as pd

KEYS, LISTED = 2, 3
"""The most axes of a condition, and the most values that one lists."""


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
    `KEYS` conditions, or if they are all settings. low, high: the smallest and the largest estimate; NaN without one.
    """

    outcome: Outcome
    count: int
    where: tuple[Condition, ...]
    low: float
    high: float


def groups_of(finding: Finding) -> list[Group]:
    """The outcomes of a finding, the most frequent first."""
    table = finding.table
    out = []
    for outcome, count in table["outcome"].value_counts(sort=True).items():
        chosen = (table["outcome"] == outcome).to_numpy()
        estimates = table.loc[chosen, "estimate"].to_numpy(float)
        located = estimates[np.isfinite(estimates)]
        bounds = (float(located.min()), float(located.max())) if len(located) else (np.nan, np.nan)
        out.append(Group(Outcome(outcome), int(count), conditions(table, chosen, finding.keys), *bounds))
    return out


def conditions(table: pd.DataFrame, chosen: np.ndarray, keys: Sequence[str]) -> tuple[Condition, ...]:
    """What the chosen settings have in common and no other setting has; empty if they are none or all, or if it takes
    more than `KEYS` axes or `LISTED` values. table: one row per setting. chosen: one boolean per row."""
    if not chosen.any() or chosen.all():
        return ()
    some = table[chosen]
    varied = [key for key in keys if table[key].nunique(dropna=False) > 1]
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

"""Which settings some of all are, in few words: "γ ≥ 1", "L = 1, θ ≥ 60°"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.numbers import number
from raysweep.report.names import called, listed, setting, settings, unit_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

KEYS, LISTED, LONGEST = 2, 3, 70
"""The most keys, the most values or settings that are listed, and the most letters."""


def where(table: pd.DataFrame, chosen: np.ndarray, keys: Sequence[str], workload: Workload) -> str:
    """What the chosen settings have in common and no other setting has, or each of them if they are few; empty if
    they are none or all, or if it takes many words.

    table: one row per setting, with the keys as columns. chosen: one boolean per row.
    """
    if not chosen.any() or chosen.all():
        return ""
    own, varied = table[chosen], [key for key in keys if table[key].nunique(dropna=False) > 1]
    text, sharing = shared(table, chosen, varied, workload)
    if text and not (sharing & ~chosen).any():
        return text
    if len(own) <= LISTED:
        text = " and ".join(settings(varied, row, workload) for row in own[varied].to_numpy(object))
        return text if len(text) <= LONGEST else ""
    return ""


def shared(
    table: pd.DataFrame, chosen: np.ndarray, varied: Sequence[str], workload: Workload
) -> tuple[str, np.ndarray]:
    """(what the chosen settings have in common and not all settings have, empty if there is nothing or if it takes many
    words; which settings have it). varied: the keys with several values. The rest as in `where`."""
    own = table[chosen]
    inside = {key: table[key].isin(own[key].unique()).to_numpy() for key in varied}
    needed = [key for key in varied if not inside[key].all()]
    for key in needed[::-1]:  # of axes that vary together, the first says it
        rest = [other for other in needed if other != key]
        if rest and (_all_of(inside, rest) == _all_of(inside, needed)).all():
            needed = rest
    if not needed or len(needed) > KEYS:
        return "", np.ones(len(table), bool)
    said = [_values(key, own[key].unique(), table[key].unique(), workload) for key in needed]
    text = ", ".join(said) if all(said) else ""
    return text if len(text) <= LONGEST else "", _all_of(inside, needed)


def in_brackets(table: pd.DataFrame, chosen: Any, keys: Sequence[str], workload: Workload) -> str:
    """The words of `where` in brackets, to stand after a number of settings, or what they share with a few others, so
    that it is true of half of all settings at most ("all at n ≥ 400"); empty if there are none."""
    chosen = np.asarray(chosen, bool)
    text = where(table, chosen, keys, workload)
    if not text and chosen.any() and not chosen.all():
        varied = [key for key in keys if table[key].nunique(dropna=False) > 1]
        text, sharing = shared(table, chosen, varied, workload)
        text = f"all at {text}" if text and 2 * sharing.sum() <= len(table) else ""
    return f" ({text})" if text else ""


def _all_of(inside: dict[str, np.ndarray], keys: Sequence[str]) -> np.ndarray:
    return np.logical_and.reduce([inside[key] for key in keys])


def _values(key: str, own: Sequence[Any], every: Sequence[Any], workload: Workload) -> str:
    """Some values of an axis among all of it: a single one, a side of it, or a list; empty if the list is long."""
    if len(own) == 1:
        return setting(key, own[0], workload)
    degrees = "°" if unit_of(key, workload) == "°" else ""
    words = any(isinstance(value, (str, bool)) or value is None or value != value for value in every)
    if not words:
        some, whole = sorted(own), sorted(every)
        name = workload.symbol(key) or called(key, workload)
        if some == whole[-len(some) :]:
            return f"{name} ≥ {number(some[0])}{degrees}"
        if some == whole[: len(some)]:
            return f"{name} ≤ {number(some[-1])}{degrees}"
        if len(some) > LISTED and some == whole[whole.index(some[0]) :][: len(some)]:
            return f"{name} from {number(some[0])}{degrees} to {number(some[-1])}{degrees}"
        own = some
    if len(own) > LISTED:
        return ""
    return ", ".join(listed(key, own, workload))

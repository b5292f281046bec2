"""What matters for a metric: the importance of each axis, and its main effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

FEWEST_CELLS = 10  # with fewer, a forest learns nothing
TREES = 200
REPEATS = 10


def importance(table: pd.DataFrame, keys: list[str]) -> dict[str, float]:
    """The share of each axis in what decides the mean of a cell, largest first; empty if that cannot be told.

    table: one row per cell with the keys and `mean`.

    It is scikit-learn's permutation importance of a random forest, divided by the sum over the axes: how much worse the
    forest predicts if the values of one axis are shuffled. An axis that only acts together with another one has its
    share too, which main effects do not show. There is none with fewer than 10 cells, or if the forest does not predict
    the cells that a tree has not seen any better than their mean does.
    """
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance

    known = table[np.isfinite(table["mean"].astype(float))]
    varying = [key for key in keys if known[key].nunique() > 1]
    if len(varying) < 2 or len(known) < FEWEST_CELLS:
        return {}
    places = np.column_stack([known[key].map(_place(known[key])).to_numpy(float) for key in varying])
    mean = known["mean"].to_numpy(float)
    scale = float(np.ptp(mean))
    if not scale > 0:
        return {}
    target = (mean - mean.min()) / scale
    forest = RandomForestRegressor(TREES, oob_score=True, random_state=0).fit(places, target)
    if not forest.oob_score_ > 0:
        return {}
    found = np.maximum(
        permutation_importance(forest, places, target, n_repeats=REPEATS, random_state=0)["importances_mean"], 0.0
    )
    if not found.sum() > 0:
        return {}
    shares = dict(zip(varying, (found / found.sum()).tolist(), strict=True))
    return dict(sorted(shares.items(), key=lambda each: -each[1]))


def _place(values: pd.Series) -> dict[Any, int]:
    """The order of the values of an axis, which is all that a tree looks at: also of ∞ and of words."""
    return {value: place for place, value in enumerate(sorted(values.unique(), key=lambda v: (isinstance(v, str), v)))}


def effects(table: pd.DataFrame, keys: list[str], largest: bool) -> pd.DataFrame:
    """The main effects: for each value of each axis, the mean over all cells that have it, and their number (cells).

    The best value of an axis comes first.
    """
    import pandas as pd

    parts = []
    for key in keys:
        of_key = table.groupby(key, sort=True)["mean"].agg(["mean", "size"]).reset_index()
        if len(of_key) > 1:
            of_key.columns = ["axis_value", "mean", "cells"]
            of_key = of_key.sort_values("mean", ascending=not largest, kind="stable")
            parts.append(of_key.assign(axis=key)[["axis", "axis_value", "mean", "cells"]])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

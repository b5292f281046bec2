"""The main effects of the axes on a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


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

"""Symmetric draws: over which signs they are means, and how much less they vary."""

from __future__ import annotations

import numpy as np
import pandas as pd

from raysweep.analyses.design import Design
from raysweep.analyses.rows import heavy_rows
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.workloads.declaration import SIGN_SPREAD, Workload


def factors(frame: pd.DataFrame, metric: str, workload: Workload) -> pd.DataFrame:
    """One line per cell with symmetric draws: mean, plain (the variance of a plain draw) and factor (plain over the
    variance of a symmetric draw).

    The sign choices of a draw are equally likely plain draws, so that the variance of a plain draw is that of their
    mean between draws and the mean variance within a draw. Cells without variance or with an infinite one are left out.
    """
    good = frame[(frame["status"] == "ok") & frame[f"{metric}{SIGN_SPREAD}"].notna()]
    good = good[~heavy_rows(good, metric, workload)]
    cells = good.assign(within=good[f"{metric}{SIGN_SPREAD}"] ** 2).groupby("cell")
    table = cells.agg(mean=(metric, "mean"), between=(metric, "var"), within=("within", "mean"))
    rounding = 1e-9 * table["mean"].abs().max()
    table = table[table["between"] > rounding**2]
    plain = table["between"] + table["within"]
    return table[["mean"]].assign(plain=plain, factor=plain / table["between"])


def symmetric_words(frame: pd.DataFrame, design: Design, workload: Workload) -> list[str]:
    """A sentence on the symmetric draws; none if no draw is symmetric."""
    if workload.symmetry is None or "symmetric" not in frame.columns or not frame["symmetric"].any():
        return []
    which = "Each draw" if frame["symmetric"].all() else "Each draw of the rows with symmetric true"
    text = f"{which} is the mean over both signs of {workload.symmetry.signs}"
    spread = [name for name in workload.symmetry.metrics if f"{name}{SIGN_SPREAD}" in frame.columns]
    metrics = [name for name in spread if name in design.metrics()]  # not of engine theory
    factor = [words for name in metrics if (words := factor_words(name, factors(frame, name, workload)))]
    less = f", which divides the variance of a plain draw by: {'; '.join(factor)}" if factor else ""
    return [f"{text}{less}."]


def factor_words(metric: str, table: pd.DataFrame) -> str:
    """How much less a metric varies in the median cell, in most cells, and in those where the sign of a plain draw is
    open (the mean is within its standard deviation of 0)."""
    if not len(table):
        return ""
    low, middle, high = (number(value, 2) for value in np.quantile(table["factor"], [0.1, 0.5, 0.9]))
    text = f"{metric} {middle} in the median of {counted(len(table), 'cell')}"
    text += f" ({low} to {high} in the middle 80 % of them)" if len(table) > 9 else ""
    unsure = table[table["mean"] ** 2 <= table["plain"]]
    if len(unsure) and table["mean"].min() < 0 < table["mean"].max():
        text += (
            f", {number(unsure['factor'].median(), 2)} where the mean is within a plain draw's standard deviation of 0"
        )
    return text

"""The comparison of fitted places with the closed form, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.result import Status, without_chance
from raysweep.fits.statistics import normal_quantile
from raysweep.phrases import counted

if TYPE_CHECKING:
    import pandas as pd


def summary(table: pd.DataFrame, level: float) -> str:
    """The comparison with the closed form in words, for example "median |z| 0.7; 2 of 31 beyond 1.96, 2 expected".

    Censored places are included. The text is empty without a closed form.
    """
    score = table["z"].dropna().abs()
    parts = []
    if len(score):
        limit = normal_quantile(level)
        chance = (1 - level) * len(score)
        expected = (
            f"{chance:.0f}" if chance >= 1.5 else "1" if chance >= 0.5 else "none or 1" if chance >= 0.1 else "none"
        )
        parts.append(
            f"against theory: median |z| {score.median():.2g}; {int((score > limit).sum())} of {len(score)} "
            f"beyond {limit:.3g}, {expected} expected"
        )
    holds = table["theory"].between(table["low"], table["high"])
    exact = without_chance(table) & np.isfinite(table["estimate"]) & np.isfinite(table["theory"])
    if exact.any():
        parts.append(
            f"of {counted(int(exact.sum()), 'curve')} without chance, whose intervals are the spread of "
            f"interpolations, {int(holds[exact].sum())} hold theory's place"
        )
    censored = table["status"].isin([Status.CENSORED_LOW, Status.CENSORED_HIGH]) & table["theory"].notna()
    if censored.any():
        bounds = counted(int(censored.sum()), "bound")
        parts.append(f"{int(holds[censored].sum())} of {bounds} of places that are not located agree with it")
    missing = table[(table["status"] == Status.LOCATED) & table["theory"].isna()]
    if len(missing) and table["theory"].notna().any():
        parts.append(f"{counted(len(missing), 'located place')} where theory has none")
    return "; ".join(parts)

"""How far fitted places are from the closed form's, in units of their own error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.result import EXACT, Status
from raysweep.fits.statistics import normal_quantile
from raysweep.reporting.words import counted

if TYPE_CHECKING:
    import pandas as pd


def distance(estimate: float, low: float, high: float, expected: float, level: float) -> float:
    """(estimate - expected) in units of the error on that side, scaled such that |z| is beyond the normal quantile of
    the level exactly where the interval misses: one number for all numbers of draws. NaN without both places."""
    if not (np.isfinite(estimate) and np.isfinite(expected)):
        return float("nan")
    half = estimate - low if expected < estimate else high - estimate
    if half > 0:
        return float(normal_quantile(level) * (estimate - expected) / half)
    return 0.0 if abs(estimate - expected) <= 1e-6 * max(abs(expected), 1e-12) else float("inf")


def add_theory(table: pd.DataFrame, expected: list[np.ndarray], level: float) -> pd.DataFrame:
    """The table with the closed form's place nearest to each estimate (the only one where nothing is located), and
    z: NaN for curves without chance, whose intervals are the spread of interpolations and no error."""
    places, scores = [], []
    for row, roots in zip(table.itertuples(index=False), expected, strict=True):
        if not len(roots):
            place = np.nan
        elif np.isfinite(row.estimate):
            place = float(roots[np.argmin(np.abs(roots - row.estimate))])
        else:
            place = float(roots[0]) if len(roots) == 1 else np.nan
        places.append(place)
        scores.append(np.nan if without_chance(row) else distance(row.estimate, row.low, row.high, place, level))
    return table.assign(theory=places, z=scores)


def without_chance(row: Any) -> bool:
    """Whether all draws of a curve are the same."""
    return getattr(row, "method", "").startswith(EXACT)


def add_lines(table: pd.DataFrame, lines: Mapping[str, float], level: float) -> pd.DataFrame:
    """The table with `z NAME` (distance to a constant reference line) and `excluded NAME` for each line."""
    for name, value in lines.items():
        rows = table[["estimate", "low", "high"]].itertuples(index=False)
        score = [distance(row.estimate, row.low, row.high, value, level) for row in rows]
        outside = misses(table, np.full(len(table), value)) & can_say(table)
        table = table.assign(**{f"z {name}": score, f"excluded {name}": outside})
    return table


def can_say(table: pd.DataFrame) -> np.ndarray:
    """Slices that were located or censored, and are about the mean."""
    known = table["status"].isin([Status.LOCATED, Status.CENSORED_LOW, Status.CENSORED_HIGH])
    return (known & (table["scale"] != "sign")).to_numpy() if "scale" in table.columns else known.to_numpy()


def misses(table: pd.DataFrame, expected: np.ndarray) -> np.ndarray:
    """Whether the interval leaves the place out; a located zero where none is expected does, too."""
    outside = (expected < table["low"].to_numpy(float)) | (expected > table["high"].to_numpy(float))
    return np.where(np.isfinite(expected), outside, (table["status"] == Status.LOCATED).to_numpy())


def excluded(table: pd.DataFrame, expected: np.ndarray) -> tuple[int, int]:
    """(slices whose interval leaves the expected place out, slices that can say)."""
    asked = can_say(table)
    return int((misses(table, expected) & asked).sum()), int(asked.sum())


def summary(table: pd.DataFrame, level: float) -> str:
    """ "median |z| 0.7; 2 of 31 beyond 1.96, 2 expected"; what censored places say too; empty without a closed form."""
    score = table["z"].dropna().abs()
    parts = []
    if len(score):
        limit = normal_quantile(level)
        chance = (1 - level) * len(score)
        expected = (
            f"{chance:.0f}" if chance >= 1.5 else "1" if chance >= 0.5 else "none or 1" if chance >= 0.1 else "none"
        )
        parts.append(
            f"against the closed form: median |z| {score.median():.2g}; {int((score > limit).sum())} of {len(score)} "
            f"beyond {limit:.3g}, {expected} expected"
        )
    exact = [
        row
        for row in table.itertuples(index=False)
        if without_chance(row) and np.isfinite(row.estimate) and np.isfinite(row.theory)
    ]
    if exact:
        within = sum(row.low <= row.theory <= row.high for row in exact)
        parts.append(
            f"of {counted(len(exact), 'curve')} without chance, whose intervals are the spread of "
            f"interpolations, {within} hold the closed form's place"
        )
    one_sided = table[table["status"].isin(["censored_low", "censored_high"]) & table["theory"].notna()]
    if len(one_sided):
        fits = ((one_sided["theory"] >= one_sided["low"]) & (one_sided["theory"] <= one_sided["high"])).sum()
        parts.append(f"{int(fits)} of {counted(len(one_sided), 'censored bound')} agree with it")
    missing = table[(table["status"] == "located") & table["theory"].isna()]
    if len(missing) and table["theory"].notna().any():
        parts.append(f"{counted(len(missing), 'located place')} where the closed form has none")
    return "; ".join(parts)

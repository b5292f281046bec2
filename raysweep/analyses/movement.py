"""How a place changes with the other axes: in how many settings it rises or falls with each."""

from __future__ import annotations

from collections import Counter

import numpy as np

from raysweep.analyses.finding import Move
from raysweep.analyses.rows import groups
from raysweep.fits.result import Status
from raysweep.fits.statistics import LEVEL, normal_quantile
from raysweep.lazy import pd

PLACED = (Status.LOCATED, Status.CENSORED_LOW, Status.CENSORED_HIGH)


def moves(table: pd.DataFrame, keys: list[str]) -> list[Move]:
    """How the place changes with each axis of numbers, all others fixed.

    The places at the first and the last value of the axis with a located place are compared. If fewer than two
    settings can be compared so, bounds count as places.

    table: one row per setting with status, estimate, low, high, the keys, and theory.
    """
    out = []
    for key in keys:
        if table[key].dtype.kind not in "if" or table[key].nunique() < 2:
            continue
        move = _move(table[table["status"] == Status.LOCATED], keys, key, by_bounds=False)
        if move is None or move.rises + move.falls + move.both + move.open < 2:  # of few places their bounds say more
            wider = _move(table[table["status"].isin(PLACED)], keys, key, by_bounds=True)
            compared = move and (move.first, move.last)
            move = wider if wider and (wider.first, wider.last) != compared else move
        out += [move] if move else []
    return out


def _move(places: pd.DataFrame, keys: list[str], key: str, by_bounds: bool) -> Move | None:
    """How the place changes with one axis between settings with a place or a bound; None if none can be compared. Of
    two settings that are compared at least one has a place."""
    fitted, theory = Counter[str](), Counter[float]()
    compared: list[float] = []
    for _, rows in groups(places, [other for other in keys if other != key]):
        if rows[key].nunique() < 2:
            continue
        first, last = rows.loc[rows[key].idxmin()], rows.loc[rows[key].idxmax()]
        if Status.LOCATED not in (first["status"], last["status"]):
            continue
        compared += rows[key].agg(["min", "max"]).tolist()
        if last["low"] > first["high"] or last["high"] < first["low"]:
            fitted["rises" if last["low"] > first["high"] else "falls"] += 1
        else:
            fitted["both" if turns(rows.sort_values(key)) else "open"] += 1
        step = last["theory"] - first["theory"]
        if np.isfinite(step):
            theory[float(np.sign(step)) * (abs(step) > 1e-6 * abs(first["theory"]))] += 1
    if not fitted:
        return None
    ways = fitted["rises"], fitted["falls"], fitted["both"], fitted["open"]
    return Move(key, min(compared), max(compared), *ways, (theory[1.0], theory[-1.0], theory[0.0]), by_bounds)


def turns(rows: pd.DataFrame) -> bool:
    """Whether some place lies above one before it and one after it, or below both: by intervals that do not meet.

    Of many intervals that hold one by one some do not meet by chance. So each is widened to what would hold for all of
    the setting at once (Bonferroni, as if normal).

    rows: the places in the order of the key; bounds without a place do not count.
    """
    located = rows[rows["status"] == Status.LOCATED]
    low, high = (located[end].to_numpy(float) for end in ("low", "high"))
    count = len(located)
    if count < 3:
        return False
    wider = (normal_quantile(1 - (1 - LEVEL) / count) / normal_quantile(LEVEL) - 1) * (high - low) / 2
    low, high = low - wider, high + wider
    return any(
        low[k] > max(high[:k].min(), high[k + 1 :].min()) or high[k] < min(low[:k].max(), low[k + 1 :].max())
        for k in range(1, count - 1)
    )

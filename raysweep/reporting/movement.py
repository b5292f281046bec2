"""How a fitted place moves with each of the other axes, counted over their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raysweep.reporting.result import LOCATED
from raysweep.reporting.selection import groups
from raysweep.reporting.words import number, plain

if TYPE_CHECKING:
    import pandas as pd


def movement(table: pd.DataFrame, keys: list[str], place: str) -> list[str]:
    """A sentence: with each key, everything else fixed, does the place rise or fall from the key's first located value
    to its last? It counts as rising or falling only where the two intervals do not meet. No pairs, no sentence.

    table: one row per setting with status, low, high and the keys; place: its name in words.
    """
    found = table[table["status"] == LOCATED]
    parts = []
    for key in keys:
        if table[key].dtype.kind not in "if" or table[key].nunique() < 2:
            continue
        rises = falls = open_ = 0
        for _, rows in groups(found, [other for other in keys if other != key]):
            if rows[key].nunique() < 2:
                continue
            first, last = rows.loc[rows[key].idxmin()], rows.loc[rows[key].idxmax()]
            rises += last["low"] > first["high"]
            falls += last["high"] < first["low"]
            open_ += not (last["low"] > first["high"] or last["high"] < first["low"])
        total = rises + falls + open_
        if not total:
            continue
        said = [f"{word} in {count}" for word, count in (("rises", rises), ("falls", falls)) if count]
        if open_:
            said.append(f"is not told apart in {open_}")
        ends = f"{number(found[key].min())} to {number(found[key].max())}"
        parts.append(f"with {plain(key)} ({ends}) it {', '.join(said)} of {total}")
    if not parts:
        return []
    return [
        f"Where the {place} ends up, from the first value at which it is located to the last, all else equal: "
        + "; ".join(parts)
        + " settings. A move counts where the two intervals do not meet; what lies between the ends is in the figure."
    ]

"""How a fitted place moves with each of the other axes, counted over their settings, with the closed form beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.result import Status
from raysweep.reporting.selection import groups
from raysweep.reporting.words import number, plain

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Move:
    """Of the settings of the other axes in which the place is located at two values of `key` or more: in how many it
    rises, falls, or is not told apart between the first and the last (ends: the least and the largest of them); the
    same for the closed form's place at the same two, where it has both."""

    key: str
    ends: tuple[float, float]
    rises: int
    falls: int
    open: int
    theory_rises: int
    theory_falls: int
    theory_known: int

    @property
    def total(self) -> int:
        """Settings compared."""
        return self.rises + self.falls + self.open


def moves(table: pd.DataFrame, keys: list[str]) -> list[Move]:
    """With each key, everything else fixed, does the place rise or fall from the key's first located value to its
    last? It counts as rising or falling only where the two intervals do not meet.

    table: one row per setting with status, low, high, the keys, and the closed form's place `theory` if there is one.
    """
    found = table[table["status"] == Status.LOCATED]
    out = []
    for key in keys:
        if table[key].dtype.kind not in "if" or table[key].nunique() < 2:
            continue
        rises = falls = open_ = theory_rises = theory_falls = theory_known = 0
        for _, rows in groups(found, [other for other in keys if other != key]):
            if rows[key].nunique() < 2:
                continue
            first, last = rows.loc[rows[key].idxmin()], rows.loc[rows[key].idxmax()]
            rises += last["low"] > first["high"]
            falls += last["high"] < first["low"]
            open_ += not (last["low"] > first["high"] or last["high"] < first["low"])
            step = last["theory"] - first["theory"] if "theory" in table.columns else np.nan
            theory_known += bool(np.isfinite(step))
            size = 1e-6 * abs(first["theory"]) if np.isfinite(step) else 0.0
            theory_rises += bool(step > size)
            theory_falls += bool(step < -size)
        if rises + falls + open_:
            ends = float(found[key].min()), float(found[key].max())
            out.append(Move(key, ends, rises, falls, open_, theory_rises, theory_falls, theory_known))
    return out


def movement(table: pd.DataFrame, keys: list[str], place: str) -> list[str]:
    """A sentence on all moves; no pairs, no sentence. place: its name in words."""
    parts = []
    for move in moves(table, keys):
        said = [f"{word} in {count}" for word, count in (("rises", move.rises), ("falls", move.falls)) if count]
        if move.open:
            said.append(f"is not told apart in {move.open}")
        text = f"with {plain(move.key)} ({number(move.ends[0])} to {number(move.ends[1])}) it {', '.join(said)}"
        text += f" of {move.total} settings"
        if move.theory_known:
            same = move.theory_known - move.theory_rises - move.theory_falls
            counts = (("rises", move.theory_rises), ("falls", move.theory_falls), ("stays", same))
            text += " (closed form: " + ", ".join(f"{word} in {count}" for word, count in counts if count) + ")"
        parts.append(text)
    if not parts:
        return []
    return [
        f"How the {place} moves, from the first value at which it is located to the last, all else equal: "
        + "; ".join(parts)
        + ". A move counts where the two intervals do not meet; what lies between the ends is in the figure."
    ]


def movement_words(table: pd.DataFrame, keys: list[str]) -> str:
    """The same in short, for a line that has said what the place is: "falls with overlap angle (in 23 of 29), ...".
    Only of what was compared in several settings."""
    parts = []
    for move in moves(table, keys):
        if move.total < 2:
            continue
        count, word = max((move.falls, "falls"), (move.rises, "rises"))
        other = min(move.falls, move.rises)
        if count:
            against = f", {'rises' if word == 'falls' else 'falls'} in {other}" if other else ""
            parts.append(f"{word} with {plain(move.key)} (in {count} of {move.total}{against})")
        else:
            parts.append(f"shows no clear move with {plain(move.key)} (0 of {move.total})")
    return ", ".join(parts)

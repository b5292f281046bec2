"""How a fitted place moves with the other parameters: in how many settings it rises or falls with each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.movement import turns
from raysweep.analyses.rows import groups
from raysweep.fits.result import Status
from raysweep.numbers import number
from raysweep.report.names import plain, settings
from raysweep.report.statuses import THEORY
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

RISES, FALLS, BOTH, OPEN, STAYS = "rises", "falls", "goes up and down", "is not told apart", "stays"
FEW = 3  # a move that fewer comparisons show, and not half of them, is none
LEANS = 5  # so many estimates that all go one way are worth a word
NAMED = 4  # of so few comparisons that go both ways each is named


@dataclass(frozen=True)
class Move:
    """How the place changes with one key.

    It is counted over the settings of the other keys in which the place is known at two or more values of the key.

    ends: the smallest and the largest of the values that were compared.
    fitted: in how many settings the place rises, falls, or shows no clear change from the first value to the last.
    theory: in how many settings the closed form's place rises, falls or stays between the same two values.
    where: in which settings the place rises, falls, or shows no clear change, by the word for it.
    by_bounds: whether bounds count as places.
    leans: rises or falls if all estimates do, in at least `LEANS` comparisons, whether their intervals meet or not.
    """

    key: str
    ends: tuple[float, float]
    fitted: Counter[str]
    theory: Counter[str]
    where: dict[str, list[str]]
    by_bounds: bool = False
    leans: str = ""


def moves(table: pd.DataFrame, keys: list[str], workload: Workload) -> list[Move]:
    """Whether the place rises or falls with each key, with all other keys fixed.

    The places at the first and the last value of the key with a located place are compared. The place rises or falls
    only if the two intervals do not overlap. If fewer than two settings can be compared so, bounds count as places.

    table: one row per setting with status, low, high, the keys, and the closed form's place `theory` if there is one.
    """
    found = table[table["status"] == Status.LOCATED]
    bounded = table[table["status"].isin([Status.LOCATED, Status.CENSORED_LOW, Status.CENSORED_HIGH])]
    out = []
    for key in keys:
        if table[key].dtype.kind not in "if" or table[key].nunique() < 2:
            continue
        move = moved(found, keys, key, workload)
        if move is None or move.fitted.total() < 2:  # of few places their bounds say more
            wider = moved(bounded, keys, key, workload, by_bounds=True)
            move = wider if wider and (move is None or wider.ends != move.ends) else move
        out += [move] if move else []
    return out


def moved(known: pd.DataFrame, keys: list[str], key: str, workload: Workload, by_bounds: bool = False) -> Move | None:
    """How the place changes with one key between settings with a place or a bound; None if none can be compared.

    Of two settings that are compared at least one has a place.
    """
    fitted, theory = Counter[str](), Counter[str]()
    where: dict[str, list[str]] = {RISES: [], FALLS: [], BOTH: [], OPEN: []}
    others = [other for other in keys if other != key]
    compared: list[float] = []
    steps: list[float] = []
    for values, rows in groups(known, others):
        if rows[key].nunique() < 2:
            continue
        first, last = rows.loc[rows[key].idxmin()], rows.loc[rows[key].idxmax()]
        if Status.LOCATED not in (first["status"], last["status"]):
            continue
        compared += [float(first[key]), float(last[key])]
        word = RISES if last["low"] > first["high"] else FALLS if last["high"] < first["low"] else OPEN
        word = BOTH if word == OPEN and turns(rows.sort_values(key)) else word
        fitted[word] += 1
        where[word].append(settings(others, values, workload))
        steps.append(np.sign(last["estimate"] - first["estimate"]) if "estimate" in known.columns else np.nan)
        step = last["theory"] - first["theory"] if "theory" in known.columns else np.nan
        if np.isfinite(step):
            size = 1e-6 * abs(first["theory"])
            theory[RISES if step > size else FALLS if step < -size else STAYS] += 1
    if not fitted:
        return None
    alike = len(steps) >= LEANS and abs(sum(steps)) == len(steps)
    leans = (RISES if steps[0] > 0 else FALLS) if alike else ""
    return Move(key, (min(compared), max(compared)), fitted, theory, where, by_bounds, leans)


def movement(table: pd.DataFrame, keys: list[str], place: str, workload: Workload) -> list[str]:
    """A paragraph on how the place changes with each key; an empty list if nothing can be compared.

    place: the name of the place in words.
    """
    parts = []
    for move in moves(table, keys, workload):
        said = ", ".join(f"{word} in {move.fitted[word]}" for word in (RISES, FALLS, BOTH, OPEN) if move.fitted[word])
        text = f"with {plain(move.key)} ({number(move.ends[0])} to {number(move.ends[1])}) it {said}"
        text += f" of {move.fitted.total()} settings"
        known = ", ".join(f"{word} in {move.theory[word]}" for word in (RISES, FALLS, STAYS) if move.theory[word])
        parts.append(text + (f" ({THEORY}: {known})" if known else ""))
    if not parts:
        return []
    return [
        f"How the {place} moves, from the first value at which it is known to the last, all else equal: "
        + "; ".join(parts)
        + ". A move counts where the two intervals do not meet; where they meet, it goes up and down if a place "
        "between lies above places on both sides of it, or below both, by intervals that hold for all of these at once."
    ]


def movement_words(
    table: pd.DataFrame, keys: list[str], workload: Workload, left_out: Collection[str] = ()
) -> tuple[str, str]:
    """(the changes of the place in short, for example "falls with overlap angle (23 of 29 comparisons), rises with
    ...", the axes with which it shows none); each empty if there are none.

    It includes only keys that were compared in several settings or, of several keys, moved the only one, without those
    that are left out. A move is one that at least half of them show, or a quarter if hardly any goes the other way. Of
    a few comparisons that go both ways it says which go which way.
    """
    moved: list[str] = []
    single: list[str] = []
    still: list[str] = []
    several = sum(table[key].nunique() > 1 for key in keys) > 1
    for move in moves(table, keys, workload):
        count, word = max((move.fitted[word], word) for word in (FALLS, RISES))
        other, against = min((move.fitted[word], word) for word in (FALLS, RISES))
        total = move.fitted.total()
        silent = bool(count) != several and not move.by_bounds  # a single key that moves them is seen in the places
        if move.key in left_out or (total < 2 and silent):
            continue
        if other and total <= NAMED:
            up, down = (" and at ".join(move.where[way]) for way in (RISES, FALLS))
            moved.append(f"{RISES} with {plain(move.key)} at {up} but {FALLS} at {down}")
            continue
        opposed = f", {against} in {other}" if other else ""
        if (both := move.fitted[BOTH]) and 2 * max(both, count) >= total and both > count:
            moved.append(f"goes up and down with {plain(move.key)} ({both} of {total})")
        elif count >= total / 2 or (FEW <= count >= total / 4 and count > 3 * other):
            if total > 1:
                moved.append(f"{word} with {plain(move.key)} ({count} of {total}{opposed})")
            else:
                first, last = map(number, move.ends)
                way = f"{'higher' if word == RISES else 'lower'} at {plain(move.key)} {last} than at {first}"
                single.append(way + (" (of one of them only a bound is known)" if move.by_bounds else ""))
        else:
            opposed += f", up and down in {both}" if both else ""
            opposed += f", though all estimates {move.leans.removesuffix('s')}" if move.leans else ""
            ends = f"{' to '.join(map(number, move.ends))}"
            shown = f"{f'{word} in ' if count else ''}{count} of {total}{opposed}" if total > 1 else ends
            still.append(f"{plain(move.key)} ({shown})")
    if single:
        single[0] = f"is {single[0]}"
    none = f"shows no clear move with {', '.join(still)}" if still else ""
    return comparisons(", ".join([*moved, *single])), comparisons(none)


def comparisons(text: str) -> str:
    """The text that says once in how many comparisons: "(3 of 4 comparisons), falls with depth (2 of 3)"."""
    return re.sub(r"( of \d+)", r"\1 comparisons", text, count=1)

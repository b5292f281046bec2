"""What sections that fit one place per setting (inflection, optimum, boundary) have in common: words and a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.result import Status
from raysweep.fits.sample_size import Advice, advice_words
from raysweep.reporting.analyses.movement import movement_words
from raysweep.reporting.analyses.section import Drawing
from raysweep.reporting.figures.places import places_figure
from raysweep.reporting.figures.style import picked
from raysweep.reporting.selection import groups
from raysweep.reporting.words import interval, number, plain, settings, unit_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def not_located(whole: pd.DataFrame) -> list[str]:
    """A paragraph on the settings without a located place, by status and reason; none, no paragraph."""
    other = whole[whole["status"] != Status.LOCATED]
    if not len(other):
        return []
    reasons = other.groupby(["status", "note"], sort=False).size()
    return [
        "Not located: "
        + "; ".join(
            f"{status.replace('_', ' ')} in {count}" + (f" ({note})" if note else "")
            for (status, note), count in reasons.items()
        )
        + "."
    ]


def others_words(whole: pd.DataFrame) -> str:
    """How many settings have which other answer, ready to append to a line; with the reason where none is located."""
    other = whole[whole["status"] != Status.LOCATED]
    parts = []
    for status, rows in other.groupby("status", sort=False):
        notes = rows["note"][rows["note"] != ""].value_counts()
        if len(other) < len(whole) or not len(notes):
            why = ""
        elif notes.iloc[0] == len(rows):
            why = f" ({notes.index[0]})"
        else:  # the commonest is not the reason of all
            why = f" ({'; '.join(f'{count} of them: {note}' for note, count in notes.items())})"
        parts.append(f"{str(status).replace('_', ' ')} in {len(rows)}{why}")
    return "; " + ", ".join(parts) if parts else ""


def unlocated_words(row: Mapping[str, Any], unit: str) -> str:
    """One setting without a located place: its status, what is known, and why."""
    known = interval(row["estimate"], row["low"], row["high"])
    return (
        row["status"].replace("_", " ")
        + (f", {known}{unit}" if known != "–" else "")
        + (f" ({row['note']})" if row["note"] else "")
    )


def beside_theory(row: Mapping[str, Any], unit: str) -> str:
    """The closed form's place, and z where there is one, ready to append to a line; empty without a place."""
    if not np.isfinite(row["theory"]):
        return ""
    score = f" (z = {row['z']:+.2g})" if not np.isnan(row["z"]) else ""
    return f"; closed form {number(row['theory'], 5)}{unit}{score}"


def moving(whole: pd.DataFrame, keys: list[str]) -> str:
    """How the place moves with the other axes, ready to append to a line; empty where nothing can be compared."""
    words = movement_words(whole, keys)
    return f"; it {words}" if words else ""


def halving(whole: pd.DataFrame, x: str, workload: Workload) -> list[str]:
    """A paragraph on what would halve the intervals; nothing where no setting can say."""
    known = whole[(whole["status"] == Status.LOCATED) & whole["draws_to_halve"].notna()]
    if not len(known):
        return []
    if len(known) == 1:
        row = known.iloc[0]
        return [f"To halve the interval: {advice(row, x, workload)}."]
    enough = known["halved"].to_numpy(bool)
    points = known["points_to_halve"].to_numpy(float) > 0
    times = (known["draws_to_halve"] / known["draws"]).to_numpy(float)
    beside = "{points:g} more values of {x} beside the place"
    parts = []
    for use, words in (
        (enough & ~points, "more draws would in {count} (typically {times:.2g} times as many)"),
        (enough & points & (times == 1), "more draws would not in {count}, but " + beside + " would"),
        (enough & points & (times > 1), beside + " together with {times:.2g} times the draws would in {count}"),
        (~enough, "neither alone would in {count}"),
    ):
        if use.any():
            more = float(np.median(known["points_to_halve"].to_numpy(float)[use]))
            parts.append(
                words.format(count=int(use.sum()), times=float(np.median(times[use])), x=plain(x), points=more)
            )
    return [f"To halve the interval (of {len(known)} located): " + "; ".join(parts) + ". The table says it for each."]


def advice(row: Mapping[str, Any], x: str, workload: Workload) -> str:
    """What would halve one setting's interval, in words."""
    wanted = Advice(
        int(row["draws_to_halve"]),
        int(row["points_to_halve"]),
        row["points_from"],
        row["points_to"],
        bool(row["halved"]),
    )
    unit = unit_of(x, workload)
    return advice_words(int(row["draws"]), wanted, plain(x), lambda value: f"{number(value, 3)}{unit}")


def advice_cell(row: Mapping[str, Any]) -> str:
    """The same in a cell of a table: "48 draws", "2 more in 1.6 to 3.6, 24 draws"."""
    if row["status"] != Status.LOCATED or not np.isfinite(row["draws_to_halve"]):
        return "–"
    parts = []
    if row["points_to_halve"] > 0:
        parts.append(
            f"{row['points_to_halve']:g} more in {number(row['points_from'], 3)} to {number(row['points_to'], 3)}"
        )
    if row["draws_to_halve"] > row["draws"]:
        parts.append(f"{row['draws_to_halve']:g} draws")
    return ", ".join(parts) + ("" if row["halved"] else " (not enough)")


def line_drawing(
    whole: pd.DataFrame,
    keys: list[str],
    along: str,
    x: str,
    workload: Workload,
    level: float,
    place: str,
    name: str,
    caption: str,
) -> Drawing | None:
    """The fitted place against one of the keys, a line for every combination of the others (eight at most); None where
    there is no place to show."""
    if whole["status"].isin([Status.UNDETERMINED, Status.MONOTONE]).all():
        return None
    others = [key for key in keys if key != along]
    lines = []
    combinations = list(groups(whole, others))
    for index in picked(len(combinations), 8):
        values, table = combinations[index]
        label = settings(others, values, workload)
        key = values[0] if len(values) == 1 else label
        lines.append((key, label, table, table[along].to_numpy(float), table["theory"].to_numpy(float)))
    return Drawing(name, caption, places_figure(lines, x, along, workload, level, place))

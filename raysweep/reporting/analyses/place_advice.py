"""What would halve the intervals of fitted places, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.fits.result import Status
from raysweep.fits.sample_size import Advice, advice_words
from raysweep.numbers import number
from raysweep.report.names import plain
from raysweep.reporting.analyses.fitted_places import Places


def halving(places: Places) -> list[str]:
    """A paragraph on what would halve the intervals; an empty list if no setting has advice."""
    known = places.found[places.found["draws_to_halve"].notna()]
    if not len(known):
        return []
    if len(known) == 1:
        return [f"To halve the interval: {advice(places, known.iloc[0])}."]
    enough = known["halved"].to_numpy(bool)
    points = known["points_to_halve"].to_numpy(float)
    times = (known["draws_to_halve"] / known["draws"]).to_numpy(float)
    beside = f"{{points:g}} more values of {plain(places.asked.x)} beside the place"
    parts = [
        words.format(count=int(use.sum()), times=float(np.median(times[use])), points=float(np.median(points[use])))
        for use, words in (
            (enough & ~(points > 0), "more draws would in {count} (typically {times:.2g} times as many)"),
            (enough & (points > 0) & (times == 1), f"more draws would not in {{count}}, but {beside} would"),
            (
                enough & (points > 0) & (times > 1),
                f"{beside} together with {{times:.2g}} times the draws would in {{count}}",
            ),
            (~enough, "neither alone would in {count}"),
        )
        if use.any()
    ]
    return [f"To halve the interval (of {len(known)} located): " + "; ".join(parts) + ". The table says it for each."]


def advice(places: Places, row: Mapping[str, Any]) -> str:
    """What would halve one setting's interval, in words."""
    draws, points = int(row["draws_to_halve"]), int(row["points_to_halve"])
    wanted = Advice(draws, points, row["points_from"], row["points_to"], bool(row["halved"]))
    unit = places.unit
    return advice_words(int(row["draws"]), wanted, plain(places.asked.x), lambda value: f"{number(value, 3)}{unit}")


def advice_cell(row: Mapping[str, Any]) -> str:
    """The advice for a table cell, for example "48 draws" or "2 more in 1.6 to 3.6, 24 draws"."""
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

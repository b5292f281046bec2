"""What is said of the only setting of a boundary where no zero is located in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.analyses.question import Question
from raysweep.fits.reasons import MESSAGES, Reason
from raysweep.fits.statistics import mean_band
from raysweep.numbers import interval, number
from raysweep.report.names import amount, plain, unit_of, without_common_beginning
from raysweep.report.statuses import BEYOND_OK, MAYBE_BEYOND, PARTLY, bound_words, status_word

ONE_SIDE = {"below": ("up to", "above"), "above": ("from", "below")}
"""Of a curve with one sign below, or above, a value: how far it has this sign, and where its zero lies."""


def one_sign(asked: Question, row: Mapping[str, Any], signs: tuple[str, str]) -> str:
    """What the setting says if its metric has one sign that means something; else empty.

    row: its place (see `fitted_places.Places.table`). signs: what positive and negative values mean, if something.
    """
    word, x = row["note"].split(" ")[0], plain(asked.x)
    if row["note"] == MESSAGES[Reason.NO_CLEAR_SIGN] and all(signs):
        tried = asked.rows[asked.x].nunique()
        return f"at none of {tried} values of {x} is it clear whether {signs[0]} or {without_common_beginning(*signs)}"
    meaning = dict(zip(("positive", "negative"), signs, strict=True)).get(word, "")
    if not meaning:
        return ""
    everywhere = f"{meaning} at every {x} of the grid"
    if row["note"].startswith(f"{word} everywhere"):
        return everywhere
    if partly := PARTLY.search(row["note"]):
        return f"{meaning} at {partly[1]} of {partly[2]} values of {x}, not clear at the others"
    side = row["note"].removeprefix(f"{word} ").split(",")[0]
    if side not in ONE_SIDE:
        return ""
    word = status_word(row["status"], row["note"])
    reach, there = ONE_SIDE[side]
    if word == BEYOND_OK:
        return f"{meaning} {reach} {x} {bound_words(row, unit_of(asked.x, asked.workload))}, no row is ok {there}"
    if word != MAYBE_BEYOND:
        return everywhere
    bound, tried = bound_words(row, unit_of(asked.x, asked.workload)), sorted(asked.rows[asked.x].unique())
    clear, other = tried[:: 1 if side == "below" else -1][:2] if len(tried) == 2 else (np.nan, np.nan)
    if bound == f"{number(clear, 3)}{unit_of(asked.x, asked.workload)}":
        return f"{meaning} at {x} {bound}, not clear at {amount(other, unit_of(asked.x, asked.workload))}"
    return f"{meaning} {reach} {x} {bound}, not clear {there}"


def sizes_at_the_ends(asked: Question, row: Mapping[str, Any]) -> str:
    """The mean of the metric at both ends of the grid, each with its interval over draws; empty without several draws,
    and where draws have no variance. row: the setting's place."""
    if row.get("scale", "") == "sign" or "seed" not in asked.rows.columns:
        return ""
    draws = asked.rows.pivot_table(index="seed", columns=asked.x, values=asked.metric)
    if draws.shape[1] < 2 or len(draws) < 2:
        return ""
    ends = draws.iloc[:, [0, -1]]
    said = [
        f"{interval(mean, low, high)} at {amount(x, unit_of(asked.x, asked.workload))}"
        for x, mean, low, high in zip(ends.columns, *mean_band(ends.to_numpy(float), asked.level), strict=True)
        if np.isfinite(low)
    ]
    return f"{' and '.join(said)} ({asked.percent} each; signs are judged from all values together)" if said else ""

"""What is said of settings without a place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.result import Status
from raysweep.report.statuses import BEYOND, NO_ROW_OK, NOT_DECIDED, status_word

if TYPE_CHECKING:
    import pandas as pd

COUNT = re.compile(r" in \d+")


def among_all(said: Sequence[str], every: str) -> list[str]:
    """How many settings say what, with the number of all settings in the first: "not decided in 8 of 14 settings".

    said: the most frequent first. every: all settings, in words.
    """
    first, *rest = said
    return [COUNT.sub(rf"\g<0> of {every}", first, count=1), *rest]


def nowhere(said: Sequence[str], what: str, count: int, every: str) -> tuple[str, list[str]]:
    """(that no setting has a place, and what the settings say instead; why it is not decided, if it is so).

    said: how many settings say what, the most frequent first. what: the kind of place. count, every: how many settings
    there are, as a number and in words.
    """
    brief, why = list(said), []
    for place, text in enumerate(said):
        if text.startswith(NOT_DECIDED):
            brief[place], _, reasons = text.partition(" (")
            why = [reasons.removesuffix(")")] if reasons else []
    if brief[0] == f"{NOT_DECIDED} in {count}":
        return f"{NOT_DECIDED}: no {what} is found in any of {every}", why
    if brief[0].startswith(NOT_DECIDED):
        first, *others = among_all(brief, every)
        why = [f"why {NOT_DECIDED}: {reasons}" for reasons in why]
        return f"{first}: {what}; none is found in the others: {', '.join(others)}", why
    return f"no {what} is found in any of {every}: {', '.join(brief)}", why


def known_to_the_last_ok_row(
    table: pd.DataFrame, rows: pd.DataFrame, x: str, y: str | None, metric: str
) -> pd.DataFrame:
    """The table of a boundary fit, whose notes say where a zero is not known because no row beyond some x is ok.

    rows: those of the fit. y: the column of its slices; None for a single slice.
    """
    table = table.copy()
    for place, row in enumerate(table.to_dict("records")):
        if status_word(row["status"], row["note"]) != BEYOND:
            continue
        own = rows[rows[y] == row[y]] if y else rows
        tried, good = own[x], own.loc[(own["status"] == "ok") & np.isfinite(own[metric].astype(float)), x]
        up = row["status"] == Status.CENSORED_HIGH
        if tried.max() > good.max() if up else tried.min() < good.min():
            table.loc[table.index[place], "note"] = f"{row['note']}{NO_ROW_OK} {'above' if up else 'below'}"
    return table

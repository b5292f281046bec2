"""The fitted places of a section for the page to explore: what is said of each, and the sweep that would narrow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.rows import finite_values
from raysweep.fits.draws import log_axis, not_zero
from raysweep.fits.result import Status
from raysweep.numbers import interval, number, signed
from raysweep.phrases import counted
from raysweep.report.names import first_capital, labelled, plain
from raysweep.report.statuses import AT_EDGE, BEYOND, OPEN, THEORY, needed, status_word, status_words, why_one
from raysweep.reporting.analyses.explored import explored
from raysweep.reporting.analyses.fitted_places import Places
from raysweep.reporting.analyses.place_advice import advice
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

TIMES = 4
"""So many times the seeds halve a standard error. They are asked for where the report advises more seeds, but not how
many."""


def explored_places(places: Places, rows: pd.DataFrame, along: str | None) -> dict[str, Any]:
    """The places and their curves as plain data (see `explored`). rows: those of all curves."""
    table = [
        {**row, "lines": told(places, row), "next": narrower(places, row, rows)}
        for row in places.table.to_dict("records")
    ]
    return explored(
        places.asked, rows, places.asked.metric, places.keys, table, labelled(places.what, places.asked.workload), along
    )


def told(places: Places, row: Mapping[str, Any]) -> list[str]:
    """What the report says about one setting, in the report's words: the place, theory's, and what would narrow it."""
    asked, x, unit = places.asked, plain(places.asked.x), places.unit
    if row["status"] == Status.LOCATED:
        known = interval(row["estimate"], row["low"], row["high"])
        lines = [f"{first_capital(places.what)}: {known}{unit} ({asked.percent})."]
    else:
        said = status_words(dict(row), asked.x, unit)
        lines = [f"{first_capital(places.what)}: {said}{why_one(row['note'])}."]
    if np.isfinite(row["theory"]):
        score = f" (z = {signed(row['z'])})" if np.isfinite(row["z"]) else ""
        lines.append(f"{first_capital(THEORY)}: {number(row['theory'], 5)}{unit}{score}.")
    lines.append(f"{counted(int(row['draws']), 'seed')}.")
    if advised(row):
        lines.append(f"To halve the interval: {advice(places, row)}.")
    elif status_word(row["status"], row["note"]) in OPEN:
        lines.append(f"Deciding it takes {needed(row['status'], row['note'], x)}.")
    return [labelled(line, asked.workload) for line in lines]


def advised(row: Mapping[str, Any]) -> bool:
    """Whether the report says what would halve the interval of a setting."""
    return bool(row["status"] == Status.LOCATED and np.isfinite(row.get("draws_to_halve", np.nan)))


def narrower(places: Places, row: Mapping[str, Any], rows: pd.DataFrame) -> dict[str, Any] | None:
    """What the next sweep has more of, to narrow or decide one place: `seeds`, how many in all, and `values`, further
    ones of x. None if more of neither would."""
    asked, x = places.asked, places.asked.x
    known, draws = finite_values(rows, x), int(row["draws"])
    log = log_axis(not_zero(known), places.logarithmic)
    known = not_zero(known) if log else known
    if advised(row):
        first, last = float(row["points_from"]), float(row["points_to"])
        near = 1e-6 * (last - first)  # the ends went through a logarithm
        beside = known[(known >= first - near) & (known <= last + near)]
        values = between(beside, log) if row["points_to_halve"] > 0 else []
        seeds = int(row["draws_to_halve"])
    elif row["status"] == Status.LOCATED:
        exact = not row["high"] > row["low"]
        values, seeds = [], draws if exact else TIMES * draws
    else:
        word = status_word(row["status"], row["note"])
        takes = needed(row["status"], row["note"], plain(x))
        if word not in OPEN:
            return None
        values = further(known, row["status"] == Status.CENSORED_HIGH, log) if word in (BEYOND, AT_EDGE) else []
        seeds = TIMES * draws if takes == "more seeds" else draws
    allowed = [value for value in values if valid(value, x, asked.workload)]
    if seeds <= draws and not allowed:
        return None
    return {"seeds": max(seeds, draws), "values": allowed}


def between(known: np.ndarray, log: bool) -> list[float]:
    """A value in the middle between each two neighbours."""
    u = np.log(known) if log else known
    middle = (u[1:] + u[:-1]) / 2
    return [float(f"{value:.6g}") for value in (np.exp(middle) if log else middle)]


def further(known: np.ndarray, up: bool, log: bool) -> list[float]:
    """The next two values beyond the grid, spaced as its last two are."""
    if len(known) < 2:
        return []
    u = np.log(known) if log else known
    step = u[-1] - u[-2] if up else u[0] - u[1]
    beyond = (u[-1] if up else u[0]) + step * np.array([1.0, 2.0])
    return [float(f"{value:.6g}") for value in (np.exp(beyond) if log else beyond)]


def valid(value: float, x: str, workload: Workload) -> bool:
    """Whether a further value is allowed for the parameter; values between whole ones are not."""
    try:
        workload.by_name[x].coerce(value)
    except ValueError:
        return False
    return True

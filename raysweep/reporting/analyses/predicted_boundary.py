"""The predicted_boundary analysis: does a power law, equated with a level, say where a metric changes sign?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.kinds.predicted_boundary import both_places
from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups, is_number
from raysweep.fits.result import Status
from raysweep.numbers import interval, number
from raysweep.phrases import counted, some_of
from raysweep.report.figures.fitted_places import PlaceLine, places_figure
from raysweep.report.names import first_capital, plain, settings
from raysweep.report.statuses import status_word, why_one
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.analyses.where import in_brackets

if TYPE_CHECKING:
    import pandas as pd


def predicted_boundary_section(asked: Question) -> Section:
    """Both places of each setting, their figure and table, of one `predicted_boundary` entry."""
    import pandas as pd

    x, law, meets = asked.x, asked.options["law"], asked.options["meets"]
    keys = asked.keys(x)
    whole = pd.DataFrame(
        [
            {**dict(zip(keys, values, strict=True)), **both_places(rows, asked)[0]}
            for values, rows in groups(asked.rows, keys)
        ]
    )
    said, detail = headline(whole, keys, asked)
    return Section(
        title=f"Predicted boundary: the power law of {law} equated with {meets}",
        headline=said,
        detail=detail,
        paragraphs=[how(asked), *not_found(whole)],
        drawings=drawings(whole, keys, asked),
        shown=[shown_row(row, keys, asked) for row in whole.to_dict("records")],
        tables={f"{asked.name}_places": whole},
    )


def compared(whole: pd.DataFrame) -> pd.DataFrame:
    """The settings in which both places are known, the measured one at least as a bound."""
    return whole[np.isfinite(whole["predicted"]) & (whole["status"] != Status.UNDETERMINED)]


def headline(whole: pd.DataFrame, keys: list[str], asked: Question) -> tuple[str, str]:
    """(how far the prediction is from what was measured, the setting in the middle as an example), in words."""
    law, meets, both = asked.options["law"], asked.options["meets"], compared(whole)
    what = f"predicted is where the power law of {law} meets {meets}"
    if not len(both):
        return "no setting has both the predicted and the measured place", what
    agree = sides(both, keys, asked)
    located = both[both["status"] == Status.LOCATED]
    if not len(located):
        return agree, f"{what} ({asked.percent})"
    span = " to ".join(dict.fromkeys(number(end, 3) for end in (located["ratio"].min(), located["ratio"].max())))
    known = ""
    if len(located) < len(both):
        there = in_brackets(both, both.index.isin(located.index), keys, asked.workload)
        known = f" in the {counted(len(located), 'setting')} where that is measured{there}"
    row = located.iloc[(len(located) - 1) // 2]
    where = f"{settings(keys, row[keys], asked.workload)}: " if keys else ""
    measured = interval(row["estimate"], row["low"], row["high"])
    return (
        f"{agree}: it is {span} times the measured {plain(asked.x)}{known}",
        f"{where}{predicted(row)} predicted, {measured} measured ({asked.percent}); {what}",
    )


def sides(both: pd.DataFrame, keys: list[str], asked: Question) -> str:
    """In how many settings the prediction lies below what was measured, above it, or is not told apart from it."""
    higher = both["predicted_low"] > both["high"]
    ways = {"too low": both["apart"] & ~higher, "too high": higher, "not shown to be off": ~both["apart"]}
    every = counted(len(both), "setting")
    there = sorted((each for each in ways.items() if each[1].any()), key=lambda each: -int(each[1].sum()))
    if len(there) == 1:
        return f"the prediction is {there[0][0]} in {some_of(len(both), len(both), 'setting')}"
    said = [
        f"{way} in {int(own.sum())}{'' if place else f' of {every}'}" + in_brackets(both, own, keys, asked.workload)
        for place, (way, own) in enumerate(there)
    ]
    return f"the prediction is {', '.join(said)}"


def predicted(row: Mapping[str, Any]) -> str:
    """The predicted place of a setting with its interval."""
    return interval(row["predicted"], row["predicted_low"], row["predicted_high"])


def how(asked: Question) -> str:
    """How the numbers were computed, in words."""
    x, law, meets = plain(asked.x), asked.options["law"], asked.options["meets"]
    return (
        f"Predicted is the {x} at which the least-squares line of log {law} over log {x} is equal to log {meets}. Both "
        "come from the same draws: the interval holds the places at which Student's t over draws does not tell them "
        f"apart (Fieller). Measured is the zero of {asked.metric}, as in a boundary analysis. They count as apart "
        f"where their {asked.percent} intervals have nothing in common, which says less often that they differ than a "
        "test of the difference would."
    )


def not_found(whole: pd.DataFrame) -> list[str]:
    """A paragraph on the settings without one of the places, or beyond the values of x; empty if there are none."""
    said = [
        *(f"{text} (in {count})" for text, count in whole["predicted_note"].value_counts().items() if text),
        *(
            f"measured: {status_word(status, note)} in {count}{why_one(note)}"
            for (status, note), count in whole.groupby(["status", "note"], sort=False).size().items()
            if status != Status.LOCATED
        ),
    ]
    if beyond := int(whole["beyond"].sum()):
        said.append(f"the prediction lies outside of the values in {beyond}: there the power law is prolonged")
    return [f"{first_capital('; '.join(said))}."] if said else []


def drawings(whole: pd.DataFrame, keys: list[str], asked: Question) -> list[Drawing]:
    """Both places over the first axis of numbers, at the first values of the others; empty without such an axis."""
    along = next((key for key in keys if is_number(asked.rows, key) and whole[key].nunique() > 1), None)
    if along is None:
        return []
    others = [key for key in keys if key != along]
    one = whole
    for key in others:
        one = one[one[key] == one[key].iloc[0]]
    guess = one[[along]].assign(
        status=np.where(np.isfinite(one["predicted"]), Status.LOCATED, Status.UNDETERMINED),
        estimate=one["predicted"],
        low=one["predicted_low"],
        high=one["predicted_high"],
    )
    nothing = np.empty(0)
    lines = [
        PlaceLine("measured", f"measured: zero of\n{asked.metric}", one, nothing, nothing),
        PlaceLine(
            "predicted", f"predicted: {asked.options['law']}\nmeets {asked.options['meets']}", guess, nothing, nothing
        ),
    ]
    at = f" at {settings(others, one.iloc[0][others], asked.workload)}" if others else ""
    caption = f"The zero of {asked.metric} in {plain(asked.x)} over {plain(along)}{at}, measured and predicted."
    figure, said = places_figure([("", lines)], asked.x, along, asked.workload, asked.level, "at the boundary", {})
    return [Drawing(f"{asked.name}_line", f"{caption} {said}", figure)]


def shown_row(row: Mapping[str, Any], keys: list[str], asked: Question) -> dict[str, str]:
    """One setting as a row of formatted text."""
    out = {plain(str(key)): number(row[key]) for key in keys}
    known = interval(row["estimate"], row["low"], row["high"])
    out[f"measured [{asked.percent}]"] = known if known != "–" else status_word(row["status"], row["note"])
    out[f"predicted [{asked.percent}]"] = predicted(row) + (" (beyond the values)" if row["beyond"] else "")
    out["predicted / measured"] = number(row["ratio"], 3)
    out["apart"] = ("yes" if row["apart"] else "no") if np.isfinite(row["predicted"]) else "–"
    out["draws"] = str(row["draws"])
    return out

"""Whether a power law, equated with a level, says where a metric changes sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.kinds.boundary import slice_scale
from raysweep.analyses.outcomes import needed, outcome, with_outcomes
from raysweep.analyses.places import PlaceLine, PlacesPlot, drawable
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import edges_of, groups, is_number
from raysweep.analyses.series import Panel
from raysweep.fits.boundary import fit_boundary
from raysweep.fits.power_law import fit_meeting
from raysweep.fits.result import Status
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space import checks

MEASURED = ("status", "estimate", "low", "high", "note")
PREDICTED = ("predicted", "predicted_low", "predicted_high", "beyond")
SOURCE = "zero"
"""What tells both lines of the figure apart: measured or predicted."""


def run(question: Question) -> Finding:
    """The measured and the predicted zero of a metric over x, one pair per setting."""
    x, keys = question.x, question.keys(question.x)
    whole = pd.DataFrame([{**where, **both_places(part, question)} for where, part in groups(question.rows, keys)])
    edges, seeds = edges_of(question.rows, x), int(question.rows["seed"].nunique())
    names, rows = (*keys, "estimate", "low", "high", *PREDICTED, "ratio", "draws"), []
    for row in whole.to_dict("records"):
        predicted = np.isfinite(row["predicted"])
        result, reason = judged(row), row["reason" if predicted else "predicted_reason"]
        missing = result == Outcome.UNDECIDED and predicted  # the measured place
        decides = needed(outcome(row["status"], reason) if missing else result, reason, *edges, seeds)
        rows.append({**{name: row[name] for name in names}, "outcome": result, "reason": reason, **decides})
    return question.finding(
        "predicted_boundary",
        rows,
        keys,
        facts={"law": question.options["law"], "meets": question.options["meets"]},
        tables={f"{question.name}_places": whole.drop(columns=["reason", "predicted_reason"])},
        plots=lambda: plots(question, whole, keys),
    )


def both_places(rows: pd.DataFrame, question: Question) -> dict[str, Any]:
    """The measured and the predicted place of one setting, and whether their intervals are apart."""
    x, metric, level = question.x, question.metric, question.level
    scale, log = slice_scale(rows, None, metric, question.workload), question.workload.logarithmic(x)
    zero = fit_boundary(rows, x, None, metric, "seed", level, scale=scale, logarithmic=log).table.iloc[0]
    law, meets = str(question.options["law"]), str(question.options["meets"])
    meeting = fit_meeting(rows, x, law, meets, "seed", level)
    return {
        **{name: zero[name] for name in MEASURED},
        "predicted": meeting.place,
        "predicted_low": meeting.low,
        "predicted_high": meeting.high,
        "beyond": meeting.beyond,
        "predicted_note": meeting.note,
        "ratio": meeting.place / zero["estimate"],
        "apart": bool(meeting.high < zero["low"] or meeting.low > zero["high"]),
        "draws": meeting.draws,
        "reason": str(zero["reason"]),
        "predicted_reason": str(meeting.reason),
    }


def judged(row: dict[str, Any]) -> Outcome:
    """Whether the predicted place is lower or higher than the measured one, of which at least a bound is known, or
    agrees with it: their intervals meet."""
    if not np.isfinite(row["predicted"]) or row["status"] == Status.UNDETERMINED:
        return Outcome.UNDECIDED
    if row["predicted_low"] > row["high"]:
        return Outcome.HIGHER
    return Outcome.LOWER if row["apart"] else Outcome.AGREES


def plots(question: Question, whole: pd.DataFrame, keys: Sequence[str]) -> list[PlacesPlot]:
    """Both places over the first axis of numbers, at the first values of the others; empty without such an axis."""
    x = question.x
    along = next((key for key in keys if is_number(question.rows, key) and whole[key].nunique() > 1), None)
    if along is None:
        return []
    where, one = next(groups(whole, [key for key in keys if key != along]))
    one = with_outcomes(one, edges_of(question.rows, x))
    columns = {"predicted": "estimate", "predicted_low": "low", "predicted_high": "high"}
    guess = one[[along, *columns]].rename(columns=columns)
    guess["outcome"] = np.where(np.isfinite(guess["estimate"]), Outcome.LOCATED, Outcome.UNDECIDED)
    places, nothing = {"measured": one, "predicted": guess}, np.empty(0)
    lines = [PlaceLine({SOURCE: name}, along, table, nothing, nothing) for name, table in places.items()]
    return drawable(PlacesPlot(f"{question.name}_line", [Panel(where, lines)], x, question.metric, "zero", len(lines)))


ANALYSIS = Analysis(
    kind="predicted_boundary",
    question="Does {meets} say at which {x} {metric} changes sign?",
    run=run,
    required={**allowed.METRIC_X, "law": checks.metric, "meets": checks.metric},
    optional=allowed.BY_LEVEL,
    columns=(*MEASURED, *PREDICTED, "apart", "draws", "predicted_note", "ratio"),
    along="x",
)

"""The analysis `r_squared`: how much of a metric do others explain, over units such as pairs of tasks?"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed, Outcome
from raysweep.analyses.outcomes import takes
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import all_keys, groups, spread
from raysweep.analyses.series import PANELS, CurvesPlot, Panel, Series, plain_series
from raysweep.fits.correlation import Explained, difference, explained
from raysweep.fits.reasons import Reason
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space import checks


def run(question: Question) -> Finding:
    """The predictor with the highest R² in each setting (the keys and x), and whether it is clearly the best."""
    x, metric, unit = question.x, question.metric, str(question.options["unit"])
    predictors = list(dict.fromkeys(question.options["predictors"]))
    good = question.rows[question.rows["status"] == "ok"]
    keys = [key for key in all_keys(good, question.workload, x, [*question.by, unit], question.design) if key != unit]
    values, settings = list[dict[str, Any]](), list[dict[str, Any]]()
    for where, part in groups(good, [*keys, x]):
        rows, best = of_group(part, metric, predictors, unit, question.level)
        values += [{**where, **row} for row in rows]
        settings.append({**where, **best})
    table = pd.DataFrame(values)
    name, units = question.name, int(table["units"].max())

    def line(predictor: str, rows: pd.DataFrame) -> Series:
        rows = rows[(rows["predictor"] == predictor) & np.isfinite(rows["r_squared"])].sort_values(x)
        return plain_series({"predictor": predictor}, rows, (x, "r_squared", "low", "high"))

    def plots() -> list[CurvesPlot]:
        shown = spread(list(groups(table, keys)), PANELS)
        panels = [Panel(where, [line(each, rows) for each in predictors]) for where, rows in shown]
        return [CurvesPlot(name, panels, x, metric)] if table["r_squared"].notna().any() else []

    return question.finding(
        "r_squared",
        settings,
        [*keys, x],
        facts={"predictors": predictors, "unit": unit, "units": units},
        tables={f"{name}_values": table},
        plots=plots,
    )


def of_group(
    rows: pd.DataFrame, metric: str, predictors: list[str], unit: str, level: float
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(one row per predictor: R², its interval, by how much it is above or below that of the first predictor, and
    whether it is clearly the best; the row of the finding, which has the best one).

    Predictors are compared on the same units: their errors are much alike, so the interval of a difference tells far
    more than those of both. The best must be above each other one. No correction is needed: where two are equally good,
    one is falsely called the best in about one of 20 samples of units, where more are, in fewer.
    """
    shaped = {
        name: rows.pivot_table(index="seed", columns=unit, values=name, dropna=False).to_numpy(float)
        for name in dict.fromkeys((metric, *predictors))
    }
    (first, *_), y, out = predictors, shaped[metric], list[dict[str, Any]]()
    for name in predictors:
        more = (0.0,) * 3 if name == first else difference(shaped[name], shaped[first], y, level)
        above = dict(zip(("more", "more_low", "more_high"), more, strict=True))
        out.append({"predictor": name, **vars(explained(shaped[name], y, level)), **above, "best": False})
    finite = [one for one in out if np.isfinite(one["r_squared"])]
    if not finite:
        reason, units = out[0]["reason"], out[0]["units"]
        few = takes(Needed.MORE_UNITS, units) if reason == Reason.TOO_FEW_UNITS else {}
        return out, {"outcome": Outcome.UNDECIDED, "reason": reason, "units": units, **few}
    top = max(finite, key=lambda one: one["r_squared"])
    others = [shaped[one["predictor"]] for one in finite if one is not top]
    lows = [difference(shaped[top["predictor"]], other, y, level)[1] for other in others]
    top["best"] = bool(lows) and all(low > 0 for low in lows)  # NaN: too few units have both
    row = {"estimate": top["r_squared"], **{name: top[name] for name in ("low", "high", "predictor", "units", "draws")}}
    if top["best"] or len(finite) == 1:
        return out, {**row, "outcome": Outcome.BEST if top["best"] else Outcome.MEASURED}
    return out, {**row, "outcome": Outcome.UNCLEAR, **takes(Needed.MORE_UNITS, top["units"])}


ANALYSIS = Analysis(
    kind="r_squared",
    question="What explains {metric}?",
    run=run,
    required={**allowed.METRIC_X, "predictors": allowed.metrics, "unit": checks.axis},
    optional=allowed.BY_LEVEL,
    columns=(*(one.name for one in fields(Explained)), "best", "more", "more_high", "more_low", "predictor"),
)

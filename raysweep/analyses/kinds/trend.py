"""The analysis `trend`: does a metric rise or fall along an axis, and does it so throughout?"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.outcomes import needed
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import finite_values, groups
from raysweep.analyses.series import curves_plot, grid_theory
from raysweep.analyses.single_runs import degrees_of, method_of, with_errors
from raysweep.fits.draws import log_axis
from raysweep.fits.statistics import ROUNDING, holm
from raysweep.fits.trend import FALLS, RISES, SAME, UNCLEAR, UNTESTED, Trend, fit_trend, slope_weights, trend_verdict
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed

COURSE = ("p_against", "p_along", "p_throughout")
ADJUSTED = ("p_holm", *(f"{each}_holm" for each in COURSE))
CONCLUSIONS = ("status", "turns_back", "throughout", "changes")
OUTCOMES = {
    RISES: Outcome.RISES,
    FALLS: Outcome.FALLS,
    UNCLEAR: Outcome.UNCLEAR,
    SAME: Outcome.NO_EFFECT,
    UNTESTED: Outcome.UNDECIDED,
}


def run(question: Question) -> Finding:
    """The least-squares slope of each curve; of several, p-values are corrected (Holm).

    estimate: the slope, per factor of ten if `logarithmic`. theory: that of the closed form at the same values.
    first, last: the means at the two `ends` of the axis, NaN where no row is ok.
    turns_back: whether a change against the slope is clear. throughout: whether every step goes the way of the slope.
    """
    x, metric, workload, rows = question.x, question.metric, question.workload, question.rows
    keys = question.keys(x)
    with_error, error = with_errors(question, [*keys, x])
    parts = list(groups(with_error, keys))
    finite = finite_values(rows, x)
    log = log_axis(finite[finite > 0], workload.logarithmic(x))  # the same for all slices
    asked: dict[str, Any] = {"logarithmic": log, "error": error, "degrees": degrees_of(error)}
    fits = [vars(fit_trend(part, x, metric, "seed", question.level, **asked)) for _, part in parts]
    whole = pd.DataFrame([{**where, **fit} for (where, _), fit in zip(parts, fits, strict=True)])
    whole = judged(whole, question.level)
    whole["closed_form"] = [course(grid_theory(part, x, metric)[1]) for _, part in parts]
    slopes = [theory_slope(part, x, metric, log) for _, part in parts]
    fitted = finite[finite > 0] if log else finite
    ends = fitted[[0, -1]].tolist() if len(fitted) > 1 else []
    settings = [
        {**setting(row, slope, keys, finite), **means_at(ends, part, x, metric)}
        for row, slope, (_, part) in zip(whole.to_dict("records"), slopes, parts, strict=True)
    ]
    return question.finding(
        "trend",
        settings,
        keys,
        meanings=question.words,
        facts={"logarithmic": log, "ends": ends, "two_values": len(fitted) == 2} | method_of(error),
        tables={f"{question.name}_trends": whole},
        plots=lambda: curves_plot(question, metric, *_shown_over(rows, x, keys), f"{question.name}_curves"),
    )


def _shown_over(rows: pd.DataFrame, x: str, keys: list[str]) -> tuple[str, list[str]]:
    """(the axis of the figure, the keys of its lines and panels): between two values of x there is nothing to see, so
    they are two lines over the key of numbers with the most values, if it has some in each setting of the others."""
    lengths = {
        key: rows.groupby([x, *(one for one in keys if one != key)], dropna=False)[key].nunique().min()
        for key in keys
        if rows[key].dtype.kind in "if"
    }
    longest = max(lengths, key=lengths.__getitem__, default=x)
    if rows[x].nunique() > 2 or lengths.get(longest, 0) <= 2:
        return x, keys
    return longest, [x, *(key for key in keys if key != longest)]


def judged(whole: pd.DataFrame, level: float) -> pd.DataFrame:
    """Adjust the p-values of the table of trends for all settings at once, and add `CONCLUSIONS` from them."""
    for each in ("p_value", *COURSE):
        whole["p_holm" if each == "p_value" else f"{each}_holm"] = holm(whole[each].to_numpy(float))
    whole["status"] = [
        trend_verdict(row["slope"], row["p_holm"], level, row["reason"]) for row in whole.to_dict("records")
    ]
    clear = {each: (whole[f"{each}_holm"] <= 1 - level).to_numpy() for each in COURSE}
    trend = whole["status"].isin([RISES, FALLS]).to_numpy()
    # Without a clear slope, changes in both directions are tested. So each test may err only half as often.
    either = {each: (2 * whole[f"{each}_holm"] <= 1 - level).to_numpy() for each in ("p_along", "p_against")}
    whole["turns_back"] = np.where(trend, clear["p_against"], either["p_against"] & either["p_along"])
    whole["throughout"] = clear["p_throughout"] & trend & ~whole["turns_back"] & (whole["points"] > 2)
    up = whole["slope"] > 0  # which changes between two values were shown, whatever the overall slope
    along, against = either["p_along"], either["p_against"]
    rise, fall = np.where(up, along, against), np.where(up, against, along)
    whole["changes"] = np.select([rise & fall, rise, fall], ["rise_and_fall", "rise", "fall"], "")
    return whole


def course(curve: np.ndarray) -> str:
    """How a curve without noise changes; empty for a constant one and for a single point."""
    if len(curve) < 2 or not np.ptp(curve) > 0:
        return ""
    steps = np.diff(curve) / np.ptp(curve)
    rises = (steps > 1e-6).any()
    if not (rises and (steps < -1e-6).any()):
        return "rises_throughout" if rises else "falls_throughout"
    return "rises_with_a_fall" if curve[-1] > curve[0] else "falls_with_a_rise"


def theory_slope(part: pd.DataFrame, x: str, metric: str, logarithmic: bool) -> float:
    """The least-squares slope of the closed form at the values of x with a usable row; NaN if it lacks one of them."""
    good = part[(part["status"] == "ok") & np.isfinite(part[metric].astype(float))]
    at, theory = grid_theory(good, x, metric)
    there = finite_values(good, x)
    if logarithmic:
        at, theory, there = at[at > 0], theory[at > 0], there[there > 0]
    if len(at) < 2 or not np.array_equal(at, there):
        return np.nan
    if not np.ptp(theory) > 0:
        return 0.0
    return float(slope_weights(np.log10(at) if logarithmic else at) @ theory)


def means_at(ends: list[float], part: pd.DataFrame, x: str, metric: str) -> dict[str, float]:
    """The means of one curve over its ok draws, see `run`."""
    good = part[(part["status"] == "ok") & np.isfinite(part[metric].astype(float))]
    means = good.groupby(x)[metric].mean()
    return {name: float(means.get(at, np.nan)) for name, at in zip(("first", "last"), ends, strict=False)}


def setting(row: dict[str, Any], theory: float, keys: list[str], finite: np.ndarray) -> dict[str, Any]:
    """The row of one curve. row: of the table of trends. finite: the values of x."""
    outcome = OUTCOMES[row["status"]]
    decides = needed(outcome, row["reason"], finite[0], finite[-1], row["draws"]) if len(finite) else {}
    if abs(theory - row["slope"]) <= ROUNDING * abs(row["slope"]):
        theory = row["slope"]  # which may be exact
    names = (*keys, "low", "high", "reason", "throughout", "turns_back", "changes", "draws")
    numbers = {"estimate": row["slope"], "theory": theory, **decides, "p_value": row["p_holm"]}
    return {**{name: row[name] for name in names}, "outcome": outcome, **numbers}


ANALYSIS = Analysis(
    kind="trend",
    question="Does {metric} rise or fall with {x}?",
    run=run,
    required=allowed.METRIC_X,
    optional={**allowed.BY_LEVEL, "words": allowed.words("rises", "falls")},
    columns=(*(one.name for one in fields(Trend)), *ADJUSTED, *CONCLUSIONS, "closed_form"),
    along="x",
    means_only=True,
)

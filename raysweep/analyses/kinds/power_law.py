"""With which power of an axis a metric grows, and whether it is one power throughout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.outcomes import needed
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import Part, Where, edges_of, groups, is_exact, plain_means
from raysweep.analyses.series import CurvesPlot, Series, grid_theory, laid_out
from raysweep.analyses.single_runs import method_of, with_errors
from raysweep.fits.draws import means_with_errors
from raysweep.fits.power_law import clear_signs, fit_power_law, log_curves, log_rows
from raysweep.fits.statistics import holm, mean_band, normal_quantile
from raysweep.fits.trend import slope_weights
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed


def run(question: Question) -> Finding:
    """The exponent of a metric over x in each setting."""
    keys = question.keys(question.x)
    rows, error = with_errors(question, [*keys, question.x], in_log=True)
    parts = list(groups(rows, keys))
    whole = exponents(parts, question, error)
    fitted = [
        (where, law(rows, row, question, error))
        for (where, rows), row in zip(parts, whole.to_dict("records"), strict=True)
        if np.isfinite(row["exponent"])
    ]

    def plots() -> list[CurvesPlot]:
        panels = laid_out(fitted, keys[:1], keys[1:], lambda where, line: replace(line, where=where))
        return [CurvesPlot(question.name, panels, question.x, question.metric, len(fitted))] if panels else []

    return question.finding(
        "power_law",
        settings(whole, keys, question, error),
        keys,
        facts={"bends": int(whole["bends"].sum())} | method_of(error),
        tables={f"{question.name}_exponents": whole, f"{question.name}_means": means(fitted, keys, question)},
        plots=plots,
    )


def exponents(parts: Sequence[Part], question: Question, error: str | None) -> pd.DataFrame:
    """One row per setting: the keys, its `PowerLaw`, bend_p_holm, bends (whether it is not one power) and theory.
    error: the column of the standard errors of runs."""
    x, metric, level = question.x, question.metric, question.level
    fits = [
        fit_power_law(rows, x, metric, "seed", level, exact=is_exact(rows, metric), error=error) for _, rows in parts
    ]
    whole = pd.DataFrame([{**where, **vars(fit)} for (where, _), fit in zip(parts, fits, strict=True)])
    whole["bend_p_holm"] = holm(whole["bend_p"].to_numpy(float))
    whole["bends"] = whole["bend_p_holm"] <= 1 - level
    whole["theory"] = [theory_exponent(rows, x, metric) for _, rows in parts]
    return whole


def settings(whole: pd.DataFrame, keys: Sequence[str], question: Question, error: str | None) -> list[dict[str, Any]]:
    """The rows of the finding's table. That a metric grows or falls is corrected for all settings (Holm)."""
    exponent, low, high, draws = (whole[name].to_numpy(float) for name in ("exponent", "low", "high", "draws"))
    fitted, edges = np.isfinite(exponent), edges_of(question.rows, question.x)
    signs = np.zeros(len(whole))
    degrees = np.full(len(whole), np.inf) if error else draws - 1
    signs[fitted] = clear_signs(exponent[fitted], low[fitted], high[fitted], degrees[fitted], question.level)
    names, out = (*keys, "reason", "low", "high", "theory", "bend", "bend_low", "bend_high", "bends", "draws"), []
    for row, sign in zip(whole.to_dict("records"), signs, strict=True):
        outcome = Outcome.RISES if sign > 0 else Outcome.FALLS
        if not sign:
            exact, measured = row["low"] == row["high"], np.isfinite(row["low"])
            outcome = Outcome.NO_EFFECT if exact else Outcome.UNCLEAR if measured else Outcome.UNDECIDED
        decides = needed(outcome, row["reason"], *edges, seeds=row["draws"])
        out.append({**{name: row[name] for name in names}, "outcome": outcome, "estimate": row["exponent"], **decides})
    return out


def means(fitted: Sequence[tuple[Where, Series]], keys: list[str], question: Question) -> pd.DataFrame:
    """The geometric means of all fitted settings, one row per setting and x."""
    lines = [
        (*where.values(), *point)
        for where, line in fitted
        for point in zip(line.means.x, line.means.centre, *line.means.bars, strict=True)
    ]
    return pd.DataFrame(lines, columns=[*keys, question.x, "geometric_mean", "low", "high"])


def law(rows: pd.DataFrame, row: Mapping[str, Any], question: Question, error: str | None) -> Series:
    """One line of geometric means, with the errors of runs if there are some. row: its fit."""
    if error:
        logged, _ = log_rows(rows, question.x, question.metric, "seed")
        relative = logged.assign(**{error: logged[error] / np.exp(logged[question.metric])})
        points = means_with_errors(relative, [question.x], question.metric, error)
        at, middle, errors = (points[name].to_numpy(float) for name in (question.x, question.metric, error))
        half = normal_quantile(question.level) * errors
        band = middle, middle - half, middle + half
    else:
        curves, _ = log_curves(rows, question.x, question.metric, "seed")
        at, band, middle = curves.x, mean_band(curves.values, question.level), curves.values
    means = plain_means(at, *(np.exp(each) for each in band))
    u = np.log(at)
    fitted = np.exp(middle.mean() + row["exponent"] * (u - u.mean()))
    theory_x, theory = grid_theory(rows, question.x, question.metric)
    shown = (theory_x > 0) & (theory > 0)
    return Series({}, means, theory_x[shown], theory[shown], fitted=fitted)


def theory_exponent(rows: pd.DataFrame, x: str, metric: str) -> float:
    """The least-squares slope of the logarithm of the closed form at the same x; NaN without one."""
    at, theory = grid_theory(rows, x, metric)
    use = at > 0
    if use.sum() < 2 or not (theory[use] > 0).all():
        return np.nan
    return float(slope_weights(np.log(at[use])) @ np.log(theory[use]))


ANALYSIS = Analysis(
    kind="power_law",
    question="With which power of {x} does {metric} grow?",
    run=run,
    required=allowed.METRIC_X,
    optional=allowed.BY_LEVEL,
    columns=(
        *("bend", "bend_high", "bend_low", "bend_p", "bend_p_holm", "bends", "draws", "exponent"),
        *("first", "geometric_mean", "last", "note", "points", "prefactor", "values"),
    ),
    along="x",
    means_only=True,
)

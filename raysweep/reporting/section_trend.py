"""The trend analysis: whether a metric rises or falls along an axis, and whether it does so throughout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.reporting.design import NOTHING_DECLARED, Design
from raysweep.reporting.figures_lines import curves_figure
from raysweep.reporting.section import Drawing, Section
from raysweep.reporting.selection import all_keys, groups
from raysweep.reporting.series import base_metric, grid_theory, panels_of
from raysweep.reporting.trend import FALLS, RISES, UNCLEAR, UNTESTED, fit_trend, holm, trend_verdict
from raysweep.reporting.words import counted, interval, number, plain
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def trend_section(
    frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str, design: Design = NOTHING_DECLARED
) -> Section:
    """Tests, figure and table of one `trend` entry."""
    import pandas as pd

    x, metric, level = options["x"], options["metric"], float(options.get("level", 0.95))
    keys = all_keys(frame, workload, x, list(options.get("by", [])), design)
    rows_of = list(groups(frame, keys))
    fits = [fit_trend(rows, x, metric, "seed", level, logarithmic=workload.logarithmic(x)) for _, rows in rows_of]
    whole = pd.DataFrame(
        [
            {**dict(zip(keys, values, strict=True)), **vars(fit)}
            for (values, _), fit in zip(rows_of, fits, strict=True)
        ]
    )
    whole["p_holm"] = holm(whole["p_value"].to_numpy(float))
    whole["p_against_holm"] = holm(whole["p_against"].to_numpy(float))
    whole["status"] = [
        trend_verdict(slope, p, level) for slope, p in zip(whole["slope"], whole["p_holm"], strict=True)
    ]
    whole["throughout"] = whole["status"].isin([RISES, FALLS]) & (whole["p_against_holm"] > 1 - level)
    whole["closed_form"] = [theory_words(rows, x, metric) for _, rows in rows_of]
    panels = panels_of(rows_of, whole, keys, x, metric, workload)
    caption = f"{metric} against {plain(x)}: mean over draws ± one standard error; lines: closed form, where known."
    if base_metric(metric, workload):
        caption += " Dashed: the base model."
    return Section(
        title=f"Trend: does {metric} rise with {plain(x)}?",
        headline=headline(whole, metric, x, level),
        paragraphs=paragraphs(whole, x, level),
        drawings=[Drawing(f"{name}_curves", caption, curves_figure(panels, x, metric, workload))] if panels else [],
        shown=[shown_row(row, keys) for row in whole.to_dict("records")],
        tables={f"{name}_trends": whole},
    )


def headline(whole: pd.DataFrame, metric: str, x: str, level: float) -> str:
    """What was found, how sure: one line."""
    if len(whole) == 1:
        row = whole.iloc[0]
        if not np.isfinite(row["slope"]):
            return f"{metric} over {plain(x)}: no trend can be tested ({row['note'] or 'draws do not differ'})"
        return (
            f"{metric} {row['status'] if row['status'] != UNCLEAR else 'shows no clear trend'} with {plain(x)}"
            + ("" if row["status"] == UNCLEAR else throughout_words(row))
            + f": {interval(row['slope'], row['low'], row['high'])} {per(row)} ({100 * level:g} %, p = "
            f"{number(row['p_value'], 2)})"
        )
    parts = []
    for word in (RISES, FALLS):
        some = whole[whole["status"] == word]
        if len(some):
            other = "fall" if word == RISES else "rise"
            some_not = int((~some["throughout"]).sum())
            parts.append(
                f"{word} in {len(some)}"
                + (f" (in {some_not} of these with a clear {other} in between)" if some_not else " (throughout)")
            )
    unclear = int((whole["status"] == UNCLEAR).sum())
    if unclear:
        parts.append(f"shows no clear trend in {unclear}")
    untested = whole[whole["status"] == UNTESTED]
    if len(untested):
        parts.append(f"cannot be tested in {len(untested)} ({untested['note'].iloc[0] or 'draws do not differ'})")
    every = counted(len(whole), "setting")
    text = f"{metric} {', '.join(parts)} of {every} with {plain(x)} (p < {1 - level:.2g}, Holm)"
    known = whole["closed_form"].value_counts()
    listed = ", ".join(f"{words} in {count}" for words, count in known.items() if words)
    return text + (f"; closed form: {listed}" if listed else "")


def theory_words(rows: pd.DataFrame, x: str, metric: str) -> str:
    """What the closed form does at the same x; empty without one."""
    _, theory = grid_theory(rows, x, metric)
    if len(theory) < 2 or not np.ptp(theory) > 0:
        return ""
    steps = np.diff(theory) / np.ptp(theory)
    rises, falls = bool((steps > 1e-6).any()), bool((steps < -1e-6).any())
    if not (rises and falls):
        return "rises throughout" if rises else "falls throughout"
    return "rises, falls in between" if theory[-1] > theory[0] else "falls, rises in between"


def throughout_words(row: Any) -> str:
    """Whether a trend has an exception."""
    if row["throughout"]:
        return " throughout"
    return f", with a clear {'fall' if row['status'] == RISES else 'rise'} in between"


def per(row: Any) -> str:
    """The unit of a slope."""
    return "per factor of ten" if row["logarithmic"] else "per unit"


def paragraphs(whole: pd.DataFrame, x: str, level: float) -> list[str]:
    """The test, in words."""
    methods = "; ".join(
        f"{word} (in {count})" for word, count in whole["method"].value_counts().items() if word != "none"
    )
    return [
        f"A trend is a least-squares slope over {'log ' if whole['logarithmic'].any() else ''}{plain(x)} that differs "
        f"from 0 with p < {1 - level:.2g} after Holm's correction for {counted(len(whole), 'setting')}. It holds "
        "throughout unless some step the other way, between any two points, is as clear (same correction): then no "
        f"decline was found, which is not a proof that there is none. Method: {methods or 'none'}."
    ]


def shown_row(row: Mapping[str, Any], keys: list[str]) -> dict[str, str]:
    """One setting as ready text."""
    out = {plain(str(key)): number(row[key]) for key in keys}
    out["trend"] = row["status"] + (" throughout" if row["throughout"] else "")
    out[f"slope {per(row)} [interval]"] = interval(row["slope"], row["low"], row["high"])
    out["p"] = number(row["p_value"], 2)
    out["p, Holm"] = number(row["p_holm"], 2)
    out["p of no step against it"] = number(row["p_against"], 2)
    out["closed form"] = row["closed_form"] or "–"
    out["draws"] = str(row["draws"])
    return out

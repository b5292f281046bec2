"""The optimum analysis: the rate at which a metric is best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.optimum import fit_optimum, in_log
from raysweep.fits.result import Status
from raysweep.reporting.analyses.against_theory import add_theory, summary
from raysweep.reporting.analyses.movement import movement
from raysweep.reporting.analyses.place_words import (
    advice_cell,
    halving,
    line_drawing,
    moving,
    not_located,
    others_words,
    unlocated_words,
)
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.analyses.theory_lines import closed_form_curve, turning_points
from raysweep.reporting.design import NOTHING_DECLARED, Design
from raysweep.reporting.figures.lines import curves_figure
from raysweep.reporting.figures.series import panels_of, with_theory
from raysweep.reporting.selection import all_keys, better_turn, groups, is_exact, is_number, with_choice
from raysweep.reporting.words import counted, interval, number, plain, unit_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def optimum_section(
    frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str, design: Design = NOTHING_DECLARED
) -> Section:
    """Fits, figures and tables of one `optimum` entry."""
    x, metric, level = options["x"], options["metric"], float(options.get("level", 0.95))
    turn = better_turn(metric, workload)
    keys = all_keys(frame, workload, x, list(options.get("by", [])), design)
    frame = with_choice(frame, x, keys)
    wanted = workload.logarithmic(x)
    logarithmic = in_log(frame[x].to_numpy(float)) if wanted is None else wanted
    fit = fit_optimum(
        frame, x, metric, keys or None, "seed", level, turn=turn, exact=is_exact(frame, metric), logarithmic=logarithmic
    )
    rows_of = list(groups(frame, keys))
    blind = knows_no_rate(rows_of[0][1], x, metric, workload)
    expected = [np.empty(0) if blind else turning_points(rows, x, metric, workload, turn) for _, rows in rows_of]
    whole = add_theory(fit.table, expected, level)

    panels = panels_of(rows_of, whole, keys, x, metric, workload)
    caption = f"{plain(metric).capitalize()} against {plain(x)}: mean over draws ± one standard error."
    if (whole["status"] == Status.LOCATED).any():
        caption += f" Diamonds: the fitted optimum with its {100 * level:g} % interval."
    if with_theory(panels):
        caption += " Lines: the closed form" + (
            f", which knows no {plain(x)}: what training to convergence in ever smaller steps gives." if blind else "."
        )
    drawings = [Drawing(f"{name}_curves", caption, curves_figure(panels, x, metric, workload))] if panels else []
    along = next((key for key in keys if is_number(frame, key) and frame[key].nunique() > 1), None)
    if along:
        caption = (
            f"The {plain(x)} at which {plain(metric)} is best, against {plain(along)}, with {100 * level:g} % "
            "intervals; triangles: the optimum lies beyond the rate shown."
        )
        place = f"optimum of {plain(metric)}"
        line = line_drawing(whole, keys, along, x, workload, level, place, f"{name}_line", caption)
        drawings = [line, *drawings] if line else drawings
    return Section(
        title=f"Optimum: the best {plain(x)} for {plain(metric)}",
        headline=headline(whole, keys, x, metric, workload, level, logarithmic),
        paragraphs=paragraphs(whole, keys, x, level) + halving(whole, x, workload),
        drawings=drawings,
        shown=[shown_row(row, keys, x, bool(whole["theory"].notna().any())) for row in whole.to_dict("records")],
        tables={f"{name}_optima": whole},
    )


def knows_no_rate(rows: pd.DataFrame, x: str, metric: str, workload: Workload) -> bool:
    """Whether there is a closed form and it is the same at every rate."""
    curve = closed_form_curve(rows, x, metric, workload)
    values = np.sort(rows[x].unique().astype(float))
    if curve is None or len(values) < 2:
        return False
    ends = curve(values[[0, -1]])
    return bool(ends[0] == ends[1])


def headline(
    whole: pd.DataFrame, keys: list[str], x: str, metric: str, workload: Workload, level: float, logarithmic: bool
) -> str:
    """What was found, how sure: one line."""
    unit = unit_of(x, workload)
    what = f"best {plain(x)} for {plain(metric)}"
    if len(whole) == 1:
        row = whole.iloc[0]
        known = interval(row["estimate"], row["low"], row["high"])
        if row["status"] == Status.LOCATED:
            return f"{what}: {known}{unit} ({100 * level:g} %)"
        return f"{what}: {unlocated_words(row, unit)}"
    found = whole[whole["status"] == Status.LOCATED]
    text = f"{what}: located in {len(found)} of {counted(len(whole), 'setting')}"
    if len(found):
        text += f", from {number(found['estimate'].min(), 3)} to {number(found['estimate'].max(), 3)}{unit}"
        if logarithmic:
            factor = float(np.sqrt(found["high"] / found["low"]).median())
            text += f" (median interval: a factor {number(factor, 3)} either way, {100 * level:g} %)"
        else:
            half = float(((found["high"] - found["low"]) / 2).median())
            text += f" (median interval: ± {number(half, 2)}{unit}, {100 * level:g} %)"
    text += others_words(whole)
    beside = summary(whole, level)
    return text + moving(whole, keys) + (f"; {beside}" if beside else "")


def paragraphs(whole: pd.DataFrame, keys: list[str], x: str, level: float) -> list[str]:
    """How it moves, how the fits were made, and what happened to the settings without an answer."""
    text = movement(whole, keys, f"best {plain(x)}")
    methods = whole["method"].value_counts()
    text.append(
        f"Intervals are {100 * level:g} % for each setting on its own, and hold for every interpolation used. Method: "
        + "; ".join(f"{word} ({counted(int(count), 'setting')})" for word, count in methods.items() if word != "none")
        + "."
    )
    bounded = whole[np.isfinite(whole["diverged_from"])]
    if len(bounded):
        text.append(
            f"Most draws diverged from some rate on in {counted(len(bounded), 'setting')} (the lowest: "
            f"{number(bounded['diverged_from'].min(), 3)}): no row from there on enters a fit."
        )
    return text + not_located(whole)


def shown_row(row: Mapping[str, Any], keys: list[str], x: str, known: bool) -> dict[str, str]:
    """One setting as ready text. known: whether some setting has a place by the closed form."""
    out = {plain(key): number(row[key]) for key in keys}
    out["status"] = row["status"].replace("_", " ")
    out[f"best {plain(x)} [interval]"] = interval(row["estimate"], row["low"], row["high"])
    if known:
        out["closed form"] = number(row["theory"], 4)
    out["diverged from"] = number(row["diverged_from"], 3) if np.isfinite(row["diverged_from"]) else "–"
    out["draws"] = str(row["draws"])
    out["half the interval takes"] = advice_cell(row)
    return out

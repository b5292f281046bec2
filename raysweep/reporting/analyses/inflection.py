"""The inflection analysis: where a metric turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.inflection import fit_inflection
from raysweep.fits.result import Status
from raysweep.reporting.analyses.against_theory import add_theory, excluded, summary
from raysweep.reporting.analyses.movement import movement
from raysweep.reporting.analyses.place_words import (
    advice_cell,
    beside_theory,
    halving,
    line_drawing,
    moving,
    not_located,
    others_words,
    unlocated_words,
)
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.analyses.theory_lines import turning_points
from raysweep.reporting.design import NOTHING_DECLARED, Design
from raysweep.reporting.figures.lines import curves_figure
from raysweep.reporting.figures.series import base_metric, panels_of, with_theory
from raysweep.reporting.selection import all_keys, better_turn, groups, is_exact, is_number
from raysweep.reporting.words import counted, interval, number, plain, unit_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def inflection_section(
    frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str, design: Design = NOTHING_DECLARED
) -> Section:
    """Fits, figures and tables of one `inflection` entry."""
    import pandas as pd

    x, metric, level = options["x"], options["metric"], float(options.get("level", 0.95))
    turn = better_turn(metric, workload)
    keys = all_keys(frame, workload, x, list(options.get("by", [])), design)
    pieces, rows_of = [], []
    for values, rows in groups(frame, keys):
        fit = fit_inflection(
            rows, x, metric, "seed", level, turn=turn, exact=is_exact(rows, metric), logarithmic=workload.logarithmic(x)
        )
        table = add_theory(fit.table, [turning_points(rows, x, metric, workload, turn)], level)
        pieces.append(table.assign(**dict(zip(keys, values, strict=True))))
        rows_of.append((values, rows))
    whole = pd.concat(pieces, ignore_index=True)
    whole = whole[[*keys, *[c for c in whole.columns if c not in keys]]]
    word = "maximum" if turn == "max" else "minimum"

    panels = panels_of(rows_of, whole, keys, x, metric, workload)
    marked = f"{metric} against {plain(x)}: mean over draws ± one standard error"
    marked += " over the closed form." if with_theory(panels) else "."
    if (whole["status"] == Status.LOCATED).any():
        marked += f" Diamonds: fitted {word} with its {100 * level:g} % interval"
        marked += f"; orange ticks: the closed form's own {word}." if whole["theory"].notna().any() else "."
    if base_metric(metric, workload):
        marked += " Dashed: the base model."
    drawings = [Drawing(f"{name}_curves", marked, curves_figure(panels, x, metric, workload))] if panels else []
    along = next((key for key in keys if is_number(frame, key) and runs_along(whole, keys, key)), None)
    if along:
        caption = f"The {word} of {metric} in {plain(x)} against {plain(along)}, with {100 * level:g} % intervals"
        caption += "; triangles: it lies beyond the bound shown."
        line = line_drawing(whole, keys, along, x, workload, level, f"{word} of {metric}", f"{name}_line", caption)
        drawings = [line, *drawings] if line else drawings
    return Section(
        title=f"Inflection: where {metric} turns in {plain(x)}",
        headline=headline(whole, keys, x, metric, word, workload, level),
        paragraphs=movement(whole, keys, word) + paragraphs(whole, level) + halving(whole, x, workload),
        drawings=drawings,
        shown=[shown_row(row, keys, x, word, bool(whole["theory"].notna().any())) for row in whole.to_dict("records")],
        tables={f"{name}_turns": whole},
    )


def runs_along(whole: pd.DataFrame, keys: list[str], key: str) -> bool:
    """Whether most places belong to a line over that key: several of its values with all other keys the same."""
    others = [other for other in keys if other != key]
    sizes = whole.groupby(others, dropna=False)[key].transform("nunique") if others else whole[key].nunique()
    return bool(np.mean(np.asarray(sizes) > 1) > 0.5)


def headline(
    whole: pd.DataFrame, keys: list[str], x: str, metric: str, word: str, workload: Workload, level: float
) -> str:
    """What was found, how sure, theory beside it: one line."""
    unit = unit_of(x, workload)
    found = whole[whole["status"] == Status.LOCATED]
    what = f"{word} of {metric} over {plain(x)}"
    if len(whole) == 1:
        row = whole.iloc[0]
        if row["status"] != Status.LOCATED:
            return f"{what}: {unlocated_words(row, unit)}"
        known = interval(row["estimate"], row["low"], row["high"])
        return f"{what}: {known}{unit} ({100 * level:g} %){beside_theory(row, unit)}"
    text = f"{what}: located in {len(found)} of {counted(len(whole), 'curve')}"
    if len(found):
        text += f", {number(found['estimate'].min())} to {number(found['estimate'].max())}{unit}"
    out, among = excluded(whole, whole["theory"].to_numpy(float)) if whole["theory"].notna().any() else (0, 0)
    text += others_words(whole)
    return text + moving(whole, keys) + (f"; closed form excluded in {out} of {among}" if among else "")


def paragraphs(whole: pd.DataFrame, level: float) -> list[str]:
    """How the fits were made, and what happened to the curves without an answer."""
    methods = "; ".join(
        f"{word} ({counted(int(count), 'curve')})" for word, count in whole["method"].value_counts().items()
    )
    text = [
        f"Intervals are {100 * level:g} % for each curve on its own, and hold for every interpolation used. "
        f"Method: {methods}."
    ]
    beside = summary(whole, level)
    if beside:
        text.append(beside[0].upper() + beside[1:] + ". Curves that share draws are not as many looks at it.")
    return text + not_located(whole)


def shown_row(row: Mapping[str, Any], keys: list[str], x: str, word: str, known: bool) -> dict[str, str]:
    """One curve as ready text. known: whether some curve has a place by the closed form."""
    out = {plain(key): number(row[key]) for key in keys}
    out["status"] = row["status"].replace("_", " ")
    out[f"{word} in {plain(x)} [interval]"] = interval(row["estimate"], row["low"], row["high"])
    if known:
        out["closed form"] = number(row["theory"], 4)
        out["z"] = "–" if not np.isfinite(row["z"]) else f"{row['z']:+.2f}"
    out["draws"] = str(row["draws"])
    out["half the interval takes"] = advice_cell(row)
    return out

"""The best analysis: the cell with the best mean of a metric, and which other cells cannot be told from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import all_keys, better_extremum, bounds_of, is_number, means_table, places_on
from raysweep.analyses.series import by_panel, series_panels
from raysweep.fits.statistics import LEVEL, t_quantile
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.figures.lines import curves_figure, points_in_words
from raysweep.report.names import mean_of, plain, settings
from raysweep.reporting.analyses.beside import meanings
from raysweep.reporting.analyses.effects import effects, effects_table, importance, importance_words
from raysweep.reporting.analyses.section import Drawing, Section

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 10
IMPORTANCE = (
    " Importance: how much worse a random forest predicts the cells if the values of one axis are shuffled "
    "(scikit-learn's permutation importance), as a share of the sum; it counts what axes do together too."
)


def best_section(asked: Question) -> Section:
    """Section of one `best` entry."""
    metric, workload = asked.metric, asked.workload
    keys = all_keys(asked.rows, workload, None, asked.design.varied(), asked.design)
    keys = [key for key in keys if key in asked.rows.columns]
    table = means_table(asked.rows, keys or ["cell"], metric, workload)
    largest = better_extremum(metric, workload) == "max"
    table = table.sort_values("mean", ascending=not largest, kind="stable", ignore_index=True)
    top, bounds = table.iloc[0], bounds_of(metric, workload)
    apart = _differences(asked, keys, table)
    same = int(((apart["mean"] == 0) & (apart["half_width"] == 0)).sum())
    alike = int((abs(apart["mean"]) <= apart["half_width"]).sum()) - same
    told = _direction(asked, largest)
    shares = importance(table, keys)
    main = effects(table, keys, largest)
    vary = [key for key in keys if table[key].nunique(dropna=False) > 1]
    where = settings(vary, [top[key] for key in vary], workload)
    headline = f"best {plain(metric)} ({told}) is {mean_of(top, bounds)}{f' at {where}' if where else ''}"
    of_seeds = f"the mean of {counted(int(top['draws']), 'seed')}, the best of {counted(len(table), 'cell')}"
    equal = f"{counted(same, 'other cell')} {'is' if same == 1 else 'are'} as good in every draw" if same else ""
    detail = "; ".join(filter(None, (of_seeds, equal, importance_words(shares))))
    few = int(top["draws"]) < 2
    undecided = "which cell is best, by one seed a cell (deciding it takes more seeds)" if few else ""
    if alike:
        are = "is" if alike == 1 else "are"
        undecided = (
            f"whether {counted(alike, 'other cell')} {are} as good in {plain(metric)} (deciding it takes more seeds)"
        )
    if len(table) == 2 and len(apart):
        headline, detail, undecided = _of_two(table, vary, apart.iloc[0], asked)
    paragraphs = [
        "One draw a cell does not tell how far chance decides which cell is best."
        if few
        else f"{counted(alike, 'other cell')} cannot be told from it (95 %, by the differences of equal draws).",
        "The best of many means is on average a little too good; draws with new seeds at this cell show how much.",
    ]
    if len(main):
        paragraphs += ["Main effects: the mean over all cells with the best and the worst value of each axis."]
        paragraphs[-1] += IMPORTANCE if shares else ""
        paragraphs.append(effects_table(main, shares, metric))
    return Section(
        title=f"Best: {plain(metric)}",
        headline=headline,
        detail=detail,
        paragraphs=paragraphs,
        shown=[
            {
                **{plain(key): number(row[key]) for key in keys},
                "draws (metric)" if metric == "draws" else plain(metric): mean_of(row, bounds),
                "draws": str(row["draws"]),
            }
            for row in table.head(SHOWN).to_dict("records")
        ],
        drawings=curve_over(asked, [*shares, *(key for key in keys if key not in shares)]) if len(table) > 2 else [],
        tables={f"{asked.name}_cells": table, **({f"{asked.name}_effects": main} if len(main) else {})},
        undecided=undecided if len(table) > 1 else "",
    )


def curve_over(asked: Question, axes: list[str]) -> list[Drawing]:
    """The figure of the metric over the most important axis along which cells can be compared, in an empty list if
    there is none. axes: the most important first."""
    for x in axes:
        keys = [*(key for key in axes if key != x)]
        every = [*keys, *(key for key in asked.keys(x) if key not in keys)]
        rows = asked.rows
        if not (rows.groupby(every, dropna=False)[x].nunique() if every else rows[[x]].nunique()).gt(1).any():
            continue
        places, at, categories = places_on(rows, x, asked.workload, asked.design)
        panels = series_panels(by_panel(places, every), every, at, asked.metric, asked.workload)
        if panels:
            caption = f"{asked.metric} against {plain(x)}: {points_in_words(panels)}."
            figure, said = curves_figure(panels, x, asked.metric, asked.workload, categories)
            return [Drawing(f"{asked.name}_curves", f"{caption} {said}".strip(), figure)]
    return []


def _direction(asked: Question, largest: bool) -> str:
    """Which direction is better, in words, and whether anybody said so."""
    function = asked.workload.function
    assumed = function is not None and asked.metric not in function.metrics
    return ("the largest" if largest else "the smallest") + (
        ": minimized, since metrics says nothing else" if assumed else ""
    )


def _differences(asked: Question, keys: list[str], table: pd.DataFrame) -> pd.DataFrame:
    """Every other cell less the best one, paired by seed: mean and the half width of its interval, one row per cell
    that has two seeds in common with it."""
    import pandas as pd

    good = asked.rows[asked.rows["status"] == "ok"]
    wide = good.pivot_table(index="seed", columns="cell", values=asked.metric)
    best = good
    for key in keys:
        best = best[best[key] == table.iloc[0][key]]
    own = wide[best["cell"].iloc[0]]
    found = []
    for cell in wide.columns:
        differences = (wide[cell] - own).dropna().to_numpy(float)
        if cell == own.name or len(differences) < 2:
            continue
        error = float(np.std(differences, ddof=1) / np.sqrt(len(differences)))
        found.append((float(differences.mean()), t_quantile(LEVEL, len(differences) - 1) * error))
    return pd.DataFrame(found, columns=["mean", "half_width"])


def _of_two(table: pd.DataFrame, vary: list[str], apart: Any, asked: Question) -> tuple[str, str, str]:
    """(whether one of two cells is better, by how much, what is open), in words. apart: the second less the first."""
    rows, middle, half = table.to_dict("records"), -float(apart["mean"]), float(apart["half_width"])
    ordered = len(vary) == 1 and is_number(table, vary[0])
    if ordered and rows[0][vary[0]] < rows[1][vary[0]]:
        rows, middle = rows[::-1], -middle  # always the larger value less the smaller one
    first, second = (settings(vary, [row[key] for key in vary], asked.workload) for row in rows)
    if len(vary) == 1:
        second = number(rows[1][vary[0]])
    metric, bounds = plain(asked.metric), bounds_of(asked.metric, asked.workload)
    values = [mean_of(row, bounds) for row in rows]
    by = f"difference {interval(middle, middle - half, middle + half)} (95 %, paired by seed)"
    way, takes = "lower" if middle < 0 else "higher", "(deciding it takes more seeds)"
    if middle == half == 0:
        return f"{metric} is the same in every draw with {first} and with {second}: {values[0]}", "", ""
    if asked.words and ordered:
        sizes = f"{metric} is {values[0]} with {first}, {values[1]} with {second}"
        _, either = meanings(asked.words["higher"], asked.words["lower"])
        if abs(middle) <= half:
            return f"it is not shown that {either}: {sizes}", by, f"whether {either} {takes}"
        return f"{asked.words[way]}: {sizes}", by, ""
    against = " against ".join(values)
    if abs(middle) <= half:
        unknown = f"whether {metric} differs between the two cells {takes}"
        return f"{metric} is not shown to differ between {first} and {second}: {against}", by, unknown
    return f"{metric} is {way} with {first} than with {second}: {against}", by, ""

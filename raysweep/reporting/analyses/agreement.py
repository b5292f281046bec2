"""The agreement analysis: compares the experiment with the closed form in each cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from raysweep.analyses.kinds.agreement import DOUBTFUL, SKEWED, differences, scored
from raysweep.analyses.question import Question
from raysweep.analyses.rows import heavy_rows, means_table, parameters_of
from raysweep.fits.comparison import Joint, joint, student_coverage
from raysweep.fits.statistics import normal_quantile
from raysweep.numbers import number, signed, with_error
from raysweep.phrases import counted
from raysweep.report.figures.agreement import agreement_figure
from raysweep.report.names import BARS
from raysweep.report.statuses import THEORY
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.space.analyses import metrics_of

if TYPE_CHECKING:
    import pandas as pd


def agreement_section(asked: Question) -> Section:
    """Figures and tables of one `agreement` entry; by default for all metrics that have a closed form."""
    frame, workload = asked.rows, asked.workload
    wanted = metrics_of(asked.options) or [m.name for m in workload.metrics if f"{m.name}_theory" in frame.columns]
    every = parameters_of(frame, workload)
    keys = [key for key in every if frame[key].nunique(dropna=False) > 1] or every[:1]
    drawings: list[Drawing] = []
    tables: dict[str, pd.DataFrame] = {}
    shown: list[dict[str, str]] = []
    without: list[str] = []
    skewed: list[str] = []
    tests: dict[str, Joint | None] = {}
    for metric in wanted:
        if f"{metric}_theory" not in frame.columns:
            without.append(f"{metric} has no closed form")
            continue
        name, heavy = f"{asked.name}_{metric}", heavy_rows(frame, metric, workload)
        table = means_table(frame[~heavy], keys, metric, workload)
        table = table[np.isfinite(table["theory"].astype(float)) & (table["draws"] > 1)] if len(table) else table
        if not len(table):
            without.append(f"{metric}: no cell with two usable draws and a finite closed form")
            continue
        table = tables[name] = scored(table)
        test = tests[metric] = joint(differences(frame[~heavy], keys, metric))
        heavy_cells = frame[heavy].groupby(keys, dropna=False).ngroups if heavy.any() else 0
        shown.append(shown_row(metric, table, test, heavy_cells))
        if test is None:
            continue
        if abs(test.skewness) > SKEWED:
            skewed.append(skewed_sentence(metric, test, table))
        caption = (
            f"{metric}: mean over draws of every cell, with its {BARS}, against the closed form (left), and "
            "what the test is made of (right): every draw's distance from the closed form, averaged over all cells, "
            "with their mean and its 95 % interval. Cells of one draw move together, draws do not."
        )
        drawings.append(Drawing(name, caption, agreement_figure(table, test, metric, workload)))
    title = "Agreement: experiment against theory"
    if not tests:
        return Section(title, "; ".join(without) or "no metric has a closed form to compare with")
    text = (
        "The test is one number per metric: every draw's differences to the closed form, in standard deviations of the "
        "other draws, are averaged over all cells, and Student's t over draws says whether the average is zero (mean "
        "difference); z is that t as a normal quantile (beyond 1.96 in 5 % of sweeps if the closed form is right). "
        "Deviations of opposite sign would cancel in it; the figures would show them. Cells of one draw move together, "
        "so the share of cells whose 95 % interval holds the closed form describes the sweep and tests nothing. Cells "
        "whose draws have no variance are left out."
    )
    paragraphs = [text, *skewed, *([f"{'; '.join(without)}."] if without else [])]
    headline, detail = verdict(tests, max(map(len, tables.values())))
    return Section(title, headline, paragraphs, drawings, shown, tables, detail=detail, undecided=open_words(tests))


def tested(tests: Mapping[str, Joint | None]) -> dict[str, Joint]:
    """The metrics that could be tested."""
    return {metric: test for metric, test in tests.items() if test is not None}


def differing(known: Mapping[str, Joint]) -> dict[str, Joint]:
    """The metrics that differ from their closed form, with p < 0.05 for all of them together (Bonferroni)."""
    limit = normal_quantile(1 - 0.05 / max(len(known), 1))
    return {metric: test for metric, test in known.items() if abs(test.z) > limit}


def open_words(tests: Mapping[str, Joint | None]) -> str:
    """What a difference that chance may have made leaves open, in words; empty without one."""
    known = tested(tests)
    unsure = [metric for metric, test in differing(known).items() if p_value(test, len(known)) > DOUBTFUL]
    if not unsure:
        return ""
    return f"whether {THEORY} and experiment differ by chance in {', '.join(unsure)} (deciding it takes other seeds)"


def verdict(tests: Mapping[str, Joint | None], cells: int) -> tuple[str, str]:
    """(which metrics agree with their closed form, the largest differences), in words."""
    known = tested(tests)
    if not known:
        return f"{THEORY}: too few seeds or no variation to test {', '.join(tests)}", ""
    far = differing(known)
    draws = max(test.draws for test in known.values())
    unit = f"{counted(draws, 'seed')} as units, all {counted(cells, 'cell')} together"
    if far:
        worst = sorted(far, key=lambda metric: -abs(far[metric].z))
        every = f" in {len(far)} of {counted(len(known), 'metric')}" if len(known) > 1 else ""
        listed = ", ".join(
            f"{metric}: z = {far[metric].z:+.1f}, {far[metric].mean:+.2g} SD, {chance(far[metric], len(known))}"
            for metric in worst[:2]
        )
        return f"{THEORY} and experiment differ{every}: {', '.join(worst)}", f"{listed}; {unit}"
    metric = max(known, key=lambda name: abs(known[name].z))
    one = f"z = {known[metric].z:+.2f}, {chance(known[metric], len(known))}; {unit}"
    if len(known) == 1:
        return f"{THEORY} and experiment are not shown to differ in {metric}", one
    every = "either metric" if len(known) == 2 else f"any of {counted(len(known), 'metric')}"
    return f"{THEORY} and experiment are not shown to differ in {every}", f"the farthest is {metric}: {one}"


def p_value(test: Joint, metrics: int) -> float:
    """The probability of so large a z in one of several metrics if the closed form is right, at most."""
    return min(1.0, 2 * metrics * float(ndtr(-abs(test.z))))


def chance(test: Joint, metrics: int) -> str:
    """The `p_value` in words."""
    several = f" for {metrics} metrics" if metrics > 1 else ""
    return f"p = {number(p_value(test, metrics), 3)}{several}"


def skewed_sentence(metric: str, test: Joint, table: pd.DataFrame) -> str:
    """A sentence on how the skewness of the draws affects the intervals of single cells."""
    draws = int(table["draws"].median())
    expected = student_coverage(round(abs(test.skewness), 1), draws)
    return (
        f"The draws of {metric} are skewed (skewness {test.skewness:.1f}), where Student's t is too narrow: with "
        f"{draws} draws of a gamma distribution that skewed, a 95 % interval holds the mean in "
        f"{100 * expected:.0f} % of cases. Its {100 * table['inside_95'].mean():.0f} % of cells (which share draws) "
        f"are to be read against that."
    )


def shown_row(metric: str, table: pd.DataFrame, test: Joint | None, heavy_cells: int) -> dict[str, str]:
    """One metric as a row of formatted text."""
    difference = (table["mean"] - table["theory"]).abs()
    return {
        "metric": metric,
        "cells": f"{len(table):,}",
        "z, all cells": signed(test.z) if test else "–",
        "mean difference (SD)": with_error(test.mean, test.error) if test else "–",
        "skewness": number(test.skewness, 2) if test else "–",
        "in 95 % interval": f"{100 * table['inside_95'].mean():.0f} %",
        "median |diff.|": number(difference.median(), 2),
        "largest": number(difference.max(), 2),
        "no variance": str(heavy_cells),
    }

"""Runs made elsewhere, one per cell: what a run errs is read off all slices at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import is_exact, is_logarithmic
from raysweep.fits.surface.single_runs import COUNT, axis_of, cell_values, drawn_together, run_errors
from raysweep.fits.surface.slice_places import has_few_draws
from raysweep.space.search_options import IMPORTED

if TYPE_CHECKING:
    import pandas as pd

ERROR_OF_RUN = "_error_of_run"


def has_single_runs(question: Question, x: str, by: Sequence[str]) -> bool:
    """Whether the runs were made elsewhere with one per cell, so that each is taken to err on its own, and are enough
    to show how much. (Of a sweep with one seed nothing says how far this seed moves all its cells.)"""
    rows, metric = question.rows, question.metric
    elsewhere = all(IMPORTED in (space.get("search") or {}) for space in question.design.spaces)
    if not elsewhere or not question.design.spaces or rows.duplicated(["sweep", "cell"]).any():
        return False
    return has_few_draws(rows, x, metric, by) and not is_exact(rows, metric)


def with_errors(question: Question, x: str, by: Sequence[str]) -> tuple[pd.DataFrame, str | None]:
    """(the rows, the column of their standard errors): the given ones, or those of single runs; None without either."""
    rows, metric = question.rows, question.metric
    given = question.error_in(rows)
    if given or not has_single_runs(question, x, by):
        return rows, given
    good = rows[(rows["status"] == "ok") & np.isfinite(rows[metric].astype(float))]
    cells = good[[*by, x]].assign(mean=good[metric].astype(float), draws=1, standard_error=np.nan)
    middle, ends = cells["mean"].median(), cells["mean"].agg(["min", "max"])
    turn = "min" if ends["max"] - middle >= middle - ends["min"] else "max"  # the long tail is compressed
    errors = run_errors(cells, x, [*by, x], turn=turn, logarithmic=is_logarithmic(rows, x, question.workload))
    if errors is None:
        return rows, None
    return rows.assign(**{ERROR_OF_RUN: cells.assign(error=errors)["error"].reindex(rows.index)}), ERROR_OF_RUN


def values_of_single_runs(question: Question, keys: Sequence[str], table: pd.DataFrame) -> np.ndarray | None:
    """Joint draws of what the cells of a table of `means_table` give on average, (draws, cells), where at least half of
    them have one run; those of no slices, but with given errors, from a normal distribution. None without such errors
    or slices that show the noise."""
    if not len(table) or table["draws"].median() > 1:
        return None
    error = None
    if errors := question.error_in(question.rows):
        good = question.rows[question.rows["status"] == "ok"]
        squares = good.assign(_square=good[errors].astype(float) ** 2).groupby(keys, dropna=False)["_square"].sum()
        error = (
            np.sqrt(table[keys].merge(squares.reset_index(), on=keys)["_square"].to_numpy()) / table["draws"].to_numpy()
        )
    elif is_exact(question.rows, question.metric):
        return None
    x, values = axis_of(table, keys), None
    if x is not None:
        log = is_logarithmic(table, x, question.workload)
        values = cell_values(table, x, keys, turn=question.turn, logarithmic=log, error=error)
    if values is None and error is not None:
        noise = np.random.default_rng(0).standard_normal((COUNT, len(table)))
        values = drawn_together(table["mean"].to_numpy(float) + error * noise, np.arange(len(table)))
    return values

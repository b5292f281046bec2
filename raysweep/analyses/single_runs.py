"""Runs made elsewhere, one per cell: what a run errs is read off all slices at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import is_exact, is_logarithmic
from raysweep.fits.surface.few_draws import has_few_draws
from raysweep.fits.surface.noise import run_errors
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

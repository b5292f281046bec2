"""Runs made elsewhere, one per cell: what a run errs is read off all slices at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import is_exact, is_logarithmic
from raysweep.fits.draws import means_with_errors
from raysweep.fits.surface.posterior import DEGREES
from raysweep.fits.surface.single_runs import COUNT, axis_of, cell_values, drawn_together, run_errors
from raysweep.fits.surface.slice_places import has_few_draws
from raysweep.space.search_options import IMPORTED

if TYPE_CHECKING:
    import pandas as pd

ERROR_OF_RUN = "_error_of_run"
WIDE = 100  # a metric with a larger ratio of its values has errors that grow with them


def has_single_runs(question: Question, keys: Sequence[str]) -> bool:
    """Whether the runs were made elsewhere with one per cell, so that each is taken to err on its own, and are enough
    to show how much. (Of a sweep with one seed nothing says how far this seed moves all its cells.) keys: what tells
    cells apart."""
    rows, metric = question.rows, question.metric
    elsewhere = all(IMPORTED in (space.get("search") or {}) for space in question.design.spaces)
    if not elsewhere or not question.design.spaces or rows.duplicated(["sweep", "cell"]).any():
        return False
    return has_few_draws(rows, keys[-1], metric, keys[:-1]) and not is_exact(rows, metric)


def method_of(error: str | None) -> dict[str, str]:
    """The fact that says where intervals come from if runs have standard errors. error: of `with_errors`."""
    return {"method": "run_errors"} if error else {}


def degrees_of(error: str | None) -> float:
    """The degrees of freedom of Student's t that errors of runs follow: given ones are normal."""
    return DEGREES if error == ERROR_OF_RUN else np.inf


def with_errors(question: Question, keys: Sequence[str], *, in_log: bool = False) -> tuple[pd.DataFrame, str | None]:
    """(the rows, the column of their standard errors): the given ones, or those of single runs; None without either.

    keys: what tells cells apart. in_log: the metric is read in log, where all its values must be above 0, and so are
    values of a `WIDE` range. Errors are in its own units still. They are read off slices along the key with the most
    values.
    """
    rows, metric = question.rows, question.metric
    if given := question.error_in(rows):  # the scatter of several runs says more
        return rows, given if rows.groupby(list(keys), dropna=False).size().median() <= 1 else None
    if not has_single_runs(question, keys):
        return rows, None
    good = rows[(rows["status"] == "ok") & np.isfinite(rows[metric].astype(float))]
    values = good[metric].astype(float)
    if in_log and (values <= 0).any():
        return rows, None
    in_log = in_log or bool(0 < WIDE * values.min() < values.max())
    cells = good[list(keys)].assign(mean=np.log(values) if in_log else values, draws=1, standard_error=np.nan)
    x = axis_of(cells, keys)
    if x is None:
        return rows, None
    cells = cells[np.isfinite(cells[x].astype(float))]
    middle, ends = cells["mean"].median(), cells["mean"].agg(["min", "max"])
    turn = "min" if ends["max"] - middle >= middle - ends["min"] else "max"  # the long tail is compressed
    errors = run_errors(cells, x, keys, turn=turn, logarithmic=is_logarithmic(rows, x, question.workload))
    if errors is None:
        return rows, None
    found = cells.assign(error=errors)["error"].reindex(rows.index)
    return rows.assign(**{ERROR_OF_RUN: found * rows[metric].astype(float) if in_log else found}), ERROR_OF_RUN


def values_of_single_runs(question: Question, keys: Sequence[str], table: pd.DataFrame) -> np.ndarray | None:
    """Joint draws of what the cells of a table of `means_table` give on average, (draws, cells), where at least half of
    them have one run; those of no slices, but with given errors, from a normal distribution. None without such errors
    or slices that show the noise."""
    if not len(table) or table["draws"].median() > 1:
        return None
    error = None
    if errors := question.error_in(question.rows):
        rows, metric = question.rows, question.metric
        good = rows[(rows["status"] == "ok") & np.isfinite(rows[metric].astype(float))]
        known = means_with_errors(good, keys, metric, errors)
        error = table[keys].merge(known, on=keys)[errors].to_numpy()
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

"""Why there is nothing to analyse."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, as_table
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import all_keys, groups
from raysweep.fits.lost_draws import LARGEST, can_be_fitted
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import OK

NOTHING = "nothing"
"""The name of the reason among the facts of a finding, which may also name what it is about."""


class Nothing(StrEnum):
    """Why an analysis has nothing to work with; `report.phrases.NOTHINGS` says each, with what it is about."""

    NO_ROW_OK = "no_row_ok"
    NOT_FINITE = "not_finite"
    TOO_LARGE = "too_large"
    MOST_LOST = "most_lost"
    AXIS_TOO_LARGE = "axis_too_large"
    AXIS_NOT_POSITIVE = "axis_not_positive"
    AXIS_NOT_FINITE = "axis_not_finite"
    NO_CURVE = "no_curve"
    NOTHING_LOGGED = "nothing_logged"
    NO_FUNCTION = "no_function"
    FAILED = "failed"
    ONE_SETTING = "one_setting"
    NO_CLOSED_FORM = "no_closed_form"
    NO_PAIR = "no_pair"
    NO_SEED_SHARED = "no_seed_shared"
    NO_CELL_SHARED = "no_cell_shared"


def nothing(asked: Question, kind: str, why: Nothing, about: str = "", **fields: Any) -> Finding:
    """A finding without settings, which says why. about: see `Nothing`."""
    return Finding(kind, asked.name, as_table([], []), facts={NOTHING: why, "about": about}, **fields)


def reason(analysis: Analysis, asked: Question, fitted: Question) -> tuple[Nothing, str] | None:
    """Why there is nothing to analyse, and what this is about; None if there is something.

    asked: with the rows as they are. fitted: with those that analyses get.
    """
    metrics, rows = metrics_of(asked.options), asked.rows
    good = rows[rows["status"] == OK]
    if good.empty:
        return Nothing.NO_ROW_OK, ""
    for metric in metrics:
        if not can_be_fitted(good[metric]).any():
            some = np.isfinite(good[metric].astype(float)).any()
            return Nothing.TOO_LARGE if some else Nothing.NOT_FINITE, metric
    if fitted.rows.loc[good.index, metrics].isna().all().any():
        return Nothing.MOST_LOST, ""
    for key in ("x", "y", "lr", "length"):
        parameter = asked.workload.by_name.get(asked.options.get(key, ""))
        if parameter and not parameter.categorical:
            values = np.abs(rows[parameter.name].to_numpy(float))
            if (np.isfinite(values) & (values > LARGEST)).any():
                return Nothing.AXIS_TOO_LARGE, parameter.name
    x = asked.options.get(analysis.along)
    return without_curve(analysis, asked, x, fitted.rows) if x else None


def without_curve(analysis: Analysis, asked: Question, x: str, rows: Any) -> tuple[Nothing, str] | None:
    """The same of the axis of fitted curves: it has values (from another sweep) among which no best one can be sought,
    or x varies, but no two cells differ in x alone."""
    values = rows[x].unique()
    if analysis.above is not None and not all(analysis.above < value < np.inf for value in values):
        return Nothing.AXIS_NOT_POSITIVE if analysis.above == 0 else Nothing.AXIS_NOT_FINITE, x
    good = rows[rows["status"] == OK]
    if good[x].nunique() < 2:
        return None
    given = [*asked.by, *(asked.options[key] for key in ("y", "length") if asked.options.get(key))]
    keys = all_keys(good, asked.workload, x, given, asked.design)
    if not keys or any(part[x].nunique() > 1 for _, part in groups(good, keys)):
        return None
    return Nothing.NO_CURVE, x

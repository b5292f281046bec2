"""The rows that an analysis gets, which rows it does not get, and why there is nothing to analyse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from raysweep.analyses.design import Design
from raysweep.analyses.finding import Nothing
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import all_keys, parameters_of
from raysweep.fits.lost_draws import LARGEST, among_lost, can_be_fitted, losses_of
from raysweep.lazy import pd
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import DIVERGED, OK, Workload

NAMED = 3
"""The most cells of lost draws that are named."""


def restricted(
    frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload
) -> tuple[pd.DataFrame, dict[str, list[Any]]]:
    """The rows with the values that the option `where` names, and these values by axis; all rows without it."""
    values = {}
    for name, given in (options.get("where") or {}).items():
        values[name] = [workload.by_name[name].coerce(one) for one in (given if isinstance(given, list) else [given])]
        frame = frame[frame[name].isin(values[name])]
    return frame, values


def for_analyses(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The rows, with NaN for each metric where it has no finite value up to `LARGEST`, and where most draws of its cell
    diverged or failed. An ok row with a number that is too large has diverged."""
    finite = {metric: can_be_fitted(rows[metric].astype(float)) for metric in metrics}
    too_large = np.any([~finite[metric] & rows[metric].notna() for metric in metrics], axis=0)
    status = rows["status"].mask(too_large & (rows["status"] == OK), DIVERGED)
    values = {metric: rows[metric].where(finite[metric] & ~among_lost(rows, metric, ["cell"])) for metric in metrics}
    return rows.assign(status=status, **values)


def counted_once(analysis: Analysis, asked: Question) -> tuple[Question, list[str]]:
    """The question about rows that count once, and the parameters that these no longer have: rows that differ only in
    parameters on which the metrics do not depend, and which the entry does not name, are one measurement."""
    options, workload, rows = asked.options, asked.workload, asked.rows
    metrics = [*metrics_of(options), *([options["beside"]] if options.get("beside") else [])]
    if not analysis.means_only or not metrics or "between" in options:
        return asked, []
    named = {*asked.by, *(options.get(key) for key in ("x", "y"))}
    free = set.intersection(*(workload.idle(metric) for metric in metrics)) - named
    idle = [name for name in parameters_of(rows, workload) if name in free and rows[name].nunique(dropna=False) > 1]
    if not idle:
        return asked, []
    same = [name for name in ("sweep", *parameters_of(rows, workload), "seed") if name in rows and name not in idle]
    return replace(asked, rows=each_once(rows, same).drop(columns=idle)), idle


def each_once(rows: pd.DataFrame, same: Sequence[str]) -> pd.DataFrame:
    """Of the rows that are equal in these columns the first one that is ok, else the first."""
    order = np.argsort((rows["status"] != OK).to_numpy(), kind="stable")
    return rows.iloc[order].drop_duplicates(list(same)).sort_index(kind="stable")


def lost_cells(rows: pd.DataFrame, metrics: Sequence[str], design: Design, workload: Workload) -> list[dict[str, Any]]:
    """The cells that no analysis gets, because most of their draws diverged or failed though some are ok.

    rows: as the sweeps have them. One entry per metric that has any: metric, cells (how many), fewest and most (ok
    draws of a cell), draws (of a cell, at most), and where (the varied parameters of each, of at most `NAMED`).
    """
    out, rows = list[dict[str, Any]](), each_once(rows, ["cell", "seed"])
    for metric in metrics:
        ok = (rows["status"] == OK) & can_be_fitted(rows[metric].astype(float))
        inside = rows.assign(_ok=ok, _lost=losses_of(rows, metric))[among_lost(rows, metric, ["cell"])]
        cells = inside[inside["_lost"].notna()].groupby("cell", sort=False)
        counts = cells["_ok"].agg(["sum", "size"])
        counts = counts[counts["sum"] > 0]
        if len(counts):
            keys = [key for key in all_keys(rows, workload, None, design.varied(), design) if key in rows]
            places = cells.first().loc[counts.index, keys].to_dict("records")
            one = {"metric": metric, "cells": len(counts), "fewest": int(counts["sum"].min())}
            one |= {"most": int(counts["sum"].max()), "draws": int(counts["size"].max())}
            out.append({**one, "where": places if len(places) <= NAMED else []})
    return out


def reason(analysis: Analysis, asked: Question, fitted: Question) -> tuple[Nothing, str] | None:
    """Why there is nothing to analyse, and what this is about; None if there is something. asked: with the rows as they
    are. fitted: with those that analyses get."""
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
    if not (x := asked.options.get(analysis.along)):
        return None
    if analysis.above is not None and not all(analysis.above < value < np.inf for value in fitted.rows[x].unique()):
        return Nothing.AXIS_NOT_POSITIVE if analysis.above == 0 else Nothing.AXIS_NOT_FINITE, x  # of another sweep
    good = fitted.rows[fitted.rows["status"] == OK]
    if good[x].nunique() < 2:
        return None
    given = [*asked.by, *(asked.options[key] for key in ("y", "length") if asked.options.get(key))]
    keys = all_keys(good, asked.workload, x, given, asked.design)
    varies = not keys or (good.groupby(keys, dropna=False)[x].nunique() > 1).any()
    return None if varies else (Nothing.NO_CURVE, x)  # no two cells differ in x alone

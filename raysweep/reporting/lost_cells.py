"""The rows that an analysis takes: none of a cell most of whose draws diverged or failed, and how many these are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.design import Design
from raysweep.analyses.rows import all_keys
from raysweep.fits.lost_draws import among_lost, can_be_fitted, losses_of
from raysweep.phrases import counted
from raysweep.report.names import settings
from raysweep.workloads.declaration import DIVERGED, OK, Workload

if TYPE_CHECKING:
    import pandas as pd

NAMED = 3  # of so few cells each is named


def for_analyses(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The rows, with NaN for each metric where it has no finite value up to `LARGEST`, and where most draws of its cell
    diverged or failed. An ok row with a number that is too large has diverged."""
    finite = {metric: can_be_fitted(rows[metric].astype(float)) for metric in metrics}
    too_large = np.any([~finite[metric] & rows[metric].notna() for metric in metrics], axis=0)
    status = rows["status"].mask(too_large & (rows["status"] == OK), DIVERGED)
    values = {metric: rows[metric].where(finite[metric] & ~among_lost(rows, metric, ["cell"])) for metric in metrics}
    return rows.assign(status=status, **values)


def survivors(rows: pd.DataFrame, metrics: Sequence[str], design: Design, workload: Workload) -> str:
    """Which ok draws of cells most of whose draws diverged or failed are left out, in words; empty if there are none.

    rows: as the sweeps have them.
    """
    said, rows = [], rows.drop_duplicates(["cell", "seed"])
    for metric in metrics:
        ok = (rows["status"] == OK) & can_be_fitted(rows[metric].astype(float))
        inside = rows.assign(_ok=ok, _lost=losses_of(rows, metric))[among_lost(rows, metric, ["cell"])]
        cells = inside[inside["_lost"].notna()].groupby("cell", sort=False)
        counts = cells["_ok"].agg(["sum", "size"])
        counts = counts[counts["sum"] > 0]
        if len(counts):
            keys = all_keys(rows, workload, None, design.varied(), design)
            places = cells.first().loc[counts.index, [key for key in keys if key in rows]]
            said.append(_in_words(counts, places, workload))
    return "; ".join(dict.fromkeys(said))


def _in_words(counts: pd.DataFrame, places: pd.DataFrame, workload: Workload) -> str:
    """How many cells are left out, and how many of their draws are ok.

    counts: one row per cell: its ok draws (sum) and all that were computed (size). places: their parameters.
    """
    begin = f"left out: {counted(len(counts), 'cell')} most of whose draws diverged or failed"
    each = [f"{ok} of {size} draws ok" for ok, size in counts.itertuples(index=False)]
    if len(each) > NAMED:
        fewest, largest = counts["sum"].min(), counts["sum"].max()
        span = f"{fewest} to {largest}" if fewest < largest else f"{fewest}"
        return f"{begin} ({span} of {counts['size'].max()} draws ok)"
    where = [settings(places.columns, place, workload) for place in places.to_numpy(object)]
    return f"{begin} ({', '.join(f'{ok} at {at}' if at else ok for ok, at in zip(each, where, strict=True))})"

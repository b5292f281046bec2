"""In which cells a metric is higher or lower than another one, than a constant, or than 0, tested draw by draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.rows import heavy_rows
from raysweep.fits.comparison import ROUNDING, UNCLEAR, per_cell
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def tested(
    rows: pd.DataFrame, keys: list[str], metric: str, other: str | float, workload: Workload, level: float
) -> pd.DataFrame | None:
    """One row per cell: the keys, `mean`, `beside` (the other: a metric's mean or a number), `status` (of `per_cell`),
    `half_width` (of the difference's interval), `same` (no draw differs by more than rounding) and `open`. Cells with
    one draw are left out; None if none is left.

    Cells that are the same are not among those that Holm's correction is for: nothing of them can be claimed.
    """
    names = [metric, *([other] if isinstance(other, str) else [])]
    good = rows[(rows["status"] == "ok") & np.isfinite(rows[names].astype(float)).all(axis=1)]
    for name in names:
        good = good[~heavy_rows(good, name, workload)]
    good = good.drop_duplicates([*keys, "seed"])
    value, beside = good[metric].astype(float), good[other].astype(float) if isinstance(other, str) else other
    good = good[[*keys, "seed"]].assign(mean=value, beside=beside)
    # A metric whose sign means something is a difference, so its rounding errors are those of larger values.
    size = np.maximum(good["mean"].abs(), good["beside"].abs()) if other != 0 else good["mean"].abs().max()
    good = good.assign(difference=good["mean"] - good["beside"], size=size)
    good = good[good.groupby(keys, dropna=False)["seed"].transform("count") > 1]
    if not len(good):
        return None
    good = good.assign(same=good["difference"].abs() <= ROUNDING * good["size"])
    cells = good.groupby(keys, dropna=False).agg(mean=("mean", "mean"), beside=("beside", "mean"), same=("same", "all"))
    cells = cells.reset_index()
    differ = good[~good.groupby(keys, dropna=False)["same"].transform("all")]
    if len(differ):
        table = per_cell(differ, keys, level)
        table["half_width"] = table["high"] - table["difference"]
        cells = cells.merge(table[[*keys, "status", "half_width"]], on=keys, how="left")
    else:
        cells = cells.assign(status=UNCLEAR, half_width=np.nan)
    cells["status"] = cells["status"].fillna(UNCLEAR)
    return cells.assign(open=(cells["status"] == UNCLEAR) & ~cells["same"])

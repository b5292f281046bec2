"""The rows of sweeps as a labelled array: an xarray Dataset over the axes and the seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raysweep.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import xarray

    from raysweep.query.stored_sweep import StoredSweep

LARGEST = 20_000_000
"""Values of a metric; a search over many axes leaves nearly all of them empty."""


def dataset(table: pd.DataFrame, sweeps: Sequence[StoredSweep]) -> xarray.Dataset:
    """The metrics and the status over the axes and the seed, and over the sweep if there are several.

    table: the rows of `Sweep.results`. Axes that vary together share a dimension, named after the first; the others are
    coordinates along it. What was not computed is NaN, and its status empty.

    Raises InputError without xarray, and if the grid would be too large.
    """
    try:
        import xarray  # noqa: F401
    except ImportError:
        raise InputError("--format", "xarray needs the package xarray: pip install 'raysweep[xarray]'") from None
    groups = list(dict.fromkeys(group for sweep in sweeps for group in sweep.space.groups()))
    dims = [group[0] for group in groups] + ["seed"] + ["sweep"] * (len(sweeps) > 1)
    size = math.prod(int(table[name].nunique(dropna=False)) for name in dims)
    if size > LARGEST:
        raise InputError("--format", f"a grid over {', '.join(dims)} has {size:,} places for {len(table):,} rows")
    metrics = [one.name for one in sweeps[0].workload.metrics if one.name in table]
    theories = [f"{name}_theory" for name in metrics if f"{name}_theory" in table]
    data = table.set_index(dims)[["status", *metrics, *theories]].to_xarray()
    data["status"] = data["status"].fillna("").astype(str)
    for first, *others in groups:
        values = table.drop_duplicates(first).set_index(first).loc[data[first].to_numpy()]
        data = data.assign_coords({name: (first, values[name].to_numpy()) for name in others})
    return data.assign_attrs(sweep=", ".join(sweep.name for sweep in sweeps), workload=sweeps[0].space.workload)

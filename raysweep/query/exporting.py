"""The rows of sweeps for other tools: a study of Optuna, for its dashboard and importances, and an xarray Dataset."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import optuna
import pandas as pd
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from raysweep.errors import InputError, unknown
from raysweep.query.stored_sweep import StoredSweep
from raysweep.workloads.declaration import OK, STOPPED, Parameter

LARGEST = 20_000_000
"""Values of a metric; a search over many axes leaves nearly all of them empty."""


def to_optuna(sweep: StoredSweep, url: str, metric: str | None = None, study: str | None = None) -> int:
    """Make a study of all rows: one trial per row, with its axes as parameters and its metrics as attributes.

    url: of the study's storage, such as sqlite:///study.db. metric: the value of a trial; None for the first metric
        that has a direction. study: its name; None for that of the sweep.

    Returns the number of trials. Raises InputError if there is a study of this name, or no such metric.
    """
    workload, rows, name = sweep.workload, sweep.results(), study or sweep.name
    metrics = [one.name for one in workload.metrics]
    if not (metric := metric or next((one.name for one in workload.metrics if one.direction != "none"), "")):
        raise InputError("--metric", "missing; no metric has a direction")
    if metric not in metrics:
        raise unknown("--metric", f"metric of {workload.name}", metric, metrics)
    if rows.empty:
        raise InputError(sweep.name, "there are no rows yet")
    axes = {axis: distribution(workload.by_name[axis], rows[axis].tolist()) for axis in sweep.space.axes}
    trials = []
    for row in rows.to_dict("records"):
        complete = row["status"] == OK and math.isfinite(row[metric])
        state = TrialState.COMPLETE if complete else TrialState.PRUNED if row["status"] == STOPPED else TrialState.FAIL
        finite = {other: float(row[other]) for other in metrics if other != metric and math.isfinite(row[other])}
        attributes = {"cell": row["cell"], "seed": int(row["seed"]), "status": str(row["status"]), **finite}
        value, params = float(row[metric]) if complete else None, {axis: row[axis] for axis in axes}
        trials.append(create_trial(state=state, value=value, params=params, distributions=axes, user_attrs=attributes))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    direction = "maximize" if workload.maximized(metric) else "minimize"
    try:
        made = optuna.create_study(storage=url, study_name=name, direction=direction)
    except optuna.exceptions.DuplicatedStudyError:
        raise InputError("--to", f"there is a study {name} in {url}; name another with --study") from None
    except Exception as problem:  # whatever the database's driver raises
        raise InputError("--to", f"{url} cannot be written: {str(problem).splitlines()[0]}") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        made.set_metric_names([metric])
    made.add_trials(trials)
    return len(trials)


def distribution(parameter: Parameter, values: list[Any]) -> BaseDistribution:
    """What a parameter ranges over in Optuna's terms: its values as categories, or the range of numbers."""
    if parameter.categorical or not all(isinstance(one, (int, float)) and math.isfinite(one) for one in values):
        return CategoricalDistribution(list(dict.fromkeys(values)))
    low, high = min(values), max(values)
    numbers = IntDistribution if parameter.type is int else FloatDistribution
    return numbers(parameter.type(low), parameter.type(high), log=low > 0 and parameter.scale == "log")


def dataset(table: pd.DataFrame, sweeps: Sequence[StoredSweep]) -> Any:
    """An xarray Dataset of metrics and status over the axes and the seed, and over the sweep if there are several.

    table: the rows of `Sweep.results`. Axes that vary together share a dimension, named after the first; the others are
    coordinates along it. What was not computed is NaN, and its status empty.

    Raises InputError without xarray, and if the grid would be too large.
    """
    if find_spec("xarray") is None:  # pandas imports it
        raise InputError("--format", "xarray needs the package xarray: pip install 'raysweep[xarray]'")
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
        values = table.drop_duplicates(first).set_index(first).reindex(data[first].to_numpy())
        data = data.assign_coords({name: (first, values[name].to_numpy()) for name in others})
    wide = [name for name, axis in data.coords.items() if axis.dtype.kind == "i" and abs(axis).max() >= 2**31]
    data = data.assign_coords({name: data[name].astype(float) for name in wide})  # netCDF 3 has integers of 32 bits
    return data.assign_attrs(sweep=", ".join(sweep.name for sweep in sweeps), workload=sweeps[0].space.workload)

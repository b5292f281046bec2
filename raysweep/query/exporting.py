"""Gives the rows of a sweep to Optuna, whose dashboard and importances then take them as a study."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from raysweep.errors import InputError, unknown
from raysweep.query.stored_sweep import StoredSweep
from raysweep.workloads.declaration import OK, STOPPED, Parameter

if TYPE_CHECKING:
    import optuna


def to_optuna(sweep: StoredSweep, url: str, metric: str | None = None, study: str | None = None) -> int:
    """Make a study of all rows: one trial per row, with its axes as parameters and its metrics as attributes.

    url: of the study's storage, such as sqlite:///study.db. metric: the value of a trial; None for the first metric
        that has a direction. study: its name; None for that of the sweep.

    Returns the number of trials. Raises InputError if there is a study of this name, or no such metric.
    """
    import optuna

    workload, rows = sweep.workload, sweep.results()
    directed = [known for known in workload.metrics if known.direction != "none"]
    names = [known.name for known in workload.metrics]
    if metric is not None and metric not in names:
        raise unknown("--metric", f"metric of {workload.name}", metric, names)
    if not directed and metric is None:
        raise InputError("--metric", "missing; no metric has a direction")
    value = metric or directed[0].name
    if rows.empty:
        raise InputError(sweep.name, "there are no rows yet")
    called = study or sweep.name
    axes = {name: distribution(workload.by_name[name], rows[name].tolist()) for name in sweep.space.axes}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        direction = "maximize" if workload.maximized(value) else "minimize"
        made = optuna.create_study(storage=url, study_name=called, direction=direction)
    except optuna.exceptions.DuplicatedStudyError:
        raise InputError("--to", f"there is a study {called} in {url}; name another with --study") from None
    except Exception as problem:  # whatever the database's driver raises
        raise InputError("--to", f"{url} cannot be written: {str(problem).splitlines()[0]}") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        made.set_metric_names([value])
    trials = [_trial(row, axes, value, names) for row in rows.to_dict("records")]
    made.add_trials(trials)
    return len(trials)


def distribution(parameter: Parameter, values: list[Any]) -> optuna.distributions.BaseDistribution:
    """What a parameter ranges over in Optuna's terms: its values as categories, or the range of numbers."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.categorical or not all(isinstance(one, (int, float)) and math.isfinite(one) for one in values):
        return CategoricalDistribution(list(dict.fromkeys(values)))
    low, high = min(values), max(values)
    log = low > 0 and parameter.scale == "log"
    if parameter.type is int:
        return IntDistribution(int(low), int(high), log=log)
    return FloatDistribution(float(low), float(high), log=log)


def _trial(row: dict[str, Any], axes: dict[str, Any], value: str, metrics: list[str]) -> optuna.trial.FrozenTrial:
    import optuna
    from optuna.trial import TrialState

    number = float(row[value])
    ended = TrialState.PRUNED if row["status"] == STOPPED else TrialState.FAIL
    complete = row["status"] == OK and math.isfinite(number)
    return optuna.trial.create_trial(
        state=TrialState.COMPLETE if complete else ended,
        value=number if complete else None,
        params={name: row[name] for name in axes},
        distributions=axes,
        user_attrs={
            "cell": row["cell"],
            "seed": int(row["seed"]),
            "status": str(row["status"]),
            **{name: float(row[name]) for name in metrics if name != value and math.isfinite(float(row[name]))},
        },
    )

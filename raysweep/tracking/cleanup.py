"""Deletes the runs of a sweep, without a driver."""

from __future__ import annotations

from raysweep.tracking import runs
from raysweep.tracking.database import tracking_store
from raysweep.tracking.server import Unreachable, check, is_absent, reason


def forget(tracking_uri: str, space_name: str, sweep_id: str) -> None:
    """Delete a sweep's parent and child runs. MLflow keeps deleted runs until `mlflow gc`. Raises Unreachable, whatever
    the error of MLflow, its database or its server: one line without credentials."""
    check(tracking_uri)
    try:
        if is_absent(tracking_uri):
            return
        store = tracking_store(tracking_uri)
        if experiment := store.find_experiment(space_name):
            runs.delete_sweep(store, experiment, sweep_id)
    except Exception as error:
        raise Unreachable(f"cannot use {tracking_uri}: {reason(error)}") from None

"""Deletes the runs of a sweep, without a driver."""

from __future__ import annotations

from raysweep.tracking import runs
from raysweep.tracking.server import Unreachable, check, connect, is_absent, reason


def forget(tracking_uri: str, space_name: str, sweep_id: str) -> None:
    """Delete a sweep's parent and child runs. MLflow keeps deleted runs until `mlflow gc`.

    Raises Unreachable, whatever the error of MLflow, its database or its server: one line without credentials.
    """
    check(tracking_uri)
    try:
        client = None if is_absent(tracking_uri) else connect(tracking_uri)
        experiment = client.get_experiment_by_name(space_name) if client else None
        if client and experiment:
            runs.delete_sweep(client, experiment.experiment_id, sweep_id)
    except Exception as error:
        raise Unreachable(f"cannot use {tracking_uri}: {reason(error)}") from None

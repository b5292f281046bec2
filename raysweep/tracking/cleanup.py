"""Cleans up the runs of a sweep without a driver: closes runs that a dead driver left open, and deletes runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from raysweep.tracking import runs
from raysweep.tracking.server import Unreachable, check, connect, is_absent, reason


def settle(tracking_uri: str, space_name: str, sweep_id: str, status: str = "KILLED") -> bool:
    """Give the parent run that a dead driver left RUNNING its status, and delete the unfinished child run.

    Returns False if no parent run was left RUNNING. Raises Unreachable if MLflow cannot be reached or fails meanwhile.
    """
    with _experiment(tracking_uri, space_name) as found:
        if found is None:
            return False
        client, experiment_id = found
        running = [run for run in runs.parents(client, experiment_id, sweep_id) if run.info.status == "RUNNING"]
        for run in running:
            runs.settled_children(client, experiment_id, run.info.run_id)
            client.set_terminated(run.info.run_id, status)
        return bool(running)


def forget(tracking_uri: str, space_name: str, sweep_id: str) -> None:
    """Delete a sweep's parent and child runs. MLflow keeps deleted runs until `mlflow gc`. Raises Unreachable."""
    with _experiment(tracking_uri, space_name) as found:
        if found is not None:
            runs.delete_sweep(*found, sweep_id)


@contextlib.contextmanager
def _experiment(tracking_uri: str, space_name: str) -> Iterator[tuple[Any, str] | None]:
    """Yield a client and the id of the experiment, or None if there is no such experiment.

    Any error of MLflow, its database or its server inside the block becomes an Unreachable: one line without
    credentials.
    """
    check(tracking_uri)
    try:
        client = None if is_absent(tracking_uri) else connect(tracking_uri)
        experiment = client.get_experiment_by_name(space_name) if client else None
        yield (client, experiment.experiment_id) if experiment else None
    except Exception as error:
        raise Unreachable(f"cannot use {tracking_uri}: {reason(error)}") from None

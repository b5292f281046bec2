"""The runs of a sweep that nobody drives: close what a dead driver left open, delete what is not wanted any more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from raysweep.tracking import runs
from raysweep.tracking.server import Unreachable, check, connect, is_absent, reason


def settle(tracking_uri: str, space_name: str, sweep_id: str, status: str = "KILLED") -> bool:
    """Give the parent run of a sweep whose driver died its status, and delete the child it was writing; False if the
    parent was not left RUNNING. Raises Unreachable, as `check` does, or if it is lost on the way."""
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
    """Delete a sweep's parent and children from MLflow (as MLflow deletes: `mlflow gc` purges). Raises Unreachable."""
    with _experiment(tracking_uri, space_name) as found:
        if found is not None:
            runs.delete_sweep(*found, sweep_id)


@contextlib.contextmanager
def _experiment(tracking_uri: str, space_name: str) -> Iterator[tuple[Any, str] | None]:
    """A client and the number of the experiment, None if there is no such experiment. Whatever MLflow, its database or
    its server raise meanwhile becomes one line without credentials."""
    check(tracking_uri)
    try:
        client = None if is_absent(tracking_uri) else connect(tracking_uri)
        experiment = client.get_experiment_by_name(space_name) if client else None
        yield (client, experiment.experiment_id) if experiment else None
    except Exception as error:
        raise Unreachable(f"cannot use {tracking_uri}: {reason(error)}") from None

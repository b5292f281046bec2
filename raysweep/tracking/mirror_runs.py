"""The runs of one sweep in MLflow: one parent, one child per cell, each found again and never doubled.

A child is written in one go and its final status last: a child that is not FINISHED or FAILED is the half of one that
somebody was killed over, and is deleted. Everything here raises what MLflow raises.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep.phrases import counted
from raysweep.tracking.mirror_content import LONGEST_PARAM, LONGEST_TAG, Content, cut, text

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

TERMINAL = ("FINISHED", "FAILED")
KIND = {"mlflow.experimentKind": "custom_model_development"}
"""How MLflow marks an experiment of model training (its page also asks for it by address: server.runs_page)."""
PAGE = 1000


@dataclass
class Runs:
    """The parent of a sweep and its children, by cell: (run id, digest of what it was written from)."""

    client: MlflowClient
    experiment_id: str
    parent_id: str
    common: dict[str, str]
    children: dict[str, tuple[str, str]] = field(default_factory=dict)


def open_runs(
    client: MlflowClient,
    artifact_location: str | None,
    space: Mapping[str, Any],
    sweep: str,
    sweep_id: str,
    code_version: str,
    folder: str,
) -> Runs:
    """The experiment and the parent run, found again or created, RUNNING; its children settled."""
    experiment_id = _experiment(client, str(space["name"]), artifact_location)
    common = {
        "raysweep.sweep": sweep,
        "raysweep.sweep_id": sweep_id,
        "raysweep.code_version": code_version,
        "mlflow.source.name": "raysweep",
        **({"raysweep.folder": folder} if folder else {}),
    }
    found = parents(client, experiment_id, sweep_id)
    fixed = {name: cut(text(value), LONGEST_PARAM) for name, value in dict(space.get("fixed") or {}).items()}
    if not found:
        tags = common | {"raysweep.kind": "sweep", "raysweep.workload": str(space.get("workload", ""))}
        parent = client.create_run(experiment_id, run_name=sweep, tags=tags)
        _log(client, parent.info.run_id, [], fixed, {})
        return Runs(client, experiment_id, parent.info.run_id, common)
    for double in found[1:]:  # a create that was sent twice because its answer was lost
        _delete_tree(client, double)
    parent_id = found[0].info.run_id
    client.update_run(parent_id, status="RUNNING")
    if not found[0].data.params:  # whoever created it was killed before these were written
        _log(client, parent_id, [], fixed, {})
    client.set_tag(parent_id, "raysweep.code_version", code_version)
    runs = Runs(client, experiment_id, parent_id, common)
    settle_children(runs)
    return runs


def parents(client: MlflowClient, experiment_id: str, sweep_id: str) -> list[Run]:
    """The parent runs of a sweep, the oldest first: one, or none."""
    where = f"tags.`raysweep.sweep_id` = '{sweep_id}' and tags.`raysweep.kind` = 'sweep'"
    return sorted(_search(client, experiment_id, where), key=lambda run: (run.info.start_time, run.info.run_id))


def settle_children(runs: Runs) -> None:
    """Learn which children are there; delete halves and doubles."""
    runs.children.clear()
    for run in _children(runs.client, runs.experiment_id, runs.parent_id):
        cell = run.data.tags["raysweep.cell"]
        if run.info.status in TERMINAL and cell not in runs.children:
            runs.children[cell] = (run.info.run_id, run.data.tags.get("raysweep.rows", ""))
        else:
            _drop(runs.client, run.info.run_id)


def drop_halves(client: MlflowClient, experiment_id: str, parent_id: str) -> None:
    """Delete the children that somebody was killed over."""
    for run in _children(client, experiment_id, parent_id):
        if run.info.status not in TERMINAL:
            _drop(client, run.info.run_id)


def _drop(client: MlflowClient, run_id: str) -> None:
    """Delete a run; ended first, so that none is left RUNNING even in the trash."""
    client.set_terminated(run_id, "KILLED")
    client.delete_run(run_id)


def write_cell(runs: Runs, cell_id: str, content: Content) -> None:
    """Write the child of a cell, unless it is there and says the same."""
    there = runs.children.get(cell_id)
    if there is not None:
        if there[1] == content.digest:
            return
        runs.client.delete_run(there[0])
        del runs.children[cell_id]
    tags = (
        runs.common
        | content.tags
        | {"raysweep.kind": "cell", "raysweep.rows": content.digest, "mlflow.parentRunId": runs.parent_id}
    )
    run_id = runs.client.create_run(runs.experiment_id, run_name=cut(content.name, 250), tags=tags).info.run_id
    _log(runs.client, run_id, content.metrics, content.params, {})
    runs.client.set_terminated(run_id, content.status)
    runs.children[cell_id] = (run_id, content.digest)


def close_parent(
    runs: Runs, status: str, artifacts: Mapping[str, Path], summary: Mapping[str, Any], missing: int
) -> None:
    """Log the parent's artifacts (top-level name: file or folder) and summary, then its status.

    A finite number of the summary becomes a metric, anything else a tag; an artifact that is not there is left out.
    """
    for name, path in artifacts.items():
        if path.is_dir():
            runs.client.log_artifacts(runs.parent_id, str(path), artifact_path=name)
        elif path.is_file():
            _log_file(runs, name, path)
    numbers = {
        name: float(value)
        for name, value in summary.items()
        if isinstance(value, (int, float)) and abs(value) < float("inf")
    }
    tags = {f"raysweep.{name}": cut(str(value), LONGEST_TAG) for name, value in summary.items() if name not in numbers}
    tags["raysweep.mirror"] = f"incomplete: {counted(missing, 'cell')} missing" if missing else "complete"
    _log(runs.client, runs.parent_id, [(name, value, 0) for name, value in numbers.items()], {}, tags)
    runs.client.set_terminated(runs.parent_id, status)


def delete_sweep(client: MlflowClient, experiment_id: str, sweep_id: str) -> None:
    """Delete the parent and its children (MLflow keeps deleted runs until `mlflow gc`)."""
    for parent in parents(client, experiment_id, sweep_id):
        _delete_tree(client, parent)


def _experiment(client: MlflowClient, name: str, artifact_location: str | None) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(client.create_experiment(name, artifact_location=artifact_location, tags=KIND))
        except Exception:
            experiment = client.get_experiment_by_name(name)  # another sweep of the same space was first
            if experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    for key, value in KIND.items():
        if key not in experiment.tags:  # what its user chose stays
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


def _search(client: MlflowClient, experiment_id: str, where: str) -> list[Run]:
    found, token = [], None
    while True:
        page = client.search_runs([experiment_id], where, max_results=PAGE, page_token=token)
        found += list(page)
        token = page.token
        if not token:
            return found


def _children(client: MlflowClient, experiment_id: str, parent_id: str) -> list[Run]:
    """The children that the mirror wrote (not what a user has nested under the parent), the oldest first."""
    runs = _search(client, experiment_id, f"tags.`mlflow.parentRunId` = '{parent_id}'")
    ours = [run for run in runs if "raysweep.cell" in run.data.tags]
    return sorted(ours, key=lambda run: (run.info.start_time, run.info.run_id))


def _delete_tree(client: MlflowClient, parent: Run) -> None:
    for run in (*_children(client, parent.info.experiment_id, parent.info.run_id), parent):
        if run.info.status in TERMINAL:
            client.delete_run(run.info.run_id)
        else:
            _drop(client, run.info.run_id)


def _log(
    client: MlflowClient,
    run_id: str,
    metrics: list[tuple[str, float, int]],
    params: Mapping[str, str],
    tags: Mapping[str, str],
) -> None:
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    client.log_batch(
        run_id,
        [Metric(key, value, now, step) for key, value, step in metrics],
        [Param(key, value) for key, value in params.items()],
        [RunTag(key, value) for key, value in tags.items()],
    )


def _log_file(runs: Runs, name: str, path: Path) -> None:
    if path.name == name:
        runs.client.log_artifact(runs.parent_id, str(path))
        return
    with tempfile.TemporaryDirectory() as room:  # MLflow takes an artifact's name from the file
        runs.client.log_artifact(runs.parent_id, str(shutil.copyfile(path, Path(room) / name)))

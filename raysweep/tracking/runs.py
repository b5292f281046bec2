"""The runs of one sweep in MLflow: one parent and one child per cell. Existing runs are found again, never duplicated.

The final status of a child is written last. A child that is neither FINISHED nor FAILED is incomplete, because its
writer was killed, and is deleted. Errors of MLflow are not caught here.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep.phrases import counted
from raysweep.tracking.cell_run import LONGEST_PARAM, LONGEST_TAG, Content, cut, text
from raysweep.tracking.histories import Point
from raysweep.tracking.server import connect, is_server

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

TERMINAL = ("FINISHED", "FAILED")
KIND = {"mlflow.experimentKind": "custom_model_development"}
"""The tag by which MLflow marks an experiment as model training. Links to its page say it too (server.runs_page)."""
PAGE = 1000


@dataclass(frozen=True)
class SweepRun:
    """What the parent run records about a sweep.

    space: the resolved space (`name`, `axes`, `fixed` and `workload` are used).
    sweep, sweep_id: the sweep's name, and the id by which its runs are found again.
    code_version: the version of the workload's code.
    artifacts: folder or URI for the artifacts of a new experiment; a tracking server uses its own place instead.
    folder: the sweep's folder, which holds its logs.
    """

    space: Mapping[str, Any]
    sweep: str
    sweep_id: str
    code_version: str
    artifacts: str | Path | None = None
    folder: str = ""


@dataclass(frozen=True)
class Child:
    """A child run as MLflow has it.

    rows: the digest of the content that it was made from.
    metrics: the last value of each.
    """

    run_id: str
    rows: str
    metrics: Mapping[str, float]
    params: Mapping[str, str]

    def agrees(self, content: Content) -> bool:
        """Whether it was made from this content and still shows it: all parameters, and the last value of each metric.
        What somebody added does not matter."""
        return (
            self.rows == content.digest
            and content.params.items() <= self.params.items()
            and all(math.isclose(self.metrics.get(key, math.nan), value) for key, value in content.last().items())
        )


class Runs:
    """The experiment, the parent run and the child runs of a sweep.

    The experiment and the parent run are found again or created, and the parent run is set to RUNNING. `children` has
    the run of each cell.
    """

    def __init__(self, tracking_uri: str, sweep: SweepRun) -> None:
        self._client = client = connect(tracking_uri)
        artifacts = None if is_server(tracking_uri) else sweep.artifacts
        if isinstance(artifacts, Path):
            artifacts = artifacts.absolute().as_uri()
        self.experiment_id = _experiment(client, str(sweep.space["name"]), artifacts)
        self._common = {
            "raysweep.sweep": sweep.sweep,
            "raysweep.sweep_id": sweep.sweep_id,
            "raysweep.code_version": sweep.code_version,
            "mlflow.source.name": "raysweep",
            **({"raysweep.folder": sweep.folder} if sweep.folder else {}),
        }
        self.children: dict[str, Child] = {}
        found = parents(client, self.experiment_id, sweep.sweep_id)
        for double in found[1:]:  # the request to create it was sent twice, because an answer was lost
            _delete_tree(client, double)
        if found:
            self._parent_id = found[0].info.run_id
            client.update_run(self._parent_id, status="RUNNING")
            client.set_tag(self._parent_id, "raysweep.code_version", sweep.code_version)
            self.settle()
        else:
            tags = {"raysweep.kind": "sweep", "raysweep.workload": str(sweep.space.get("workload", ""))}
            parent = client.create_run(self.experiment_id, run_name=sweep.sweep, tags=self._common | tags)
            self._parent_id = parent.info.run_id
        if not found or not found[0].data.params:  # its creator may have been killed before it wrote these
            fixed = dict(sweep.space.get("fixed") or {})
            params = {name: cut(text(value), LONGEST_PARAM) for name, value in fixed.items()}
            self._log(self._parent_id, [], params, {})

    def settle(self) -> None:
        """Read which children exist, and delete incomplete and duplicate ones."""
        self.children = settled_children(self._client, self.experiment_id, self._parent_id)

    def write(self, name: str, content: Content) -> None:
        """Write the child run of a cell, unless one is there that agrees with it. One that does not is deleted."""
        if child := self.children.get(name):
            if child.agrees(content):
                return
            self._client.delete_run(child.run_id)
            del self.children[name]
        tags = {"raysweep.kind": "cell", "raysweep.rows": content.digest, "mlflow.parentRunId": self._parent_id}
        run_name, tags = cut(content.name, 250), self._common | content.tags | tags
        run_id = self._client.create_run(self.experiment_id, run_name=run_name, tags=tags).info.run_id
        self._log(run_id, content.metrics, content.params, {})
        self._client.set_terminated(run_id, content.status)
        self.children[name] = Child(run_id, content.digest, content.last(), content.params)

    def close(self, status: str, artifacts: Mapping[str, Path], summary: Mapping[str, Any], missing: int) -> None:
        """Log the parent's artifacts and summary, then its status.

        status: the final status of the parent run.
        artifacts: maps top-level names to files or folders; paths that do not exist are left out.
        summary: finite numbers become metrics, everything else becomes tags.
        missing: how many cells could not be written.
        """
        for name, path in artifacts.items():
            if path.is_dir():
                self._client.log_artifacts(self._parent_id, str(path), artifact_path=name)
            elif path.is_file():
                self._log_file(name, path)
        numbers = {
            name: float(value)
            for name, value in summary.items()
            if isinstance(value, (int, float)) and abs(value) < float("inf")
        }
        tags = {
            f"raysweep.{name}": cut(str(value), LONGEST_TAG) for name, value in summary.items() if name not in numbers
        }
        tags["raysweep.mirror"] = f"incomplete: {counted(missing, 'cell')} missing" if missing else "complete"
        self._log(self._parent_id, [(name, value, 0) for name, value in numbers.items()], {}, tags)
        self._client.set_terminated(self._parent_id, status)

    def _log(self, run_id: str, metrics: list[Point], params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        self._client.log_batch(
            run_id,
            [Metric(key, value, now, step) for key, value, step in metrics],
            [Param(key, value) for key, value in params.items()],
            [RunTag(key, value) for key, value in tags.items()],
        )

    def _log_file(self, name: str, path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:  # MLflow names an artifact after its file
            own = path if path.name == name else Path(shutil.copyfile(path, Path(folder) / name))
            self._client.log_artifact(self._parent_id, str(own))


def parents(client: MlflowClient, experiment_id: str, sweep_id: str) -> list[Run]:
    """The parent runs of a sweep, the oldest first. Normally there is one or none."""
    return _search(client, experiment_id, f"tags.`raysweep.sweep_id` = '{sweep_id}' and tags.`raysweep.kind` = 'sweep'")


def settled_children(client: MlflowClient, experiment_id: str, parent_id: str) -> dict[str, Child]:
    """The children of a sweep, by cell. Incomplete and duplicate children are deleted."""
    children: dict[str, Child] = {}
    for run in _children(client, experiment_id, parent_id):
        cell = run.data.tags["raysweep.cell"]
        if run.info.status in TERMINAL and cell not in children:
            rows = run.data.tags.get("raysweep.rows", "")
            children[cell] = Child(run.info.run_id, rows, run.data.metrics, run.data.params)
        else:
            _delete(client, run)
    return children


def delete_sweep(client: MlflowClient, experiment_id: str, sweep_id: str) -> None:
    """Delete the parent and its children. MLflow keeps deleted runs until `mlflow gc`."""
    for parent in parents(client, experiment_id, sweep_id):
        _delete_tree(client, parent)


def _experiment(client: MlflowClient, name: str, artifact_location: str | None) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(client.create_experiment(name, artifact_location=artifact_location, tags=KIND))
        except Exception:
            experiment = client.get_experiment_by_name(name)  # another sweep of the same space created it first
            if experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    for key, value in KIND.items():
        if key not in experiment.tags:  # keep what the user chose
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


def _search(client: MlflowClient, experiment_id: str, where: str) -> list[Run]:
    """The runs of an experiment that match the filter `where`, the oldest first."""
    found: list[Run] = []
    token = None
    while True:
        page = client.search_runs([experiment_id], where, max_results=PAGE, page_token=token)
        found += page
        if not (token := page.token):
            return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))


def _children(client: MlflowClient, experiment_id: str, parent_id: str) -> list[Run]:
    """The children that raysweep wrote, the oldest first. Runs that a user nested under the parent are left out."""
    found = _search(client, experiment_id, f"tags.`mlflow.parentRunId` = '{parent_id}'")
    return [run for run in found if "raysweep.cell" in run.data.tags]


def _delete_tree(client: MlflowClient, parent: Run) -> None:
    for run in (*_children(client, parent.info.experiment_id, parent.info.run_id), parent):
        _delete(client, run)


def _delete(client: MlflowClient, run: Run) -> None:
    """Delete a run. It is ended first, so that no deleted run stays RUNNING."""
    if run.info.status not in TERMINAL:
        client.set_terminated(run.info.run_id, "KILLED")
    client.delete_run(run.info.run_id)

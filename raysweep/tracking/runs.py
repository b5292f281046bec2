"""The runs of one sweep in MLflow: one parent, one child per cell, each found again and never doubled.

A child is written in one go and its final status last: a child that is not FINISHED or FAILED was being written when
somebody was killed, and is deleted. Everything here raises what MLflow raises.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raysweep.phrases import counted
from raysweep.tracking.content import LONGEST_PARAM, LONGEST_TAG, Content, Point, cut, text
from raysweep.tracking.server import connect, is_server

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

TERMINAL = ("FINISHED", "FAILED")
KIND = {"mlflow.experimentKind": "custom_model_development"}
"""How MLflow marks an experiment of model training (its page also asks for it by address: server.runs_page)."""
PAGE = 1000


@dataclass(frozen=True)
class SweepRun:
    """What the parent run of a sweep says of it.

    space: the resolved space (`name`, `axes`, `fixed`, `workload` are used).
    sweep, sweep_id: its name, and the identity by which its runs are found again.
    artifacts: folder or URI of a new experiment's artifacts; a tracking server is asked for its own instead.
    folder: where the sweep lies, with its logs.
    """

    space: Mapping[str, Any]
    sweep: str
    sweep_id: str
    code_version: str
    artifacts: str | Path | None = None
    folder: str = ""


class Runs:
    """The experiment and the parent run of a sweep, found again or created, and RUNNING; and its children, by cell:
    (run id, digest of what it was written from)."""

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
        self.children: dict[str, tuple[str, str]] = {}
        found = parents(client, self.experiment_id, sweep.sweep_id)
        for double in found[1:]:  # a create that was sent twice because its answer was lost
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
        if not found or not found[0].data.params:  # whoever created it was killed before these were written
            fixed = dict(sweep.space.get("fixed") or {})
            params = {name: cut(text(value), LONGEST_PARAM) for name, value in fixed.items()}
            self._log(self._parent_id, [], params, {})

    def settle(self) -> None:
        """Learn which children are there; delete halves and doubles."""
        self.children = settled_children(self._client, self.experiment_id, self._parent_id)

    def write(self, name: str, content: Content) -> None:
        """Write the child of a cell, unless it is there and says the same."""
        if name in self.children:
            run_id, digest = self.children[name]
            if digest == content.digest:
                return
            self._client.delete_run(run_id)
            del self.children[name]
        tags = {"raysweep.kind": "cell", "raysweep.rows": content.digest, "mlflow.parentRunId": self._parent_id}
        run_name, tags = cut(content.name, 250), self._common | content.tags | tags
        run_id = self._client.create_run(self.experiment_id, run_name=run_name, tags=tags).info.run_id
        self._log(run_id, content.metrics, content.params, {})
        self._client.set_terminated(run_id, content.status)
        self.children[name] = (run_id, content.digest)

    def close(self, status: str, artifacts: Mapping[str, Path], summary: Mapping[str, Any], missing: int) -> None:
        """Log the parent's artifacts (top-level name: file or folder) and summary, then its status.

        A finite number of the summary becomes a metric, anything else a tag; an artifact that is not there is left out.
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
        with tempfile.TemporaryDirectory() as folder:  # MLflow takes an artifact's name from the file
            own = path if path.name == name else Path(shutil.copyfile(path, Path(folder) / name))
            self._client.log_artifact(self._parent_id, str(own))


def parents(client: MlflowClient, experiment_id: str, sweep_id: str) -> list[Run]:
    """The parent runs of a sweep, the oldest first: one, or none."""
    return _search(client, experiment_id, f"tags.`raysweep.sweep_id` = '{sweep_id}' and tags.`raysweep.kind` = 'sweep'")


def settled_children(client: MlflowClient, experiment_id: str, parent_id: str) -> dict[str, tuple[str, str]]:
    """The children of a sweep by cell, (run id, digest of what it was written from) each; halves and doubles are
    deleted."""
    children: dict[str, tuple[str, str]] = {}
    for run in _children(client, experiment_id, parent_id):
        cell = run.data.tags["raysweep.cell"]
        if run.info.status in TERMINAL and cell not in children:
            children[cell] = (run.info.run_id, run.data.tags.get("raysweep.rows", ""))
        else:
            _delete(client, run)
    return children


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
    """The runs of an experiment to which this applies, the oldest first."""
    found: list[Run] = []
    token = None
    while True:
        page = client.search_runs([experiment_id], where, max_results=PAGE, page_token=token)
        found += page
        if not (token := page.token):
            return sorted(found, key=lambda run: (run.info.start_time, run.info.run_id))


def _children(client: MlflowClient, experiment_id: str, parent_id: str) -> list[Run]:
    """The children that raysweep wrote (not what a user has nested under the parent), the oldest first."""
    found = _search(client, experiment_id, f"tags.`mlflow.parentRunId` = '{parent_id}'")
    return [run for run in found if "raysweep.cell" in run.data.tags]


def _delete_tree(client: MlflowClient, parent: Run) -> None:
    for run in (*_children(client, parent.info.experiment_id, parent.info.run_id), parent):
        _delete(client, run)


def _delete(client: MlflowClient, run: Run) -> None:
    """Delete a run; ended first, so that none is left RUNNING even in the trash."""
    if run.info.status not in TERMINAL:
        client.set_terminated(run.info.run_id, "KILLED")
    client.delete_run(run.info.run_id)

"""The runs of one sweep in MLflow: one parent and one child per cell. Existing runs are found again, never duplicated.

The final status of a child is written last. A child that is neither FINISHED nor FAILED is incomplete, because its
writer was killed, and is deleted. Errors of MLflow are not caught here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raysweep.phrases import counted
from raysweep.tracking.cell_run import LONGEST_PARAM, LONGEST_TAG, Content, cut, text
from raysweep.tracking.client import Client, Run
from raysweep.tracking.database import Database, tracking_store
from raysweep.tracking.server import Unreachable, check, is_absent, is_server, reason

TERMINAL = ("FINISHED", "FAILED")


@dataclass(frozen=True)
class SweepRun:
    """What the parent run records about a sweep.

    space: the resolved space (`name`, `axes`, `fixed` and `workload` are used).
    sweep, sweep_id: the sweep's name, and the id by which its runs are found again.
    artifacts: folder or URI for the artifacts of a new experiment; a tracking server uses its own place instead.
    folder: the sweep's folder, which holds its logs.
    """

    space: Mapping[str, Any]
    sweep: str
    sweep_id: str
    code_version: str
    artifacts: str | Path | None = None
    folder: str = ""


class Runs:
    """The experiment, the parent run and the child runs of a sweep: the first two are found again or created, and the
    parent run is set to RUNNING. `children` has the run of each cell."""

    def __init__(self, tracking_uri: str, sweep: SweepRun) -> None:
        self._store = store = tracking_store(tracking_uri)
        artifacts = None if is_server(tracking_uri) else sweep.artifacts
        if isinstance(artifacts, Path):
            artifacts = artifacts.absolute().as_uri()
        self.experiment_id = store.experiment(str(sweep.space["name"]), artifacts)
        self.together = store.together
        of_sweep = {name: getattr(sweep, name) for name in ("sweep", "sweep_id", "code_version", "folder")}
        self._common = {f"raysweep.{name}": text for name, text in of_sweep.items() if text}
        self._common["mlflow.source.name"] = "raysweep"
        self.children: dict[str, Run] = {}
        fixed = dict(sweep.space.get("fixed") or {})
        params = {name: cut(text(value), LONGEST_PARAM) for name, value in fixed.items()}
        existing = parents(store, self.experiment_id, sweep.sweep_id)
        for double in existing[1:]:  # the request to create it was sent twice, because an answer was lost
            _delete_tree(store, self.experiment_id, double)
        if existing:
            self._parent_id = existing[0].run_id
            store.set_status(self._parent_id, "RUNNING")
            # its creator may have been killed before it wrote the parameters
            tags = {"raysweep.code_version": sweep.code_version}
            store.log(self._parent_id, [], {} if existing[0].params else params, tags)
            self.settle()
        else:
            tags = {"raysweep.kind": "sweep", "raysweep.workload": str(sweep.space.get("workload", ""))}
            new = Content(sweep.sweep, "RUNNING", [], params, self._common | tags, "")
            (self._parent_id,) = store.add(self.experiment_id, [new])

    def settle(self) -> None:
        self.children = {}
        for run in _children(self._store, self.experiment_id, self._parent_id):
            cell = run.tags["raysweep.cell"]
            if run.status in TERMINAL and cell not in self.children:
                self.children[cell] = run
            else:
                _delete(self._store, run)

    def write(self, contents: Mapping[str, Content]) -> None:
        """Write the child runs of cells, except where one is there that agrees. One that does not is deleted."""
        new = {}
        for name, content in contents.items():
            if child := self.children.get(name):
                if _agrees(child, content):
                    continue
                self._store.delete(child.run_id)
                del self.children[name]
            tags = {"raysweep.kind": "cell", "raysweep.rows": content.digest, "mlflow.parentRunId": self._parent_id}
            tags = self._common | content.tags | tags
            new[name] = replace(content, name=cut(content.name, 250), tags=tags)
        ids = self._store.add(self.experiment_id, list(new.values()))
        for (name, content), run_id in zip(new.items(), ids, strict=True):
            self.children[name] = Run(run_id, content.status, content.tags, content.last(), content.params)

    def close(self, status: str, artifacts: Mapping[str, Path], summary: Mapping[str, Any], missing: int) -> None:
        """Log the parent's artifacts and summary, then its final status.

        artifacts: maps top-level names to files or folders; paths that do not exist are left out.
        summary: finite numbers become metrics, everything else becomes tags. If empty, those of an earlier end stay;
            else a count that it lacks becomes 0, and a finding that it lacks goes.
        missing: how many cells could not be written.
        """
        for name, path in artifacts.items():
            if path.exists():
                self._store.log_artifact(self._parent_id, name, path)
        finite = {name for name, value in summary.items() if isinstance(value, (int, float)) and abs(value) < math.inf}
        numbers = {name: float(summary[name]) for name in summary if name in finite}
        tags = {f"raysweep.{name}": cut(str(summary[name]), LONGEST_TAG) for name in summary if name not in finite}
        tags["raysweep.mirror"] = f"incomplete: {counted(missing, 'cell')} missing" if missing else "complete"
        for earlier in parents(self._store, self.experiment_id, self._common["raysweep.sweep_id"]) if summary else ():
            numbers = {name: 0.0 for name in earlier.metrics if name.startswith("rows_")} | numbers
            numbers = {name: value for name, value in numbers.items() if earlier.metrics.get(name) != value}
            gone = [tag for tag in earlier.tags if tag.startswith("raysweep.finding.") and tag not in tags]
            self._store.untag(self._parent_id, gone)
        self._store.log(self._parent_id, [(name, value, 0) for name, value in numbers.items()], {}, tags)
        self._store.set_status(self._parent_id, status)


def _agrees(run: Run, content: Content) -> bool:
    """Whether a run was made from this content and still shows all parameters and the last value of each metric."""
    return (
        run.tags.get("raysweep.rows", "") == content.digest
        and content.params.items() <= run.params.items()
        and all(math.isclose(run.metrics.get(key, math.nan), value) for key, value in content.last().items())
    )


def parents(store: Client | Database, experiment_id: str, sweep_id: str) -> list[Run]:
    """The parent runs of a sweep, the oldest first. Normally there is one or none."""
    return store.runs(experiment_id, {"raysweep.sweep_id": sweep_id, "raysweep.kind": "sweep"})


def _children(store: Client | Database, experiment_id: str, parent_id: str) -> list[Run]:
    """The children that raysweep wrote, the oldest first. Runs that a user nested under the parent are left out."""
    return [run for run in store.runs(experiment_id, {"mlflow.parentRunId": parent_id}) if "raysweep.cell" in run.tags]


def _delete_tree(store: Client | Database, experiment_id: str, parent: Run) -> None:
    for run in (*_children(store, experiment_id, parent.run_id), parent):
        _delete(store, run)


def _delete(store: Client | Database, run: Run) -> None:
    """Delete a run. It is ended first, so that no deleted run stays RUNNING."""
    if run.status not in TERMINAL:
        store.set_status(run.run_id, "KILLED")
    store.delete(run.run_id)


def forget(tracking_uri: str, space_name: str, sweep_id: str) -> None:
    """Delete a sweep's parent and child runs. MLflow keeps deleted runs until `mlflow gc`. Raises Unreachable, whatever
    the error of MLflow, its database or its server: one line without credentials."""
    check(tracking_uri)
    try:
        if is_absent(tracking_uri):
            return
        store = tracking_store(tracking_uri)
        if experiment := store.find_experiment(space_name):
            for parent in parents(store, experiment, sweep_id):
                _delete_tree(store, experiment, parent)
    except Exception as error:
        raise Unreachable(f"cannot use {tracking_uri}: {reason(error)}") from None

"""Reads and writes runs by MLflow's own client, in a server or in any database. Its errors are not caught here."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raysweep.tracking.cell_run import Content, Point
from raysweep.tracking.server import all_runs, connect

KIND = {"mlflow.experimentKind": "custom_model_development"}
"""The tag by which MLflow marks an experiment as model training. Links to its page say it too (server.listedpage)."""


@dataclass(frozen=True)
class Run:
    """A run as MLflow has it. metrics: the last value of each."""

    run_id: str
    status: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    params: Mapping[str, str]


class Client:
    """MLflow by its client, which takes two seconds to import. together: how many runs `add` is best given at once."""

    together = 1

    def __init__(self, tracking_uri: str) -> None:
        self._client = connect(tracking_uri)

    def find_experiment(self, name: str) -> str | None:
        experiment = self._client.get_experiment_by_name(name)
        return experiment and str(experiment.experiment_id)

    def experiment(self, name: str, artifacts: str | None) -> str:
        """The id of an experiment, which is created, restored and marked as model training where necessary. artifacts:
        where the artifacts of a new one are kept; None if MLflow decides."""
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return str(self._client.create_experiment(name, artifact_location=artifacts, tags=KIND))
            except Exception:  # another sweep of the same space created it first
                experiment = self._client.get_experiment_by_name(name)
                if experiment is None:
                    raise
        if experiment.lifecycle_stage == "deleted":
            self._client.restore_experiment(experiment.experiment_id)
        for key, value in KIND.items():
            if key not in experiment.tags:  # keep what the user chose
                self._client.set_experiment_tag(experiment.experiment_id, key, value)
        return str(experiment.experiment_id)

    def runs(self, experiment_id: str, tags: Mapping[str, str]) -> list[Run]:
        """The runs with these tags that are not deleted, the oldest first."""
        where = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
        listed = all_runs(self._client, experiment_id, where)
        listed.sort(key=lambda run: (run.info.start_time, run.info.run_id))
        parts = ((run.info, run.data) for run in listed)
        return [Run(info.run_id, info.status, data.tags, data.metrics, data.params) for info, data in parts]

    def add(self, experiment_id: str, contents: Sequence[Content]) -> Iterator[str]:
        """Write new runs, and yield the id of each as soon as it is there."""
        for content in contents:
            run = self._client.create_run(experiment_id, run_name=content.name, tags=content.tags)
            if content.metrics or content.params:
                self.log(run.info.run_id, content.metrics, content.params, {})
            if content.status != "RUNNING":
                self.set_status(run.info.run_id, content.status)
            yield run.info.run_id

    def log(self, run_id: str, metrics: Sequence[Point], params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Add to a run. A tag that is there is replaced."""
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        self._client.log_batch(
            run_id,
            [Metric(key, value, now, step) for key, value, step in metrics],
            [Param(key, value) for key, value in params.items()],
            [RunTag(key, value) for key, value in tags.items()],
        )

    def untag(self, run_id: str, tags: Sequence[str]) -> None:
        for tag in tags:
            self._client.delete_tag(run_id, tag)

    def set_status(self, run_id: str, status: str) -> None:
        """End a run, or open it again by the status RUNNING."""
        if status == "RUNNING":
            self._client.update_run(run_id, status=status)
        else:
            self._client.set_terminated(run_id, status)

    def delete(self, run_id: str) -> None:
        self._client.delete_run(run_id)

    def log_artifact(self, run_id: str, name: str, path: Path) -> None:
        """Log a file or a folder as the artifact of this name."""
        if path.is_dir():
            self._client.log_artifacts(run_id, str(path), artifact_path=name)
            return
        with tempfile.TemporaryDirectory() as folder:  # MLflow names an artifact after its file
            file = path if path.name == name else Path(shutil.copyfile(path, Path(folder) / name))
            self._client.log_artifact(run_id, str(file))

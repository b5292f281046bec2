"""Reads and writes runs in MLflow's SQLite database directly, many in one transaction.

MLflow's own client takes two seconds to import and 25 ms to write a run; this takes less than a millisecond. The tables
are MLflow's own matter, so only a database at a known revision of them is written. A test compares each table with what
the client writes. A database at any other revision, and every server, goes by the client.
"""

from __future__ import annotations

import contextlib
import math
import posixpath
import re
import shutil
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from raysweep.tracking import server
from raysweep.tracking.cell_run import Content, Point
from raysweep.tracking.client import KIND, Client, Run

Texts = Mapping[str, str]
REVISIONS = frozenset({"dc11669786a5"})
"""Revisions of MLflow's tables that tests compare: that of MLflow 3.17."""
PATIENCE = 20.0
"""Seconds that a locked database is waited for, as MLflow does."""
TOGETHER = 20
"""Runs in a transaction: the disk is waited for once for all of them."""


def tracking_store(tracking_uri: str) -> Client | Database:
    """Access to the runs at a tracking URI. A missing SQLite database is created first."""
    if not tracking_uri.startswith("sqlite:///") or "?" in tracking_uri:
        return Client(tracking_uri)
    server.create_if_absent(tracking_uri)
    database = Database(tracking_uri)
    return database if database.is_supported() else Client(tracking_uri)


class Database:
    """MLflow's SQLite database. Its methods are those of Client, which says what they do."""

    together = TOGETHER

    def __init__(self, tracking_uri: str) -> None:
        self._uri = tracking_uri
        self._address = f"{server.sqlite_file(tracking_uri).absolute().as_uri()}?mode=rw"

    @cached_property
    def _client(self) -> Client:
        return Client(self._uri)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own, for the file may be another by now. What the block writes is there whole, or not."""
        connection = sqlite3.connect(self._address, uri=True, timeout=PATIENCE, isolation_level=None)
        with contextlib.closing(connection) as database:
            database.executescript("PRAGMA foreign_keys = ON; BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")

    def is_supported(self) -> bool:
        try:
            with self._transaction() as database:
                revisions = {revision for (revision,) in database.execute("SELECT * FROM alembic_version")}
                return bool(revisions) and revisions <= REVISIONS
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # no such table
                return False
            raise

    def find_experiment(self, name: str) -> str | None:
        with self._transaction() as database:
            row = database.execute("SELECT experiment_id FROM experiments WHERE name = ?", [name]).fetchone()
        return row and str(row[0])

    def experiment(self, name: str, artifacts: str | None) -> str:
        with self._transaction() as database:
            query = "SELECT experiment_id, lifecycle_stage FROM experiments WHERE name = ?"
            row = database.execute(query, [name]).fetchone()
            if row is None and artifacts:
                columns = "name, artifact_location, lifecycle_stage, creation_time, last_update_time"
                insert = f"INSERT INTO experiments ({columns}) VALUES (?, ?, 'active', ?, ?)"
                row = (database.execute(insert, [name, artifacts, now := _now(), now]).lastrowid, "active")
            if row and row[1] == "active":
                tags = [(*tag, row[0]) for tag in KIND.items()]
                database.executemany("INSERT OR IGNORE INTO experiment_tags VALUES (?, ?, ?)", tags)
                return str(row[0])
        return self._client.experiment(name, artifacts)

    def runs(self, experiment_id: str, tags: Mapping[str, str]) -> list[Run]:
        chosen = "SELECT run_uuid FROM runs WHERE experiment_id = ? AND lifecycle_stage = 'active'"
        chosen += " AND run_uuid IN (SELECT run_uuid FROM tags WHERE key = ? AND value = ?)" * len(tags)
        values = [int(experiment_id), *(part for tag in tags.items() for part in tag)]
        data: dict[str, dict[str, dict[str, Any]]] = {}
        with self._transaction() as database:
            rows = database.execute(
                f"SELECT run_uuid, status FROM runs WHERE run_uuid IN ({chosen}) ORDER BY start_time, run_uuid", values
            ).fetchall()
            for table in ("tags", "params", "latest_metrics"):
                of_runs: dict[str, dict[str, Any]] = {run_id: {} for run_id, _ in rows}
                value = "CASE WHEN is_nan THEN NULL ELSE value END" if table == "latest_metrics" else "value"
                for run_id, key, number in database.execute(
                    f"SELECT run_uuid, key, {value} FROM {table} WHERE run_uuid IN ({chosen})", values
                ):
                    of_runs[run_id][key] = math.nan if number is None else number
                data[table] = of_runs
        tag, metric, param = data["tags"], data["latest_metrics"], data["params"]
        return [Run(run_id, status, tag[run_id], metric[run_id], param[run_id]) for run_id, status in rows]

    def add(self, experiment_id: str, contents: Sequence[Content]) -> Iterator[str]:
        """Write new runs in one transaction, and yield their ids."""
        if not contents:
            return
        ids = [uuid.uuid4().hex for _ in contents]
        with self._transaction() as database:
            query, experiment = "SELECT artifact_location FROM experiments WHERE experiment_id = ?", int(experiment_id)
            (place,) = database.execute(query, [experiment]).fetchone()
            for run_id, content in zip(ids, contents, strict=True):
                now = _now()
                ended, artifacts = None if content.status == "RUNNING" else now, f"{place}/{run_id}/artifacts"
                database.execute(
                    "INSERT INTO runs VALUES (?, ?, 'UNKNOWN', '', '', 'unknown', ?, ?, ?, '', 'active', ?, ?, NULL)",
                    (run_id, content.name, content.status, now, ended, artifacts, experiment),
                )
                tags = content.tags | {"mlflow.runName": content.name}
                _log(database, run_id, content.metrics, content.params, tags)
        yield from ids

    def log(self, run_id: str, metrics: Sequence[Point], params: Texts, tags: Texts) -> None:
        with self._transaction() as database:
            _log(database, run_id, metrics, params, tags)

    def untag(self, run_id: str, tags: Sequence[str]) -> None:
        with self._transaction() as database:
            database.executemany("DELETE FROM tags WHERE run_uuid = ? AND key = ?", [(run_id, tag) for tag in tags])

    def set_status(self, run_id: str, status: str) -> None:
        with self._transaction() as database:
            database.execute("UPDATE runs SET status = ? WHERE run_uuid = ?", [status, run_id])
            if status != "RUNNING":
                database.execute("UPDATE runs SET end_time = ? WHERE run_uuid = ?", [_now(), run_id])

    def delete(self, run_id: str) -> None:
        with self._transaction() as database:
            if not database.execute("SELECT EXISTS (SELECT * FROM assessments)").fetchone()[0]:
                update = "UPDATE runs SET lifecycle_stage = 'deleted', deleted_time = ? WHERE run_uuid = ?"
                database.execute(update, [_now(), run_id])
                return
        self._client.delete(run_id)  # which deletes what somebody assessed of it

    def log_artifact(self, run_id: str, name: str, path: Path) -> None:
        with self._transaction() as database:
            (place,) = database.execute("SELECT artifact_uri FROM runs WHERE run_uuid = ?", [run_id]).fetchone()
        parts = urlsplit(place)
        if parts.scheme not in ("", "file"):
            self._client.log_artifact(run_id, name, path)
            return
        target = Path(url2pathname(parts.path) if parts.scheme else place) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(path, target)


def _now() -> int:
    return int(time.time() * 1000)


def _log(database: sqlite3.Connection, run_id: str, metrics: Sequence[Point], params: Texts, tags: Texts) -> None:
    now = _now()
    for key in {key for key, _, _ in metrics} | params.keys() | tags.keys():
        if not re.fullmatch(r"[-\w. :/]{1,250}", key) or posixpath.normpath(key) != key:
            raise ValueError(f"{key!r} cannot be a name in MLflow")
    database.executemany(
        "INSERT OR IGNORE INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)",
        [(key, value, now, run_id, step) for key, value, step in metrics],
    )
    last = {key: (step, value) for step, value, key in sorted((step, value, key) for key, value, step in metrics)}
    database.executemany(
        "INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, 0, ?) "
        "ON CONFLICT DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp, step = excluded.step, "
        "is_nan = 0 WHERE (excluded.step, excluded.timestamp, excluded.value) > (step, timestamp, value)",
        [(key, value, now, step, run_id) for key, (step, value) in last.items()],
    )
    database.executemany("INSERT INTO params VALUES (?, ?, ?)", [(*param, run_id) for param in params.items()])
    database.executemany("INSERT OR REPLACE INTO tags VALUES (?, ?, ?)", [(*tag, run_id) for tag in tags.items()])

"""Servers of tests: an S3, MLflow's database, an MLflow server."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.chaos.tracking_server import UnwellServer
from tests.chaos.waiting import PATIENCE


@pytest.fixture(scope="session")
def s3_server():
    """An S3 of this run on the loopback, a process of its own; its endpoint."""
    words = [sys.executable, Path(__file__).with_name("s3_server.py")]
    serving = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = serving.stdout.readline().strip()
    assert port, "the S3 server did not start"
    yield f"http://127.0.0.1:{port}"
    serving.terminate()
    serving.wait(PATIENCE)


def account(endpoint, region):
    """What is to be in the environment to use that S3."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture
def s3(s3_server, monkeypatch):
    """An S3 bucket of this test alone, s3://NAME; its endpoint and keys are in the environment of this process."""
    import s3fs

    for name, value in account(s3_server, "us-east-1").items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()  # it keeps the endpoint it was made with
    bucket = f"test-{uuid.uuid4().hex[:12]}"
    s3fs.S3FileSystem().mkdir(bucket)
    yield f"s3://{bucket}"
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """An empty MLflow database, to be copied: making one takes seconds."""
    from raysweep.tracking import server

    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    server.connect(f"sqlite:///{path}")
    return path


@pytest.fixture
def database(storage, template):
    storage.mkdir()
    return Path(shutil.copy(template, storage / "mlflow.db"))


def runs_of(database, experiment, kind=""):
    """The runs of an experiment that are not deleted, by MLflow's own client; of a kind: cell, pack or sweep."""
    import mlflow

    client = mlflow.MlflowClient(f"sqlite:///{database}")
    wanted = f"tags.`raysweep.kind` = '{kind}'" if kind else ""
    return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id], wanted))


@pytest.fixture
def slow_database(database):
    """The same, that works for a tenth of a second at each cell, so that a test sees the first of many."""
    with contextlib.closing(sqlite3.connect(database)) as db:
        db.executescript(
            "CREATE TABLE work AS SELECT value FROM json_each('[' || trim(replace(hex(zeroblob(750)), '0', '0,'), ',') "
            "|| ']'); CREATE TRIGGER slowly AFTER INSERT ON tags WHEN NEW.key = 'raysweep.cell' BEGIN "
            "SELECT COUNT(*) FROM work a, work b WHERE a.value + b.value > 1; END"
        )
    return database


def hurry(database):
    """Let a slow database be as fast as any."""
    with contextlib.closing(sqlite3.connect(database, timeout=PATIENCE)) as db:
        db.execute("DROP TRIGGER slowly")


@pytest.fixture
def server(tmp_path, template):
    running = UnwellServer(tmp_path)
    shutil.copy(template, running.database)
    try:
        running.start()
        yield running
    finally:
        running.kill()

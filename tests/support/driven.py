"""A driver that waits in the middle of a sweep, and what it has done so far."""

import contextlib
import sqlite3
from collections import Counter

import pytest
from conftest import driving, until
from spaces import sandbox_space, written

from raysweep.query.sweep import open_sweep
from tests.chaos.waiting import PATIENCE


def segments(storage, name="sandy"):
    return list((storage / name / "ledger").glob("*.jsonl"))


def values(storage):
    table = open_sweep("sandy", storage).results()
    assert set(table["status"]) <= {"ok"}
    return table["y"].tolist()


def run_statuses(database):
    """How many runs have which status in MLflow, by the kind that their tag says; half ones included."""
    with contextlib.closing(sqlite3.connect(database, timeout=PATIENCE)) as db:
        result = db.execute(
            "SELECT t.value, r.status, COUNT(*) FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid AND "
            "t.key = 'raysweep.kind' WHERE r.lifecycle_stage = 'active' GROUP BY t.value, r.status"
        )
        statuses = {}
        for kind, status, count in result:
            statuses.setdefault(kind, Counter())[status] = count
        assert db.execute("SELECT COUNT(*) FROM runs WHERE status = 'RUNNING'").fetchone() == (0,)
    return statuses


@pytest.fixture
def drive(tmp_path, storage):
    """Starts drivers of `sandy` that have computed two rows of four and wait in the third for the file `go`."""
    with contextlib.ExitStack() as stack:

        def start(*options, **more):
            path = written(tmp_path, sandbox_space(tmp_path, ["compute", "compute", "wait", "wait"]))
            driver = driving("run", path, "--storage", storage, "--no-report", *options, **more)
            driven = stack.enter_context(driver)
            until(lambda: len(segments(storage)) >= 2, driven)
            return driven

        yield start

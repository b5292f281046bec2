"""A driver that waits in the middle of a sweep, and what it has done so far."""

import contextlib
from collections import Counter

import pytest
from conftest import driving, sql, until
from spaces import sandbox_space, written

from raysweep.query.sweep import open_sweep


def values(storage):
    table = open_sweep("sandy", storage).results()
    assert set(table["status"]) <= {"ok"}
    return table["y"].tolist()


def run_statuses(database):
    """How many runs have which status in MLflow, by the kind that their tag says; half ones included."""
    statuses = {}
    for kind, status, count in sql(
        database,
        "SELECT t.value, r.status, COUNT(*) FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid AND "
        "t.key = 'raysweep.kind' WHERE r.lifecycle_stage = 'active' GROUP BY t.value, r.status",
    ):
        statuses.setdefault(kind, Counter())[status] = count
    assert sql(database, "SELECT COUNT(*) FROM runs WHERE status = 'RUNNING'") == [(0,)]
    return statuses


@pytest.fixture
def drive(tmp_path, storage):
    """Starts drivers of `sandy` that have computed two rows of four and wait in the third for the file `go`."""
    with contextlib.ExitStack() as stack:

        def start(*options, **more):
            path = written(tmp_path, sandbox_space(tmp_path, ["compute", "compute", "wait", "wait"]))
            driver = driving("run", path, "--storage", storage, "--no-report", *options, **more)
            driven = stack.enter_context(driver)
            until(lambda: len(list((storage / "sandy" / "ledger").glob("*.jsonl"))) >= 2, driven)
            return driven

        yield start

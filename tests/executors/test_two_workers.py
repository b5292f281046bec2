"""Two workers that train together: what one lacks memory for, cannot compute or is late with ends for both."""

import threading

import numpy as np
import pytest
from gang_rows import IN_STEP, impatient_gang, job, pack
from gang_workload import LATE

from raysweep.stages import trees
from raysweep.stages.store import Store
from raysweep.storage import leases

pytestmark = pytest.mark.usefixtures("sandbox")


@pytest.fixture(scope="module")
def two_workers(ray_cluster):
    """The same two for all of these tests: none of them kills one."""
    with impatient_gang(2) as reference:
        yield reference


@pytest.mark.long
def test_workers_wait_longer_where_one_may_be_late(two_workers, tmp_path):
    asked, _ = job(tmp_path, "late")
    assert LATE > IN_STEP
    (row,) = two_workers.rows(asked, pack("pack"), np.array([0]), np.array([1]))
    assert row["metrics"] == {"y": 4.0 * 78, "workers": 2.0}


def test_where_one_worker_runs_out_of_memory_the_others_end_too_and_fewer_rows_are_tried(two_workers, tmp_path):
    asked, _ = job(tmp_path, "memory")
    rows = two_workers.rows(asked, pack("pack"), np.array([0, 0]), np.array([1, 2]))
    assert [row["metrics"]["y"] for row in rows] == [4.0 * 78, 4.0 * 78 * 2]
    logs = (tmp_path / "logs" / "pack-1.log.worker1").read_text()
    assert "OutOfMemoryError" in logs
    assert [logs.count(f" of {count} on ") for count in ("2 rows", "1 row")] == [1, 3]  # the second one fails once too
    assert "Timed out waiting" not in (tmp_path / "logs" / "pack-1.log.worker0").read_text()


def test_a_stage_that_fails_is_tried_twice_however_many_rows_need_it(two_workers, tmp_path):
    asked, _ = job(tmp_path, "raise", again=4)
    rows = two_workers.rows(asked, pack("pack"), np.arange(4), np.ones(4, int))
    assert [row["status"] for row in rows] == ["failed"] * 4
    assert all("worker 1 of 2: Traceback" in row["error"] for row in rows)
    assert all("ArithmeticError: x = 0 cannot be computed" in row["error"] for row in rows)
    assert (tmp_path / "raise-0-1.tries").read_text().split() == ["once"] * 2


def test_a_gang_gives_up_a_stage_that_another_trial_computes_and_finds_it_later(two_workers, tmp_path):
    """None of its workers holds its resources meanwhile, and none is taken for one that is stuck."""
    asked, stages = job(tmp_path, "compute")
    (reference,) = stages.of_row(0, 5)
    begun, given_up = threading.Event(), threading.Event()

    def slowly(progress):
        begun.set()
        assert given_up.wait(400)
        arrays, tree = trees.flatten({"total": np.array([7.0])})
        return arrays, {"tree": tree}

    other = threading.Thread(target=Store(asked.store).once, args=(reference.id, slowly), kwargs={"describe": {}})
    other.start()
    assert begun.wait(400)
    try:
        with pytest.raises(leases.Held, match=reference.id):
            two_workers.rows(asked, pack("pack"), np.array([0]), np.array([5]))
    finally:
        given_up.set()
        other.join()
    rows = two_workers.rows(asked, pack("pack"), np.array([0]), np.array([5]))
    assert [row["metrics"] for row in rows] == [{"y": 7.0, "workers": 2.0}]

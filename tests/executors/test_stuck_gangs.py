"""Workers that train together: what one of them has no memory for, cannot compute or is late with ends for all, none
waits for one that is stuck, and a stage that another trial computes is given up."""

import contextlib
import threading

import numpy as np
import pytest
from conftest import run
from gang_rows import IN_STEP, impatient_gang, job, job_of, pack
from gang_workload import LATE
from spaces import language_space

from raysweep.stages import trees
from raysweep.stages.store import Store
from raysweep.storage import leases
from raysweep.trial.pack import WorkerLost

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


@pytest.fixture
def gang_of(ray_cluster):
    """A gang of so many workers, which waits for none of them long."""
    with contextlib.ExitStack() as stack:
        yield lambda workers: stack.enter_context(impatient_gang(workers))


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, 4])
def test_a_worker_that_is_stopped_is_named_not_waited_for_and_replaced(workers, gang_of, tmp_path):
    """By SIGSTOP, in the middle of a training; a new one goes on from there."""
    asked, of = job(tmp_path, "stopped")[0], gang_of(workers)
    with pytest.raises(WorkerLost, match=f"^worker {workers - 1} of {workers} did not come where the others waited$"):
        of.rows(asked, pack("pack"), np.array([0]), np.array([1]))
    assert "Timed out waiting" in (tmp_path / "logs" / "pack-1.log.worker0").read_text()
    (row,) = of.rows(asked, pack("pack"), np.array([0]), np.array([1]))
    assert row["metrics"] == {"y": 4.0 * 78, "workers": workers}
    assert (tmp_path / "stopped-0-1.steps").read_text().split() == ["1", "2", "3", "4"]


@pytest.mark.long
@pytest.mark.parametrize(("workers", "tries"), [(2, 3), (4, 2)])
def test_where_one_worker_runs_out_of_memory_in_a_step_all_try_again_with_less_at_a_time(
    workers, tries, gang_of, storage, tmp_path
):
    """The rows are those of one process with memory enough, but for the order of sums in float32; stated tolerance, as
    in tests/training/test_parallel.py: 2e-3 nats. FSDP keeps connections open where a step has failed, so the others
    wait their time limit for it."""
    reference, rates = gang_of(workers), {"finetune_lr": [1.25e-4, 2.5e-4, 5e-4]}
    slow = {"pretrain_lr": 1e-3}  # at larger rates training magnifies rounding
    expected = run(storage, language_space(rates, slow, workload="cramped")).results()
    asked, of = job_of(tmp_path, language_space(rates, {**slow, "room": 1}, workload="cramped"))
    rows = reference.rows(asked, pack("pack"), np.arange(6), np.zeros(6, int))
    assert [row["status"] for row in rows] == ["ok"] * 6
    for name in ("pretrain_loss", "pretrain_loss_after", "finetune_loss"):
        results = [row["metrics"][name] for row in rows]
        np.testing.assert_allclose(results, expected[name], atol=2e-3, rtol=0, err_msg=name)
        assert len(set(results)) >= 2
    logs = [(tmp_path / "logs" / f"pack-1.log.worker{rank}").read_text() for rank in range(workers)]
    assert {text.count("6 rows on ") for text in logs} == {tries}  # and none of these workers was replaced
    assert ["OutOfMemoryError" in text for text in logs] == [False] * (workers - 1) + [True]
    assert len({line.rpartition("process ")[2] for line in logs[0].splitlines() if "6 rows on " in line}) == 1
    stored = [Store(asked.store).look(stage.id) for cell in range(6) for stage in of.of_row(cell, 0)]
    assert {entry["meta"]["computed"] for entry in stored if entry} == {1}

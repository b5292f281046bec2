"""Workers that train together do not wait for one of them that is stuck, dead or out of memory."""

import contextlib

import numpy as np
import pytest
from conftest import run
from gang_rows import impatient_gang, job, job_of, pack
from spaces import language_space

from raysweep.stages.store import Store
from raysweep.trial.pack import WorkerLost

pytestmark = pytest.mark.long


@pytest.fixture
def gang_of(ray_cluster, sandbox):
    """A gang of so many workers, which waits for none of them long."""
    with contextlib.ExitStack() as stack:
        yield lambda workers: stack.enter_context(impatient_gang(workers))


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

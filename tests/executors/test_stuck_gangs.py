"""Workers that train together give up a stage that another trial computes, and do not wait for one of them that is
stuck."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import run
from gang_workload import LATE
from spaces import language_space, sandbox_space
from told_worker import Told

from raysweep.executors import gang
from raysweep.executors.gang import Gang
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.pack import Pack
from raysweep.plan.resources import Resources
from raysweep.plan.row_stages import RowStages
from raysweep.space import schema
from raysweep.stages import trees
from raysweep.stages.store import Store
from raysweep.storage import leases
from raysweep.trial.pack import Job, WorkerLost

IN_STEP = 4.0  # seconds that workers wait for each other in a step


@pytest.fixture
def gang_of(ray_cluster: str, sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Gang]]:
    """A gang of so many workers, which waits for none of them long in a step, in a placement group of its own; its
    driver is this process."""
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    monkeypatch.setattr(gang, "IN_STEP", IN_STEP)
    monkeypatch.setattr(gang, "GRACE", 4.0)  # for answers that are under way
    with contextlib.ExitStack() as stack:

        def begin(workers: int) -> Gang:
            group = placement_group([{"CPU": 2 / workers}] * workers)
            stack.callback(remove_placement_group, group)
            ray.get(group.ready(), timeout=400)
            found = Gang(Resources(0, 2, workers), group)
            stack.callback(found.end)
            return found

        yield begin


@pytest.fixture
def two_workers(gang_of: Callable[[int], Gang]) -> Gang:
    return gang_of(2)


def job(folder: Path, behaviour: str, again: int = 1) -> tuple[Job, RowStages]:
    """So many rows of the workload `together` that share a sum: as a trial is told, and their stages."""
    axes = {"behaviour": [behaviour], "again": list(range(again))}
    return job_of(folder, sandbox_space(folder, [], workload="together", axes=axes, zip=[]))


def job_of(folder: Path, asked: dict[str, Any]) -> tuple[Job, RowStages]:
    """The rows of a space: as a trial is told, and their stages."""
    space = schema.validate(asked)
    cells = enumerate_cells(space)
    for name in ("ledger", "logs"):
        (folder / name).mkdir()
    asked_of_trial = Job(
        space.workload,
        cells.columns,
        cells.ids,
        str(folder / "ledger"),
        str(folder / "logs"),
        str(folder / "store"),
        "sweep",
        1,
        "code",
        1,
    )
    return asked_of_trial, RowStages(space.declaration, cells.columns)


def pack(name: str) -> Pack:
    """A pack of this name; the rows are told apart from it."""
    return Pack(name, np.array([0]), np.array([0]), 0.0, 0.0, Resources(0, 2, 2))


@pytest.mark.parametrize("workers", [2, 4])
def test_a_worker_that_is_stopped_is_named_not_waited_for_and_replaced(
    workers: int, gang_of: Callable[[int], Gang], tmp_path: Path
) -> None:
    """By SIGSTOP, in the middle of a training; a new one goes on from there."""
    asked, of = job(tmp_path, "stopped")[0], gang_of(workers)
    with pytest.raises(WorkerLost, match=f"^worker {workers - 1} of {workers} did not come where the others waited$"):
        of.rows(asked, pack("pack"), np.array([0]), np.array([1]))
    assert "Timed out waiting" in (tmp_path / "logs" / "pack-1.log.worker0").read_text()
    (row,) = of.rows(asked, pack("pack"), np.array([0]), np.array([1]))
    assert row["metrics"] == {"y": 4.0 * 78, "workers": workers}
    assert (tmp_path / "stopped-0-1.steps").read_text().split() == ["1", "2", "3", "4"]


@pytest.mark.slow
def test_whichever_of_four_workers_dies_the_next_ones_go_on_where_it_stopped(
    gang_of: Callable[[int], Gang], tmp_path: Path
) -> None:
    asked, four = job(tmp_path, "die_in_turn")[0], gang_of(4)
    for rank in range(4):
        with pytest.raises(WorkerLost, match=f"^worker {rank} of 4 died"):
            four.rows(asked, pack("pack"), np.array([0]), np.array([1]))
    (row,) = four.rows(asked, pack("pack"), np.array([0]), np.array([1]))
    assert row["metrics"] == {"y": 4.0 * 78, "workers": 4}
    assert (tmp_path / "die_in_turn-0-1.steps").read_text().split() == ["1", "2", "3", "4"]


def test_workers_wait_longer_where_one_may_be_late(two_workers: Gang, tmp_path: Path) -> None:
    asked, _ = job(tmp_path, "late")
    assert LATE > IN_STEP
    (row,) = two_workers.rows(asked, pack("pack"), np.array([0]), np.array([1]))
    assert row["metrics"] == {"y": 4.0 * 78, "workers": 2.0}


def test_where_one_worker_runs_out_of_memory_the_others_end_too_and_fewer_rows_are_tried(
    two_workers: Gang, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gang, "IN_STEP", 400.0)
    asked, _ = job(tmp_path, "memory")
    started = time.monotonic()
    rows = two_workers.rows(asked, pack("pack"), np.array([0, 0]), np.array([1, 2]))
    assert time.monotonic() - started < 100
    assert [row["metrics"]["y"] for row in rows] == [4.0 * 78, 4.0 * 78 * 2]
    logs = (tmp_path / "logs" / "pack-1.log.worker1").read_text()
    assert "OutOfMemoryError" in logs
    assert [logs.count(f" of {count} on ") for count in ("2 rows", "1 row")] == [1, 3]  # the second one fails once too


def test_a_stage_that_fails_is_tried_twice_however_many_rows_need_it(two_workers: Gang, tmp_path: Path) -> None:
    asked, _ = job(tmp_path, "raise", again=4)
    rows = two_workers.rows(asked, pack("pack"), np.arange(4), np.ones(4, int))
    assert [row["status"] for row in rows] == ["failed"] * 4
    assert all("worker 1 of 2: Traceback" in row["error"] for row in rows)
    assert all("ArithmeticError: x = 0 cannot be computed" in row["error"] for row in rows)
    assert (tmp_path / "raise-0-1.tries").read_text().split() == ["once"] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "tries", "spreads"), [(2, 3, (0, 1)), (4, 2, (0,))])
def test_where_one_worker_runs_out_of_memory_in_a_step_all_try_again_with_less_at_a_time(
    workers: int, tries: int, spreads: tuple[int, ...], gang_of: Callable[[int], Gang], storage: Path, tmp_path: Path
) -> None:
    """A language model, whole in each worker, and spread over two. The rows are those of one process with memory
    enough, but for the order of sums in float32; stated tolerance, as in tests/training/test_parallel.py: 2e-3 nats."""
    own = gang_of(workers)
    expected = run(storage, language_space(workload="cramped")).results()
    for spread in spreads:
        folder = tmp_path / str(spread)
        folder.mkdir()
        asked, of = job_of(folder, language_space(workload="cramped", fixed={"spread": spread, "room": 1}))
        rows = own.rows(asked, pack("pack"), np.arange(6), np.zeros(6, int))
        assert [row["status"] for row in rows] == ["ok"] * 6
        for name in ("pretrain_loss", "pretrain_loss_after", "finetune_loss"):
            found = [row["metrics"][name] for row in rows]
            np.testing.assert_allclose(found, expected[name], atol=2e-3, rtol=0, err_msg=name)
            assert len(set(found)) >= 2
        logs = [(folder / "logs" / f"pack-1.log.worker{rank}").read_text() for rank in range(workers)]
        assert {text.count("6 rows on ") for text in logs} == {tries}  # and none of these workers was replaced
        assert ["OutOfMemoryError" in text for text in logs] == [False] * (workers - 1) + [True]
        assert not any("Timed out waiting" in text for text in logs)
        assert len({line.rpartition("process ")[2] for line in logs[0].splitlines() if "6 rows on " in line}) == 1
        stored = [Store(asked.store).look(stage.id) for cell in range(6) for stage in of.of_row(cell, 0)]
        assert {entry["meta"]["computed"] for entry in stored if entry} == {1}


def test_a_gang_gives_up_a_stage_that_another_trial_computes_and_finds_it_later(
    two_workers: Gang, tmp_path: Path
) -> None:
    """None of its workers holds its resources meanwhile, and none is taken for one that is stuck."""
    asked, stages = job(tmp_path, "compute")
    (own,) = stages.of_row(0, 5)
    begun, given_up = threading.Event(), threading.Event()

    def slowly(progress: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        begun.set()
        assert given_up.wait(400)
        arrays, tree = trees.flatten({"total": np.array([7.0])})
        return arrays, {"tree": tree}

    other = threading.Thread(target=Store(asked.store).once, args=(own.id, slowly), kwargs={"describe": {}})
    other.start()
    assert begun.wait(400)
    try:
        with pytest.raises(leases.Held, match=own.id):
            two_workers.rows(asked, pack("pack"), np.array([0]), np.array([5]))
    finally:
        given_up.set()
        other.join()
    rows = two_workers.rows(asked, pack("pack"), np.array([0]), np.array([5]))
    assert [row["metrics"] for row in rows] == [{"y": 7.0, "workers": 2.0}]


@pytest.mark.parametrize(
    ("words", "named", "lost"),
    [
        (["waited", ""], [1], True),
        (["", "waited", "failed", "waited"], [0, 2], True),
        (["waited", "waited"], [], False),  # each for the other: none of them is stuck
        (["failed", ""], [], False),
        (["rows", "lost"], [], True),
    ],
)
def test_who_is_named(
    words: list[str],
    named: list[int],
    lost: bool,
    gang_of: Callable[[int], Gang],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of workers that end as they are told to, in processes of their own."""
    monkeypatch.setattr(gang, "Worker", Told)
    (asked, _), of = job(tmp_path, "compute"), len(words)
    try:
        (row,) = gang_of(of).rows(asked, pack("-".join(words)), np.array([0]), np.array([0]))
    except WorkerLost as error:
        assert lost
        said = str(error)
    else:
        assert not lost
        said = row["error"]
        for rank, word in enumerate(words):
            assert (f"worker {rank} of {of}: this one {word}" in said) == bool(word)
    missed = " and ".join(f"worker {rank} of {of}" for rank in named)
    assert (f"{missed} did not come" in said) if named else ("did not come" not in said)

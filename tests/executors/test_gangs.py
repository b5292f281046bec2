"""A trial of several workers gives the rows of one, whatever becomes of a worker and wherever the workers are."""

import functools
import re
import signal
import socket
from unittest import mock

import numpy as np
import pytest
from conftest import QUIET, assert_same_rows, ok, rows
from conftest import run as run_anywhere
from gang_rows import pack
from spaces import GRID, sandbox_space, small_space, written

from raysweep import workloads
from raysweep.executors import gang
from raysweep.executors.gang_worker import Answer, Outcome
from raysweep.ledger import segments
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.cost import shares
from raysweep.query.sweep import open_sweep
from raysweep.space import schema
from raysweep.space.resources import Resources
from raysweep.trial.pack import WorkerLost

run = functools.partial(run_anywhere, executor="ray")


def but_for_time(sweep):
    return sweep.results().drop(columns=["seconds"])


def gang_space(workload, folder, behaviour, **changes):
    return sandbox_space(folder, behaviour, workload=workload, **{"resources": {"gang": 2}, **changes})


@pytest.fixture
def deadline():
    """A sweep that waits for ever fails its test instead."""

    def late(number, frame):
        raise TimeoutError("the sweep does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(1200)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.long
def test_twenty_gangs_of_two_on_two_cores_end_with_the_rows_of_one_worker(
    ray_cluster, sandbox, storage, tmp_path, call, deadline
):
    asked = small_space(workload="apart", axes=GRID, seeds=20, resources={"gang": 2})
    ok(call("run", written(tmp_path, asked), "--storage", storage, *QUIET, "--executor", "ray"))
    sweep = open_sweep("small", storage)
    packs = list((sweep.folder / "ledger").glob("*.jsonl"))
    assert len(packs) == 20
    for number in (0, 1):  # each worker of each trial did its part, and said so in a log of its own
        assert len(list((sweep.folder / "logs").glob(f"*.log.worker{number}"))) == len(packs)
    expected = but_for_time(run(storage / "inline", asked, executor="inline"))
    assert but_for_time(sweep).equals(expected)  # to the last digit: rows that share their data are not parted


@pytest.mark.once
@pytest.mark.long
def test_a_worker_of_a_gang_killed_in_mid_pack_costs_no_row(ray_cluster, sandbox, storage, tmp_path, deadline):
    table = run(storage, gang_space("sandbox", tmp_path, ["compute", "die_once"])).results()
    assert table["status"].tolist() == ["ok"] * 2
    assert table["y"].tolist() == [0, 1]
    assert list(tmp_path.glob("die_once-*"))


@pytest.mark.long
def test_workers_that_train_together_give_the_rows_of_one_and_go_on_where_dead_ones_stopped(
    ray_cluster, sandbox, storage, tmp_path, deadline
):
    sweep = run(storage, gang_space("together", tmp_path, ["compute", "die_twice", "raise"], seeds=[1]))
    table = sweep.results()
    assert table["status"].tolist() == ["ok", "ok", "failed"]
    assert table["y"].tolist()[:2] == [4 * 78 * (x + 1) for x in (0, 1)]
    assert table["workers"].tolist()[:2] == [2, 2]
    error = sweep.failures()[0]["error"]  # what the second worker raised; the first one, waiting for it, did not hang
    assert "worker 1 of 2" in error
    assert "ArithmeticError: x = 2 cannot be computed" in error
    assert (tmp_path / "die_twice-1-1.death1").exists()  # each worker once, after two steps were saved: no fault of
    assert (tmp_path / "die_twice-1-1.steps").read_text().split() == ["1", "2", "3", "4"]  # the row, and taken up there


@pytest.mark.long
def test_a_gang_computes_what_its_packs_share_before_them_and_once(ray_cluster, sandbox, storage, tmp_path, deadline):
    fixed = {"folder": str(tmp_path), "said_seconds": 200, "tell_seconds": 200}
    axes = {"again": [1, 2, 3]}
    sweep = run(storage, gang_space("together", tmp_path, ["compute"], axes=axes, fixed=fixed, zip=[], seeds=[1]))
    assert sweep.results()["y"].tolist() == [4 * 78] * 3
    logs = [path.read_text() for path in (sweep.folder / "logs").glob("*.log.worker1")]
    assert sorted(text.split(" of ")[1].split(" on ")[0] for text in logs) == ["1 row"] * 3 + ["1 stage"]
    assert (tmp_path / "compute-0-1.steps").read_text().split() == ["1", "2", "3", "4"]


def test_workers_meet_at_the_address_of_their_machine_and_no_other(ray_cluster, monkeypatch):
    from raysweep.executors.gang_worker import Worker

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as a worker without a GPU sets it, in this process for once
    first = Worker(0, Resources(0, 2, 2), patience=60, in_step=60)
    here, port = first.invite()
    socket.create_connection((here, port), timeout=10).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=10)


def test_resources_that_depend_on_the_cell(ray_cluster, sandbox, storage, deadline):
    asked = small_space(workload="apart", axes=GRID, seeds=6, resources={"where": [{"depth": 3, "gang": 2}]})
    sweep = run(storage, asked)
    depths = {cell: sweep.cells.parameters(index)["depth"] for index, cell in enumerate(sweep.cells.ids)}
    packs = [segments.read_segment(path) for path in (sweep.folder / "ledger").glob("*.jsonl")]
    assert all(len({depths[row["cell"]] for row in pack}) == 1 for pack in packs)
    in_gangs = {pack[0]["pack"] for pack in packs if depths[pack[0]["cell"]] == 3}
    logs = {path.name.split("-")[0] for path in (sweep.folder / "logs").glob("*.log.worker1")}
    assert logs == in_gangs
    assert len(packs) > len(in_gangs) > 0
    assert_same_rows(rows(sweep), rows(run(storage / "inline", asked, executor="inline")))


@pytest.mark.long
def test_a_dry_run_says_which_gangs_there_are_and_what_they_cost(call):
    output = call("run", "four_axes_language", "--dry-run").out
    for gpus in ("1 GPU and 1 core each", "2 GPUs and 2 cores, a gang of 2", "4 GPUs and 4 cores, a gang of 4"):
        assert f"packs on {gpus}" in output, output
    assert re.search(r"together [\d.]+ GPU-(minutes|hours); a plain grid, .* GPU-hours: [\d.]+ times as much", output)


def test_rows_are_shared_out_whole_and_evenly():
    workload, cells = workloads.get("linear_transfer"), enumerate_cells(schema.validate(small_space(axes=GRID)))
    index = np.tile(np.arange(len(cells)), 3)
    seeds = np.repeat(np.arange(3), len(cells))
    columns = cells.take(index)
    for count in (1, 2, 3, 5, 100):
        parts = shares(workload, columns, seeds, count)
        assert len(parts) == min(count, len(seeds))
        assert sorted(np.concatenate(parts).tolist()) == list(range(len(seeds)))
        assert all(len(part) for part in parts)
    two = shares(workload, columns, seeds, 2)
    owner = {row: number for number, part in enumerate(two) for row in part.tolist()}
    shared = [(seeds[row], *(columns[name][row] for name in workload.shared)) for row in range(len(seeds))]
    together = {}
    for row, key in enumerate(shared):
        together.setdefault(key, set()).add(owner[row])
    assert all(len(owners) == 1 for owners in together.values())


@pytest.mark.parametrize(
    ("words", "named", "lost"),
    [
        (["waited", ""], [1], True),
        (["failed", ""], [], False),
        (["", "waited", "failed", "waited"], [0, 2], True),
        (["waited", "waited"], [], False),  # each for the other: none is stuck
        (["rows", "lost"], [], True),
    ],
)
def test_who_is_named(words, named, lost, monkeypatch):
    """Of workers whose calls end so; one without a word is stuck."""
    answers = [Answer(Outcome(word), problem=f"this one {word}") if word else None for word in words]
    monkeypatch.setattr(gang, "_gather", lambda calls: answers)
    monkeypatch.setattr(gang.Gang, "end", lambda self: None)
    of = gang.Gang(Resources(0, 2, len(words)), mock.Mock())
    of._workers = [mock.Mock() for _ in words]
    with pytest.raises((WorkerLost, RuntimeError)) as raised:
        of._ask(pack("pack"), [(None, None) for _ in words], together=True)
    message, every = str(raised.value), [f"worker {rank} of {len(words)}" for rank in range(len(words))]
    assert isinstance(raised.value, WorkerLost) == lost
    if not lost:
        assert [f"{worker}: this one {word}" in message for worker, word in zip(every, words, strict=True)] == [
            bool(word) for word in words
        ]
    missed = " and ".join(every[rank] for rank in named)
    assert (f"{missed} did not come" in message) if named else ("did not come" not in message)

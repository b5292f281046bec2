"""A sweep is a graph of stages: each is computed once, before what needs it, and nobody waits for it on a core."""

import contextlib
import signal
from collections import Counter

import numpy as np
import pytest
import staged_workload
from conftest import QUIET, driving, until
from conftest import run as run_anywhere
from spaces import space_over, written

from raysweep.plan.pack import PackQueue
from raysweep.query.sweep import open_sweep
from tests.chaos.waiting import PATIENCE


def space(folder, trouble="none", **changes):
    """Two trunks with two pretrainings each, and so much to do with each that its rows fall into several packs."""
    axes = {"source": [0, 1], "length": [1, 3], "rate": list(range(6)), "probe": [0, 1]}
    usual = {"axes": axes, "fixed": {"folder": str(folder), "trouble": trouble}, "seeds": 1}
    return space_over("staged", **{**usual, **changes})


def noted(folder, what, *names):
    """How often each stage of these names began ("begin"), or was computed to its end ("end")."""
    path = folder / "notes.txt"
    notes = path.read_text().splitlines() if path.exists() else []
    ended = (note.removeprefix(f"{what} ") for note in notes if note.startswith(f"{what} "))
    return Counter(note for note in ended if note.split()[0] in names)


def logs(sweep):
    return [path.read_text() for path in (sweep / "logs").iterdir()]


def assert_right(result):
    """Every row is there and has the number that its parameters come to."""
    table = result.results()
    assert table["status"].tolist() == ["ok"] * 48
    assert table["y"].tolist() == [staged_workload.expected(row) for row in table.to_dict("records")]


@pytest.mark.parametrize(
    ("workers", "keep"),
    [
        (None, []),
        (2, ["tune"]),
        pytest.param(1, [], marks=pytest.mark.long),
        pytest.param(4, [], marks=pytest.mark.long),
    ],
)
def test_each_stage_is_computed_once_and_the_rows_are_the_same_everywhere(
    workers, keep, request, sandbox, storage, tmp_path
):
    """In this process, and on Ray with so many workers."""
    if workers:
        request.getfixturevalue("ray_cluster")
    asked = space(tmp_path, "take time", keep=keep)
    sweep = run_anywhere(storage, asked, executor="ray" if workers else "inline", workers=workers)
    kept = noted(tmp_path, "end", "trunk", "pretrain", *keep)
    assert set(kept.values()) == {1}
    assert len(kept) == 2 * 3 + 2 * 2 + (24 if keep else 0)
    log = logs(sweep.folder)
    assert sum(" stages on " in text or " 1 stage on " in text for text in log) >= 4
    assert not any("somebody else computes it" in text for text in log)
    assert_right(sweep)


def test_rows_do_not_depend_on_the_order_of_packs(sandbox, storage, tmp_path, monkeypatch):
    usual = PackQueue._push
    for number in range(5):
        random = np.random.default_rng(number)

        def shuffled(queue, pack, random=random):
            queue._rank[pack.id] = (random.random(), 0, 0, 0)
            usual(queue, pack)

        monkeypatch.setattr(PackQueue, "_push", shuffled)
        assert_right(run_anywhere(storage / str(number), space(tmp_path)))


@pytest.mark.parametrize("name", ["trunk", "pretrain"])
def test_a_stage_that_fails_is_tried_twice_and_not_once_for_each_row_that_needs_it(
    name, executor, sandbox, storage, tmp_path
):
    sweep = run_anywhere(storage, space(tmp_path, f"raise {name}"), executor=executor)
    table = sweep.results()
    assert (table["status"] == "failed").tolist() == (table["source"] == 1).tolist()
    errors = {row["error"].splitlines()[-1] for row in sweep.failures()}
    first = "trunk 1 0 1" if name == "trunk" else "pretrain 1 0 1 0"
    assert f"ArithmeticError: {first} cannot be computed" in errors
    assert all("Traceback" in row["error"] for row in sweep.failures())
    begun = {note: count for note, count in noted(tmp_path, "begin", name).items() if note.split()[1] == "1"}
    assert begun == dict.fromkeys([first] if name == "trunk" else [first, "pretrain 1 0 3 0"], 2)
    assert set(noted(tmp_path, "end", "trunk", "pretrain").values()) == {1}


@pytest.mark.long
def test_a_worker_that_dies_in_a_pack_of_stages_is_tried_again_and_costs_only_rows_that_need_it(
    ray_cluster, sandbox, storage, tmp_path
):
    asked = space(tmp_path)
    asked["axes"] |= {"trouble": ["die once pretrain", "die trunk"], "length": [1]}
    del asked["fixed"]["trouble"]
    sweep = run_anywhere(storage, {**asked, "zip": [["source", "trouble"]]}, executor="ray")
    table = sweep.results()
    assert (table["status"] == "failed").tolist() == (table["source"] == 1).tolist()
    assert {row["error"] for row in sweep.failures()} == {
        "the process computing a stage of this row was killed by SIGKILL (out of memory, or killed from outside)"
    }
    assert noted(tmp_path, "begin", "trunk") == {"trunk 0 0 1": 1, "trunk 1 0 1": 3}
    assert noted(tmp_path, "begin", "pretrain") == {"pretrain 0 0 1 0": 2}


@pytest.fixture
def drive(tmp_path, storage):
    """Starts drivers of staged sweeps, processes of their own."""
    with contextlib.ExitStack() as stack:

        def start(asked, *options):
            folder = tmp_path / asked["name"]
            folder.mkdir(exist_ok=True)
            message = stack.enter_context((folder / "said.txt").open("a"))
            arguments = ("run", written(folder, asked), "--storage", storage, *QUIET, *options)
            return stack.enter_context(driving(*arguments, stderr=message))

        yield start


def test_a_killed_sweep_goes_on_and_computes_no_stage_twice(sandbox, storage, tmp_path, drive):
    asked = space(tmp_path, "wait pretrain")
    driven = drive(asked, "--executor", "inline")
    until(lambda: noted(tmp_path, "begin", "pretrain"), driven)
    driven.send_signal(signal.SIGKILL)
    driven.wait(PATIENCE)
    (tmp_path / "go").touch()
    assert drive(asked, "--executor", "inline").wait(PATIENCE) == 0
    assert_right(open_sweep("staged", storage))
    assert set(noted(tmp_path, "end", "trunk", "pretrain").values()) == {1}


def test_nobody_waits_on_a_core_for_what_another_sweep_computes(
    executor, request, sandbox, storage, tmp_path, monkeypatch, drive
):
    """The first sweep computes a trunk; the second what it can, with no trial of it under way meanwhile."""
    if executor == "ray":
        monkeypatch.setenv("RAY_ADDRESS", request.getfixturevalue("ray_cluster"))
    axes = {"source": [0], "length": [1], "rate": list(range(6)), "probe": [0, 1]}
    first = drive(space(tmp_path, "wait trunk", name="first", axes=axes), "--executor", "inline")
    until(lambda: noted(tmp_path, "begin", "trunk"), first)
    options = ("--executor", executor, *(("--workers", "2") if executor == "ray" else ()))
    second = drive(space(tmp_path, "wait trunk", name="second", axes=axes), *options)
    until(lambda: "what needs it begins later" in (tmp_path / "second" / "said.txt").read_text(), second)
    if executor == "ray":
        import ray

        until(lambda: ray.available_resources().get("CPU") == 2, second)
    assert noted(tmp_path, "begin", "trunk") == {"trunk 0 0 1": 1}
    assert logs(storage / "second") == []
    (tmp_path / "go").touch()
    for driven in (first, second):
        assert driven.wait(PATIENCE) == 0
    assert set(noted(tmp_path, "end", "trunk", "pretrain").values()) == {1}
    assert open_sweep("second", storage).results()["status"].tolist() == ["ok"] * 12
    assert not any("somebody else computes it" in text for text in logs(storage / "second"))

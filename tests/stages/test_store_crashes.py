"""Whoever computes a stage and dies is succeeded, once, from its last checkpoint; whoever lives is left alone."""

import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import until
from stored_stage import DESCRIBE, STAGE, assert_equal, once, weights

from raysweep.commands import store as store_commands
from raysweep.stages.store import Store
from raysweep.storage import leases
from tests.chaos.waiting import PATIENCE

CONTEXT = multiprocessing.get_context("spawn")


def _held_forever(url, flag):
    """In a process of its own: get half-way, say so, and never come back."""

    def compute(progress):
        progress.save({"weights": np.arange(4.0)}, {"step": 10})
        progress.save({"weights": np.arange(4.0) + 1}, {"step": 20})
        Path(flag).touch()
        threading.Event().wait()

    Store(url, lease_seconds=1.0).once(STAGE, compute, describe=DESCRIBE)


@pytest.fixture
def killed(tmp_path):
    """A store whose STAGE was under way, its lease one second, when the process computing it was killed; as it looks
    from another machine, which cannot see that it is dead, or from this one."""

    def kill(elsewhere=True):
        holder = CONTEXT.Process(target=_held_forever, args=(str(tmp_path / "store"), str(tmp_path / "flag")))
        holder.start()
        until((tmp_path / "flag").exists)
        os.kill(holder.pid, signal.SIGKILL)
        holder.join(PATIENCE)
        store = Store(tmp_path / "store", lease_seconds=20.0)
        if elsewhere:
            name = f"leases/{STAGE}.1.json"
            store.files.replace(name, json.dumps({**json.loads(store.files.read(name)), "life": None}).encode())
        return store

    return kill


def test_a_killed_holder_is_succeeded_from_its_last_checkpoint_and_that_is_counted(killed):
    store = killed()
    steps = []

    def go_on(progress):
        checkpoint = progress.load()
        steps.append(checkpoint.meta["step"])
        assert np.array_equal(checkpoint.tensors()["weights"], np.arange(4.0) + 1)
        return weights(), {}

    before = time.monotonic()
    entry = store.once(STAGE, go_on, describe=DESCRIBE)
    assert time.monotonic() - before > 0.9  # not before the lease was silent for its second
    assert steps == [20]
    assert entry.meta["computed"] == 2
    assert store.files.names("leases") == store.files.names("progress") == []
    assert any("started 2 times" in line for line in store_commands.overview(store))
    assert once(store).meta["computed"] == 2  # and nobody computes it again


def test_a_holder_that_died_on_this_machine_is_succeeded_at_once(killed):
    store = killed(elsewhere=False)
    lease = leases.Claim(store.files, STAGE, 20.0).take()
    assert lease.generation == 2
    assert leases.Claim(store.files, STAGE, 20.0).take() is None  # whoever took over is alive
    lease.release()


def test_of_many_who_wait_for_a_killed_holder_one_takes_over(killed):
    store = killed()
    computed = []
    results = []

    def wait(number):
        entry = store.once(STAGE, lambda progress: (computed.append(number) or weights(), {}), describe={})
        results.append(entry.meta["computed"])

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(computed) == 1
    assert results == [2] * 6


def test_a_damaged_last_checkpoint_gives_way_to_the_one_before(killed):
    store = killed()
    last = max(path for path in (Path(store.url) / "progress").glob("*.safetensors"))
    last.write_bytes(last.read_bytes()[:-3])

    def go_on(progress):
        checkpoint = progress.load()
        return weights(), {"from": checkpoint.meta["step"]}

    assert store.once(STAGE, go_on, describe={}).meta["from"] == 10
    assert len(store.files.names("damaged")) == 2


def test_a_lease_is_renewed_for_as_long_as_its_holder_lives(tmp_path, monkeypatch):
    """By a clock that goes on only while its holder waits to renew it."""
    now = [0.0]

    class Hurried(threading.Event):
        def wait(self, timeout=None):
            now[0] += timeout
            return super().wait(0.001)

    store = Store(tmp_path / "store")
    lease = leases.Claim(store.files, STAGE, seconds=60.0).take()
    assert lease is not None
    watcher = leases.Claim(store.files, STAGE, seconds=60.0)
    taken = []
    monkeypatch.setattr(leases, "threading", SimpleNamespace(**{**vars(threading), "Event": Hurried}))
    monkeypatch.setattr(leases, "time", SimpleNamespace(time=time.time, monotonic=lambda: now[0]))
    with leases.kept(lease):
        until(lambda: taken.append(watcher.take()) or now[0] > 10 * 60.0)
    assert set(taken) == {None}
    assert watcher.take() is not None  # given back


def test_a_holder_that_was_held_up_finds_out_and_reads_what_its_successor_published(tmp_path):
    store = Store(tmp_path / "store", lease_seconds=600.0)

    def held_up(progress):
        # Its machine sleeps; meanwhile the lease, an hour silent by its own statement, is taken over by another.
        name = f"leases/{STAGE}.1.json"
        stale = {**json.loads(store.files.read(name)), "renewed": time.time() - 3600, "life": None}
        store.files.replace(name, json.dumps(stale).encode())
        assert once(Store(store.url), seed=5).meta["computed"] == 2
        progress.save({"x": np.zeros(2)}, {})
        return pytest.fail("went on without a lease")

    assert_equal(store.once(STAGE, held_up, describe={}).tensors(), weights(5))


def test_clocks_that_jump_or_differ_take_no_lease_from_a_process_that_lives(local, monkeypatch):
    """A laptop that was closed: its own lease is old before it is renewed. And clocks that differ by minutes."""
    lease = leases.Claim(local.files, STAGE, 20.0).take()
    assert lease is not None
    usual = time.time
    for jump in (3600.0, -3600.0):
        monkeypatch.setattr(time, "time", lambda jump=jump: usual() + jump)
        assert leases.Claim(local.files, STAGE, 20.0).take() is None
        assert STAGE in leases.live(local.files)
        lease.check()  # renews
        monkeypatch.undo()
    for drift in (-200.0, 200.0):
        content = {**json.loads(lease.content()), "renewed": time.time() + drift}
        local.files.replace(lease.name, json.dumps(content).encode())
        assert leases.Claim(local.files, STAGE, 20.0).take() is None

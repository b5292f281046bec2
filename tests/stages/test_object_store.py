"""The stage store in an S3 bucket, shared by processes that know nothing of each other but its address."""

import copy
import multiprocessing

import numpy as np
import pytest
from conftest import QUIET, assert_same_rows, ok, process
from spaces import language_space, written

import raysweep
from raysweep.errors import Halted
from raysweep.stages.store import Store
from raysweep.storage.folder import Folder
from tests.chaos.waiting import PATIENCE

CONTEXT = multiprocessing.get_context("spawn")


def _publish(url, gate, number, won):
    store = Store(url)
    for stage in range(5):
        gate.wait(PATIENCE)
        if store.publish(f"stage-{stage}", {"w": np.full(1000, float(number))}, {"by": number}):
            won.put((stage, number))


def test_of_two_processes_that_publish_a_stage_one_does(s3):
    gate, won = CONTEXT.Barrier(2), CONTEXT.Queue()
    racers = [CONTEXT.Process(target=_publish, args=(f"{s3}/store", gate, number, won)) for number in range(2)]
    for racer in racers:
        racer.start()
    winners = dict(won.get(timeout=PATIENCE) for _ in range(5))
    for racer in racers:
        racer.join(PATIENCE)
    assert [racer.exitcode for racer in racers] == [0, 0]
    assert won.empty()
    store = Store(f"{s3}/store")
    for stage, number in winners.items():
        entry = store.fetch(f"stage-{stage}")
        assert entry.meta == {"by": number}
        assert (entry.tensors()["w"] == number).all()
    assert len(store.files.names("entries")) == 10  # a record and its weights each; the loser's weights are gone


@pytest.fixture
def space(tmp_path):
    """Two pretrainings of a small model, two rates each."""
    return written(tmp_path, language_space({"finetune_lr": [1e-3, 2e-3]}))


@pytest.mark.long
def test_sweeps_of_two_machines_share_their_pretraining_in_a_bucket(s3, space, tmp_path, call):
    """Two storages, as on two machines, that have nothing in common but the address of the store."""
    store = ("--store", f"{s3}/stages", *QUIET)
    first = ok(call("run", space, "--storage", tmp_path / "one", *store))
    assert "2 distinct, 2 computed, 0 reused, 0 begun again" in first.err
    assert not (tmp_path / "one" / "store").exists()
    assert "2 distinct: 0 new, 2 reused" in call("run", space, "--dry-run", "--storage", tmp_path / "two", *store).out
    second = process("run", space, "--storage", tmp_path / "two", *store)
    assert "2 distinct, 0 computed, 2 reused, 0 begun again" in second.err
    results = [raysweep.open("small", tmp_path / name).results().to_dict("records") for name in ("one", "two")]
    assert_same_rows(*results)
    more = call("run", space, "--set", "seeds=2", "--storage", tmp_path / "one", *QUIET)  # it remembers where
    assert "2 distinct, 2 computed, 0 reused" in more.err
    assert call("store", "list", "--store", f"{s3}/stages").out.splitlines()[-1].startswith(f"{s3}/stages: 4 stages")


@pytest.mark.long
def test_a_bucket_that_is_not_there_or_out_of_reach_is_one_line(s3, space, tmp_path, monkeypatch):
    import s3fs

    missing = process("run", space, "--storage", tmp_path / "sweeps", "--store", "s3://no-such-bucket/store", *QUIET)
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert missing.err.startswith("s3://no-such-bucket/store: ")
    assert not (tmp_path / "sweeps").exists()
    store = Store(f"{s3}/store")
    store.publish("there", {"w": np.zeros(3)}, {})
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody listens there
    s3fs.S3FileSystem.clear_instance_cache()
    for attempt in (
        lambda: Store(f"{s3}/store"),
        lambda: _elsewhere(store).fetch("there"),
        lambda: _elsewhere(store).publish("more", {"w": np.zeros(3)}, {}),
    ):
        with pytest.raises(Halted) as error:
            attempt()
        assert str(error.value).startswith(f"{s3}/store: the store cannot be ")


def _elsewhere(store):
    """A store that was open when its server went away."""
    lost = copy.copy(store)
    lost.files = Folder(store.url)
    return lost

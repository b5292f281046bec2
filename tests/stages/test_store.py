"""The stage store: what is published is what everybody reads, whole or absent, computed once by all who share it."""

import contextlib
import multiprocessing
import os
import pickle
import resource
import tempfile
from pathlib import Path

import numpy as np
import pytest
from disks import read_only
from safetensors.numpy import load_file
from stored_stage import DESCRIBE, STAGE, assert_equal, once, published, weights

from raysweep.errors import Halted
from raysweep.stages import references
from raysweep.stages.store import Store
from raysweep.stages.tensors import CHUNK
from tests.chaos.waiting import PATIENCE

CONTEXT = multiprocessing.get_context("spawn")


def test_a_published_stage_is_read_back_bit_for_bit_with_its_meta(any_store):
    meta = {"tokens": 12, "loss": np.float64(0.25), "length": float("inf"), "gap": float("nan"), "axes": (1, 2)}
    assert any_store.publish(STAGE, weights(), meta, DESCRIBE)
    entry = any_store.fetch(STAGE)
    assert_equal(entry.tensors(), weights())
    assert_equal(entry.tensors(), weights())  # and once more, read anew
    assert np.isnan(entry.meta.pop("gap"))
    assert entry.meta == {"tokens": 12, "loss": 0.25, "length": float("inf"), "axes": [1, 2]}
    assert any_store.look(STAGE)["describe"] == DESCRIBE


def test_the_first_publication_stays(any_store):
    assert any_store.publish(STAGE, weights(1), {"by": "first"})
    before = any_store.files.names("entries")
    assert not any_store.publish(STAGE, weights(2), {"by": "second"})
    assert any_store.files.names("entries") == before
    entry = any_store.fetch(STAGE)
    assert entry.meta == {"by": "first"}
    assert_equal(entry.tensors(), weights(1))


def test_weights_are_a_safetensors_file_for_everybody_else(local):
    awkward = {
        "big_endian": np.arange(5, dtype=">f4"),
        "transposed": np.arange(12.0).reshape(3, 4).T,
        "long": np.arange(CHUNK // 4, dtype=np.int32),
        "half": np.ones(3, dtype=np.float16),
    }
    local.publish(STAGE, awkward, {})
    tensors = load_file(published(local)[1])
    for name, array in awkward.items():
        assert np.array_equal(tensors[name], array)
    assert np.array_equal(local.fetch(STAGE).tensors()["long"], awkward["long"])


def test_nothing_is_kept_of_what_cannot_be_stored(local):
    with pytest.raises(TypeError, match="cannot be stored"):
        local.publish(STAGE, {"words": np.asarray(["a", None], dtype=object)}, {})
    with pytest.raises(TypeError):
        local.publish(STAGE, weights(), {"what": object()})
    with pytest.raises(TypeError):
        local.once(STAGE, lambda progress: pytest.fail("computed"), describe={"what": object()})
    with pytest.raises(ValueError, match="stage id"):
        local.publish("../elsewhere", weights(), {})
    assert local.stages() == []
    assert local.files.names("entries") == []


def test_a_store_can_be_pickled_to_a_worker(local):
    once(local)
    entry = pickle.loads(pickle.dumps(local)).fetch(STAGE)
    assert_equal(entry.tensors(), weights())


def _race(url, gate, folder, number):
    """In a process of its own: ask for the same stages in the same moment, and leave a trace of every computation."""
    store = Store(url, lease_seconds=20.0)
    for stage in range(6):

        def compute(progress, stage=stage):
            Path(folder, f"{stage}-{number}").touch()
            progress.save({"half": np.arange(3)}, {})
            return weights(stage), {"by": number}

        gate.wait(PATIENCE)
        entry = store.once(f"stage-{stage}", compute, describe={})
        assert_equal(entry.tensors(), weights(stage))
        assert entry.meta["computed"] == 1


def test_processes_that_race_for_a_stage_compute_it_once(tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    gate = CONTEXT.Barrier(4)
    shared = str(tmp_path / "store"), gate, str(traces)
    racers = [CONTEXT.Process(target=_race, args=(*shared, number)) for number in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(PATIENCE)
    assert [racer.exitcode for racer in racers] == [0] * 4
    assert sorted(name.partition("-")[0] for name in os.listdir(traces)) == [str(stage) for stage in range(6)]
    store = Store(tmp_path / "store")
    assert store.files.names("leases") == store.files.names("progress") == store.files.names("damaged") == []
    assert len(store.files.names("entries")) == 12  # a record and its weights each, nothing else


def test_what_a_computation_raises_reaches_its_caller_and_leaves_the_stage_free(any_store):
    def broken(progress):
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        any_store.once(STAGE, broken, describe={})
    assert once(any_store).meta["computed"] == 1  # a failure is no expired lease


def test_a_local_url_is_a_local_folder(tmp_path):
    once(Store(f"file://{tmp_path}/store"))
    assert Store(tmp_path / "store").stages() == [STAGE]


def line(error, store):
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{store.url}: ")


@pytest.fixture
def shared_folder():
    """A folder that an ordinary user can reach (those of tests are private to who runs them)."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_read_only_store_can_be_read_and_says_so_when_written(shared_folder):
    store = Store(shared_folder / "store")
    once(store)
    with read_only(Path(store.url)), contextlib.ExitStack() as stack:
        if os.geteuid() == 0:  # who may write anywhere
            os.seteuid(65534)
            stack.callback(os.seteuid, 0)
        assert_equal(once(store).tensors(), weights())
        for attempt in (
            store.check,
            lambda: once(store, "another"),
            lambda: store.publish("x", weights(), {}),
            lambda: references.refer(store, "sweep", [STAGE]),
        ):
            with pytest.raises(Halted, match="read-only") as error:
                attempt()
            line(error, store)
    assert store.stages() == [STAGE]


def test_a_full_store_says_so_and_keeps_what_it_has(local):
    once(local)
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # no file may grow beyond: what a quota does
    try:
        with pytest.raises(Halted, match="is full") as error:
            local.once("large", lambda progress: (weights(count=20_000), {}), describe={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    line(error, local)
    assert local.stages() == [STAGE]
    assert len(local.files.names("entries")) == 2
    assert local.files.names("leases") == []
    assert local.once("large", lambda progress: (weights(count=20_000), {}), describe={}).meta["computed"] == 1

"""The stage store: computed once by all who share it, whole or absent, and never worse for a crash or a flipped bit."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome, until
from safetensors.numpy import load_file

from raysweep import store_commands
from raysweep.errors import InputError
from raysweep.records import checkpoints, leases, pruning
from raysweep.records.store import Progress, Store
from raysweep.records.store_files import LocalFiles
from raysweep.records.store_format import CHUNK, ROW, Damaged, seal, unseal

STAGE = "0123456789abcdef"
DESCRIBE = {"workload": "language", "parameters": {"depth": 2, "pretrain_length": float("inf")}, "seed": 0}
PATIENCE = 60.0  # seconds until a test gives up waiting for a condition
CONTEXT = multiprocessing.get_context("spawn")


def weights(seed: int = 0, count: int = 64) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {"layers.0": generator.standard_normal((count, 5)), "step": np.asarray(7), "empty": np.zeros((0, 3)),
            "optimizer": generator.standard_normal(count).astype(np.float32), "mask": np.asarray([True, False])}


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert np.array_equal(found[name], array)


def once(store: Store, stage: str = STAGE, seed: int = 0) -> Any:
    return store.once(stage, lambda progress: (weights(seed), {"loss": 1.5}), describe=DESCRIBE)


def published(store: Store) -> tuple[Path, Path]:
    """Record and weights of STAGE in a local store."""
    record = Path(store.url) / "entries" / f"{STAGE}.json"
    return record, record.parent / json.loads(record.read_bytes())["weights"].rpartition("/")[2]


@pytest.fixture
def local(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", lease_seconds=20.0)


@pytest.fixture(params=["local", "memory"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "local":
        yield Store(tmp_path / "store", lease_seconds=20.0)
        return
    import fsspec

    url = f"memory://{tmp_path.name}/store"
    yield Store(url, lease_seconds=20.0)
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)


# What is published is what is read


def test_a_published_stage_is_read_back_bit_for_bit_with_its_meta(any_store: Store) -> None:
    meta = {"tokens": 12, "loss": np.float64(0.25), "length": float("inf"), "gap": float("nan"), "axes": (1, 2)}
    assert any_store.publish(STAGE, weights(), meta, DESCRIBE)
    entry = any_store.fetch(STAGE)
    assert entry is not None
    assert_equal(entry.tensors(), weights())
    assert_equal(entry.tensors(), weights())  # and once more, read anew
    assert np.isnan(entry.meta.pop("gap"))
    assert entry.meta == {"tokens": 12, "loss": 0.25, "length": float("inf"), "axes": [1, 2]}
    record = any_store.look(STAGE)
    assert record is not None
    assert record["describe"] == DESCRIBE


def test_the_first_publication_stays(any_store: Store) -> None:
    assert any_store.publish(STAGE, weights(1), {"by": "first"})
    before = any_store.files.names("entries")
    assert not any_store.publish(STAGE, weights(2), {"by": "second"})
    assert any_store.files.names("entries") == before
    entry = any_store.fetch(STAGE)
    assert entry is not None
    assert entry.meta == {"by": "first"}
    assert_equal(entry.tensors(), weights(1))


def test_weights_are_a_safetensors_file_for_everybody_else(local: Store) -> None:
    awkward = {"big_endian": np.arange(5, dtype=">f4"), "transposed": np.arange(12.0).reshape(3, 4).T,
               "long": np.arange(CHUNK // 4, dtype=np.int32), "half": np.ones(3, dtype=np.float16)}
    local.publish(STAGE, awkward, {})
    found = load_file(published(local)[1])
    for name, array in awkward.items():
        assert np.array_equal(found[name], array)
    entry = local.fetch(STAGE)
    assert entry is not None
    assert np.array_equal(entry.tensors()["long"], awkward["long"])


def test_nothing_is_kept_of_what_cannot_be_stored(local: Store) -> None:
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


def test_a_store_can_be_pickled_to_a_worker(local: Store) -> None:
    once(local)
    entry = pickle.loads(pickle.dumps(local)).fetch(STAGE)
    assert_equal(entry.tensors(), weights())


def test_importing_the_store_loads_nothing_heavy() -> None:
    code = ("import sys, raysweep.records.store, raysweep.records.pruning, raysweep.store_commands; "
            "print([name for name in ('torch', 'ray', 'mlflow', 'pandas', 'scipy', 's3fs') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Exactly once


def _race(url: str, gate: Any, folder: str, number: int) -> None:
    """In a process of its own: ask for the same stages in the same moment, and leave a trace of every computation."""
    store = Store(url, lease_seconds=20.0)
    for stage in range(6):
        def compute(progress: Progress, stage: int = stage) -> Any:
            Path(folder, f"{stage}-{number}").touch()
            progress.save({"half": np.arange(3)}, {})
            return weights(stage), {"by": number}

        gate.wait(PATIENCE)
        entry = store.once(f"stage-{stage}", compute, describe={})
        assert_equal(entry.tensors(), weights(stage))
        assert entry.meta["computed"] == 1


def test_processes_that_race_for_a_stage_compute_it_once(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    gate = CONTEXT.Barrier(4)
    racers = [CONTEXT.Process(target=_race, args=(str(tmp_path / "store"), gate, str(traces), number))
              for number in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(PATIENCE)
    assert [racer.exitcode for racer in racers] == [0] * 4
    assert sorted(name.partition("-")[0] for name in os.listdir(traces)) == [str(stage) for stage in range(6)]
    store = Store(tmp_path / "store")
    assert store.files.names("leases") == store.files.names("progress") == store.files.names("damaged") == []
    assert len(store.files.names("entries")) == 12  # a record and its weights each, nothing else


def test_threads_that_race_for_a_stage_compute_it_once(any_store: Store) -> None:
    computed: list[str] = []
    gate = threading.Barrier(8)
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for number in range(5):
                stage = f"stage-{number}"
                gate.wait(PATIENCE)
                entry = any_store.once(stage, lambda progress, s=stage: (computed.append(s) or weights(), {}),
                                       describe={})
                assert_equal(entry.tensors(), weights())
        except BaseException as error:  # shown by the test, not lost with its thread
            failures.append(error)
            gate.abort()

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    assert sorted(computed) == [f"stage-{number}" for number in range(5)]


def test_what_a_computation_raises_reaches_its_caller_and_leaves_the_stage_free(any_store: Store) -> None:
    def broken(progress: Progress) -> Any:
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        any_store.once(STAGE, broken, describe={})
    entry = once(any_store)
    assert entry.meta["computed"] == 1  # a failure is no expired lease


# Crashes


def _held_forever(url: str, flag: str) -> None:
    """In a process of its own: get half-way, say so, and never come back."""
    def compute(progress: Progress) -> Any:
        progress.save({"weights": np.arange(4.0)}, {"step": 10})
        progress.save({"weights": np.arange(4.0) + 1}, {"step": 20})
        Path(flag).touch()
        threading.Event().wait()

    Store(url, lease_seconds=1.0).once(STAGE, compute, describe=DESCRIBE)


@pytest.fixture
def killed(tmp_path: Path) -> Callable[..., Store]:
    """A store whose STAGE was under way, its lease one second, when the process computing it was killed; as it looks
    from another machine, which cannot see that it is dead, or from this one."""
    def kill(elsewhere: bool = True) -> Store:
        holder = CONTEXT.Process(target=_held_forever, args=(str(tmp_path / "store"), str(tmp_path / "flag")))
        holder.start()
        until((tmp_path / "flag").exists)
        assert holder.pid is not None
        os.kill(holder.pid, signal.SIGKILL)
        holder.join(PATIENCE)
        store = Store(tmp_path / "store", lease_seconds=20.0)
        if elsewhere:
            name = f"leases/{STAGE}.1.json"
            store.files.replace(name, json.dumps({**json.loads(store.files.read(name)), "life": None}).encode())
        return store

    return kill


def test_a_killed_holder_is_succeeded_from_its_last_checkpoint_and_that_is_counted(
        killed: Callable[[], Store]) -> None:
    store = killed()
    steps = []

    def go_on(progress: Progress) -> Any:
        found = progress.load()
        assert found is not None
        steps.append(found.meta["step"])
        assert np.array_equal(found.tensors()["weights"], np.arange(4.0) + 1)
        return weights(), {}

    before = time.monotonic()
    entry = store.once(STAGE, go_on, describe=DESCRIBE)
    assert time.monotonic() - before > 0.9  # not before the lease was silent for its second
    assert steps == [20]
    assert entry.meta["computed"] == 2
    assert store.files.names("leases") == store.files.names("progress") == []
    assert any("started 2 times" in line for line in store_commands.overview(store))
    assert once(store).meta["computed"] == 2  # and nobody computes it again


def test_a_holder_that_died_on_this_machine_is_succeeded_at_once(killed: Callable[..., Store]) -> None:
    store = killed(elsewhere=False)
    lease = leases.Claim(store.files, STAGE, 20.0).take()
    assert lease is not None
    assert lease.generation == 2
    assert leases.Claim(store.files, STAGE, 20.0).take() is None  # whoever took over is alive
    lease.release()


def test_of_many_who_wait_for_a_killed_holder_one_takes_over(killed: Callable[[], Store]) -> None:
    store = killed()
    computed: list[int] = []
    found: list[int] = []

    def wait(number: int) -> None:
        entry = store.once(STAGE, lambda progress: (computed.append(number) or weights(), {}), describe={})
        found.append(entry.meta["computed"])

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(computed) == 1
    assert found == [2] * 6


def test_a_damaged_last_checkpoint_gives_way_to_the_one_before(killed: Callable[[], Store]) -> None:
    store = killed()
    last = max(path for path in (Path(store.url) / "progress").glob("*.safetensors"))
    last.write_bytes(last.read_bytes()[:-3])

    def go_on(progress: Progress) -> Any:
        found = progress.load()
        assert found is not None
        return weights(), {"from": found.meta["step"]}

    assert store.once(STAGE, go_on, describe={}).meta["from"] == 10
    assert len(store.files.names("damaged")) == 2


def test_a_lease_is_renewed_for_as_long_as_its_holder_lives(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    lease = leases.Claim(store.files, STAGE, seconds=1.5).take()
    assert lease is not None
    watcher = leases.Claim(store.files, STAGE, seconds=1.5)
    taken = []
    deadline = time.monotonic() + 3.5
    with leases.kept(lease):
        until(lambda: taken.append(watcher.take()) or time.monotonic() > deadline)
    assert set(taken) == {None}
    assert watcher.take() is not None  # given back


def test_a_holder_that_was_held_up_finds_out_and_reads_what_its_successor_published(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", lease_seconds=600.0)

    def held_up(progress: Progress) -> Any:
        # The machine sleeps; meanwhile the lease, an hour silent by its own statement, is taken over.
        name = f"leases/{STAGE}.1.json"
        stale = {**json.loads(store.files.read(name)), "renewed": time.time() - 3600}
        store.files.replace(name, json.dumps(stale).encode())
        successor = once(Store(store.url), seed=5)
        assert successor.meta["computed"] == 2
        progress.save({"x": np.zeros(2)}, {})
        return pytest.fail("went on without a lease")

    assert_equal(store.once(STAGE, held_up, describe={}).tensors(), weights(5))


def test_hosts_whose_clocks_differ_by_minutes_do_not_take_each_other_for_dead(local: Store) -> None:
    lease = leases.Claim(local.files, STAGE, 20.0).take()
    assert lease is not None
    for drift in (-200.0, 200.0):
        content = {**json.loads(lease.content()), "renewed": time.time() + drift}
        local.files.replace(lease.name, json.dumps(content).encode())
        assert leases.Claim(local.files, STAGE, 20.0).take() is None


# Damage


def _variants(content: bytes) -> Iterator[tuple[str, bytes]]:
    size = len(content)
    for place in sorted({*range(0, size, max(1, size // 40)), 0, 7, 8, 9, size // 2, size - 2, size - 1}):
        yield f"flipped {place}", content[:place] + bytes([content[place] ^ 1]) + content[place + 1:]
    for length in (0, 1, size // 2, size - 1):
        yield f"cut to {length}", content[:length]
    yield "longer", content + b"\0"


@pytest.mark.parametrize("which", [0, 1], ids=["record", "weights"])
def test_a_flipped_byte_or_a_lost_end_anywhere_is_found_and_set_aside(local: Store, which: int) -> None:
    once(local)
    path = published(local)[which]
    sound = {file: file.read_bytes() for file in published(local)}
    for what, content in _variants(sound[path]):
        path.write_bytes(content)
        assert local.fetch(STAGE) is None, what
        assert not path.exists(), what
        aside = Path(local.url) / "damaged"
        assert content in [file.read_bytes() for file in aside.iterdir()], what  # kept, as it was
        for file, kept in sound.items():
            file.write_bytes(kept)
    assert local.fetch(STAGE) is not None


def test_damage_of_many_bytes_is_found(local: Store) -> None:
    local.publish(STAGE, {"w": np.random.default_rng(0).standard_normal(3 * CHUNK // 8)}, {})
    path = published(local)[1]
    sound = path.read_bytes()
    generator = np.random.default_rng(1)
    for _ in range(60):
        content = bytearray(sound)
        one, other = (int(at) for at in generator.integers(0, len(content) - 20_000, 2))
        length = int(generator.integers(1, 20_000))
        match generator.integers(5):
            case 0:  # a lost sector, or many
                content[one:one + length] = bytes(length)
            case 1:  # blocks that changed places
                content[one:one + length], content[other:other + length] = (
                    content[other:other + length], content[one:one + length])
            case 2:  # a block that landed on another
                content[one:one + length] = content[other:other + length]
            case 4:  # disk blocks that changed places
                one, other = one // ROW * ROW, other // ROW * ROW
                content[one:one + ROW], content[other:other + ROW] = (
                    content[other:other + ROW], content[one:one + ROW])
            case 3:  # two flipped bits of equal weight
                content[one] ^= 128
                content[one + 8] ^= 128
        if content == sound or len(content) != len(sound):
            continue
        path.write_bytes(content)
        with pytest.raises(Damaged):
            checkpoints.read(local.files, f"entries/{STAGE}.json", STAGE)
    path.write_bytes(sound)
    assert local.fetch(STAGE) is not None


def test_a_damaged_stage_is_computed_again(any_store: Store) -> None:
    once(any_store)
    record = any_store.look(STAGE)
    assert record is not None
    any_store.files.replace(record["weights"], b"\0" * record["bytes"])
    assert_equal(once(any_store, seed=3).tensors(), weights(3))
    assert len(any_store.files.names("damaged")) == 2
    assert any("set aside" in line for line in store_commands.overview(any_store))


def test_lost_weights_and_a_record_of_another_stage_count_as_damage(local: Store) -> None:
    once(local)
    record, tensors = published(local)
    (record.parent / "other.json").write_bytes(record.read_bytes())
    assert local.fetch("other") is None
    tensors.unlink()
    assert local.fetch(STAGE) is None
    assert local.stages() == []


@pytest.mark.parametrize("lost", ["meta", "weights", "bytes", "checksum"])
def test_a_record_that_lacks_a_part_counts_as_damage(local: Store, lost: str) -> None:
    once(local)
    record = published(local)[0]
    record.write_bytes(seal({name: value for name, value in unseal(record.read_bytes()).items() if name != lost}))
    assert local.look(STAGE) is None
    assert any("damaged" in line for line in store_commands.overview(local))
    assert_equal(once(local, seed=3).tensors(), weights(3))


@pytest.mark.parametrize("left", [None, b""], ids=["missing", "empty"])
def test_a_store_that_lost_its_marker_is_still_one_and_gets_it_back(local: Store, left: bytes | None) -> None:
    once(local)
    marker = Path(local.url) / "store.json"
    sound = marker.read_bytes()
    marker.unlink()
    if left is not None:
        marker.write_bytes(left)
    assert_equal(once(Store(local.url), seed=3).tensors(), weights())  # what was published is still there
    assert store_commands.verify(Store(local.url))[1]
    assert (marker.read_bytes() if marker.exists() else None) == left  # so far it was only read
    Store(local.url).refer("sweep", [STAGE])
    assert marker.read_bytes() == sound


def test_an_entry_damaged_after_it_was_read_is_not_handed_out(local: Store) -> None:
    entry = once(local)
    entry.tensors()
    path = published(local)[1]
    path.write_bytes(path.read_bytes()[:-1] + b"\x99")
    with pytest.raises(Damaged, match="checksum"):
        entry.tensors()


def test_leftovers_of_a_crash_are_in_nobodys_way(local: Store) -> None:
    local.check()
    entries = Path(local.url) / "entries"
    entries.mkdir()
    (entries / f"{STAGE}.feedfeedfeed.safetensors").write_bytes(b"half of something")
    (entries / f".{STAGE}.json.abc.part").write_bytes(b'{"meta":')
    assert local.fetch(STAGE) is None
    assert local.stages() == []
    assert_equal(once(local).tensors(), weights())


def test_a_sealed_record_shows_every_changed_byte() -> None:
    content = seal({"a": 1, "b": [1.5, float("inf")], "c": {"d": None}})
    assert unseal(content) == {"a": 1, "b": [1.5, float("inf")], "c": {"d": None}}
    assert json.loads(content)["a"] == 1  # and is plain JSON
    for place in range(len(content)):
        for bit in range(8):
            with pytest.raises(Damaged):
                unseal(content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1:])


# Bad places


def line(error: pytest.ExceptionInfo[InputError], store: Store | Path | str) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(f"{store.url if isinstance(store, Store) else store}: ")
    return text


def test_a_store_of_another_version_is_refused_and_left_alone(local: Store) -> None:
    once(local)
    marker = Path(local.url) / "store.json"
    marker.write_text(json.dumps({"raysweep": "stage store", "format": 99}))
    with pytest.raises(InputError, match="another version of raysweep") as error:
        Store(local.url)
    assert "format 99" in line(error, local)
    assert published(local)[1].exists()


def test_an_entry_of_another_version_is_refused_and_left_alone(local: Store) -> None:
    once(local)
    record = published(local)[0]
    record.write_bytes(seal({**unseal(record.read_bytes()), "format": 99}))
    with pytest.raises(InputError, match="format 99") as error:
        once(local)
    line(error, local)
    assert record.exists()


def test_a_folder_of_something_else_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="is not a store") as error:
        Store(tmp_path)
    line(error, tmp_path)
    with pytest.raises(InputError, match="cannot be read") as error:
        Store(tmp_path / "thesis.tex")
    line(error, tmp_path / "thesis.tex")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "store.json").write_text("{")
    with pytest.raises(InputError, match="store.json cannot be read"):
        Store(tmp_path / "broken")


@pytest.mark.parametrize("url", ["nowhere://bucket/x", "simplecache::s3://bucket/x"])
def test_an_address_that_is_no_place_for_a_store_is_one_line(url: str) -> None:
    with pytest.raises(InputError) as error:
        Store(url)
    line(error, url)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that an ordinary user can reach (those of tests are private to who runs them)."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_read_only_store_can_be_read_and_says_so_when_written(shared_folder: Path) -> None:
    store = Store(shared_folder / "store")
    once(store)
    for folder in [Path(store.url), *(path for path in Path(store.url).rglob("*") if path.is_dir())]:
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)  # root may write anywhere
    try:
        assert_equal(once(store).tensors(), weights())
        for attempt in (store.check, lambda: once(store, "another"), lambda: store.publish("x", weights(), {}),
                        lambda: store.refer("sweep", [STAGE])):
            with pytest.raises(InputError, match="read-only") as error:
                attempt()
            line(error, store)
    finally:
        if root:
            os.seteuid(0)
        for folder in [Path(store.url), *(path for path in Path(store.url).rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
    assert store.stages() == [STAGE]


def test_a_full_store_says_so_and_keeps_what_it_has(local: Store) -> None:
    once(local)
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # no file may grow beyond: what a quota does
    try:
        with pytest.raises(InputError, match="is full") as error:
            local.once("large", lambda progress: (weights(count=20_000), {}), describe={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    line(error, local)
    assert local.stages() == [STAGE]
    assert len(local.files.names("entries")) == 2
    assert local.files.names("leases") == []
    assert local.once("large", lambda progress: (weights(count=20_000), {}), describe={}).meta["computed"] == 1


def test_a_disk_without_room_is_named_full(local: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    once(local)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left") as error:
        once(local, "another")
    line(error, local)


# list, verify, prune


def test_list_tells_size_users_and_what_a_stage_is(any_store: Store) -> None:
    once(any_store)
    once(any_store, "unused")
    any_store.refer("overtraining-1", [STAGE])
    any_store.refer("overtraining-2", [STAGE, "not-yet-computed"])
    lines = {text.split()[0]: text for text in store_commands.overview(any_store)}
    assert "overtraining-1, overtraining-2" in lines[STAGE]
    assert "language depth=2 pretrain_length=inf seed=0" in lines[STAGE]
    assert "kB" in lines[STAGE]
    assert "no sweep" in lines["unused"]
    assert "2 stages" in lines[f"{any_store.url}:"]
    assert "1 used by no sweep" in lines[f"{any_store.url}:"]


def test_verify_reads_everything_and_sets_aside_what_is_damaged(local: Store) -> None:
    once(local)
    once(local, "sound")
    assert store_commands.verify(local)[1]
    path = published(local)[1]
    path.write_bytes(path.read_bytes().replace(b"layers", b"lawyer"))
    lines, well = store_commands.verify(local)
    assert not well
    assert lines[0].startswith(f"{STAGE}: ")
    assert "set aside" in lines[0]
    assert "1 damaged" in lines[-1]
    assert local.stages() == ["sound"]
    assert store_commands.verify(local)[1]


def test_prune_never_takes_what_a_sweep_refers_to_without_being_told(any_store: Store) -> None:
    for stage in ("used", "unused", "later"):
        once(any_store, stage)
    any_store.refer("sweep", ["used", "later"])
    assert any("unused" in text for text in store_commands.prune(any_store, dry_run=True))
    assert any_store.stages() == ["later", "unused", "used"]
    store_commands.prune(any_store)
    assert any_store.stages() == ["later", "used"]
    with pytest.raises(InputError, match="sweep sweep refers to it"):
        store_commands.prune(any_store, ["used"])
    assert any_store.stages() == ["later", "used"]
    store_commands.prune(any_store, ["used"], referred=True)
    assert any_store.stages() == ["later"]
    any_store.forget("sweep")
    store_commands.prune(any_store)
    assert any_store.files.names("entries") == any_store.files.names("leases") == []


def test_prune_takes_nothing_while_a_reference_cannot_be_read(local: Store) -> None:
    once(local)
    local.refer("sweep", [STAGE])
    reference = next((Path(local.url) / "refs" / "sweep").iterdir())
    reference.write_bytes(reference.read_bytes()[:-5])
    with pytest.raises(InputError, match="nothing was pruned"):
        store_commands.prune(local)
    assert local.stages() == [STAGE]


def test_a_damaged_reference_is_mended_by_its_sweep(local: Store) -> None:
    once(local)
    local.refer("sweep", [STAGE])
    reference = next((Path(local.url) / "refs" / "sweep").iterdir())
    reference.write_bytes(b"")
    local.refer("sweep", [STAGE])
    assert local.users() == {STAGE: ["sweep"]}
    store_commands.prune(local)
    assert local.stages() == [STAGE]


def test_prune_leaves_work_in_progress_and_takes_leftovers_of_the_dead(local: Store) -> None:
    def compute(progress: Progress) -> Any:
        progress.save({"x": np.zeros(3)}, {})
        store_commands.prune(local)
        assert progress.load() is not None
        return weights(), {}

    local.once(STAGE, compute, describe={})
    local.refer("sweep", [STAGE])
    entries = Path(local.url) / "entries"
    stale = [entries / "dead.feedfeedfeed.safetensors", entries / ".dead.json.abc.part",
             Path(local.url) / "leases" / "dead.1.json"]
    fresh = entries / "upload.feedfeedfeed.safetensors"
    for path in [*stale, fresh]:
        path.write_bytes(b"{}")
    for path in stale:
        os.utime(path, (time.time() - 2 * pruning.LEFTOVER_AGE,) * 2)
    store_commands.prune(local)
    assert [path.exists() for path in [*stale, fresh]] == [False, False, False, True]
    assert local.fetch(STAGE) is not None


def test_damaged_entries_are_kept_until_prune_is_told(local: Store) -> None:
    once(local)
    published(local)[1].unlink()
    local.fetch(STAGE)
    store_commands.prune(local)
    assert local.files.names("damaged")
    store_commands.prune(local, damaged=True)
    assert local.files.names("damaged") == []


def test_the_command_line_lists_verifies_and_prunes(call: Callable[..., Outcome], tmp_path: Path) -> None:
    missing = call("store", "list", "--storage", tmp_path)
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    store = Store(tmp_path / "store")
    once(store)
    once(store, "needed")
    store.refer("sweep", ["needed"])
    assert "2 stages" in call("store", "list", "--storage", tmp_path).out
    assert call("store", "verify", "--store", store.url).code == 0
    assert "1 to prune" in call("store", "prune", "--storage", tmp_path, "--dry-run").out
    refused = call("store", "prune", "needed", "--storage", tmp_path)
    assert (refused.code, refused.err.split(":")[0]) == (2, "needed")
    assert call("store", "prune", "--storage", tmp_path).code == 0
    assert store.stages() == ["needed"]
    weight = next((tmp_path / "store" / "entries").glob("*.safetensors"))
    weight.write_bytes(b"")
    assert call("store", "verify", "--storage", tmp_path).code == 1
    assert call("store", "nonsense").code == 2


def test_commands_on_a_store_that_is_not_there_make_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no store"):
        store_commands.open_store(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_local_url_is_a_local_folder(tmp_path: Path) -> None:
    once(Store(f"file://{tmp_path}/store"))
    assert isinstance(Store(tmp_path / "store").files, LocalFiles)
    assert Store(tmp_path / "store").stages() == [STAGE]

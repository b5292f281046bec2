"""A sweep whose store is damaged, lost, of another version, read-only or full keeps its rows and goes on to the same
ones; a place that is no store is refused before any work, and a store elsewhere is remembered."""

import json
import os
import resource
import shutil

import pytest
import yaml
from conftest import QUIET, assert_same_rows, halted, ok, process, refused
from disks import bound_by_permissions, disk, mounted, read_only
from language_fixtures import rows
from spaces import STEP, language_space, written

from raysweep.stages import references
from raysweep.stages.store import Store
from raysweep.storage.sealed import seal, unseal


@pytest.fixture
def space(tmp_path):
    """Two pretrainings of a small model, three rates each."""
    return written(tmp_path, language_space())


@pytest.mark.parametrize("damage", ["a flipped bit", "a lost record"])  # as a crash leaves it after the weights
def test_a_damaged_stage_is_set_aside_and_computed_again_to_the_same_rows(call, space, storage, damage, expected):
    ok(call("run", space, "--set", "axes.finetune_lr=[1e-3]", "--storage", storage, *QUIET))
    store = Store(storage / "store")
    first = store.stages()[0]
    if damage == "a lost record":
        (storage / "store" / "entries" / f"{first}.json").unlink()
    else:
        (weights,) = (storage / "store" / "entries").glob(f"{first}.*.safetensors")
        content = bytearray(weights.read_bytes())
        content[len(content) // 2] ^= 4
        weights.write_bytes(content)
    assert "2 distinct, 1 computed, 1 reused, 0 begun again" in ok(call("run", space, "--storage", storage, *QUIET)).err
    assert_same_rows(rows(storage), expected(space))
    if damage == "a flipped bit":
        assert "1 set aside as damaged" in call("store", "list", "--storage", storage).out
    ok(call("store", "verify", "--storage", storage))


def test_an_entry_of_another_version_ends_the_sweep_and_stays(call, space, storage, expected):
    ok(call("run", space, "--set", "axes.finetune_lr=[1e-3]", "--storage", storage, *QUIET))
    entry = storage / "store" / "entries" / f"{Store(storage / 'store').stages()[0]}.json"
    sound = entry.read_bytes()
    entry.write_bytes(seal({**unseal(sound), "format": 99}))
    outcome = call("run", space, "--storage", storage, *QUIET)
    halted(outcome, "", "format 99")
    assert entry.exists()
    assert len(rows(storage)) == 2
    entry.write_bytes(sound)
    ok(call("run", space, "--storage", storage, *QUIET))
    assert_same_rows(rows(storage), expected(space))


def test_a_store_that_is_gone_is_made_anew(call, space, storage, expected):
    ok(call("run", space, "--set", "axes.finetune_lr=[1e-3]", "--storage", storage, *QUIET))
    shutil.rmtree(storage / "store")
    assert "0 computed" in call("status", "small", "--storage", storage, "--tracking-uri", "none").out
    assert "2 distinct, 2 computed, 0 reused" in call("run", space, "--storage", storage, *QUIET).err
    assert_same_rows(rows(storage), expected(space))
    assert os.listdir(storage / "store")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"thesis.tex": "\\begin"}, "store"),
        ({"store.json": json.dumps({"raysweep": "stage store", "format": 99})}, "format 99"),
        ({"store.json": "{"}, "store.json"),
    ],
)
def test_a_place_that_is_no_store_of_ours_is_refused_before_anything_is_created(
    call, space, storage, tmp_path, content, words
):
    place = tmp_path / "place"
    place.mkdir()
    for name, text in content.items():
        (place / name).write_text(text)
    for more in ((), ("--dry-run",)):
        refused(call("run", space, "--storage", storage, "--store", place, *QUIET, *more), f"{place}: ", words)
    assert not storage.exists()
    assert {path.name: path.read_text() for path in place.iterdir()} == content
    refused(call("store", "list", "--store", place), "", words)


@pytest.mark.parametrize("url", ["nowhere://bucket/x", "simplecache::s3://bucket/x"])
def test_an_address_of_no_kind_is_refused(call, space, storage, url):
    refused(call("run", space, "--storage", storage, "--store", url, *QUIET), f"{url}: ")
    assert not storage.exists()


def test_a_store_in_the_folder_of_a_sweep_is_refused(call, space, storage):
    """Deleting the sweep would delete what others refer to."""
    ok(call("run", space, "--name", "other", "--storage", storage, "--executor", "inline", *QUIET))
    for name in ("small", "other"):
        for more in ([], ["--dry-run"]):
            inside = ("--store", storage / name / "store")
            refused(call("run", space, "--storage", storage, *inside, *QUIET, *more), "--store: ", f" {name} ")
    assert not (storage / "small").exists()


@pytest.mark.parametrize("option", ["--store", "--storage"])
@pytest.mark.parametrize("address", ["s3:/bucket/prefix", "s3:bucket", "gs:/bucket"])
def test_an_address_short_of_a_slash_is_no_folder(option, address, call, space, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--dry-run"]):
        refused(call("run", space, option, address, *QUIET, *more), "", "://")
    assert {path.name for path in tmp_path.iterdir()} == {"space.yaml"}


def test_a_store_for_a_workload_that_keeps_nothing_is_refused(call, storage, tmp_path):
    outcome = call("run", "quickstart", "--storage", storage, "--store", tmp_path / "store", *QUIET)
    refused(outcome, "--store: ", "linear_transfer")
    assert not storage.exists()


def test_an_existing_sweep_does_not_remember_a_store_that_was_refused(call, space, storage, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "one.tex").touch()
    ok(call("run", space, "--storage", storage, *QUIET))
    for command in (("run", space), ("resume", "small")):
        there = ("--store", tmp_path / "thesis")
        refused(call(*command, "--storage", storage, *there, *QUIET), f"{tmp_path / 'thesis'}: ")
    assert "2 computed" in call("status", "small", "--storage", storage, "--tracking-uri", "none").out


def test_a_sweep_remembers_where_its_stages_are(call, space, storage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ok(call("run", space, "--storage", storage, "--store", "shared", *QUIET))
    assert not (storage / "store").exists()
    assert len(Store(tmp_path / "shared").stages()) == 2
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    more = call("run", space, "--set", "axes.finetune_lr=[1e-3,2e-3,4e-3,8e-3]", "--storage", storage, *QUIET)
    assert "2 distinct, 0 computed, 2 reused" in more.err
    assert "2 computed, 0 reused" in call("status", "small", "--storage", storage, "--tracking-uri", "none").out
    other = call("run", space, "--storage", tmp_path / "other", "--store", tmp_path / "shared", *QUIET)
    assert "2 distinct, 0 computed, 2 reused" in other.err
    call("delete", "small", "--storage", storage, "--yes", "--tracking-uri", "none")
    listed = call("store", "list", "--store", tmp_path / "shared").out
    assert listed.count("small-") == 2  # the other storage's sweep of the same name still needs both


def test_a_store_that_may_not_be_written_is_named_before_any_work(space, storage, tmp_path):
    """The same by permissions, without a mount."""
    place = tmp_path / "place"
    place.mkdir()
    with read_only(place):
        outcome = process(
            "run", space, "--storage", storage, "--store", place / "store", *QUIET, preexec_fn=bound_by_permissions
        )
        refused(outcome, f"{place}/store: ", "read-only")
    assert not storage.exists()


def test_a_store_without_room_for_anything_is_named_before_any_work(call, space, storage, tmp_path):
    """One page of a disk: enough for the file that makes it a store, which is taken away again."""
    with disk(tmp_path / "place", "-o", f"size={resource.getpagesize()}"):
        outcome = call("run", space, "--storage", storage, "--store", tmp_path / "place" / "store", *QUIET)
        refused(outcome, f"{tmp_path}/place/store: ", "the store is full")
        assert list((tmp_path / "place").iterdir()) == []
    assert not storage.exists()


def test_a_sweep_that_cannot_begin_leaves_no_store_behind(call, space, storage):
    """Refused after its stages were claimed: its trials fit nowhere."""
    never = ("--executor", "ray", "--set", "resources.cpus_per_trial=999")
    halted(call("run", space, "--storage", storage, *QUIET, *never), "resources.cpus_per_trial: ")
    assert not storage.exists()
    ok(call("run", space, "--storage", storage, *QUIET))
    before = set(references.users(Store(storage / "store")))
    other = call("run", space, "--name", "other", "--set", "seeds=2", "--storage", storage, *QUIET, *never)
    halted(other, "resources.cpus_per_trial: ")
    assert set(references.users(Store(storage / "store"))) == before


def test_a_sweep_whose_store_turns_read_only_keeps_its_rows_and_goes_on_when_mended(
    call, space, storage, tmp_path, expected
):
    place = tmp_path / "place"
    with disk(place):
        place_store = ("--store", place / "store", *QUIET)
        short = ("--set", f"axes.pretrain_length=[{40 * STEP}]")
        ok(call("run", space, *short, "--storage", storage, *place_store))
        assert mounted("-o", "remount,ro", str(place))
        outcome = call("run", space, "--storage", storage, *place_store)
        halted(outcome, "", "read-only")
        assert len(rows(storage)) == 3
        assert mounted("-o", "remount,rw", str(place))
        assert "1 distinct, 1 computed" in call("run", space, "--storage", storage, *QUIET).err
        assert_same_rows(rows(storage), expected(space))


def sized(space, steps=400):
    """The same with a second model, whose stages take 30 times the room; the small one, said to be longer, is first."""
    plain = yaml.safe_load(space.read_text())
    plain["axes"] = {"width": [16, 128], "pretrain_length": [steps * STEP, 2 * STEP], "finetune_lr": [1e-3, 2e-3]}
    del plain["fixed"]["width"]
    plain["zip"] = [["width", "pretrain_length"]]
    space.write_text(yaml.safe_dump(plain))
    return space


def test_a_disk_that_fills_up_ends_a_sweep_that_goes_on_when_there_is_room(
    executor, call, space, storage, tmp_path, expected
):
    space, place = sized(space, 400 if executor == "inline" else 1200), tmp_path / "place"  # packs of their own
    where = ("--storage", storage, "--executor", executor, *QUIET)
    in_order = ("--workers", "1") if executor == "ray" else ()  # else the large model may fail while the small one runs
    with disk(place, "-o", "size=1m"):
        outcome = call("run", space, "--store", place / "store", *where, *in_order)
        halted(outcome, f"{place}/store: ", "the store is full", "No space left", "raysweep resume small")
        kept = rows(storage)
        assert len(kept) == 2  # of the model that fitted
        again = call("resume", "small", *where)
        halted(again, "", "the store is full")
        assert {row["cell"] for row in rows(storage)} >= {row["cell"] for row in kept}
        assert mounted("-o", "remount,size=30m", str(place))
        ok(call("resume", "small", *where))
        assert Store(place / "store").files.names("leases") == []
        ok(call("store", "verify", "--store", place / "store"))
    assert_same_rows(rows(storage), expected(space))

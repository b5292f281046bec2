"""A sweep whose store is read-only or full ends in one line, keeps its rows and goes on when there is room."""

import resource

import pytest
import yaml
from conftest import QUIET, assert_same_rows, halted, ok, process, refused
from disks import bound_by_permissions, disk, mounted, read_only
from spaces import STEP, language_space, written
from store_sweeps import rows

from raysweep.stages import references
from raysweep.stages.store import Store


@pytest.fixture
def space(tmp_path):
    """Two pretrainings of a small model, three rates each."""
    return written(tmp_path, language_space())


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
        done = call("run", space, "--storage", storage, *QUIET)
        assert "1 distinct, 1 computed" in done.err
        assert_same_rows(rows(storage), expected(space))


def sized(space, steps=400):
    """The same with a second, larger model, whose stages take 30 times the room; the small one is done first, for its
    pretraining is said to be longer."""
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

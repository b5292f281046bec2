"""A sweep whose store is read-only, full, of another version, damaged or none at all: one line, and nothing lost."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import QUIET, Outcome, assert_same_rows, process
from disks import NO_BYTECODE, bound_by_permissions, disk, mounted, no_file_beyond, read_only
from spaces import STEP, language_space, written

import raysweep
from raysweep import sweep
from raysweep.stages import references
from raysweep.stages.store import Store
from raysweep.storage.sealed import seal, unseal

Call = Callable[..., Outcome]


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """Two pretrainings of a small model, three rates each."""
    return written(tmp_path, language_space())


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], list[dict[str, Any]]]:
    """The rows of a space where nothing goes wrong, each space run once."""
    known: dict[str, list[dict[str, Any]]] = {}

    def rows_of(space: Path) -> list[dict[str, Any]]:
        text = space.read_text()
        if text not in known:
            storage = tmp_path_factory.mktemp("sound")
            sweep.run(
                space, storage=storage, report=False, tracking_uri="none", executor="inline", say=lambda line: None
            )
            known[text] = rows(storage)
        return known[text]

    return rows_of


def rows(storage: Path) -> list[dict[str, Any]]:
    return raysweep.open("small", storage).results().drop(columns=["sweep"]).to_dict("records")


def one_line(outcome: Outcome, *words: str) -> str:
    """Exit code 2, and the last line of stderr begins with the path at fault; no traceback."""
    assert outcome.code == 2, outcome
    last = outcome.err.strip().splitlines()[-1]
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in last, last
    return last


# Places that are no store


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"thesis.tex": "\\begin"}, "store"),
        ({"store.json": json.dumps({"raysweep": "stage store", "format": 99})}, "format 99"),
        ({"store.json": "{"}, "store.json"),
    ],
)
def test_a_place_that_is_no_store_of_ours_is_refused_before_anything_is_created(
    call: Call, space: Path, storage: Path, tmp_path: Path, content: dict[str, str], words: str
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    for name, text in content.items():
        (place / name).write_text(text)
    for more in ((), ("--dry-run",)):
        outcome = call("run", space, "--storage", storage, "--store", place, *QUIET, *more)
        assert one_line(outcome, words).startswith(f"{place}: ")
        assert outcome.err.count("\n") == 1
    assert not storage.exists()
    assert {path.name: path.read_text() for path in place.iterdir()} == content
    assert one_line(call("store", "list", "--store", place), words)


@pytest.mark.parametrize("url", ["nowhere://bucket/x", "simplecache::s3://bucket/x"])
def test_an_address_of_no_kind_is_refused(call: Call, space: Path, storage: Path, url: str) -> None:
    outcome = call("run", space, "--storage", storage, "--store", url, *QUIET)
    assert one_line(outcome).startswith(f"{url}: ")
    assert not storage.exists()


def test_a_store_in_the_folder_of_a_sweep_is_refused(call: Call, space: Path, storage: Path) -> None:
    """Deleting the sweep would delete what others refer to."""
    assert call("run", space, "--name", "other", "--storage", storage, "--executor", "inline", *QUIET).code == 0
    for name in ("small", "other"):
        for more in ([], ["--dry-run"]):
            refused = call("run", space, "--storage", storage, "--store", storage / name / "store", *QUIET, *more)
            assert refused.code == 2
            assert refused.err.startswith("--store: ")
            assert f" {name} " in refused.err
    assert not (storage / "small").exists()


@pytest.mark.parametrize("option", ["--store", "--storage"])
@pytest.mark.parametrize("address", ["s3:/bucket/prefix", "s3:bucket", "gs:/bucket"])
def test_an_address_short_of_a_slash_is_no_folder(
    option: str, address: str, call: Call, space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--dry-run"]):
        refused = call("run", space, option, address, *QUIET, *more)
        assert refused.code == 2
        assert "://" in refused.err
    assert {path.name for path in tmp_path.iterdir()} == {"space.yaml"}


def test_a_store_for_a_workload_that_keeps_nothing_is_refused(call: Call, storage: Path, tmp_path: Path) -> None:
    outcome = call("run", "quickstart", "--storage", storage, "--store", tmp_path / "store", *QUIET)
    assert one_line(outcome, "linear_transfer").startswith("--store: ")
    assert not storage.exists()


def test_an_existing_sweep_does_not_remember_a_store_that_was_refused(
    call: Call, space: Path, storage: Path, tmp_path: Path
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "one.tex").touch()
    assert call("run", space, "--storage", storage, *QUIET).code == 0
    for command in (("run", space), ("resume", "small")):
        refused = call(*command, "--storage", storage, "--store", tmp_path / "thesis", *QUIET)
        assert one_line(refused).startswith(f"{tmp_path / 'thesis'}: ")
    assert "2 computed" in call("status", "small", "--storage", storage, "--tracking-uri", "none").out


# A store elsewhere


def test_a_sweep_remembers_where_its_stages_are(
    call: Call, space: Path, storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("run", space, "--storage", storage, "--store", "shared", *QUIET).code == 0
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


# Read-only and full


def test_a_read_only_store_is_named_before_any_work(call: Call, space: Path, storage: Path, tmp_path: Path) -> None:
    with disk(tmp_path / "place", "-o", "ro"):
        outcome = call("run", space, "--storage", storage, "--store", tmp_path / "place" / "store", *QUIET)
        assert one_line(outcome, "read-only").startswith(f"{tmp_path}/place/store: ")
        assert outcome.err.count("\n") == 1
    assert not storage.exists()


def test_a_store_that_may_not_be_written_is_named_before_any_work(space: Path, storage: Path, tmp_path: Path) -> None:
    """The same by permissions, without a mount."""
    place = tmp_path / "place"
    place.mkdir()
    with read_only(place):
        outcome = process(
            "run", space, "--storage", storage, "--store", place / "store", *QUIET, before=bound_by_permissions
        )
        assert one_line(outcome, "read-only").startswith(f"{place}/store: ")
        assert outcome.err.count("\n") == 1
    assert not storage.exists()


def test_a_store_without_room_for_anything_is_named_before_any_work(
    call: Call, space: Path, storage: Path, tmp_path: Path
) -> None:
    """One page of a disk: enough for the file that makes it a store, which is taken away again."""
    with disk(tmp_path / "place", "-o", f"size={resource.getpagesize()}"):
        outcome = call("run", space, "--storage", storage, "--store", tmp_path / "place" / "store", *QUIET)
        assert one_line(outcome, "the store is full").startswith(f"{tmp_path}/place/store: ")
        assert outcome.err.count("\n") == 1
        assert list((tmp_path / "place").iterdir()) == []
    assert not storage.exists()


def test_a_store_under_a_quota_too_small_for_anything_is_named_before_any_work(
    space: Path, storage: Path, tmp_path: Path
) -> None:
    """The same by a limit on the size of files, without a mount."""
    place = tmp_path / "place"
    place.mkdir()
    outcome = process(
        "run",
        space,
        "--storage",
        storage,
        "--store",
        place / "store",
        *QUIET,
        before=no_file_beyond(2048),
        env=NO_BYTECODE,
    )
    assert one_line(outcome, "the store is full", "File too large").startswith(f"{place}/store: ")
    assert outcome.err.count("\n") == 1
    assert list(place.iterdir()) == []
    assert not storage.exists()


def test_a_sweep_that_cannot_begin_leaves_no_store_behind(call: Call, space: Path, storage: Path) -> None:
    """Refused after its stages were claimed: its trials fit nowhere."""
    never = ("--executor", "ray", "--set", "resources.cpus_per_trial=999")
    refused = call("run", space, "--storage", storage, *QUIET, *never)
    assert one_line(refused).startswith("resources.cpus_per_trial: ")
    assert not storage.exists()
    assert call("run", space, "--storage", storage, *QUIET).code == 0
    before = set(references.users(Store(storage / "store")))
    other = call("run", space, "--name", "other", "--set", "seeds=2", "--storage", storage, *QUIET, *never)
    assert one_line(other).startswith("resources.cpus_per_trial: ")
    assert set(references.users(Store(storage / "store"))) == before


def test_a_sweep_whose_store_turns_read_only_keeps_its_rows_and_goes_on_when_mended(
    call: Call, space: Path, storage: Path, tmp_path: Path, expected: Callable[..., Any]
) -> None:
    place = tmp_path / "place"
    with disk(place):
        place_store = ("--store", place / "store", *QUIET)
        assert (
            call("run", space, "--set", f"axes.pretrain_length=[{40 * STEP}]", "--storage", storage, *place_store).code
            == 0
        )
        assert mounted("-o", "remount,ro", str(place))
        outcome = call("run", space, "--storage", storage, *place_store)
        one_line(outcome, "read-only")
        assert len(rows(storage)) == 3
        assert mounted("-o", "remount,rw", str(place))
        done = call("run", space, "--storage", storage, *QUIET)
        assert "1 distinct, 1 computed" in done.err
        assert_same_rows(rows(storage), expected(space))


def test_a_sweep_whose_store_may_no_longer_be_written_keeps_its_rows_and_goes_on_when_mended(
    call: Call, space: Path, storage: Path, tmp_path: Path, expected: Callable[..., Any]
) -> None:
    """The same by permissions, without a mount."""
    place_store = ("--store", tmp_path / "store", *QUIET)
    assert (
        call("run", space, "--set", f"axes.pretrain_length=[{40 * STEP}]", "--storage", storage, *place_store).code == 0
    )
    with read_only(tmp_path / "store"):
        outcome = process("run", space, "--storage", storage, *place_store, before=bound_by_permissions)
        one_line(outcome, "read-only")
        assert len(rows(storage)) == 3
    done = call("run", space, "--storage", storage, *QUIET)
    assert "1 distinct, 1 computed" in done.err
    assert_same_rows(rows(storage), expected(space))


def sized(space: Path, steps: int = 400) -> Path:
    """The same with a second, larger model, whose stages take 30 times the room; the small one is done first, for its
    pretraining is said to be longer."""
    plain = yaml.safe_load(space.read_text())
    plain["axes"] = {"width": [16, 128], "pretrain_length": [steps * STEP, 2 * STEP], "finetune_lr": [1e-3, 2e-3]}
    del plain["fixed"]["width"]
    plain["zip"] = [["width", "pretrain_length"]]
    space.write_text(yaml.safe_dump(plain))
    return space


@pytest.mark.parametrize("executor", ["inline", pytest.param("ray", marks=pytest.mark.long)])
def test_a_disk_that_fills_up_ends_a_sweep_that_goes_on_when_there_is_room(
    executor: str,
    request: pytest.FixtureRequest,
    call: Call,
    space: Path,
    storage: Path,
    tmp_path: Path,
    expected: Callable[..., Any],
) -> None:
    if executor == "ray":
        request.getfixturevalue("ray_cluster")
    space, place = sized(space, 400 if executor == "inline" else 1200), tmp_path / "place"  # packs of their own
    where = ("--storage", storage, "--executor", executor, *QUIET)
    in_order = ("--workers", "1") if executor == "ray" else ()  # else the large model may fail while the small one runs
    with disk(place, "-o", "size=1m"):
        outcome = call("run", space, "--store", place / "store", *where, *in_order)
        line = one_line(outcome, "the store is full", "No space left", "raysweep resume small")
        assert line.startswith(f"{place}/store: ")
        kept = rows(storage)
        assert len(kept) == 2  # of the model that fitted
        again = call("resume", "small", *where)
        one_line(again, "the store is full")
        assert {row["cell"] for row in rows(storage)} >= {row["cell"] for row in kept}
        assert mounted("-o", "remount,size=30m", str(place))
        done = call("resume", "small", *where)
        assert done.code == 0, done.err
        assert Store(place / "store").files.names("leases") == []
        assert call("store", "verify", "--store", place / "store").code == 0
    assert_same_rows(rows(storage), expected(space))


def test_a_quota_on_the_store_is_named_without_any_mount(
    space: Path, storage: Path, tmp_path: Path, call: Call, expected: Callable[..., Any]
) -> None:
    """A limit on the size of files, as a quota is: the process may write records and rows, but no large checkpoint."""
    space = sized(space)
    outcome = process("run", space, "--storage", storage, *QUIET, before=no_file_beyond(500_000), env=NO_BYTECODE)
    one_line(outcome, "the store is full", "File too large", "raysweep resume small")
    assert len(rows(storage)) == 2
    assert call("resume", "small", "--storage", storage, *QUIET).code == 0
    assert_same_rows(rows(storage), expected(space))


# Damage under a running sweep


def damage_flip(record: Path, weights: Path) -> None:
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 4
    weights.write_bytes(content)


def damage_cut(record: Path, weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:1000])


def damage_half_record(record: Path, weights: Path) -> None:
    record.write_bytes(record.read_bytes()[:40])


def damage_lost_weights(record: Path, weights: Path) -> None:
    weights.unlink()


def damage_lost_record(record: Path, weights: Path) -> None:
    """What a crash leaves between the weights and their record."""
    record.unlink()


@pytest.mark.parametrize(
    "damage", [damage_flip, damage_cut, damage_half_record, damage_lost_weights, damage_lost_record]
)
def test_a_damaged_stage_is_set_aside_and_computed_again_to_the_same_rows(
    call: Call, space: Path, storage: Path, damage: Callable[[Path, Path], None], expected: Callable[..., Any]
) -> None:
    assert call("run", space, "--set", "axes.finetune_lr=[1e-3]", "--storage", storage, *QUIET).code == 0
    store = Store(storage / "store")
    first = store.stages()[0]
    record = storage / "store" / "entries" / f"{first}.json"
    damage(record, record.parent / json.loads(record.read_bytes())["weights"].rpartition("/")[2])
    done = call("run", space, "--storage", storage, *QUIET)
    assert done.code == 0, done.err
    assert "2 distinct, 1 computed, 1 reused, 0 begun again" in done.err
    assert_same_rows(rows(storage), expected(space))
    if damage is not damage_lost_record:
        assert "1 set aside as damaged" in call("store", "list", "--storage", storage).out
    assert call("store", "verify", "--storage", storage).code == 0


def test_an_entry_of_another_version_ends_the_sweep_and_stays(
    call: Call, space: Path, storage: Path, expected: Callable[..., Any]
) -> None:
    assert call("run", space, "--set", "axes.finetune_lr=[1e-3]", "--storage", storage, *QUIET).code == 0
    entry = storage / "store" / "entries" / f"{Store(storage / 'store').stages()[0]}.json"
    sound = entry.read_bytes()
    entry.write_bytes(seal({**unseal(sound), "format": 99}))
    outcome = call("run", space, "--storage", storage, *QUIET)
    one_line(outcome, "format 99")
    assert entry.exists()
    assert len(rows(storage)) == 2
    entry.write_bytes(sound)
    assert call("run", space, "--storage", storage, *QUIET).code == 0
    assert_same_rows(rows(storage), expected(space))


def test_a_store_that_is_gone_is_made_anew(
    call: Call, space: Path, storage: Path, expected: Callable[..., Any]
) -> None:
    assert call("run", space, "--set", "axes.finetune_lr=[1e-3]", "--storage", storage, *QUIET).code == 0
    shutil.rmtree(storage / "store")
    assert "0 computed" in call("status", "small", "--storage", storage, "--tracking-uri", "none").out
    done = call("run", space, "--storage", storage, *QUIET)
    assert "2 distinct, 2 computed, 0 reused" in done.err
    assert_same_rows(rows(storage), expected(space))
    assert os.listdir(storage / "store")

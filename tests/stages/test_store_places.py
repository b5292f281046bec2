"""A place that is no stage store, of another version, read-only or full is told in one line and left as it is."""

from __future__ import annotations

import json
import os
import resource
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from disks import disk
from stored_stage import STAGE, assert_equal, once, published, weights

from raysweep.errors import Halted, InputError
from raysweep.stages import references
from raysweep.stages.store import Store
from raysweep.storage.sealed import seal, unseal


def line(error: pytest.ExceptionInfo[InputError], store: Store | Path | str) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(f"{store.url if isinstance(store, Store) else store}: ")
    return text


def test_a_store_of_another_version_is_refused_and_left_alone(local: Store) -> None:
    once(local)
    marker = Path(local.url) / "store.json"
    marker.write_text(json.dumps({"raysweep": "stage store", "format": 99}))
    with pytest.raises(InputError, match="format 99") as error:
        Store(local.url)
    line(error, local)
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
    with pytest.raises(InputError) as error:
        Store(tmp_path)
    line(error, tmp_path)
    with pytest.raises(Halted) as error:
        Store(tmp_path / "thesis.tex")
    line(error, tmp_path / "thesis.tex")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "store.json").write_text("{")
    with pytest.raises(InputError, match="store.json"):
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
        for attempt in (
            store.check,
            lambda: once(store, "another"),
            lambda: store.publish("x", weights(), {}),
            lambda: references.refer(store, "sweep", [STAGE]),
        ):
            with pytest.raises(Halted, match="read-only") as error:
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
        with pytest.raises(Halted, match="is full") as error:
            local.once("large", lambda progress: (weights(count=20_000), {}), describe={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))
    line(error, local)
    assert local.stages() == [STAGE]
    assert len(local.files.names("entries")) == 2
    assert local.files.names("leases") == []
    assert local.once("large", lambda progress: (weights(count=20_000), {}), describe={}).meta["computed"] == 1


def test_a_disk_without_room_is_named_full_and_goes_on_with_room(tmp_path: Path) -> None:
    filler = tmp_path / "place" / "filler"
    with disk(filler.parent, "-o", "size=1m"):
        store = Store(filler.parent / "store")
        once(store)
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(bytes(2**20))
        with pytest.raises(Halted, match="is full .*No space left") as error:
            once(store, "another")
        line(error, store)
        assert store.stages() == [STAGE]
        filler.unlink()
        assert once(store, "another").meta["computed"] == 1

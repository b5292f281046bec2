"""A place that is no stage store, of another version, read-only or full is told in one line and left as it is."""

from __future__ import annotations

import os
import resource
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from stored_stage import STAGE, assert_equal, once, weights

from raysweep.errors import Halted, InputError
from raysweep.stages import references
from raysweep.stages.store import Store


def line(error: pytest.ExceptionInfo[InputError], store: Store | Path | str) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(f"{store.url if isinstance(store, Store) else store}: ")
    return text


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

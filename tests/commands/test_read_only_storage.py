"""A storage that may not be written: what reads works, what writes says so in one line, and nothing changes."""

import contextlib
import shutil

import pytest
from conftest import QUIET, files_of, ok, refused, run
from disks import disk, mounted
from spaces import language_space, small_space, written

from raysweep.query.sweep import open_sweep

WRITERS = [
    (["resume", "small"], "small"),
    (["resume", "small", *QUIET], "small"),
    (["resume", "cut", *QUIET], "cut"),
    (["sync", "small", "--tracking-uri", "sqlite:///elsewhere.db"], "small"),
    (["report", "small"], "small/report"),
    (["delete", "small", "--yes"], "small"),
    (["delete", "small", "--yes", "--tracking-uri", "none"], "small"),
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A storage with a finished sweep `small`, one of it that lacks its rows, and one with stages in the store."""
    storage = tmp_path_factory.mktemp("filled")
    run(storage)
    run(storage, name="cut")
    for segment in (storage / "cut" / "ledger").iterdir():
        segment.unlink()
    run(storage, language_space(name="words"))
    return storage


@pytest.fixture
def mount(filled, tmp_path):
    """The storage on a file system that is mounted read-only."""
    place = tmp_path / "place"
    with disk(place):
        shutil.copytree(filled, place, dirs_exist_ok=True)
        assert mounted("-o", "remount,ro", str(place))
        yield place


def test_what_writes_names_the_place_and_leaves_nothing(call, mount, elsewhere):
    before = files_of(mount)
    for arguments, place in WRITERS:
        refused(
            call(*arguments, "--storage", mount), f"{mount / place}: is read-only here; expected a storage that can"
        )
    refused(call("run", written(elsewhere, small_space()), "--storage", mount, *QUIET), "--storage: ", "Read-only")
    refused(
        call("store", "prune", "--yes", "--storage", mount, "--referred", *stages(mount)),
        f"{mount}/store: ",
        "read-only",
    )
    assert files_of(mount) == before
    assert {path.name for path in elsewhere.iterdir()} == {"space.yaml"}


def test_what_reads_works(call, mount, elsewhere):
    expected = call("results", "small", "--storage", mount).out
    assert expected.count("\n") == 19
    ok(call("results", "small", "--storage", mount, "-o", elsewhere / "rows.csv"))
    assert (elsewhere / "rows.csv").read_text() == expected
    ok(call("report", "small", "--storage", mount, "-o", elsewhere / "report"))
    assert (elsewhere / "report" / "report.html").exists()
    for arguments in (
        ["list"],
        ["status", "small"],
        ["status", "cut", "--watch"],
        ["debug", "small", expected.splitlines()[1].split(",")[1]],
        ["debug", "words", call("results", "words", "--storage", mount).out.splitlines()[1].split(",")[1]],
        ["store", "list"],
        ["store", "verify"],
        ["store", "prune", "--dry-run"],
    ):
        outcome = call(*arguments, "--storage", mount)
        assert (outcome.code, outcome.err) == (0, ""), arguments
        assert outcome.out


def test_a_row_whose_stages_are_missing_is_computed_all_the_same(call, filled, tmp_path, elsewhere):
    place = tmp_path / "place"
    cell = open_sweep("words", filled).cells.ids[0]
    expected = call("debug", "words", cell, "--storage", filled).out
    with disk(place):
        shutil.copytree(filled, place, dirs_exist_ok=True)
        shutil.rmtree(place / "store")
        assert mounted("-o", "remount,ro", str(place))
        outcome = call("debug", "words", cell, "--storage", place)
    assert (outcome.code, outcome.out) == (0, expected)
    assert outcome.err.startswith(f"{place}/store: ")
    assert outcome.err.count("\n") == 1


def test_damaged_stages_are_named_where_they_cannot_be_set_aside(call, filled, tmp_path, elsewhere):
    place = tmp_path / "place"
    with disk(place):
        shutil.copytree(filled, place, dirs_exist_ok=True)
        for weights in (place / "store" / "entries").glob("*.safetensors"):
            weights.write_bytes(bytes(weights.stat().st_size))
        assert mounted("-o", "remount,ro", str(place))
        outcome = call("store", "verify", "--storage", place)
        assert (outcome.code, outcome.err) == (1, "")
        for stage in stages(place):
            assert stage in outcome.out
    assert outcome.out.count("left where it is") == 2


def test_a_sweep_can_be_deleted_to_make_room_on_a_full_disk(call, filled, tmp_path):
    place = tmp_path / "place"
    with disk(place, "-o", "size=4m"):
        shutil.copytree(filled, place, dirs_exist_ok=True)
        (place / "small" / "driver.lock").write_text("")
        fill(place / "filler")
        outcome = call("delete", "small", "--yes", "--storage", place, "--tracking-uri", "none")
        assert (outcome.code, outcome.err) == (0, "small: deleted\n")
        assert not (place / "small").exists()


def fill(path):
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass


def stages(storage):
    return sorted(path.stem for path in (storage / "store" / "entries").glob("*.json"))

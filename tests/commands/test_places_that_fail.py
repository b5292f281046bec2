"""Places that are unreadable, read-only, full or no place at all, and arguments too many: what reads works, what writes
says so in one line, and nothing changes."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import QUIET, Outcome, command, files_of, ok, process, refused, run
from disks import NO_BYTECODE, bound_by_permissions, disk, mounted
from spaces import language_space, small_space, written

from raysweep.query.sweep import open_sweep

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("", ["status", "small"]),  # which is not called missing
        ("sweep.json", ["status", "small"]),
        ("ledger", ["results", "small"]),
        ("ledger/*", ["resume", "small", *QUIET]),
        ("sweep.json", ["list"]),
    ],
)
def test_what_may_not_be_read_is_named(what, arguments, finished):
    path = next((finished / "small").glob(what)) if what else finished / "small"
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        outcome = process(*arguments, "--storage", finished, preexec_fn=bound_by_permissions, env=NO_BYTECODE)
    finally:
        path.chmod(mode)
    why = f"{path}: cannot be read (Permission denied)"
    if arguments == ["list"]:  # says so in the sweep's line, and lists the others
        assert outcome.code == 0, outcome
        assert why in outcome.out
    else:
        refused(outcome, why)


def test_addresses_that_are_empty_or_of_no_kind_are_refused(call, finished, space, elsewhere):
    before = files_of(finished)
    for arguments, begins in (
        (["list", "--storage", ""], "--storage: "),
        (["run", space, "--storage", "", *QUIET], "--storage: "),
        (["store", "list", "--store", ""], "--store: "),
        (["results", "small", "--storage", finished, "-o", ""], "-o: "),
        (["results", "small", "--storage", finished, "-o", "http://a/b"], "-o: "),
        (["report", "small", "--storage", finished, "-o", ""], "-o: "),
        (["report", "small", "--storage", finished, "-o", "http://a/b"], "-o: "),
        (["report", "small", "--storage", finished, "-o", space / "x"], f"{space / 'x'}: cannot be written"),
        (["resume", "", "--storage", finished], "SWEEP: "),
        (["debug", "small", "", "--storage", finished], "CELL: "),
    ):
        refused(call(*arguments), begins)
    assert files_of(finished) == before
    assert list(elsewhere.iterdir()) == []


def test_arguments_too_many_and_unknown_commands_are_named(call, finished):
    refused(call("resume", "small", "other", "--storage", finished), "other: ")
    refused(call("list", "small", "other"), "small: ")
    refused(call("store", "prone"), "prone: unknown command", "did you mean prune", "list, prune, verify")
    cell = call("results", "small", "--storage", finished).out.splitlines()[1].split(",")[1]
    for seed in ("x", 2**63, 10**30):
        refused(call("debug", "small", cell, str(seed), "--storage", finished), "[SEED]: ")


def test_rows_go_through_a_pipe_or_a_link_and_leave_it_in_its_place(call, finished, elsewhere):
    expected = call("results", "small", "--storage", finished).out
    (elsewhere / "link").symlink_to("rows.csv")
    (elsewhere / "rows.csv").write_text("old")
    os.mkfifo(elsewhere / "pipe")
    ok(call("results", "small", "--storage", finished, "-o", "link"))
    assert (elsewhere / "link").is_symlink()
    assert (elsewhere / "rows.csv").read_text() == expected
    reading = subprocess.Popen(["cat", elsewhere / "pipe"], stdout=subprocess.PIPE, text=True)
    ok(call("results", "small", "--storage", finished, "-o", "pipe"))
    assert reading.communicate(timeout=60)[0] == expected
    assert (elsewhere / "pipe").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full on this system")
def test_a_full_disk_under_stdout_is_named(finished):
    for arguments in (["results", "small", "--storage", finished], ["workloads"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command(*arguments), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        refused(Outcome(done.returncode, "", done.stderr), "stdout: cannot be written: No space left on device")


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

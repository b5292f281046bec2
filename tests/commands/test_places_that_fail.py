"""Places that are unreadable, full or no place at all, and arguments too many: exit 2, one line, nothing written."""

import os
import subprocess
from pathlib import Path

import pytest
from conftest import QUIET, Outcome, command, files_of, ok, process, refused
from disks import NO_BYTECODE, bound_by_permissions

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

"""A disk that is full ends a sweep in one line and costs nothing that is there; with room it goes on."""

from conftest import QUIET, assert_same_rows, files_of, halted, ok, process, refused
from disks import NO_BYTECODE, no_file_beyond

from raysweep.query.sweep import open_sweep


def test_a_quota_ends_a_sweep_in_one_line_and_without_it_it_goes_on(call, space, storage):
    """By a limit on the size of files, without a mount: there is room for the first rows and none for many more."""
    arguments = ["--storage", storage, *QUIET, "--executor", "inline"]
    ok(call("run", space, *arguments))
    outcome = process(
        "run", space, "--set", "seeds=100", *arguments, preexec_fn=no_file_beyond(100_000), env=NO_BYTECODE
    )
    advice = "18 rows are kept; go on with: raysweep resume small"
    halted(outcome, str(storage / "small"), "File too large", advice)
    assert len(open_sweep("small", storage).results()) == 18

    ok(call("resume", "small", *arguments))
    ok(call("run", space, "--set", "seeds=100", "--storage", storage / "roomy", *QUIET))
    assert_same_rows(
        open_sweep("small", storage).results().to_dict("records"),
        open_sweep("small", storage / "roomy").results().to_dict("records"),
    )


def test_a_disk_that_is_full_before_any_work_leaves_a_sweep_as_it_was_or_none(call, space, storage):
    """By a limit on the size of files: not even the record of a sweep fits."""

    def without_room(*more):
        return process(*arguments, *more, preexec_fn=no_file_beyond(500), env=NO_BYTECODE)

    arguments = ["run", space, "--storage", storage, *QUIET, "--executor", "inline"]
    refused(without_room(), f"--storage: {storage} ", "File too large")
    assert not storage.exists()
    ok(call(*arguments))
    before = files_of(storage)
    refused(without_room("--set", "seeds=5"), f"{storage / 'small'}: ", "File too large")
    assert files_of(storage) == before

"""Rows that are computed stay whatever goes wrong, a full disk too; what could not be begun leaves nothing."""

from dataclasses import replace

import pytest
from auditing import just_before
from conftest import QUIET, assert_same_rows, files_of, halted, ok, process, refused, run, sql
from disks import NO_BYTECODE, no_file_beyond
from spaces import STEP, language_space, sandbox_space, written

from raysweep import workloads
from raysweep.ledger import segments
from raysweep.plan.identity import cell_id
from raysweep.query.sweep import open_sweep


def annotated(folder, behaviour):
    return sandbox_space(folder, behaviour, name="noted", workload="annotated")


def test_rows_stay_where_a_report_is_bad_input(sandbox, storage, tmp_path, call):
    written(tmp_path, annotated(tmp_path, ["compute", "no_caveat"]))
    there = ["--storage", storage, "--tracking-uri", "none", "--executor", "inline"]
    outcome = call("run", tmp_path / "space.yaml", *there)
    last = halted(outcome, "fixed.behaviour: ", "all 2 rows are kept")
    assert last.endswith(f": raysweep report noted --storage {storage}")
    assert call("results", "noted", "--storage", storage).out.count("\n") == 3
    kept = files_of(storage / "noted" / "ledger")
    again = call("resume", "noted", *there)
    assert (again.code, again.err.splitlines()[-1]) == (2, outcome.err.splitlines()[-1])
    (tmp_path / "mended").touch()
    ok(call("report", "noted", "--storage", storage))
    ok(call("resume", "noted", *there))
    assert files_of(storage / "noted" / "ledger") == kept


def test_rows_stay_where_a_closed_form_is_bad_input(sandbox, storage, tmp_path, call):
    written(tmp_path, annotated(tmp_path, ["compute", "compute", "no_closed_form"]))
    there = ["--storage", storage, *QUIET, "--executor", "inline"]
    last = halted(call("run", tmp_path / "space.yaml", *there), "fixed.behaviour: ", "; 2 rows are kept")
    assert last.endswith(f": raysweep resume noted --storage {storage}")
    assert call("results", "noted", "--storage", storage).out.count("\n") == 3
    (tmp_path / "mended").touch()
    ok(call("resume", "noted", *there))
    assert call("results", "noted", "--storage", storage).out.count("\n") == 4


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(f"paragraph {number} says {number * number} and nothing else" for number in range(400)))
    return path


def of_text(text):
    return language_space(
        {"pretrain_length": [20 * STEP], "finetune_lr": [1e-3]},
        {"source": f"file:{text}", "target": f"file:{text}"},
        seeds=1,
    )


@pytest.mark.long
def test_rows_stay_where_a_text_is_gone_before_the_end(text, storage, tmp_path, call):
    written(tmp_path, of_text(text))
    nowhere = ["--tracking-uri", "none"]
    with just_before("os.link", ending=".jsonl", do=text.unlink):  # as the row is published
        ok(call("run", tmp_path / "space.yaml", "--storage", storage, *nowhere, "--executor", "inline"))
    assert not text.exists()
    for command in (["results"], ["status", *nowhere], ["report"], ["resume", *nowhere]):
        ok(call(command[0], "small", "--storage", storage, *command[1:]))
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    for command in ("sync", "resume"):  # the rows are mirrored too, without the stages, which only the text tells
        ok(call(command, "small", "--storage", storage, "--tracking-uri", uri))
    active = "SELECT key, value FROM tags JOIN runs USING (run_uuid) WHERE lifecycle_stage = 'active'"
    tags = dict(sql(tmp_path / "mlflow.db", active))
    assert tags["raysweep.draws"] == "1 ok"
    assert "raysweep.stage_ids" not in tags
    assert ": all 1 cell\n" in call("status", "small", "--storage", storage).out
    assert open_sweep("small", storage).results()["status"].tolist() == ["ok"]


def test_a_text_that_is_gone_while_a_sweep_is_planned_leaves_nothing(text, storage, tmp_path, call):
    written(tmp_path, of_text(text))
    with just_before("os.link", ending="sweep.json", do=text.unlink):
        outcome = call("run", tmp_path / "space.yaml", "--storage", storage, *QUIET, "--executor", "inline")
    refused(outcome, "source: ", "no such file")
    assert not storage.exists()


def rewrite(ledger, change):
    """Every row of a ledger as another release would have written it."""
    for number, path in enumerate(list(ledger.glob("*.jsonl"))):
        rows = segments.read_segment(path)
        path.unlink()
        segments.write_segment(segments.segment_path(ledger, f"{number:016x}", 1), map(change, rows))


def test_rows_that_lie_there_without_a_record_are_not_taken_away(storage, space, call):
    run(storage)
    ledger = storage / "small" / "ledger"
    rewrite(ledger, lambda row: {**row, "code_version": "0.0.1+another"})
    (storage / "small" / "sweep.json").unlink()
    (storage / "small" / "notes.txt").write_text("mine")
    kept = files_of(ledger)
    refused(call("run", space, "--storage", storage, *QUIET, "--on-code-change", "refuse"), "--on-code-change: ")
    assert files_of(ledger) == kept
    assert (storage / "small" / "notes.txt").read_text() == "mine"
    assert not (storage / "small" / "sweep.json").exists()


def test_rows_of_an_earlier_version_of_a_workload_are_kept_and_spoken_of(storage, call):
    cells = run(storage).cells
    earlier = replace(workloads.get("linear_transfer"), identity_version=1)
    expected = {cell: cell_id(earlier, cells.parameters(index)) for index, cell in enumerate(cells.ids)}
    rewrite(storage / "small" / "ledger", lambda row: {**row, "cell": expected[row["cell"]]})
    kept = files_of(storage / "small" / "ledger")
    message = "version 1 of linear_transfer"
    for command in ("status", "results"):
        outcome = call(command, "small", "--storage", storage)
        assert message in outcome.out + outcome.err
    assert message in call("report", "small", "--storage", storage).err
    assert message in ok(call("resume", "small", "--storage", storage, *QUIET)).err
    assert len(open_sweep("small", storage).results()) == 18
    assert message not in call("status", "small", "--storage", storage).out
    assert kept.items() <= files_of(storage / "small" / "ledger").items()


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

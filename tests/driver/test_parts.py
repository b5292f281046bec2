"""Fewer seeds or values than a sweep has: the rows that are asked for, and the sweep stays what it is."""

import pytest
from conftest import QUIET, files_of, ok, refused, rows, run
from spaces import language_space, sandbox_space, small_space, written

import raysweep
from raysweep.query.sweep import open_sweep

WHOLE = small_space(
    axes={"overlap_angle": [30, 60], "gamma": [0.3, 0.5, 1.0], "depth": [1, 2, 3]},
    zip=[["gamma", "depth"]],
    exclude=[{"overlap_angle": 30, "gamma": [0.3, 0.5]}],
    seeds=[0, 1, 2, 7],
)


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": 2},
        {"seeds": [7, 1]},
        {"axes": {**WHOLE["axes"], "overlap_angle": [60]}, "exclude": []},
        {
            "axes": {"overlap_angle": [30, 60], "gamma": [0.3, 1.0], "depth": [1, 3]},
            "exclude": [{"overlap_angle": 30, "gamma": 0.3}],
            "seeds": 1,
        },
        {"axes": {"overlap_angle": [60, 30], "gamma": [1.0], "depth": [3]}, "exclude": []},
        {
            "seeds": 1,
            "description": "told otherwise",
            "resources": {"cpus_per_trial": 2},
            "analysis": [{"trend": {"metric": "risk_finetune", "x": "overlap_angle"}}],
        },
    ],
)
def test_a_part_of_a_sweep_is_there_already(changes, storage):
    whole = rows(run(storage, WHOLE))
    before, asked = files_of(storage), {**WHOLE, **changes}
    part = run(storage, asked)
    assert files_of(storage) == before
    assert part.space.seeds == (list(range(asked["seeds"])) if isinstance(asked["seeds"], int) else asked["seeds"])
    fresh = rows(run(storage / "fresh", asked))
    expected = {(row["cell"], row["seed"]): row for row in whole}
    assert [repr(row) for row in rows(part)] == [repr(expected[row["cell"], row["seed"]]) for row in fresh]
    assert len(part.rows()) == sum(part.statuses().values()) == len(fresh) == len(part.cells) * len(part.space.seeds)
    assert len(open_sweep("small", storage).results()) == len(whole)


@pytest.mark.long
def test_the_line_of_the_readme_works_after_the_whole_sweep(storage):
    space = small_space(
        seeds=4, analysis=[{"boundary": {"metric": "transferability_linear", "x": "overlap_angle", "y": "gamma"}}]
    )
    run(storage, space, report=True, tracking_uri=None)
    before = files_of(storage)
    messages = []
    sweep = run(storage, space, seeds=2, report=True, tracking_uri=None, say=messages.append)
    assert len(sweep.results()) == 12
    added = {name for name in files_of(storage) if name not in before}
    assert added
    assert {name.split("/")[1] for name in added} == {"report-part"}
    assert {name: content for name, content in files_of(storage).items() if name in before} == before
    assert messages[0].startswith("small: ")
    assert f"report: {storage / 'small' / 'report-part' / 'report.html'}" in messages
    assert "12 rows" in (sweep.report().directory / "report.md").read_text()


def test_the_command_line_says_that_it_is_a_part(call, storage, space):
    there = ["--storage", storage, *QUIET]
    ok(call("run", space, *there))
    before = files_of(storage)
    dry = ok(call("run", space, "--set", "seeds=1", *there, "--dry-run"))
    assert "a part of the sweep that is there" in dry.out
    assert "nothing to compute" in dry.out
    outcome = ok(call("run", space, "--set", "seeds=1", "--set", "axes.gamma=[0.5]", *there))
    assert [line.partition(": ")[0] for line in outcome.err.splitlines()] == ["small", "small"]
    assert outcome.err.splitlines()[-1].startswith("small: 2 rows ")
    assert files_of(storage) == before


def test_of_an_unfinished_sweep_only_the_part_is_computed(sandbox, storage):
    space = small_space(workload="apart", seeds=6)
    run(storage, space)
    for segment in sorted((storage / "small" / "ledger").glob("*.jsonl"))[1:]:
        segment.unlink()
    record = (storage / "small" / "sweep.json").read_bytes()
    kept = {seed for _, seed in open_sweep("small", storage).rows()}
    lost = set(range(6)) - kept
    assert len(run(storage, space, seeds=[min(kept), min(lost)], tracking_uri=None).results()) == 12
    assert {seed for _, seed in open_sweep("small", storage).rows()} == kept | {min(lost)} != set(range(6))
    assert (storage / "small" / "sweep.json").read_bytes() == record
    assert not (storage / "mlflow.db").exists()
    raysweep.resume("small", storage=storage, tracking_uri="none", report=False, executor="inline", say=print)
    assert len(open_sweep("small", storage).rows()) == 36


def test_failures_of_a_part_are_its_own(sandbox, storage, tmp_path, call):
    space = sandbox_space(tmp_path, ["compute", "raise"], zip=[], axes={"x": [1, 2], "behaviour": ["compute", "raise"]})
    written(tmp_path, space)
    there = ["--storage", storage, *QUIET, "--executor", "inline"]
    assert call("run", tmp_path / "space.yaml", *there).code == 1
    ok(call("run", tmp_path / "space.yaml", "--set", "axes.behaviour=[compute]", *there))
    part = call("run", tmp_path / "space.yaml", "--set", "axes.x=[2]", *there)
    assert (part.code, "1 of 2 rows failed" in part.err) == (1, True)


@pytest.mark.parametrize(
    "search", [{"random": {"cells": 4}}, {"boundary": {"metric": "transferability_linear", "budget": 5, "start": 2}}]
)
def test_of_a_search_the_rows_of_a_part_are_those_it_chose(search, storage, tmp_path, call):
    space = small_space(search=search)
    whole = rows(run(storage, space))
    before = files_of(storage)
    assert {(row["cell"], row["seed"]) for row in rows(run(storage, space, seeds=1))} == {
        (row["cell"], row["seed"]) for row in whole if row["seed"] == 0
    }
    part = run(storage, space, axes={"gamma": [0.5, 1.0]})
    assert [repr(row) for row in rows(part)] == [repr(row) for row in whole if row["gamma"] in (0.5, 1.0)]
    written(tmp_path, space)
    again = ("--set", "seeds=1", "--storage", storage, *QUIET, "--on-code-change", "recompute")
    refused(call("run", tmp_path / "space.yaml", *again), "--on-code-change: ")
    assert files_of(storage) == before


def test_a_part_moves_no_stages_of_the_whole(storage, tmp_path, call):
    space = written(tmp_path, language_space())
    there = ["--storage", storage, *QUIET, "--executor", "inline"]
    ok(call("run", space, *there))
    record = (storage / "small" / "sweep.json").read_bytes()
    asked = ["run", space, *there, "--set", "axes.finetune_lr=[1e-3]"]
    refused(call(*asked, "--store", tmp_path / "elsewhere"), "--store: ", "or ask for the whole sweep")
    assert (storage / "small" / "sweep.json").read_bytes() == record
    ok(call(*asked))

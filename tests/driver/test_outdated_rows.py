"""Rows that are no longer what they would be today: content, code and metrics that changed since they were computed."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from conftest import QUIET, assert_same_rows, files_of, ok, refused, rows, run, told
from spaces import small_space, written
from test_kept_rows import rewrite

import raysweep
from raysweep.errors import InputError
from raysweep.query.sweep import open_sweep
from raysweep.workloads.declaration import Cost, Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result

WORLD = {}


def learn(rows, parent, context):
    row = rows.row()
    WORLD["calls"].append(("learn", row["a"]))
    metrics = dict.fromkeys(WORLD["measured"], row["a"] / 10)
    return Result({"w": np.array(row["a"] + WORLD["text"])}, metrics)


def judge(rows, parent, context):
    row = rows.row()
    WORLD["calls"].append(("judge", row["a"], row["b"]))
    return Result(metrics={"y": float(parent.tensors()["w"]) + row["b"]})


def identify(stage, values, row):
    return {**values, "text": WORLD["text"]}


def declared(measured=(), **changes):
    metrics = (Metric("y", ""), *(Metric(name, "", stage="learn") for name in measured))
    stages = (
        Stage("learn", "test_outdated_rows:learn", keeps=True),
        Stage("judge", "test_outdated_rows:judge", after="learn"),
    )
    parameters = (Parameter("a", int, 0, "", stage="learn"), Parameter("b", int, 0, "", stage="judge"))
    named = {"name": "dated", "sources": ("test_outdated_rows",), "parameters": parameters, "metrics": metrics}
    return Workload(**{"summary": "", "identity_version": 1, "stages": stages, **named, **changes})


WORKLOAD = declared()


@pytest.fixture
def swept(bring, storage, monkeypatch):
    """Runs a sweep with a declaration; returns it and what was said."""
    bring(dated="test_outdated_rows:WORKLOAD")
    WORLD.update(calls=[], text=100, measured=())

    def sweep(workload, name="one", **options):
        monkeypatch.setattr(sys.modules[__name__], "WORKLOAD", workload)
        WORLD["calls"].clear()
        WORLD["measured"] = workload.chain.metrics[0]
        messages = []
        axes = options.pop("axes", {"a": [1, 2], "b": [1, 2]})
        space = {"name": name, "workload": "dated", "axes": axes, "seeds": 1}
        return run(storage, space, say=messages.append, **options), messages

    return sweep


def ys(sweep):
    return sweep.results()["y"].tolist()


def calls(stage):
    return sum(call[0] == stage for call in WORLD["calls"])


def test_rows_of_content_that_has_changed_are_computed_again_and_spoken_of(swept):
    result, _ = swept(declared(identify=identify))
    assert ys(result) == [102, 103, 103, 104]
    result, messages = swept(declared(identify=identify))
    assert "one: all 4 rows are there; nothing to compute" in messages
    WORLD["text"] = 200
    result, messages = swept(declared(identify=identify), axes={"a": [1, 2, 3], "b": [1, 2]})
    assert ys(result) == [202, 203, 203, 204, 204, 205]
    assert (calls("learn"), calls("judge")) == (3, 6)
    (line,) = [line for line in messages if "given before" in line]
    assert line.startswith("4 rows are there of what dated was given before (a text that has changed, for example)")
    _, messages = swept(declared(identify=identify), axes={"a": [1, 2, 3], "b": [1, 2]})
    assert "one: all 6 rows are there; nothing to compute" in messages


def test_a_dry_run_and_a_part_of_a_sweep_see_changed_content_too(swept, call, storage):
    swept(declared(identify=identify))
    WORLD["text"] = 200
    space = storage.parent / "space.yaml"
    space.write_text("{name: one, workload: dated, axes: {a: [1, 2], b: [1, 2]}, seeds: 1}")
    result = call("run", space, "--storage", storage, "--dry-run")
    assert "note: 4 rows are there of what dated was given before" in result.out
    assert "4 rows to compute" in result.out
    part, messages = swept(declared(identify=identify), axes={"a": [1], "b": [1, 2]})
    assert ys(part) == [202, 203]
    assert any(line.startswith("2 rows are there of what") for line in messages)


def test_rows_without_the_id_of_their_last_stage_and_rows_of_what_has_gone_stay(swept):
    """As those of an earlier release, and of a text that nobody can read any more."""

    def gone(stage, values, row):
        raise InputError("text", "has gone")

    swept(declared())
    _, messages = swept(declared(identify=identify))
    assert "one: all 4 rows are there; nothing to compute" in messages
    swept(declared(identify=identify), name="two")
    _, messages = swept(declared(identify=gone), name="two")
    assert "two: all 4 rows are there; nothing to compute" in messages


def test_stages_of_before_a_metric_are_spoken_of_and_recompute_measures_it(swept):
    swept(declared())
    two, messages = swept(declared(("fit",)), name="two")
    assert calls("learn") == 0
    assert "note: 2 stages in the store lack fit, which dated has gained since: their rows have no value of it " in (
        " ".join(messages)
    )
    assert two.results()["fit"].isna().all()
    two, messages = swept(declared(("fit",)), name="two")
    assert any(line.startswith("note: 4 rows are there without fit, which dated has gained since") for line in messages)
    for name in ("two", "one"):  # each once
        result, messages = swept(declared(("fit",)), name=name, on_code_change="recompute")
        assert result.results()["fit"].tolist() == [0.1, 0.1, 0.2, 0.2]
        assert (calls("learn"), calls("judge")) == (2 if name == "two" else 0, 4)
        _, messages = swept(declared(("fit",)), name=name, on_code_change="recompute")
        assert f"{name}: all 4 rows are there; nothing to compute" in messages


def test_rows_of_stages_of_other_code_are_computed_again_with_them(swept):
    swept(declared())
    later = declared(sources=("made_up_chain",))
    _, messages = swept(later, name="two")
    assert calls("learn") == 0
    assert any("changed since 2 of the stages in the store were computed" in line for line in messages)
    _, messages = swept(later, name="two")
    assert any("changed since the stages of 4 rows were computed" in line for line in messages)
    assert "two: all 4 rows are there; nothing to compute" in messages
    _, messages = swept(later, name="two", on_code_change="recompute")
    assert (calls("learn"), calls("judge")) == (2, 4)
    _, messages = swept(later, name="two", on_code_change="recompute")
    assert "two: all 4 rows are there; nothing to compute" in messages


def test_changed_code_of_one_stage_computes_that_stage_and_what_follows(swept):
    learning, judging = declared().stages
    swept(declared())
    judging = replace(judging, sources=("made_up_chain",))
    swept(replace(declared(), stages=(learning, judging)), on_code_change="recompute")
    assert (calls("learn"), calls("judge")) == (0, 4)
    learning = replace(learning, sources=("spaces",))
    swept(replace(declared(), stages=(learning, judging)), on_code_change="recompute")
    assert (calls("learn"), calls("judge")) == (2, 4)


def test_a_metric_without_a_value_is_not_one_that_a_stage_lacks(swept):
    made = declared(("fit", "other"))
    two = replace(made, stages=(replace(made.stages[0], run="test_outdated_rows:half"), made.stages[1]))
    swept(two)
    _, messages = swept(two, name="two")
    assert not any("gained" in line for line in messages)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"check": lambda row: 1 / 0}, "dated.check: ZeroDivisionError: division by zero"),
        ({"check": lambda row: "bad"}, "dated.check: expected (parameter, complaint) or None, got 'bad'"),
        ({"identify": lambda stage, values, row: None}, "dated.learn.identify: expected a mapping of plain values"),
        ({"stages": {"points": lambda row: [1, None]}}, "dated.learn.points: expected finite numbers of at least 0"),
        ({"stages": {"cost": lambda columns: Cost(-1.0, 0.0)}}, "dated.learn.cost: expected seconds as a finite"),
    ],
)
def test_what_a_declaration_says_wrongly_is_one_line_and_leaves_nothing(changes, message, swept, storage):
    storage.mkdir()
    (storage / "mine").touch()
    made = declared(**{name: value for name, value in changes.items() if name != "stages"})
    first = replace(made.stages[0], **changes.get("stages", {}))
    with told(message):
        swept(replace(made, stages=(first, made.stages[1])))
    assert [path.name for path in storage.rglob("*")] == ["mine"]


def half(rows, parent, context):
    return Result({"w": np.array(1.0)}, {"fit": 0.5, "other": np.nan})


@pytest.fixture
def other_code(storage):
    """A storage with a finished sweep, whose rows say that other code computed them."""
    run(storage)
    rewrite(storage / "small" / "ledger", lambda row: {**row, "code_version": "0.0.1+another"})
    return storage


def test_rows_of_older_code_are_reused(other_code, call):
    before = files_of(other_code / "small" / "ledger")
    outcome = ok(call("resume", "small", "--storage", other_code, *QUIET))
    assert "the code of linear_transfer changed since 18 rows" in outcome.err
    assert "--on-code-change recompute" in outcome.err
    assert files_of(other_code / "small" / "ledger") == before


def test_rows_of_older_code_are_replaced_on_demand(other_code):
    before = rows(open_sweep("small", other_code))
    asked = {"storage": other_code, "on_code_change": "recompute", "tracking_uri": "none", "report": False}
    after = rows(raysweep.resume("small", **asked, executor="inline", say=print))
    assert {row["code_version"] for row in after}.isdisjoint({row["code_version"] for row in before})
    assert_same_rows([{**row, "code_version": ""} for row in after], [{**row, "code_version": ""} for row in before])
    recorded = files_of(other_code / "small" / "ledger")
    raysweep.resume("small", **asked, executor="inline", say=print)
    assert files_of(other_code / "small" / "ledger") == recorded


def test_rows_of_older_code_are_refused_on_demand(other_code, call, tmp_path):
    file = written(tmp_path, small_space(seeds=5))
    before = files_of(other_code / "small" / "ledger")
    for arguments in (["resume", "small"], ["run", file], ["run", file, "--dry-run"]):
        outcome = call(*arguments, "--storage", other_code, *QUIET, "--on-code-change", "refuse")
        refused(outcome, "--on-code-change: the code of linear_transfer changed since 18 rows")
    assert files_of(other_code / "small" / "ledger") == before
    assert open_sweep("small", other_code).space.seeds == [0, 1, 2]


def test_dry_run_tells_of_older_code_and_of_rows_that_are_there(other_code, call, tmp_path):
    written(tmp_path, small_space(seeds=5))
    before = files_of(other_code)
    outcome = ok(call("run", tmp_path / "space.yaml", "--storage", other_code, *QUIET, "--dry-run"))
    assert "6 cells x 5 draws = 30 rows" in outcome.out
    assert "18 of them in the ledger already" in outcome.out
    assert "12 rows to compute" in outcome.out
    assert "--on-code-change recompute" in outcome.out
    assert files_of(other_code) == before

"""Rows of a function: what they may lack, what an edit of the function does to them, what is said of bad ones."""

import time

import numpy as np
import pytest
from conftest import ok, rows, told
from functions import edited, quietly

import raysweep
from raysweep.errors import InputError


def test_a_value_that_a_look_up_lacks_is_missing_and_not_diverged(storage):
    there = "{'loss': {1: 3.0, 2: 1.0, 3: 2.0}.get(x)}"
    sweep = quietly(edited(f"return {there}"), storage, axes={"x": [0, 1, 2, 3, 4]}, seeds=2)
    result = sweep.results()
    assert result["status"].tolist() == ["ok"] * 10
    assert result["loss"].isna().tolist() == [True, True, *[False] * 6, True, True]
    assert sweep.best("loss").table["x"].tolist() == [2, 3, 1]
    assert sweep.fit(optimum={"metric": "loss", "x": "x"}).table["diverged_from"].item() == np.inf
    gone = edited("return {'loss': float('nan') if x > 2 else x}")
    table = quietly(gone, storage, name="gone", axes={"x": [1, 2, 3]}).results()
    assert table["status"].tolist() == ["ok", "ok", "diverged"]


def test_a_stopped_row_may_lack_metrics(storage):
    text = "log(1, loss=x)\n    if log.stop():\n        return {'loss': x}\n    return {'loss': x, 'accuracy': 1.0}"
    rule = {"metric": "loss", "first": 4}
    sweep = quietly(edited(text), storage, axes={"x": [float(x) for x in range(16)]}, early_stopping=rule)
    table = sweep.results()
    stopped = table["status"] == "stopped"
    assert set(table["status"]) == {"ok", "stopped"}
    assert table["accuracy"].isna().tolist() == stopped.tolist()
    assert table["loss"].tolist() == table["x"].tolist()


def test_early_stopping_that_can_stop_nothing_is_said(storage):
    def mute(x, seed):
        return x

    rule = {"metric": "value", "first": 4}
    with pytest.raises(InputError, match=r"^early_stopping: mute has no argument log"):
        quietly(mute, storage, axes={"x": [1, 2]}, early_stopping=rule)
    messages = []
    quietly(edited("return x"), storage, axes={"x": [1, 2]}, early_stopping=rule, say=messages.append)
    assert sum("no row logged value" in line for line in messages) == 1


@pytest.mark.parametrize("text", ["log(1, **{'top@5': x})\n    return 1.0", "return {'top@5': x}"])
def test_a_name_that_no_metric_can_have_ends_the_sweep_at_its_first_row(text, storage):
    """Returned or logged, with the letters that can be used."""
    what = "expected letters (a-z, A-Z), digits, spaces and _ . - / ("
    with told("workload: train", what, "got 'top@5'; rename it (in the row x = 1, seed = 0)"):
        quietly(edited(text), storage, axes={"x": [1, 2, 3]})
    assert not storage.exists()


def test_the_log_of_a_trial_says_how_much_of_a_curve_is_kept(storage):
    text = "for step in range(int(x)):\n        log(step, loss=x)\n    return x"
    sweep = quietly(edited(text), storage, axes={"x": [500.0, 2000.0]})
    kept = sweep.curves().groupby("x").size()
    assert kept[500.0] == 500
    messages = [line for path in storage.rglob("*.log") for line in path.read_text().splitlines() if " logged " in line]
    assert len(messages) == 1
    assert f" train logged 2,000 points; its curve keeps {kept[2000.0]}: " in messages[0]


@pytest.mark.parametrize(
    "text", ["'1.5'", "[1.5]", "[[1], [2, 3]]", "1j", "{1.5}", "numpy.zeros(2)", "torch.zeros(2)", "10**400"]
)
def test_what_is_not_one_number_is_no_metric(text, storage):
    with pytest.raises(InputError, match=r"^workload: train returned .*; expected one number \(in the row"):
        quietly(edited(f"import numpy, torch; return {text}"), storage, axes={"x": [1]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"axes": {"x": []}}, "axes.x: "),
        ({"axes": {"x": None}}, "axes.x: "),
        ({"axes": {"x": [(1, 2)]}}, "axes.x: "),
        ({"axes": {"x": [2**70, 1]}}, r"axes.x\[0\]: expected a whole number of at most 64 bits"),
        ({"axes": {"x": [10**400, 1]}}, r"axes.x\[0\]: "),
        ({"axes": {"x": np.asarray([2**63, 1], dtype=np.uint64)}}, r"axes.x\[0\]: "),
        ({"fixed": {"x": 2**70}}, "fixed.x: expected a whole number of at most 64 bits"),
        ({"axes": {"x": ["a\udcff", "b"]}}, r"axes.x\[0\]: expected text that UTF-8 can hold"),
        ({"axes": {"x": [1]}, "max_hours": "1"}, "max_hours: expected hours above 0, got '1'"),
    ],
)
def test_values_that_no_row_can_have_are_refused_at_their_key(given, message, storage):
    with pytest.raises(InputError, match=f"^{message}"):
        quietly(edited("return 1.0"), storage, **given)
    assert not storage.exists()


@pytest.mark.long
def test_a_reused_edited_function_keeps_its_answer(storage):
    given = {"axes": {"x": [1.0, 2.0, 3.0]}, "seeds": 2, "report": True}
    headline = quietly(edited("return {'loss': x}"), storage, **given).report().answer
    assert headline
    assert quietly(edited("return {'loss': 1 * x}"), storage, **given).report().answer == headline
    assert "asks for no analysis" not in (storage / "train" / "report" / "report.md").read_text()


def test_failed_rows_are_computed_again_once_the_function_is_mended(storage, call, tmp_path):
    file = tmp_path / "mine.py"
    (tmp_path / "mine.yaml").write_text("name: mine\nworkload: mine.py:train\naxes: {x: [0, 1, 2]}\n")
    file.write_text("def train(x, seed):\n    return 1 / x\n")
    asked = ("run", tmp_path / "mine.yaml", "--storage", storage, "--no-report", "--tracking-uri", "none")
    for _ in range(2):
        done = call(*asked)
        assert done.code == 1
        assert done.err.splitlines()[-1].endswith(f"raysweep resume mine --storage {storage}")
    good = rows(raysweep.open("mine", storage))[1:]
    file.write_text("def train(x, seed):\n    return 1 / x if x else 5\n")
    assert "changed since 1 row failed: computing them again" in ok(call(*asked)).err
    result = rows(raysweep.open("mine", storage))
    assert [row["value"] for row in result] == [5, 1, 0.5]
    assert [row["seconds"] for row in result[1:]] == [row["seconds"] for row in good]


def test_a_pack_that_takes_longer_than_estimated_is_kept_part_by_part(storage, monkeypatch):
    """So that a kill loses seconds of work, whatever the first rows said."""
    monkeypatch.setattr("raysweep.trial.run.LONG_ENOUGH", 0.1)
    calls = []
    kept = []

    def slower(x, seed):
        calls.append((x, seed))
        kept.append(len(list((storage / "slower" / "ledger").glob("*.jsonl"))))
        time.sleep(0.02 if len(calls) > 2 else 0.0)
        return x + seed

    result = quietly(slower, storage, axes={"x": list(range(15))}, seeds=2).results()
    assert result["value"].tolist() == (result["x"] + result["seed"]).tolist()
    assert sorted(calls) == [(x, seed) for x in range(15) for seed in range(2)]
    assert len(set(kept)) > 4

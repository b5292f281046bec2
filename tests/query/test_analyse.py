"""A table of runs made elsewhere is answered as the rows of a sweep are."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow
import pytest
from conftest import ok

import raysweep
from raysweep.analyses.finding import Outcome
from raysweep.errors import InputError
from raysweep.numbers import interval, number
from raysweep.query import importing, table


def curves(best, seeds=8):
    """A loss that is quadratic in the logarithm of the rate, least at the best rate of each depth."""
    noise = np.random.default_rng(0)
    lines = [
        {"lr": rate, "depth": depth, "seed": seed, "loss": (np.log(rate / place)) ** 2 + 0.05 * noise.normal()}
        for depth, place in best.items()
        for rate in np.geomspace(1e-4, 1e-1, 9)
        for seed in range(seeds)
    ]
    return pd.DataFrame(lines)


BEST = {2: 3e-3, 4: 1e-3}
ASKED = {"metric": "loss", "axes": "lr", "by": "depth", "seed": "seed"}
QUESTION = [{"optimum": {"x": "lr"}}]


def test_the_best_rate_of_each_setting_lies_in_its_interval(tmp_path):
    found = raysweep.analyse(curves(BEST), questions=QUESTION, **ASKED)
    assert found.table["depth"].tolist() == [2, 4]
    assert found.table["outcome"].tolist() == [Outcome.LOCATED, Outcome.LOCATED]
    assert (found.table["low"] < list(BEST.values())).all()
    assert (found.table["high"] > list(BEST.values())).all()
    assert len(found.plot()) >= 1
    assert found.guesses["column"].tolist() == ["lr", "depth", "loss", "seed"]
    assert (found.report(tmp_path / "report").directory / "report.html").is_file()


def test_a_question_over_two_axes_is_about_the_metric_of_the_table():
    frame = curves(BEST).assign(gain=lambda rows: np.log(rows["lr"] / rows["depth"].map(BEST)))
    question = [{"boundary": {"x": "lr", "y": "depth"}}]
    found = raysweep.analyse(frame.drop(columns="loss"), "gain:maximize", "lr", "depth", question, seed="seed")
    np.testing.assert_allclose(found.table["estimate"], list(BEST.values()), rtol=1e-6)


def test_settings_and_values_near_a_billion_are_told_apart():
    width = {2: 1_000_000_001, 4: 1_000_000_002}
    frame = curves(BEST).assign(width=lambda rows: rows["depth"].map(width), loss=lambda rows: 1e9 + rows["loss"])
    found = raysweep.analyse(frame, "loss", "lr", "width", [{"best": {}}], seed="seed")
    assert "at lr = 0.003162, width = 1,000,000,001" in found.answers[0]
    assert found.guesses["values"].tolist()[1] == "2: 1,000,000,001, 1,000,000,002"
    moved = raysweep.analyse(frame, "loss", "lr", "width", QUESTION, seed="seed")[0].moves
    assert [(one.first, one.last) for one in moved] == [(1_000_000_001, 1_000_000_002)]
    assert number(moved[0].first) == "1,000,000,001"
    assert interval(1e9 + 2.5, 1e9 + 2.5, 1e9 + 2.5) == "1000000002.5 (exact)"


def test_a_mapping_of_columns_and_frames_of_other_libraries_are_tables():
    frame = curves(BEST)
    columns = {name: frame[name].to_numpy() for name in frame}
    others = columns, pyarrow.Table.from_pandas(frame), frame.set_index(frame["depth"] * 0)
    others += (frame.groupby(["depth", "lr", "seed"])["loss"].mean(),)
    first, *rest = (raysweep.analyse(one, questions=QUESTION, **ASKED).table for one in (frame, *others))
    for other in rest:
        pd.testing.assert_frame_equal(first, other, check_exact=True)


def test_a_null_of_another_library_or_of_a_list_is_missing_and_has_not_diverged():
    columns = curves(BEST).to_dict("list")
    columns["loss"][3:5] = [None, np.inf]
    for frame in (pyarrow.table(columns), columns, {**columns, "loss": tuple(columns["loss"])}):
        runs = table.read(frame, ["loss"], ["lr"], ["depth"], seed="seed")
        assert runs.missing == 1
        assert (runs.rows["status"] == "diverged").sum() == 1


def test_runs_that_all_diverged_elsewhere_are_not_advised_to_run_here():
    found = raysweep.analyse(curves(BEST).assign(loss=np.nan), questions=QUESTION, **ASKED)
    assert found.answers == ["No row is ok, so nothing can be analysed."]


def test_a_question_that_cannot_be_asked_is_one_line():
    with pytest.raises(InputError, match=r"unknown analysis 'optimun'; did you mean optimum"):
        raysweep.analyse(curves(BEST), questions=[{"optimun": {"x": "lr"}}], **ASKED)
    for wrong in ("optimum", ["optimum"], {"optimum": {"x": "lr"}}):
        with pytest.raises(InputError, match="questions: expected a list of analyses"):
            raysweep.analyse(curves(BEST), questions=wrong, **ASKED)
    both = raysweep.analyse(curves(BEST), questions=None, **{**ASKED, "axes": ["lr", "depth"], "by": None})
    assert both.answers[0].startswith("The best loss is ")
    with pytest.raises(InputError, match=r"analysis\[0\].relation.x: missing"):
        raysweep.analyse(curves(BEST), questions=[{"relation": {}}], **ASKED)
    with pytest.raises(InputError, match=r"analysis\[0\].law"):
        raysweep.analyse(curves(BEST), questions=[{"law": "lr"}], **ASKED)
    with pytest.raises(InputError, match="analysis.0..optimum.x"):
        raysweep.analyse(curves(BEST), questions=[{"optimum": {"x": "rate"}}], **ASKED)
    for name in ("outcome", "axis"):
        with pytest.raises(InputError, match=f"its tables have a column {name}"):
            raysweep.analyse(curves(BEST).rename(columns={"depth": name}), **{**ASKED, "by": name})


def test_an_imported_copy_of_a_sweep_has_its_findings_to_the_last_digit(storage):
    quickstart = {"axes.gamma": [0.5, 1.5], "fixed.dim": 50, "seeds": 6}
    sweep = raysweep.run("quickstart", set=quickstart, storage=storage, tracking_uri="none", report=False)
    axes, metric, ends = ["overlap_angle", "gamma"], "transferability_finetune", ["estimate", "low", "high"]
    question = {"boundary": {"metric": metric, "x": "overlap_angle", "y": "gamma"}}
    known = {"seed": "seed", "status": "status", "scale": dict.fromkeys(axes, "linear")}
    copy = raysweep.analyse(sweep.results(), f"{metric}:maximize", axes, questions=[question], **known)
    own = sweep.fit(**question).table
    np.testing.assert_array_equal(copy.table[ends].to_numpy(float), own[ends].to_numpy(float))


def test_imported_rows_are_a_sweep_that_lacks_nothing(storage, call):
    frame = curves(BEST).drop(index=[3, 30])  # a cell may have fewer draws than others
    runs = table.read(frame, ["loss"], ["lr", "depth"], seed="seed", name="elsewhere", source="runs.csv")
    sweep = importing.create(runs, storage)
    rows = sweep.results()
    assert sorted(rows["loss"]) == sorted(frame["loss"])
    assert sweep.state().missing().rows == 0
    assert len(sweep.state().cells) == 18
    with pytest.raises(InputError, match="there is a sweep of this name"):
        importing.create(runs, storage)
    with pytest.raises(InputError, match="was computed elsewhere"):
        raysweep.resume("elsewhere", storage=storage)
    debugged = call("debug", "elsewhere", rows["cell"].iloc[0], "--storage", str(storage))
    assert (debugged.code, "was computed elsewhere" in debugged.err) == (2, True)


def test_an_import_guesses_first_and_creates_nothing_in_a_dry_run(storage, tmp_path, call):
    curves(BEST).to_csv(tmp_path / "runs.csv", index=False)
    words = ("--from", tmp_path / "runs.csv", "--axes", "lr,depth", "--metric", "loss", "--seed", "seed")
    asked = (*words, "--set", "analysis=[{optimum: {metric: loss, x: lr}}]", "--storage", storage)
    ok(call("import", "elsewhere", *map(str, asked), "--dry-run"))
    assert not (storage / "elsewhere").exists()
    ok(call("import", "elsewhere", *map(str, asked)))
    assert raysweep.open("elsewhere", storage).space.analysis == [{"optimum": {"metric": "loss", "x": "lr"}}]
    ok(call("report", "elsewhere", "--storage", str(storage)))
    brief = (*words, "--set", "analysis=[{optimum: {x: lr}}, {best: }]", "--storage", storage)
    ok(call("import", "brief", *map(str, brief)))
    asked_there = [{"optimum": {"metric": "loss", "x": "lr"}}, {"best": {"metric": "loss"}}]
    assert raysweep.open("brief", storage).space.analysis == asked_there
    without = (*words, "--set", "exclude=[{depth: 4}]", "--storage", storage)
    assert "72 rows that the space leaves out" in call("import", "without", *map(str, without)).out
    assert len(raysweep.open("without", storage).results()) == 72
    for way in ((), ("--workload", f"{tmp_path}/train.py:train")):
        (tmp_path / "train.py").write_text("def train(lr, depth, seed):\n    return {'loss': lr}\n")
        none = call("import", "none", *map(str, (*words, *way, "--set", "axes.lr=[1, 2]", "--storage", storage)))
        assert (none.code, (storage / "none").exists()) == (2, False)
    wrong = (*words, "--set", "analysis=[{optimum: {metric: loss, x: rate}}]", "--storage", storage)
    assert call("import", "other", *map(str, wrong)).code == 2
    assert not (storage / "other").exists()


def test_known_standard_errors_take_the_place_of_the_noise():
    frame = curves(BEST, seeds=1).assign(stderr=0.05)
    asked = {**ASKED, "seed": None}
    small, large = (
        raysweep.analyse(frame.assign(stderr=error), questions=QUESTION, error="stderr", **asked).table
        for error in (0.02, 0.5)
    )
    assert (small["high"] / small["low"] < large["high"] / large["low"]).all()
    assert (small["low"] < list(BEST.values())).all()
    assert (small["high"] > list(BEST.values())).all()
    with pytest.raises(InputError, match="stderr: expected a standard error"):
        raysweep.analyse(frame.assign(stderr=-1.0), questions=QUESTION, error="stderr", **asked)


def test_what_is_set_stands_in_the_table_of_guesses_in_place_of_the_guess(storage, tmp_path, call):
    runs = [{"lr": lr, "steps": round(1 / lr), "depth": d, "loss": lr * d} for lr in (1e-3, 1e-2, 1e-1) for d in (2, 4)]
    pd.DataFrame(runs).to_csv(tmp_path / "runs.csv", index=False)
    words = ("--from", tmp_path / "runs.csv", "--axes", "lr,steps,depth", "--metric", "loss", "--storage", storage)

    def shown(*sets):
        lines = call("import", "mine", *words, "--dry-run", *(part for one in sets for part in ("--set", one))).out
        return {line.split()[0]: line for line in lines.splitlines() if line}

    guessed = shown()
    assert "log" in guessed["lr"]
    assert guessed["lr"].endswith("varies with steps")
    told = shown("zip=[]", "scale.lr=linear")
    assert "linear" in told["lr"]
    assert "varies" not in told["lr"] + told["steps"]
    assert "log" in told["steps"]
    assert "linear" in shown("scale={steps: linear}")["steps"]
    assert call("import", "mine", *words, "--set", "scale.lr=cubic").code == 2
    ok(call("import", "mine", *words, "--set", "zip=[]", "--set", "scale.lr=linear"))
    space = raysweep.open("mine", storage).space
    assert (space.zip, space.scale["lr"]) == ([], "linear")


def test_an_import_keeps_the_known_standard_errors_of_a_harness(storage, call):
    for step in range(0, 20, 2):
        found = {"acc,none": 0.5 - abs(step - 10) / 40, "acc_stderr,none": 0.01}
        content = {"results": {"sciq": found}, "config": {"model_args": f"pretrained=small,revision=step{step}"}}
        (storage.parent / f"results_{step}.json").write_text(json.dumps(content))
    asked = ("--axes", "step", "--metric", "acc:maximize", "--set", "analysis=[{inflection: {metric: acc, x: step}}]")
    ok(call("import", "harness", "--from", f"lm-eval:{storage.parent}", *asked, "--storage", str(storage)))
    sweep = raysweep.open("harness", storage)
    rows = sweep.results()
    assert set(rows["acc_standard_error"]) == {0.01}
    question = [{"inflection": {"x": "step"}}]
    own = raysweep.analyse(rows, "acc:maximize", "step", questions=question, error="acc_standard_error")
    assert sweep.findings()[0].table["p"].tolist() == own.table["p"].tolist()
    assert sweep.findings()[0].table["outcome"].tolist() == [Outcome.LOCATED]
    (storage.parent / "results_18.json").write_text(json.dumps(content).replace("0.01", '"N/A"'))
    words = ("import", "gap", "--from", f"lm-eval:{storage.parent}", *asked, "--storage", str(storage), "--dry-run")
    assert re.search(r"acc_stderr\s+not used\s+file results_18.json \(sciq\) has none", call(*words).out)
    refused = call(*words, "--error", "acc_stderr")
    assert refused.err.strip().endswith("at least 0, got none in file results_18.json (sciq)")


def test_a_function_computes_the_missing_cells_of_an_import_and_extends_it(storage, tmp_path, call):
    text = "def train(lr, depth, seed):\n    return {'loss': lr * depth + seed}\n"
    (tmp_path / "train.py").write_text(text)
    runs = [{"lr": lr, "depth": d, "seed": s, "loss": 7.0} for lr in (1e-3, 1e-2, 1e-1) for d in (2, 4) for s in (0, 1)]
    pd.DataFrame(runs).drop(index=[0, 5]).to_csv(tmp_path / "runs.csv", index=False)
    words = ("--from", str(tmp_path / "runs.csv"), "--axes", "lr,depth", "--metric", "loss", "--seed", "seed")
    file = f"{tmp_path / 'train.py'}:train"
    ok(call("import", "mine", *words, "--workload", file, "--storage", str(storage)))
    assert raysweep.open("mine", storage).state().missing().rows == 2
    ran = ok(call("resume", "mine", "--storage", str(storage), "--tracking-uri", "none", "--executor", "inline"))
    assert "changed" not in ran.err
    rows = raysweep.open("mine", storage).results()
    own = rows["code_version"] != "elsewhere"
    assert rows.loc[own, "loss"].tolist() == [1e-3 * 2, 1e-2 * 2 + 1]
    assert set(rows.loc[~own, "loss"]) == {7.0}
    assert "10 rows computed elsewhere" in (storage / "mine" / "report" / "report.html").read_text()
    wider = {"axes.lr": [1e-3, 1e-2, 1e-1, 1.0], "axes.depth": [2, 4], "workload": file, "seeds": 2}
    inline = {"tracking_uri": "none", "executor": "inline", "report": False, "storage": storage, "name": "mine"}
    assert len(raysweep.run({"workload": file}, set=wider, **inline).results()) == 16
    unknown = call("import", "other", *words, "--workload", f"{file}s", "--storage", str(storage))
    assert (unknown.code, (storage / "other").exists()) == (2, False)
    assert "unknown function" in unknown.err

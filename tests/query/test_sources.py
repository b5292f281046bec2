"""Runs of other tools are read by their own clients; what is missing there is missing here."""

import gzip
import json
import math

import optuna
import pandas as pd
import pyarrow.parquet
import pytest
from conftest import told

from raysweep.errors import InputError
from raysweep.query import table
from raysweep.query.sources import load

optuna.logging.set_verbosity(optuna.logging.WARNING)


def test_an_empty_field_is_missing_and_nan_is_a_number(tmp_path):
    lines = ["lr,loss,flag,name", "1e-3,nan,true,a", "1e-2,,false,b", "1e-1,inf,true,c", "1,0.5,false,d"]
    (tmp_path / "runs.csv").write_text("\n".join(lines))
    read = table.read(load(str(tmp_path / "runs.csv")), ["loss"], ["lr"], ["flag", "name"])
    assert read.rows["lr"].tolist() == [1e-3, 1e-1, 1.0]
    assert read.rows["status"].tolist() == ["diverged", "diverged", "ok"]
    assert (read.rows["loss"].iloc[1], read.missing) == (math.inf, 1)
    assert read.rows["flag"].tolist() == [True, True, False]
    assert read.guesses["type"].tolist()[:3] == ["float", "bool", "str"]


def test_a_csv_of_another_hand_is_read_or_refused_and_never_shifted(tmp_path):
    file, packed = tmp_path / "runs.csv", tmp_path / "runs.csv.gz"
    file.write_bytes(b"\xef\xbb\xbflr, loss\r\n1e-3, 2\r\n\r\n1e-2, NA\r\n")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    for path in (file, packed):
        frame = load(str(path))
        assert frame["lr"].tolist() == ["1e-3", "1e-2"]
        assert frame["loss"].tolist() == ["2", "NA"]
        assert frame.index.tolist() == [2, 4]
    for text, problem in (
        ("lr;loss\n0,001;2,5\n", "expected commas between columns, and points in numbers"),
        ("lr,loss\n1,2,\n", "Expected 2 fields in line 2, saw 3"),  # one more column than names
        ("", "No columns"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=problem):
            load(str(file))
    packed.write_bytes(packed.read_bytes()[:20])
    with pytest.raises(InputError, match="cannot be read"):
        load(str(packed))


def test_config_and_summary_of_a_wandb_export_are_columns(tmp_path):
    configs = [{"lr": 0.1, "model": {"depth": 2}, "name": "nan"}, {"lr": 0.2, "model": {"depth": 4}, "name": "b"}]
    runs = {"summary": [{"loss": math.nan}, {"loss": 2.5}], "config": configs, "name": ["wise-fog-1", "{}"]}
    pd.DataFrame(runs).to_csv(tmp_path / "project.csv")  # as W&B's documentation writes it: the texts of dicts
    frame = load(str(tmp_path / "project.csv"))
    assert frame[["config/lr", "config/model/depth"]].to_numpy().tolist() == [[0.1, 2], [0.2, 4]]
    assert frame["config/name"].tolist() == ["nan", "b"]
    read = table.read(frame, ["summary/loss"], ["config/lr"], ["config/model/depth"])
    assert read.rows["status"].tolist() == ["diverged", "ok"]
    pd.DataFrame({**runs, "config": [json.dumps(one) for one in configs]}).to_csv(tmp_path / "json.csv")
    assert load(str(tmp_path / "json.csv"))["config/lr"].tolist() == [0.1, 0.2]
    (tmp_path / "texts.csv").write_text('a,b\n"{x","{1: 2}"\n{},{y}\n')
    assert load(str(tmp_path / "texts.csv")).columns.tolist() == ["a", "b"]


def test_the_table_of_runs_that_the_web_page_of_wandb_exports_is_read(tmp_path):
    names = '"Name","State","Notes","User","Tags","Created","Runtime","Sweep","batch_size","lr","optimizer","val/loss"'
    run = '"{}","{}","-","ada","","2024-03-01T12:00:0{}.000Z","341","x7k2","64","{}","adamw","{}"'
    ended = [("finished", "0.5"), ("finished", "NaN"), ("finished", "Infinity"), ("crashed", "0.75"), ("running", "")]
    ended += [("finished", "-"), ("finished", "0.25")]
    lines = [run.format(f"wise-fog-{n}", state, n, 10.0**-n, loss) for n, (state, loss) in enumerate(ended)]
    (tmp_path / "wandb_export.csv").write_text("\n".join([names, *lines]) + "\n")
    read = table.read(load(str(tmp_path / "wandb_export.csv")), ["val/loss"], ["lr", "batch_size", "optimizer"])
    assert read.rows["status"].tolist() == ["ok", "diverged", "diverged", "failed", "ok"]
    assert (read.missing, read.space["fixed"]) == (2, {"batch_size": 64, "optimizer": "adamw"})
    assert read.space["axes"] == {"lr": [1e-6, 1e-3, 1e-2, 1e-1, 1.0]}
    assert read.guesses.set_index("column").loc["State", "role"] == "status"


def test_parquet_and_lines_of_json_are_read(tmp_path):
    pd.DataFrame({"lr": [1.0, 2.0], "loss": [3.0, 4.0]}).to_parquet(tmp_path / "runs.parquet")
    (tmp_path / "runs.jsonl").write_text(
        '{"config": {"lr": 1.0}, "loss": 3.0}\n\n{"config": {"lr": 2.0}, "loss": NaN}\n{"config": {"lr": 3.0}}\n'
    )
    assert load(str(tmp_path / "runs.parquet"))["loss"].tolist() == [3.0, 4.0]
    gaps = pyarrow.table({"lr": [1.0, 2.0, 3.0], "loss": [3.0, None, math.nan]})
    pyarrow.parquet.write_table(gaps, tmp_path / "gaps.parquet")
    loss = load(str(tmp_path / "gaps.parquet"))["loss"]
    assert (loss[0], loss[1], math.isnan(loss[2])) == (3.0, None, True)
    lines = load(str(tmp_path / "runs.jsonl"))
    assert lines["config/lr"].tolist() == [1.0, 2.0, 3.0]
    assert math.isnan(lines["loss"].iloc[1])
    assert lines["loss"].iloc[2] is None
    assert lines.index.tolist() == [1, 3, 4]


def test_an_experiment_of_mlflow_has_nested_unfinished_and_repeated_runs(tmp_path):
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.create_experiment("rates")
    parent = client.create_run(experiment).info.run_id
    for number, (rate, loss) in enumerate([(1e-3, 0.5), (1e-2, 0.25), (1e-2, math.nan)]):
        run = client.create_run(experiment, tags={"mlflow.parentRunId": parent}).info.run_id
        client.log_param(run, "lr", rate)
        client.log_metric(run, "loss", loss)
        if number:
            client.set_terminated(run)
    frame = load(f"mlflow:{uri}#rates").sort_values("lr")
    assert len(frame) == 4
    child = frame[frame["lr"].notna()]
    assert child["lr"].tolist() == ["0.001", "0.01", "0.01"]
    assert sorted(child["status"]) == ["FINISHED", "FINISHED", "RUNNING"]
    assert frame[frame["lr"].isna()]["loss"].tolist() == [None]  # the parent logged none
    with pytest.raises(InputError, match="no experiment rate "):
        load(f"mlflow:{uri}#rate")
    with pytest.raises(InputError, match="does not exist"):
        load(f"mlflow:sqlite:///{tmp_path}/other.db#rates")
    assert not (tmp_path / "other.db").exists()


def test_a_failed_run_that_was_run_again_counts_no_more():
    runs = {"lr": [1, 1, 2, 2, 3], "loss": [None, 0.5, 0.25, None, None], "status": [*"fooff"]}
    words = {"f": "FAILED", "o": "FINISHED"}
    frame = pd.DataFrame(runs).assign(status=lambda rows: rows["status"].map(words))
    read = table.read(frame, ["loss"], ["lr"], status="status")
    assert read.rows[["lr", "status"]].to_numpy().tolist() == [[1, "ok"], [2, "ok"], [3, "failed"]]
    assert (read.missing, read.guesses["note"].iloc[-1]) == (0, "2 failed and run again: the other run counts")
    assert len(table.read(frame, ["loss"], ["lr"], status="status", repeats=True).rows) == 5
    twice = frame.assign(loss=1.0, status="FINISHED", width=[1, 2, 3, 4, 5])
    with pytest.raises(InputError, match="they differ in width, which may be"):
        table.read(twice, ["loss"], ["lr"], status="status")


def test_runs_that_have_not_ended_are_counted_with_their_words():
    frame = pd.DataFrame({"lr": [1, 2, 3], "loss": 0.5, "state": ["RUNNING", "RUNNING", "SCHEDULED"]})
    with pytest.raises(
        InputError, match="state: no run has a value and ended: 2 RUNNING, 1 SCHEDULED; expected one of ok, not_conv"
    ):
        table.read(frame, ["loss"], ["lr"], status="state")
    with pytest.raises(InputError, match="state: no run has a value and ended: 3 FINISHED"):
        table.read(frame.assign(loss=None, state="FINISHED"), ["loss"], ["lr"], status="state")


def test_a_study_of_optuna_has_pruned_and_failed_trials(tmp_path):
    url = f"sqlite:///{tmp_path}/study.db"

    def objective(trial):
        rate = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 2:
            raise RuntimeError
        trial.set_user_attr("accuracy", 0.5)
        return rate

    study = optuna.create_study(study_name="rates", storage=url)
    study.optimize(objective, n_trials=4, catch=RuntimeError)
    frame = load(f"optuna:{url}#rates")
    assert frame["status"].tolist() == ["COMPLETE", "PRUNED", "FAIL", "COMPLETE"]
    assert frame["value"].tolist()[0] == frame["lr"].tolist()[0]
    assert frame["value"].isna().tolist() == [False, True, True, False]
    with pytest.raises(InputError, match="does not exist"):
        load(f"optuna:sqlite:///{tmp_path}/other.db#rates")
    assert not (tmp_path / "other.db").exists()
    with pytest.raises(InputError, match=r"no study rate in .* \(there are rates\)"):
        load(f"optuna:{url}#rate")


def test_trials_of_ray_have_their_last_result(tmp_path):
    for name, results, failed in (("a", [{"loss": 2.0}, {"loss": 1.0}], False), ("b", [], False), ("c", [{}], True)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "params.json").write_text(json.dumps({"lr": 0.1, "model": {"depth": 2}}))
        (folder / "result.json").write_text("".join(f"{json.dumps(one)}\n" for one in results))
        if failed:
            (folder / "error.txt").write_text("RuntimeError")
    frame = load(f"ray:{tmp_path}")
    assert frame["model/depth"].tolist() == [2, 2, 2]
    assert frame["status"].tolist() == ["ok", "running", "failed"]
    assert frame["loss"].tolist()[0] == 1.0


def test_results_of_lm_eval_have_steps_and_standard_errors(tmp_path):
    def results(revision, accuracy):
        model = f"pretrained=EleutherAI/pythia-70m,revision={revision}" if revision else "pretrained=pythia"
        filters = {"em,strict": 0.2, "em_stderr,strict": 0.02, "em,flexible": 0.3, "em_stderr,flexible": 0.03}
        tasks = {"sciq": {"alias": "sciq", "acc,none": accuracy, "acc_stderr,none": 0.01, **filters}}
        return {"results": tasks, "config": {"model_args": model}, "n-shot": {"sciq": 5}}

    (tmp_path / "results_1.json").write_text(json.dumps(results("step1000", 0.5)))
    (tmp_path / "step2000").mkdir()
    (tmp_path / "step2000" / "results_2.json").write_text(json.dumps(results("", 0.6)))
    (tmp_path / "other.json").write_text("[1]")
    frame = load(f"lm-eval:{tmp_path}").sort_values("step")
    assert frame["step"].tolist() == [1000, 2000]
    assert frame["acc"].tolist() == [0.5, 0.6]
    assert frame["acc_stderr"].tolist() == [0.01, 0.01]
    assert frame["shots"].tolist() == [5, 5]
    assert frame[["em/strict", "em/strict_stderr", "em/flexible"]].to_numpy().tolist() == [[0.2, 0.02, 0.3]] * 2


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("runs.xlsx", "--from: expected runs.csv"),
        ("none.csv", "none.csv: no such file"),
        ("mlflow:sqlite:///x.db", "--from: expected mlflow:URI#EXPERIMENT"),
        ("optuna:#x", "--from: expected optuna:URL#STUDY"),
        ("ray:nowhere", "--from: nowhere is no folder"),
        ("lm-eval:nowhere", "--from: nowhere is no folder"),
    ],
)
def test_a_source_that_cannot_be_read_is_one_line(source, line):
    with told(line):
        load(source)


def test_broken_json_is_named(tmp_path):
    for tool, name in (("lm-eval", "results_1.json"), ("ray", "result.json")):
        (tmp_path / tool).mkdir()
        (tmp_path / tool / name).write_text("{")
        with pytest.raises(InputError, match=f"{name}: is no JSON"):
            load(f"{tool}:{tmp_path / tool}")
    (tmp_path / "runs.jsonl").write_text('{"loss": 1.0}\n[1]\n')
    with pytest.raises(InputError, match="line 2 is no JSON object"):
        load(str(tmp_path / "runs.jsonl"))

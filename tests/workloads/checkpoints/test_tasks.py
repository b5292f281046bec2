"""Tasks of lm-eval: its own numbers for the same model, and what is refused."""

import json

import numpy as np
import pytest
import tiny_hub
import yaml
from checkpoint_rows import compute, table

from raysweep.workloads.checkpoints import harness, hub

pytestmark = pytest.mark.usefixtures("one_thread", "hub_cache")


@pytest.fixture
def sums(tmp_path):
    """A task file of 40 questions with two answers each."""
    questions = [
        {"question": f"{n}+1?", "choices": [f"it is {n + 1}", f"it is {n + 7}"], "answer": 0} for n in range(40)
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, questions)))
    task = {
        "task": "sums",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "q.jsonl")}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{question}}",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    (tmp_path / "sums.yaml").write_text(yaml.safe_dump(task))
    return str(tmp_path / "sums.yaml")


def test_a_task_is_measured_as_lm_eval_measures_it_and_with_its_error(sums, chats, monkeypatch):
    lm_eval = pytest.importorskip("lm_eval", reason="lm-eval is not installed here")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    rows = [{"target": chats, "tasks": sums, "finetune_steps": steps, "finetune_lr": 1e-2} for steps in (0, 20)]
    metrics, status = compute(table(*rows), np.zeros(2, int))
    assert set(status) == {"ok"}
    folder = hub.place(tiny_hub.MODEL, "step1")
    reference = lm_eval.simple_evaluate(
        "hf",
        model_args={"pretrained": str(folder), "dtype": "float32"},
        tasks=harness.split(sums),
        task_manager=harness._manager(False),
        device="cpu",
    )["results"]["sums"]
    assert metrics["task_accuracy"][0] == metrics["task_accuracy_before"][0] == reference["acc,none"]
    assert metrics["task_accuracy_error"][0] == reference["acc_stderr,none"] > 0
    assert metrics["task_accuracy_before"][1] == reference["acc,none"]
    assert metrics["task_accuracy"][1] != reference["acc,none"]


def test_without_tasks_there_is_no_accuracy_and_a_row_is_whole(chats):
    metrics, status = compute(table({"target": chats}), np.zeros(1, int))
    assert status == ["ok"]
    assert np.isnan(
        [metrics[name][0] for name in ("task_accuracy", "task_accuracy_error", "task_accuracy_before")]
    ).all()


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read"), ("[1", "cannot be read"), ("a: 1", "expected a task file")]
)
def test_what_is_no_task_file_is_refused(content, message, tmp_path, monkeypatch):
    monkeypatch.setattr(harness.importlib.util, "find_spec", lambda name: object())
    if content is not None:
        (tmp_path / "t.yaml").write_text(content)
    assert message in harness.complaint(str(tmp_path / "t.yaml"))


def test_without_lm_eval_tasks_say_what_to_install(monkeypatch):
    monkeypatch.setattr(harness.importlib.util, "find_spec", lambda name: None)
    assert harness.complaint("arc_easy") == "needs lm-eval: pip install 'raysweep[tasks]'"

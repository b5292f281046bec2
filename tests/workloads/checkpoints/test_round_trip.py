"""Models of `language`, exported as a hub, answer `checkpoints` as they do `language`; lm-eval gives own numbers."""

import json
import time

import conftest
import numpy as np
import pytest
import tiny_hub
import transformers
import yaml
from checkpoint_rows import QUICK, compute, table
from conftest import refused

from raysweep.stages.tensors import deserialize
from raysweep.training import draws
from raysweep.workloads.checkpoints import harness, hub
from raysweep.workloads.language.texts import Grammar

pytestmark = pytest.mark.usefixtures("one_thread", "hub_cache")
LENGTHS = [128.0 * steps for steps in (4, 8, 16, 32, 64, 128, 256, 512)]
RATES = [1e-4, 2e-4]
FINETUNING = {"finetune_steps": 5, "finetune_batch": 8, "context": 32, "evaluation_tokens": 4096}
TURNING = {"metric": "finetune_loss", "x": "pretrain_length", "by": ["finetune_lr"]}


def text(path, distance, tokens):
    """A file with a document of a grammar in each line."""
    path.write_bytes(Grammar(distance).text(draws.generator(0, path.name), tokens).tobytes())
    return f"file:{path}"


def run(name, storage, **space):
    return conftest.run(storage, {"name": name, **space})


@pytest.mark.long
def test_a_turning_point_is_found_again_in_exported_models(call, tmp_path, storage, monkeypatch):
    """A short text, gone over many times, turns the loss. At width 256 a rate of muP is that of every weight."""
    monkeypatch.setenv("RAYSWEEP_CACHE", str(tmp_path / "tokens"))
    texts = {"source": text(tmp_path / "a40000.txt", 0.0, 40_000), "target": text(tmp_path / "b.txt", 0.5, 100_000)}
    reference = run(
        "made",
        storage,
        workload="language",
        axes={"pretrain_length": LENGTHS, "finetune_lr": RATES},
        fixed={"preset": "3m", "depth": 1, "pretrain_batch": 4, **FINETUNING, **texts},
        seeds=4,
    )
    assert call("export", "made", "--stage", "pretrain", "--to", f"hub:{tmp_path}/hub", "--storage", storage).code == 0
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    started = time.process_time()
    revisions = [f"pretrain_length-{length:.0f}-seed-0" for length in LENGTHS]
    again = run(
        "asked",
        storage,
        workload="checkpoints",
        axes={"revision": revisions, "pretrain_length": LENGTHS, "finetune_lr": RATES},
        zip=[["revision", "pretrain_length"]],
        fixed={"model": "raysweep/made", "finetune_warmup": 0, **FINETUNING, **texts},
        seeds=2,
    )
    assert time.process_time() - started < 120
    before, after = (
        sweep.results().query("seed == 0").set_index(["finetune_lr", "pretrain_length"]) for sweep in (reference, again)
    )
    for loss in ("pretrain_loss", "finetune_loss_before"):
        assert after[loss].to_dict() == pytest.approx(before[loss].to_dict(), rel=1e-5)
    expected, result = (sweep.fit(inflection=TURNING).table.set_index("finetune_lr") for sweep in (reference, again))
    for each in (expected, result):
        print(each[["status", "estimate", "low", "high"]].to_string())
        assert set(each["status"]) == {"located"}
    for rate in RATES:
        assert expected.low[rate] <= result.estimate[rate] <= expected.high[rate]


@pytest.mark.parametrize("changes", [{}, {"finetune_method": "lora", "lora_rank": 4, "noise": 1.0}])
def test_a_fine_tuned_checkpoint_is_exported_with_the_loss_that_its_row_has(changes, call, tmp_path, storage, texts):
    fixed = {name: value for name, value in QUICK.items() if name != "finetune_lr"} | {"target": texts, **changes}
    sweep = run("tuned", storage, workload="checkpoints", axes={"finetune_lr": [1e-2]}, fixed=fixed, keep=["finetune"])
    row, folder = sweep.results().iloc[0], tmp_path / "model"
    assert row.status == "ok", [each["error"] for each in sweep.failures()]
    done = call("export", "tuned", row.cell, "--stage", "finetune", "--to", folder, "--storage", storage)
    assert done.code == 0, done
    module = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert set(module.state_dict()) == set(deserialize(np.fromfile(folder / "model.safetensors", np.uint8)))
    assert transformers.AutoTokenizer.from_pretrained(folder).eos_token == "<eos>"
    loaded = {"model": str(folder), "revision": "main", "target": texts, "finetune_steps": 0}
    metrics, _ = compute(table(loaded), np.zeros(1, int))
    assert row.finetune_loss < row.finetune_loss_before - 0.1
    assert metrics["finetune_loss"][0] == pytest.approx(row.finetune_loss, abs=1e-5)
    assert "| finetune_lr | 0.01 |" in (folder / "README.md").read_text()


def test_a_checkpoint_that_moved_since_is_not_exported_as_the_fine_tuned_one(call, tmp_path, storage, hub_cache, texts):
    tiny_hub.save(tmp_path / "base", 0)
    fixed = {name: value for name, value in QUICK.items() if name != "finetune_lr"} | {"target": texts}
    fixed |= {"model": str(tmp_path / "base"), "revision": "main", "finetune_method": "lora"}
    sweep = run("tuned", storage, workload="checkpoints", axes={"finetune_lr": [1e-2]}, fixed=fixed, keep=["finetune"])
    tiny_hub.save(tmp_path / "base", 1)
    cell, folder = sweep.results().cell[0], tmp_path / "model"
    done = call("export", "tuned", cell, "--stage", "finetune", "--to", folder, "--storage", storage)
    refused(done, "revision: ", "by now, not what was fine-tuned")
    assert not folder.exists()


# Tasks of lm-eval


@pytest.fixture
def sums(tmp_path):
    """A task file of 40 questions with two answers each."""
    pairs = [(n, [f"it is {n + 1}", f"it is {n + 7}"]) for n in range(40)]
    questions = [{"question": f"{n}+1?", "choices": pair, "answer": 0} for n, pair in pairs]
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

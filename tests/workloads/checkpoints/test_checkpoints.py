"""The workload `checkpoints` on a local hub: revisions are read once, fine-tuned at several rates, and measured."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_hub
import torch
import transformers
from checkpoint_rows import compute, table
from torch.nn import functional

from raysweep.errors import InputError
from raysweep.plan.row_stages import RowStages
from raysweep.stages import trees
from raysweep.stages.store import Store
from raysweep.training import draws, schedules, trainer
from raysweep.trial import context
from raysweep.workloads.checkpoints import WORKLOAD, costs, data, hub, stages

pytestmark = pytest.mark.usefixtures("one_thread", "hub_cache")


def plain(revision="step1"):
    """The model as transformers reads it."""
    return transformers.AutoModelForCausalLM.from_pretrained(hub.place(tiny_hub.MODEL, revision))


def spoken(n):
    """The tokens of a conversation of the file, and where the response begins."""
    ask, answer = f"{n}+1?", f"it is {n + 1}"
    words = transformers.AutoTokenizer.from_pretrained(hub.place(tiny_hub.MODEL, "step1"))
    return words(ask)["input_ids"], [*words(answer)["input_ids"], words.eos_token_id]


def loss_of(model, ask, answer):
    """Sum of the losses of a response."""
    tokens = torch.tensor([ask + answer])
    logits = model(tokens).logits[0, len(ask) - 1 : -1]
    return functional.cross_entropy(logits, tokens[0, len(ask) :], reduction="sum")


def numbers(chats, part):
    """The questions that are in a split of the file of conversations."""
    read = [json.loads(each) for each in data.documents(chats).splits[part]]
    return [int(messages[0]["content"].partition("+")[0]) for messages in read]


def kept(folder, row):
    """The metrics of a row, and what its fine-tuning leaves in a store."""
    store = Store(folder, lease_seconds=1)
    metrics, _ = compute(table(row), np.zeros(1, int), store, ["finetune"])
    entry = store.fetch(RowStages(WORKLOAD, table(row), ["finetune"]).of_row(0, 0)[-1].id)
    return metrics, trees.unflatten(entry.tensors(), entry.meta["tree"])["weights"]


def test_a_checkpoint_is_read_once_for_all_its_fine_tunings(monkeypatch, chats):
    read = []
    original = transformers.AutoModelForCausalLM.from_pretrained

    def counted(folder, **options):
        read.append(Path(folder).name)
        assert options["use_safetensors"] is True
        assert options["trust_remote_code"] is False
        return original(folder, **options)

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", counted)
    rows = [
        {"revision": name, "pretrain_length": tokens, "finetune_lr": rate, "target": chats}
        for name, tokens in tiny_hub.REVISIONS.items()
        for rate in (1e-3, 1e-2)
    ]
    metrics, status = compute(table(*rows), np.zeros(6, int))
    assert sorted(read) == sorted(hashlib.sha1(name.encode()).hexdigest() for name in tiny_hub.REVISIONS)
    assert set(status) == {"ok"}
    assert (metrics["finetune_loss"] < metrics["finetune_loss_before"]).all()
    assert (metrics["finetune_loss"][1::2] < metrics["finetune_loss"][::2]).all()  # ten times the rate in five steps
    assert len(set(metrics["pretrain_loss"])) == 3


def test_losses_are_those_of_responses_alone_however_long_the_others_are(chats):
    metrics, _ = compute(table({"target": chats, "finetune_steps": 0}), np.zeros(1, int))
    model = plain()
    for metric, part in (("finetune_loss", "test"), ("finetune_loss_validation", "validation")):
        pairs = [spoken(n) for n in numbers(chats, part)]
        total = sum(loss_of(model, *pair).item() for pair in pairs)
        assert metrics[metric][0] == pytest.approx(total / sum(len(answer) for _, answer in pairs), rel=1e-6)
    assert metrics["finetune_loss_before"] == metrics["finetune_loss"]
    assert metrics["sensitivity"] == metrics["distance_moved"] == 0


def test_the_loss_on_text_is_that_of_its_windows(texts):
    metrics, _ = compute(table({"source": texts, "finetune_steps": 0, "evaluation_tokens": 10**6}), np.zeros(1, int))
    model, words = plain(), transformers.AutoTokenizer.from_pretrained(hub.place(tiny_hub.MODEL, "step1"))
    test = data.documents(texts).splits["test"]
    flat = [token for each in test for token in (*words(each.decode())["input_ids"], words.eos_token_id)]
    windows = [flat[at : at + 33] for at in range(0, len(flat) - 32, 32)]
    assert len(windows) > 16
    each = [functional.cross_entropy(model(torch.tensor([w[:-1]])).logits[0], torch.tensor(w[1:])) for w in windows]
    assert metrics["pretrain_loss"][0] == pytest.approx(torch.stack(each).mean().item(), rel=1e-6)


@pytest.mark.parametrize("method", ["full", "lora"])
def test_fine_tuning_is_adamw_on_the_mean_loss_of_responses(chats, tmp_path, method):
    row = {"target": chats, "finetune_method": method, "lora_rank": 4, "finetune_lr": 3e-3}
    _, result = kept(tmp_path / "store", {**row, "finetune_weight_decay": 0.1})
    model = plain()
    if method == "lora":
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=32, target_modules="all-linear"))
        begun = {f"base_model.model.{name}": values for name, values in first_adapters(model).items()}
        model.load_state_dict(begun, strict=False)
    trained = {name.removeprefix("base_model.model."): w for name, w in model.named_parameters() if w.requires_grad}
    matrices, vectors = ([w for w in trained.values() if (w.ndim > 1) is big] for big in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW([group for group in groups if group["params"]], betas=(0.9, 0.95))
    train = numbers(chats, "train")
    text = data.load(chats, "tokenizer", hub.place(tiny_hub.MODEL, "step1"))
    factor = schedules.schedule("cosine", 5, 1)
    for step in range(5):
        order = draws.generator(0, f"checkpoints/order/{text.digest}/0").permutation(len(train))
        pairs = [spoken(train[i]) for i in order[step * 8 : step * 8 + 8]]
        loss = sum(loss_of(model, *pair) for pair in pairs) / sum(len(answer) for _, answer in pairs)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * factor(step)
        optimizer.step()
    assert set(result) == set(trained)
    for name, weight in trained.items():
        torch.testing.assert_close(result[name], weight.detach(), rtol=1e-4, atol=2e-6)


def first_adapters(model):
    """The adapters that a fine-tuning of seed 0 begins with, by the names of the plain model."""
    from raysweep.workloads.checkpoints.stages import _adapters

    named = {name.removeprefix("base_model.model."): weight for name, weight in model.named_parameters()}
    return _adapters(SimpleNamespace(named_parameters=named.items), 0)


def test_adapters_leave_the_checkpoint_as_it_is_and_count_as_a_change_of_weights(chats, tmp_path):
    row = {"target": chats, "finetune_method": "lora", "lora_rank": 16, "finetune_lr": 1e-2}
    metrics, adapters = kept(tmp_path / "store", row)
    assert all(".lora_" in name for name in adapters)
    untrained, _ = compute(table({"target": chats, "finetune_steps": 0}), np.zeros(1, int))
    assert untrained["pretrain_loss_after"] == metrics["pretrain_loss"] == untrained["pretrain_loss"]
    model, shifted = plain(), 0.0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            stem = name.removesuffix(".weight")
            if f"{stem}.lora_A.default.weight" in adapters:
                change = adapters[f"{stem}.lora_B.default.weight"] @ adapters[f"{stem}.lora_A.default.weight"] * 32 / 16
                weight += change
                shifted += float((change**2).sum())
    pairs = [spoken(n) for n in numbers(chats, "test")]
    total = sum(loss_of(model, *pair).item() for pair in pairs)
    assert metrics["finetune_loss"][0] == pytest.approx(total / sum(len(answer) for _, answer in pairs), rel=1e-5)
    assert metrics["distance_moved"][0] == pytest.approx(shifted**0.5, rel=1e-5)


def test_an_interrupted_fine_tuning_goes_on_to_the_same_weights(chats, tmp_path, monkeypatch):
    row = {"target": chats, "finetune_steps": 12}
    _, whole = kept(tmp_path / "whole", row)
    monkeypatch.setattr(context, "CHECKPOINT_SECONDS", 0.0)
    taken, step = [], trainer.Trainer._step

    def counted(self, *batch):
        taken.append(self.step)
        if len(taken) == 7:
            raise KeyboardInterrupt
        return step(self, *batch)

    monkeypatch.setattr(trainer.Trainer, "_step", counted)
    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "cut", row)
    _, cut = kept(tmp_path / "cut", row)
    assert taken == [*range(7), *range(6, 12)]
    for name, values in whole.items():
        assert torch.equal(values, cut[name])


def test_a_kept_fine_tuning_is_measured_on_another_text_without_training(chats, texts, tmp_path, monkeypatch):
    first, _ = kept(tmp_path / "store", {"target": chats})
    monkeypatch.setattr(trainer.Trainer, "train", None)
    again, _ = kept(tmp_path / "store", {"target": chats, "source": texts})
    assert again["finetune_loss"] == first["finetune_loss"]
    assert again["pretrain_loss_after"] != first["pretrain_loss_after"]


def test_a_checkpoint_is_identified_by_its_commit_and_a_folder_by_its_content(chats, tmp_path):
    def identity(**row):
        return RowStages(WORKLOAD, table({"target": chats, **row})).of_row(0, 0, 2)[-1].id

    before = identity()
    assert identity(pretrain_length=5.0) == before  # a label
    assert identity(lora_rank=3) == before  # of adapters that are not there
    assert (
        len({before, identity(packing=True), identity(finetune_steps=0), identity(finetune_steps=0, epochs=1.0)}) == 4
    )
    assert identity(revision="step2") != before
    assert identity(revision=hashlib.sha1(b"step1").hexdigest()) == before
    refs = hub._cache() / "models--test--tiny-llama" / "refs"
    (refs / "moved").write_text((refs / "step2").read_text())
    assert identity(revision="moved") == identity(revision="step2")
    tiny_hub.save(tmp_path / "own" / "early", 0)
    tiny_hub.save(tmp_path / "copy", 0)
    folder = identity(model=str(tmp_path / "own"), revision="early")
    assert folder == identity(model=str(tmp_path / "copy"), revision="main") != before
    tiny_hub.save(tmp_path / "copy", 1)
    assert identity(model=str(tmp_path / "copy"), revision="main") != folder


def test_weights_are_moved_in_units_of_their_initialization_and_the_gains_not_at_all(chats, tmp_path):
    rows = [{"target": chats, "noise": noise, "finetune_steps": 0} for noise in (0.5, 1.0)]
    metrics, _ = compute(table(*rows), np.zeros(2, int))
    weights = sum(weight.numel() for weight in plain().parameters() if weight.ndim > 1)
    assert metrics["distance_moved"][1] == pytest.approx(0.02 * weights**0.5, rel=0.03)
    assert metrics["distance_moved"][1] == pytest.approx(2 * metrics["distance_moved"][0], rel=1e-4)
    assert metrics["finetune_loss"][1] != metrics["finetune_loss"][0]


def test_in_bfloat16_weights_are_kept_so(chats, tmp_path):
    metrics, weights = kept(tmp_path / "store", {"target": chats, "precision": "bfloat16"})
    assert {values.dtype for values in weights.values()} == {torch.bfloat16}
    wide, _ = compute(table({"target": chats}), np.zeros(1, int))
    assert metrics["finetune_loss"][0] == pytest.approx(wide["finetune_loss"][0], abs=0.05)


MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello"},
    {"role": "user", "content": "Bye"},
    {"role": "assistant", "content": "Ciao"},
]


def test_only_what_the_assistant_says_is_predicted():
    words = data.tokenizer(hub.place(tiny_hub.MODEL, "step1"))
    assert data.segments(MESSAGES, "tokenizer", words) == [
        ("[system]Be brief.<eos>[user]Hi<eos>[assistant]", False),
        ("Hello<eos>", True),
        ("[user]Bye<eos>[assistant]", False),
        ("Ciao<eos>", True),
    ]
    output = data.segments(MESSAGES, "tulu", words)
    assert "".join(text for text, _ in output) == (
        "<|system|>\nBe brief.\n<|user|>\nHi\n<|assistant|>\nHello<eos>\n<|user|>\nBye\n<|assistant|>\nCiao<eos>\n"
    )
    assert [text for text, predicted in output if predicted] == ["Hello<eos>\n", "Ciao<eos>\n"]


SHAPE = {"vocab_size": 257, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
SHAPE |= {"num_attention_heads": 2, "max_position_embeddings": 64}


@pytest.mark.parametrize("kind", ["llama", "gpt_neox", "olmo", "olmo2"])
def test_packed_conversations_have_the_losses_that_they_have_alone(chats, kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(kind, **SHAPE, initializer_range=0.2, pad_token_id=None)
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
    text = data.load(chats, "tokenizer", hub.place(tiny_hub.MODEL, "step1"))
    alone, together = (torch.as_tensor(text.batch(0, 0, 24, 48, packs)).long() for packs in (False, True))
    assert len(together) == 8  # three of 15 or 16 tokens in rows of 49

    def losses(tokens, packs):
        each = stages.losses(model, tokens, packs).flatten()
        return each[each != 0].sort().values

    single = losses(alone, False)
    assert len(single) == (alone[:, 1:] >= 0).sum() == (together[:, 1:] >= 0).sum()
    torch.testing.assert_close(losses(together, True), single, rtol=0, atol=1e-5)
    without_marks = torch.where(together < data.BEGIN, together - data.BEGIN, together)
    assert (losses(without_marks, False) - single).abs().max() > 1e-2  # they read each other


def test_packing_changes_neither_batches_nor_what_is_learned(chats, tmp_path):
    rows = [{"target": chats, "context": 48, "packing": packing} for packing in (False, True)]
    reference, packed = (kept(tmp_path / "store", row)[1] for row in rows)
    for name, values in reference.items():
        torch.testing.assert_close(packed[name], values, rtol=0, atol=1e-5)


def test_a_model_that_keeps_a_state_from_token_to_token_packs_nothing(chats, monkeypatch):
    monkeypatch.setattr(transformers.LlamaForCausalLM, "_is_stateful", True)
    with pytest.raises(InputError, match="packing: expected false"):
        compute(table({"target": chats, "packing": True}), np.zeros(1, int))


def test_epochs_are_so_many_steps(chats, texts):
    rows = [
        {"target": chats, "finetune_steps": 18},  # batches of 8 of 72 conversations
        {"target": chats, "finetune_steps": 0, "epochs": 2.0},
        {"target": texts, "finetune_steps": 0, "epochs": 0.5},
    ]
    metrics, status = compute(table(*rows), np.zeros(3, int))
    assert set(status) == {"ok"}
    assert metrics["finetune_loss"][0] == metrics["finetune_loss"][1] < metrics["finetune_loss_before"][0]
    assert metrics["finetune_epochs"][:2].tolist() == [2, 2]
    assert metrics["steps_taken"][0] == metrics["steps_taken"][1] == rows[0]["finetune_steps"]
    assert 0.5 <= metrics["finetune_epochs"][2] < 0.55
    assert costs.finetune(table(rows[1])) == costs.finetune(table(rows[0]))


def test_where_nothing_is_trained_rows_of_several_rates_are_measured_once(chats, monkeypatch):
    measured, original = [], stages.evaluate
    monkeypatch.setattr(stages, "evaluate", lambda rows, *others: measured.append(rows) or original(rows, *others))
    untrained = [
        {"finetune_steps": 0, "finetune_lr": rate, "finetune_method": method, "noise": noise}
        for noise in (0.0, 0.5)
        for method in ("full", "lora")
        for rate in (1e-3, 1e-2)
    ]
    metrics, _ = compute(table(*({"target": chats, **row} for row in untrained)), np.zeros(8, int))
    assert len(measured) == 2
    assert len(set(metrics["finetune_loss"][:4])) == len(set(metrics["finetune_loss"][4:])) == 1
    assert metrics["finetune_loss"][0] != metrics["finetune_loss"][4]


def test_of_a_conversation_longer_than_a_context_the_beginning_is_cut():
    long, short = np.arange(10, dtype=np.int32), np.arange(3, dtype=np.int32)
    assert data.padded([long, short], 6).tolist() == [[3, 4, 5, 6, 7, 8, 9], [0, 1, 2, -1, -1, -1, -1]]

"""A local hub: revisions of a tiny Llama with a byte-level tokenizer, in the cache layout of huggingface_hub."""

import hashlib

MODEL = "test/tiny-llama"
REVISIONS = {"step1": 1000.0, "step2": 2000.0, "step4": 4000.0}
"""Revisions and their tokens of pretraining."""
TEMPLATE = (
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def fill(cache, template=TEMPLATE):
    """Put the model with all its revisions into a cache. Each revision has weights of its own."""
    for number, revision in enumerate(REVISIONS):
        commit = hashlib.sha1(revision.encode()).hexdigest()
        home = cache / f"models--{MODEL.replace('/', '--')}"
        (home / "refs").mkdir(parents=True, exist_ok=True)
        (home / "refs" / revision).write_text(commit)
        save(home / "snapshots" / commit, number, template)


def save(folder, seed, template=TEMPLATE):
    """A model in the form of transformers' save_pretrained."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE({letter: i for i, letter in enumerate([*alphabet, "<eos>"])}, []))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=len(alphabet) + 1,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=64,
            tie_word_embeddings=False,
        )
        LlamaForCausalLM(config).save_pretrained(folder)
    saved = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>", chat_template=template)
    saved.save_pretrained(folder)

"""A model as the files that transformers reads: its shape, its weights and its tokenizer. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raysweep import plain_json as json
from raysweep.workloads.declaration import Exported
from raysweep.workloads.language.model_config import (
    BASE_WIDTH,
    NORM_EPSILON,
    ROTARY_BASE,
    STANDARD_DEVIATION,
    ModelConfig,
    config_of,
)
from raysweep.workloads.language.texts import SEPARATOR

END = "<|endoftext|>"
"""The name, in a tokenizer of learned tokens, of the token that ends a document. No text is read as it."""
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]


def exported(row: Mapping[str, Any], stage: str, read: Callable[[str], Any]) -> Exported:
    """The model that a stage left for a row. read: the stage's name -> what it left."""
    source, config, spelled = str(row["source"]), config_of(row), dict[str, Any]()
    weights = {name: np.asarray(values) for name, values in read(stage)["weights"].items()}
    if source.startswith("tokens:"):
        end, note = int(source.split(":")[2]), "The text came as token numbers, so there is no tokenizer."
    elif source.startswith("bpe:"):
        end, learned = config.vocabulary - 1, read("pretrain").get("tokenizer")
        note = f"The tokenizer is a byte-level BPE learned from the training documents. Token {end:,} ends a document."
        if learned is None:
            note = "There is no tokenizer: the sweep was computed before it was kept with the weights."
        else:
            spelled = _with_end(json.loads(np.asarray(learned).tobytes()), END, end)
    else:
        end = ord("\n") if source.startswith("grammar:") else SEPARATOR[0]
        note = f"A token is a byte of UTF-8. Bytes that are no UTF-8 cannot be given. Token {end} ends a document."
        spelled = _with_end(_bytes(), letters()[end], end)
    files = {"config.json": _llama(config, str(weights["lm_head.weight"].dtype), end)}
    if spelled:
        files |= {"tokenizer.json": spelled, "tokenizer_config.json": _reading(spelled, config)}
    return Exported({name: f"{json.dumps(each, indent=1)}\n".encode() for name, each in files.items()}, weights, note)


def letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary, as in GPT-2."""
    others = iter(range(256, 512))
    return [chr(byte if byte in _PRINTED else next(others)) for byte in range(256)]


def _llama(config: ModelConfig, dtype: str, end: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocabulary,
        "hidden_size": config.width,
        "intermediate_size": config.mlp,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.heads,
        "head_dim": config.head_width,
        "max_position_embeddings": config.context,
        "hidden_act": "silu",
        "rms_norm_eps": NORM_EPSILON,
        "rope_theta": ROTARY_BASE,
        "initializer_range": STANDARD_DEVIATION * (BASE_WIDTH / config.width) ** 0.5,  # of the matrices of layers
        **dict.fromkeys(("attention_bias", "mlp_bias", "tie_word_embeddings"), False),
        **dict.fromkeys(("bos_token_id", "pad_token_id")),
        "eos_token_id": end,
        "dtype": dtype,
    }


def _bytes() -> dict[str, Any]:
    """A tokenizer whose tokens are the bytes."""
    plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "pre_tokenizer": plain,
        "decoder": plain,
        "model": {"type": "BPE", "vocab": {letter: byte for byte, letter in enumerate(letters())}, "merges": []},
    }


def _with_end(tokenizer: dict[str, Any], name: str, end: int) -> dict[str, Any]:
    """A tokenizer with a token that ends a document."""
    added = {"id": end, "content": name, "special": True, "normalized": False}
    return {**tokenizer, "added_tokens": [{**added, "single_word": False, "lstrip": False, "rstrip": False}]}


def _reading(tokenizer: Mapping[str, Any], config: ModelConfig) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": tokenizer["added_tokens"][0]["content"],
        "split_special_tokens": True,  # text that spells the token that ends a document is text
        "clean_up_tokenization_spaces": False,
        "model_max_length": config.context,
    }

"""A model as the files that transformers reads: its shape, its weights and its tokenizer. Imports no torch."""

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
    config_of,
)
from raysweep.workloads.language.texts import SEPARATOR

_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
"""The bytes for which their own character stands in a byte-level vocabulary, as in GPT-2; other letters for others."""


def exported(row: Mapping[str, Any], stage: str, read: Callable[[str], Any]) -> Exported:
    """The model that a stage left for a row. read: the stage's name -> what it left."""
    source, config = str(row["source"]), config_of(row)
    weights = {name: np.asarray(values) for name, values in read(stage)["weights"].items()}
    if source.startswith("tokens:"):
        end, files = int(source.split(":")[2]), dict[str, Any]()
        note = "The text came as token numbers, so there is no tokenizer."
    else:
        end = ord("\n") if source.startswith("grammar:") else SEPARATOR[0]
        files = _bytes(end, config.context)
        note = f"A token is a byte of UTF-8. Bytes that are no UTF-8 cannot be given. Token {end} ends a document."
    files["config.json"] = {
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
        "dtype": str(weights["lm_head.weight"].dtype),
    }
    return Exported({name: f"{json.dumps(each, indent=1)}\n".encode() for name, each in files.items()}, weights, note)


def _bytes(end: int, context: int) -> dict[str, Any]:
    """The files of a tokenizer whose tokens are the bytes, one of which ends a document."""
    others = iter(range(256, 512))
    letters = [chr(byte if byte in _PRINTED else next(others)) for byte in range(256)]
    plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    alone = dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False)
    tokenizer = {
        "version": "1.0",
        "pre_tokenizer": plain,
        "decoder": plain,
        "model": {"type": "BPE", "vocab": {letter: byte for byte, letter in enumerate(letters)}, "merges": []},
        "added_tokens": [{"id": end, "content": letters[end], "special": True, **alone}],
    }
    reading = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": letters[end],
        "split_special_tokens": True,  # text that spells the token that ends a document is text
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
    }
    return {"tokenizer.json": tokenizer, "tokenizer_config.json": reading}

"""Text as tokens of a byte-level BPE that is trained here, only on the training documents of the source.

    bpe:VOCABULARY:TEXT      e.g. bpe:8192:python-source, bpe:8192:file:/data/*.txt

A model has one vocabulary, so the target is read in the source's tokens too. Nothing is downloaded. The vocabulary
depends only on the training documents and its size; its digest belongs to the identity of every stage that reads it.
Both it and the tokenized text are cached (cache.py).

Every text can be encoded: the first 256 tokens are the bytes. The last token ends a document and occurs in no text.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raysweep.workloads import cache
from raysweep.workloads.language.texts import BadText, Documents, Text, Tokenized

FORM = "bpe:VOCABULARY:TEXT"
VERSION = 1  # raise it when the same text would give another vocabulary
SMALLEST, LARGEST = 258, 2**16
SAMPLE = 16_000_000  # bytes of training documents that the merges are counted on
BATCH = 512  # documents tokenized at a time


@dataclass(frozen=True)
class Vocabulary:
    """Tokens 0 … size-1; the last one ends a document."""

    size: int
    digest: str
    tokenizer: Any = field(repr=False)

    @property
    def separator(self) -> int:
        """The token that ends a document."""
        return self.size - 1

    def encode(self, text: bytes) -> np.ndarray:
        """UTF-8 text as tokens, uint16, without an end-of-document token."""
        return np.array(self.tokenizer.encode(text.decode()).ids, np.uint16)

    def join(self, documents: Sequence[bytes]) -> np.ndarray:
        """Documents one after the other, each followed by the end-of-document token, uint16."""
        arrays = [np.zeros(0, np.uint16)]
        for at in range(0, len(documents), BATCH):
            batch = self.tokenizer.encode_batch_fast([document.decode() for document in documents[at : at + BATCH]])
            arrays += [np.array([*one.ids, self.separator], np.uint16) for one in batch]
        return np.concatenate(arrays)

    def read(self, documents: Documents) -> Text:
        """The text of documents in these tokens."""
        digest = hashlib.sha256(f"bpe/{VERSION}/{self.digest}/{documents.digest}".encode()).hexdigest()[:16]
        return Text(digest, Tokenized(documents, f"tokens-{digest}", self.join), self.token_bytes())

    def token_bytes(self) -> np.ndarray:
        """Bytes of each token, (size,). The end of a document counts as one byte, as it does in texts of bytes."""
        letters = [self.tokenizer.id_to_token(token) for token in range(self.size - 1)]  # each stands for one byte
        return np.array([*map(len, letters), 1], float)


def parse(name: str) -> tuple[int, str]:
    """The size of the vocabulary and the name of the text in a name `bpe:…`. BadText if the name is wrong, or if the
    package that learns vocabularies is not installed."""
    size, _, text = name.partition(":")[2].partition(":")
    if not (size.isascii() and size.isdigit() and text):
        raise BadText(f"expected {FORM}, got {name!r}")
    if not SMALLEST <= int(size) <= LARGEST:
        raise BadText(f"expected a vocabulary of {SMALLEST} to {LARGEST:,} tokens, got {name!r}")
    if importlib.util.find_spec("tokenizers") is None:
        raise BadText(f"{FORM} needs the package tokenizers: pip install 'raysweep[bpe]'")
    return int(size), text


def vocabulary(size: int, documents: Documents, name: str) -> Vocabulary:
    """The vocabulary trained on a text's training documents."""
    from tokenizers import Tokenizer

    serialized = cache.text(f"bpe-{VERSION}-{size}-{documents.digest}", lambda: _train(size, documents.splits["train"]))
    tokenizer = Tokenizer.from_str(serialized)
    if tokenizer.get_vocab_size() != size - 1:
        raise BadText(
            f"{name}: expected a vocabulary of at most {tokenizer.get_vocab_size() + 1:,} tokens, all that "
            f"its training documents give, got {size:,}"
        )
    learned = json.loads(serialized)["model"]
    content = json.dumps([VERSION, size, learned["vocab"], learned["merges"]], sort_keys=True)
    return Vocabulary(size, hashlib.sha256(content.encode()).hexdigest()[:16], tokenizer)


def _train(size: int, documents: Sequence[bytes]) -> str:
    """Train a byte-level BPE of size - 1 tokens; the result is JSON."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size - 1, min_frequency=2, show_progress=False, initial_alphabet=letters)
    fair = documents[: int(np.searchsorted(np.cumsum([len(document) for document in documents]), SAMPLE)) + 1]
    tokenizer.train_from_iterator((document.decode() for document in fair), trainer)  # the first in hash order
    return str(tokenizer.to_str())

"""Texts by name. A row's `source` and `target` name a text; it becomes tokens, split and with a digest.

    grammar:D          endless synthetic text at distance D (0 to 1) from grammar:0
    python-source[:N]  the Python files of the running installation, N MB of them
    python-docs[:N]    documentation found there: docstrings, READMEs, package descriptions
    tokens:V:S:PATH    token numbers on disk, memory-mapped (packed.py)
    task:…             examples to classify, as a target only (tasks.py)
    file:PATTERN       text files, or JSONL with a `text` field; a path, a folder, or a pattern with *
    bpe:V:TEXT         text of this installation or of files in V tokens learned from it, as a source only (bpe.py)

Nothing is downloaded. The digest belongs to the identity of every stage that reads the text. The tokens are bytes,
except for `tokens:` and `bpe:`. Losses are in nats a token; the metrics `_per_byte` compare different vocabularies.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.errors import InputError
from raysweep.training import draws
from raysweep.workloads import asked_once
from raysweep.workloads.language import bpe, files, packed, tasks
from raysweep.workloads.language.bpe import Vocabulary
from raysweep.workloads.language.grammar import Grammar
from raysweep.workloads.language.model_config import share_of
from raysweep.workloads.language.tasks import Task
from raysweep.workloads.language.texts import SPLITS, BadText, Documents, Text, of_bytes, split

DOCUMENTS = "python-source[:MB], python-docs[:MB] or file:PATH (text or .jsonl)"
FORMS = f"grammar:D (0 to 1), {DOCUMENTS}, or tokens:VOCABULARY:SEPARATOR:PATH (.npy or uint16)"
BPE_FORM = "bpe:VOCABULARY:TEXT (python-source, python-docs or file: in learned tokens)"
TASK_FORMS = "task:PATH (.jsonl) or task:grammar:D"
INSTALLED = ("python-source", "python-docs")
Corpus = Text | Grammar | Task
SMALL = 5  # MB; a built-in text up to this size is read to check it, and a larger one is long enough


def load(name: str, source: str = "") -> Corpus:
    """The corpus of that name, kept in memory; BadText says what is wrong with it.

    source: the name of the source, if this text is a target; the target is read in the source's tokens.
    """
    source = source if source.startswith("bpe:") and source != name else ""
    return _load(name, source, (signature(name), signature(source)))


@asked_once.once
def digest(which: str, name: str, source: str) -> str:
    """The digest of a row's source or target. InputError if the text has gone since the sweep was planned."""
    try:
        return load(name, source if which == "target" else "").digest
    except BadText as error:
        raise InputError(which, str(error)) from None


@dataclass(frozen=True)
class Mixture:
    """A target that takes a share of its sequences from the source; of a larger share those of a smaller one too."""

    target: Corpus
    source: Corpus
    overlap: float

    @property
    def token_bytes(self) -> np.ndarray | None:
        """Bytes of each token; None if unknown."""
        return self.target.token_bytes

    def sequences(self, seed: int, first: int, count: int, length: int) -> np.ndarray:
        """Training sequences first … first+count-1 of the target's stream: integers, (count, length + 1)."""
        target = self.target.sequences("train", seed, "finetune", first, count, length)
        source = self.source.sequences("train", seed, "overlap", first, count, length) if self.overlap else target
        return self._mixed(target, source, seed, "train", first)

    def held_out(self, split: str, count: int, length: int) -> np.ndarray:
        target = self.target.held_out(split, count, length)
        source = self.source.held_out(split, len(target), length) if self.overlap else target
        return self._mixed(target, source, 0, split, 0)

    def _mixed(self, target: np.ndarray, source: np.ndarray, seed: int, split: str, first: int) -> np.ndarray:
        if not self.overlap:
            return target
        uniform = draws.generator(seed, f"language/overlap/{split}").random(first + len(target))[first:]
        rows = np.flatnonzero(uniform < self.overlap)
        mixed = target.copy()  # in the target's type: a task has negative tokens, and a source's tokens fit too
        mixed[rows] = source[rows % len(source)]
        return mixed


def mixture_of(parameters: Mapping[str, Any]) -> Mixture:
    """The text of a row's target, with the share of its source's text that overlap_angle says."""
    source, target = str(parameters["source"]), str(parameters["target"])
    return Mixture(load(target, source), load(source), share_of(float(parameters["overlap_angle"])))


def tokenizer_of(name: str) -> dict[str, np.ndarray]:
    """The learned tokens of a text `bpe:…`, as the bytes of their JSON, so that a model is kept with them; empty for
    any other text."""
    if not name.startswith("bpe:"):
        return {}
    return {"tokenizer": np.frombuffer(_vocabulary(name, signature(name))[1].tokenizer.to_str().encode(), np.uint8)}


@asked_once.once
def signature(name: str) -> tuple[object, ...]:
    """A value that changes when the files of a text, task or conversations change."""
    kind, _, rest = name.partition(":")
    if kind == "bpe":
        return signature(bpe.parse(name)[1])
    if kind == "tokens":
        path = packed.parse(name)[2]
        return ((status := path.stat()).st_size, status.st_mtime_ns) if path.exists() else ()
    if kind in ("file", "chat") or (kind == "task" and rest.partition(":")[0] != "grammar"):
        return files.signature(rest)
    return ()


@functools.lru_cache(maxsize=4)
def _load(name: str, source: str, signature: tuple[object, ...]) -> Corpus:
    kind, _, rest = name.partition(":")
    if kind == "bpe":
        texts, learned = _vocabulary(name, signature[0])
        return learned.read(texts)
    words = _vocabulary(source, signature[1])[1] if source else None
    if kind == "task":
        encode, (inner, _, distance) = words.encode if words else tasks.as_bytes, rest.partition(":")
        if inner == "grammar":
            return tasks.of_grammars(number_after(name, distance, 0, 1), encode)
        return tasks.of_file(rest, encode)
    if words:
        return words.read(documents(name))
    if kind == "grammar":
        return Grammar(number_after(name, rest, 0, 1))
    if kind == "tokens":
        return packed.read(name)
    if kind in (*INSTALLED, "file"):
        return of_bytes(documents(name))
    raise BadText(f"expected {FORMS}, got {name!r}")


@functools.lru_cache(maxsize=1)
def _vocabulary(name: str, signature: object) -> tuple[Documents, Vocabulary]:
    """The documents of a text `bpe:…`, and the tokens learned from them. signature: of the files that they are of."""
    size, inner = bpe.parse(name)
    texts = documents(inner)
    return texts, bpe.vocabulary(size, texts, name)


def documents(name: str) -> Documents:
    """The split documents of a text that has documents: of this installation, or of files."""
    kind, _, rest = name.partition(":")
    if kind in INSTALLED:
        contents = files.installed_documents(kind, number_after(name, rest, 0.1, 1e6) if rest else float("inf"))
    elif kind == "file":
        contents = files.documents(rest)
    else:
        raise BadText(
            f"expected text with documents to learn tokens from or to read in them, {DOCUMENTS}, got {name!r}"
        )
    try:
        return split(contents)
    except BadText as error:
        raise BadText(f"{name}: {error}") from None


def number_after(name: str, text: str, low: float, high: float) -> float:
    """The number in a name; BadText if it is not a number or out of range."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise BadText(f"expected a number from {low:g} to {high:g} after the colon, got {name!r}")
    return value


@asked_once.once
def complaint(name: str, context: int, source: str = "") -> str | None:
    """What is wrong with a text for this context, or None.

    It reads the text, unless it is a large built-in one. source: as for `load`.
    """
    try:
        if long_enough(bpe.parse(name)[1] if name.startswith("bpe:") else name):
            return None
        corpus = load(name, source)
    except BadText as error:
        return str(error)
    if isinstance(corpus, Task) and 2 * max(len(corpus.encode(label)) for label in corpus.labels) > context:
        return f"{name}: expected labels of at most {context // 2} tokens, half a context"
    return too_short(name, corpus, context) if isinstance(corpus, Text) else None


def long_enough(name: str) -> bool:
    """Whether a text is so large a built-in one that it need not be read to check it."""
    kind, _, rest = name.partition(":")
    return kind in INSTALLED and (not rest or number_after(name, rest, 0.1, 1e6) > SMALL)


def too_short(name: str, text: Text, context: int) -> str | None:
    """Which part of a text is too short for this context, or None."""
    for part in SPLITS:
        if (length := len(text.splits[part])) <= context:
            needed = f"expected at least {context + 1:,}, one context and the token after it"
            return f"{name}: its {part} documents have {length:,} tokens, {needed}"
    return None

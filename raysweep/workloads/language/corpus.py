"""Texts by name: what a row's `source` and `target` say becomes held-out-split tokens with a digest.

    grammar:D          endless synthetic text at distance D (0 to 1) from grammar:0
    python-source[:N]  the Python files of the running installation, N MB of them
    python-docs[:N]    documentation found there: docstrings, READMEs, package descriptions
    tokens:V:S:PATH    token numbers on disk, mapped (packed.py)
    task:…             examples to classify, as a target only (tasks.py)
    file:PATTERN       text files, or JSONL with a `text` field; a path, a folder, or a pattern with *

Nothing is downloaded. The digest belongs to the identity of every stage that read the text. Bytes are
the tokens, but for `tokens:`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from raysweep.workloads import draws

FORMS = ("grammar:D (0 to 1), python-source[:MB], python-docs[:MB], file:PATH (text or .jsonl) or "
         "tokens:VOCABULARY:SEPARATOR:PATH (.npy or uint16)")
TASK_FORMS = "task:PATH (.jsonl) or task:grammar:D"
SPLITS = ("train", "validation", "test")
HELD_OUT = 0.05  # of the documents for validation, and again for test
SEPARATOR = b"\0"  # between documents


class BadText(ValueError):
    """A text that cannot be used; the message is one line and says where it is wrong."""


class Corpus(Protocol):
    """Text to sample from. digest: 16 hexadecimal digits; train_tokens: 0 if it is endless."""

    @property
    def digest(self) -> str:
        """Pins the text."""

    @property
    def train_tokens(self) -> int:
        """Length to train on."""

    def sequences(self, split: str, seed: int, role: str, first: int, count: int, length: int) -> np.ndarray:
        """Sequences first … first+count-1 of a stream keyed by (seed, role): integers, (count, length + 1)."""

    def held_out(self, split: str, count: int, length: int) -> np.ndarray:
        """Up to `count` sequences of a held-out split, the same for every seed: integers, (sequences, length + 1)."""


@dataclass(frozen=True)
class Text:
    """A finite text, split by document."""

    digest: str
    splits: dict[str, np.ndarray]

    @property
    def train_tokens(self) -> int:
        """Tokens to train on."""
        return len(self.splits["train"])

    def sequences(self, split: str, seed: int, role: str, first: int, count: int, length: int) -> np.ndarray:
        """Every window once, in an order of its own, epoch after epoch; each epoch cuts its windows elsewhere."""
        tokens = self.splits[split]
        each = (len(tokens) - 1) // length
        slack = len(tokens) - 1 - each * length
        starts = np.empty(count, np.int64)
        at = 0
        while at < count:
            epoch, within = divmod(first + at, each)
            offset, order = _order(self.digest, seed, f"{role}/{split}/{epoch}", slack, each)
            chosen = order[within:within + count - at]
            starts[at:at + len(chosen)] = offset + chosen * length
            at += len(chosen)
        return tokens[starts[:, None] + np.arange(length + 1)]

    def held_out(self, split: str, count: int, length: int) -> np.ndarray:
        """Windows spread evenly over the split."""
        tokens = self.splits[split]
        each = (len(tokens) - 1) // length
        chosen = np.unique(np.linspace(0, each - 1, min(count, each)).round().astype(np.int64))
        return np.stack([tokens[start:start + length + 1] for start in chosen * length])


@functools.lru_cache(maxsize=8)
def _order(digest: str, seed: int, role: str, slack: int, windows: int) -> tuple[int, np.ndarray]:
    stream = draws.generator(seed, f"language/order/{digest}/{role}")
    return int(stream.integers(slack + 1)), stream.permutation(windows)


def from_documents(documents: Sequence[bytes]) -> Text:
    """Documents, without repeats, split by the hash of their content: no document is in two splits, and adding one
    moves only its neighbours in hash order. Needs three at least. BadText otherwise."""
    hashed = sorted({hashlib.sha256(document).digest(): document for document in documents if document.strip()}.items())
    if len(hashed) < 3:
        raise BadText(f"expected at least 3 different documents, to train, validate and test on, got {len(hashed)}")
    held = max(1, round(HELD_OUT * len(hashed)))
    bounds = {"test": (0, held), "validation": (held, 2 * held), "train": (2 * held, len(hashed))}
    digest = hashlib.sha256(b"".join(key for key, _ in hashed)).hexdigest()[:16]
    splits = {split: np.frombuffer(SEPARATOR.join(document for _, document in hashed[low:high]) + SEPARATOR, np.uint8)
              for split, (low, high) in bounds.items()}
    return Text(digest, splits)


@dataclass(frozen=True)
class Mixture:
    """A target that takes a share of its sequences from the source; more overlap replaces more of the same ones."""

    target: Corpus
    source: Corpus
    overlap: float

    def sequences(self, seed: int, first: int, count: int, length: int) -> np.ndarray:
        """Training sequences first … first+count-1 of the target's stream: uint8, (count, length + 1)."""
        own = self.target.sequences("train", seed, "finetune", first, count, length)  # int16 from a task
        if self.overlap == 0:
            return own
        other = self.source.sequences("train", seed, "overlap", first, count, length)
        return self._mixed(own, other, seed, "train", first)

    def held_out(self, split: str, count: int, length: int) -> np.ndarray:
        """Held-out sequences of the mixture."""
        own = self.target.held_out(split, count, length)
        if self.overlap == 0:
            return own
        return self._mixed(own, self.source.held_out(split, len(own), length), 0, split, 0)

    def _mixed(self, own: np.ndarray, other: np.ndarray, seed: int, split: str, first: int) -> np.ndarray:
        uniform = draws.generator(seed, f"language/overlap/{split}").random(first + len(own))[first:]
        rows = np.flatnonzero(uniform < self.overlap)
        mixed = own.copy()  # in the type of the target's: a task's has givens, and a source's tokens fit in it
        mixed[rows] = other[rows % len(other)]
        return mixed


def given(tokens: np.ndarray) -> np.ndarray:
    """Tokens that are read and not predicted, int16: t as -1 - t."""
    return -1 - tokens.astype(np.int16)


def load(name: str) -> Corpus:
    """The corpus of that name, kept in memory; BadText says what is wrong with it."""
    kind, _, rest = name.partition(":")
    if kind == "tokens":
        from raysweep.workloads.language import packed

        path = packed.parse(name, rest)[2]
        return _load(name, ((status := path.stat()).st_size, status.st_mtime_ns) if path.exists() else ())
    if kind == "file" or (kind == "task" and not rest.startswith("grammar")):
        from raysweep.workloads.language import files

        return _load(name, files.signature(rest))
    return _load(name, ())


@functools.lru_cache(maxsize=4)
def _load(name: str, signature: tuple[object, ...]) -> Corpus:
    kind, _, rest = name.partition(":")
    if kind == "grammar":
        from raysweep.workloads.language import grammar

        return grammar.Grammar(number_after(name, rest, 0, 1))
    if kind in ("python-source", "python-docs"):
        from raysweep.workloads.language import installed

        megabytes = number_after(name, rest, 0.1, 1e6) if rest else float("inf")
        return from_documents(installed.documents(kind, megabytes))
    if kind == "file":
        from raysweep.workloads.language import files

        return from_documents(files.documents(rest))
    if kind == "tokens":
        from raysweep.workloads.language import packed

        return packed.read(name, rest)
    if kind == "task":
        from raysweep.workloads.language import tasks

        return tasks.load(name, rest)
    raise BadText(f"expected {FORMS}, got {name!r}")


def number_after(name: str, text: str, low: float, high: float) -> float:
    """The number in a name, or BadText."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise BadText(f"expected a number from {low:g} to {high:g} after the colon, got {name!r}")
    return value


def complaint(name: str, context: int) -> str | None:
    """What is wrong with a text for this context, or None. Reads files; of what is built in only the name."""
    kind = name.partition(":")[0]
    try:
        if kind in ("python-source", "python-docs"):
            rest = name.partition(":")[2]
            if rest:
                number_after(name, rest, 0.1, 1e6)
            return None
        corpus = load(name)
    except BadText as error:
        return str(error)
    from raysweep.workloads.language.tasks import Task

    if isinstance(corpus, Task) and 2 * max(map(len, corpus.labels)) > context:
        return f"{name}: expected labels of at most {context // 2} tokens, half a context"
    if isinstance(corpus, Text):
        for split, tokens in corpus.splits.items():
            if len(tokens) < context + 1:
                return (f"{name}: its {split} documents have {len(tokens):,} tokens, expected at least "
                        f"{context + 1:,}, one context and the token after it")
    return None

"""Texts by name: what a row's `source` and `target` say becomes held-out-split tokens with a digest.

    grammar:D          endless synthetic text at distance D (0 to 1) from grammar:0
    python-source[:N]  the Python files of the running installation, N MB of them
    python-docs[:N]    documentation found there: docstrings, READMEs, package descriptions
    tokens:V:S:PATH    token numbers on disk, mapped (packed.py)
    task:…             examples to classify, as a target only (tasks.py)
    file:PATTERN       text files, or JSONL with a `text` field; a path, a folder, or a pattern with *
    bpe:V:TEXT         one of the last three kinds of text in V tokens learned from it, as a source only (bpe.py)

Nothing is downloaded. The digest belongs to the identity of every stage that read the text. Bytes are the tokens, but
for `tokens:` and `bpe:`; losses are nats a token, and of a model's metrics those `_per_byte` compare vocabularies.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from raysweep.workloads import draws
from raysweep.workloads.language.splitting import BadText, Documents, split

if TYPE_CHECKING:
    from raysweep.workloads.language.bpe import Vocabulary

FORMS = ("grammar:D (0 to 1), python-source[:MB], python-docs[:MB], file:PATH (text or .jsonl) or "
         "tokens:VOCABULARY:SEPARATOR:PATH (.npy or uint16)")
BPE_FORM = "bpe:VOCABULARY:TEXT (python-source, python-docs or file: in learned tokens)"
TASK_FORMS = "task:PATH (.jsonl) or task:grammar:D"
SEPARATOR = b"\0"  # after every document
BYTES = np.ones(256)
SMALL = 5  # MB of what is built in that are read to see whether they will do; more will


class Corpus(Protocol):
    """Text to sample from. digest: 16 hexadecimal digits; train_tokens: 0 if it is endless."""

    @property
    def digest(self) -> str:
        """Pins the text."""

    @property
    def train_tokens(self) -> int:
        """Length to train on."""

    @property
    def token_bytes(self) -> np.ndarray | None:
        """Bytes of each token of the vocabulary; None if nobody knows."""

    def sequences(self, split: str, seed: int, role: str, first: int, count: int, length: int) -> np.ndarray:
        """Sequences first … first+count-1 of a stream keyed by (seed, role): integers, (count, length + 1)."""

    def held_out(self, split: str, count: int, length: int) -> np.ndarray:
        """Up to `count` sequences of a held-out split, the same for every seed: integers, (sequences, length + 1)."""


@dataclass(frozen=True)
class Text:
    """A finite text, split by document."""

    digest: str
    splits: Mapping[str, np.ndarray]
    token_bytes: np.ndarray | None = None

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
    """Documents as bytes, split (splitting.py); BadText if they are too few."""
    return of_bytes(split(documents))


def of_bytes(documents: Documents) -> Text:
    """Split documents, the tokens being their bytes and one after each."""
    return Text(documents.digest, {part: np.frombuffer(SEPARATOR.join(own) + SEPARATOR, np.uint8)
                                   for part, own in documents.splits.items()}, BYTES)


@dataclass(frozen=True)
class Mixture:
    """A target that takes a share of its sequences from the source; more overlap replaces more of the same ones."""

    target: Corpus
    source: Corpus
    overlap: float

    @property
    def token_bytes(self) -> np.ndarray | None:
        """Bytes of each token; None if nobody knows."""
        return self.target.token_bytes

    def sequences(self, seed: int, first: int, count: int, length: int) -> np.ndarray:
        """Training sequences first … first+count-1 of the target's stream: integers, (count, length + 1)."""
        own = self.target.sequences("train", seed, "finetune", first, count, length)
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


def bytes_per_token(text: Corpus | Mixture, part: str, count: int, length: int) -> float:
    """How many bytes a token of held-out sequences stands for on average; a loss divided by it is in nats a byte. NaN
    if nobody knows."""
    if text.token_bytes is None:
        return float("nan")
    if (text.token_bytes == 1).all():
        return 1.0
    return float(text.token_bytes[text.held_out(part, count, length)[:, 1:]].mean())


def given(tokens: np.ndarray) -> np.ndarray:
    """Tokens that are read and not predicted, int32: t as -1 - t."""
    return -1 - tokens.astype(np.int32)


def load(name: str, source: str = "") -> Corpus:
    """The corpus of that name, kept in memory; BadText says what is wrong with it.

    source: the name of the source, where this is a target: it is read in its tokens.
    """
    source = source if source.startswith("bpe:") and source != name else ""
    return _load(name, source, (_signature(name), _signature(source)))


def _signature(name: str) -> tuple[object, ...]:
    """What changes when the files do that a text is read from."""
    kind, _, rest = name.partition(":")
    if kind == "bpe":
        from raysweep.workloads.language import bpe

        return _signature(bpe.parse(name)[1])
    if kind == "tokens":
        from raysweep.workloads.language import packed

        path = packed.parse(name, rest)[2]
        return ((status := path.stat()).st_size, status.st_mtime_ns) if path.exists() else ()
    if kind == "file" or (kind == "task" and not rest.startswith("grammar")):
        from raysweep.workloads.language import files

        return files.signature(rest)
    return ()


@functools.lru_cache(maxsize=4)
def _load(name: str, source: str, signature: tuple[object, ...]) -> Corpus:
    kind, _, rest = name.partition(":")
    if kind == "bpe":
        return _tokenized(*_vocabulary(name, signature[0]))
    if source:
        words = _vocabulary(source, signature[1])[1]
        if kind == "task":
            from raysweep.workloads.language import tasks

            return tasks.load(name, rest, words.encode)
        return _tokenized(documents(name), words)
    if kind == "grammar":
        from raysweep.workloads.language import grammar

        return grammar.Grammar(number_after(name, rest, 0, 1))
    if kind == "tokens":
        from raysweep.workloads.language import packed

        return packed.read(name, rest)
    if kind == "task":
        from raysweep.workloads.language import tasks

        return tasks.load(name, rest)
    if kind in ("python-source", "python-docs", "file"):
        return of_bytes(documents(name))
    raise BadText(f"expected {FORMS}, got {name!r}")


@functools.lru_cache(maxsize=1)
def _vocabulary(name: str, signature: object) -> tuple[Documents, Vocabulary]:
    """The documents of a text `bpe:…`, and the tokens learned from them."""
    from raysweep.workloads.language import bpe

    size, inner = bpe.parse(name)
    bpe.needed()
    own = documents(inner)
    return own, bpe.vocabulary(size, own, name)


def _tokenized(own: Documents, words: Vocabulary) -> Text:
    from raysweep.workloads.language import bpe

    digest = bpe.digest_of(own, words)
    return Text(digest, bpe.Tokenized(own, words, digest), words.token_bytes())


def documents(name: str) -> Documents:
    """The split documents of a text that has such: of this installation, or of files."""
    kind, _, rest = name.partition(":")
    if kind in ("python-source", "python-docs"):
        from raysweep.workloads.language import installed

        found = installed.documents(kind, number_after(name, rest, 0.1, 1e6) if rest else float("inf"))
    elif kind == "file":
        from raysweep.workloads.language import files

        found = files.documents(rest)
    else:
        raise BadText(f"expected text with documents to learn tokens from or to read in them, python-source[:MB], "
                      f"python-docs[:MB] or file:PATH, got {name!r}")
    try:
        return split(found)
    except BadText as error:
        raise BadText(f"{name}: {error}") from None


def number_after(name: str, text: str, low: float, high: float) -> float:
    """The number in a name, or BadText."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise BadText(f"expected a number from {low:g} to {high:g} after the colon, got {name!r}")
    return value


def complaint(name: str, context: int, source: str = "") -> str | None:
    """What is wrong with a text for this context, or None; source as for `load`. Reads the text, but for what is built
    in and not small."""
    try:
        inner = name
        if name.startswith("bpe:"):
            from raysweep.workloads.language import bpe

            inner = bpe.parse(name)[1]
            bpe.needed()
        kind, _, rest = inner.partition(":")
        large = kind in ("python-source", "python-docs") and (not rest or number_after(name, rest, 0.1, 1e6) > SMALL)
        if large:
            return None
        corpus = load(name, source)
    except BadText as error:
        return str(error)
    from raysweep.workloads.language.tasks import Task

    if isinstance(corpus, Task) and 2 * corpus.longest_label() > context:
        return f"{name}: expected labels of at most {context // 2} tokens, half a context"
    if isinstance(corpus, Text):
        for part in corpus.splits:
            if len(corpus.splits[part]) < context + 1:
                return (f"{name}: its {part} documents have {len(corpus.splits[part]):,} tokens, expected at least "
                        f"{context + 1:,}, one context and the token after it")
    return None

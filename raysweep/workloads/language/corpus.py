"""Texts by name. A row's `source` and `target` name a text; it becomes tokens, split and with a digest.

    grammar:D          endless synthetic text at distance D (0 to 1) from grammar:0
    python-source[:N]  the Python files of the running installation, N MB of them
    python-docs[:N]    documentation found there: docstrings, READMEs, package descriptions
    file:PATTERN       text files, or JSONL with a `text` field; a path, a folder, or a pattern with *
    tokens:V:S:PATH    token numbers on disk, memory-mapped (files.py)

Nothing is downloaded. The digest belongs to the identity of every stage that reads the text. The tokens are bytes,
except for `tokens:`. Losses are in nats a token.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.errors import InputError
from raysweep.training import draws
from raysweep.workloads import asked_once
from raysweep.workloads.language import files
from raysweep.workloads.language.model_config import config_of, share_of
from raysweep.workloads.language.texts import SPLITS, BadText, Documents, Grammar, Text, of_bytes, split
from raysweep.workloads.rows import Artifact

DOCUMENTS = "python-source[:MB], python-docs[:MB] or file:PATH (text or .jsonl)"
FORMS = f"grammar:D (0 to 1), {DOCUMENTS}, or tokens:VOCABULARY:SEPARATOR:PATH (.npy or uint16)"
INSTALLED = ("python-source", "python-docs")
Corpus = Text | Grammar
MEASURED = ("source", "target", "overlap_angle", "evaluation_tokens")
"""The parameters that decide on what a row is measured, in its context."""
SMALL = 5  # MB; a built-in text up to this size is read to check it, and a larger one is long enough


def load(name: str) -> Corpus:
    """The text of that name, kept in memory; BadText says what is wrong with it."""
    return _load(name, signature(name))


@asked_once.once
def digest(which: str, name: str) -> str:
    """The digest of a row's source or target. InputError if the text has gone since the sweep was planned."""
    try:
        return load(name).digest
    except BadText as error:
        raise InputError(which, str(error)) from None


@dataclass(frozen=True)
class Mixture:
    """A target that takes a share of its sequences from the source; of a larger share those of a smaller one too."""

    target: Corpus
    source: Corpus
    overlap: float

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
        mixed = target.copy()
        mixed[rows] = source[rows % len(source)]
        return mixed


def mixture_of(parameters: Mapping[str, Any]) -> Mixture:
    """The text of a row's target, with the share of its source's text that overlap_angle says."""
    target, source = (load(str(parameters[name])) for name in ("target", "source"))
    return Mixture(target, source, share_of(float(parameters["overlap_angle"])))


def held_out(row: Mapping[str, Any], pretraining: Artifact) -> dict[tuple[str, ...], np.ndarray]:
    """The held-out sequences on which a row is measured, by text and part; read once for all rows of a pretraining."""
    mixture, length = mixture_of(row), config_of(row).context
    asked, count = {"source": mixture.source, "target": mixture}, max(1, int(row["evaluation_tokens"]) // length)
    parts = (("source", "test"), ("target", "validation"), ("target", "test"))
    alike = ("held out", *(row[name] for name in MEASURED))
    return pretraining.once(alike, lambda: {(n, part): asked[n].held_out(part, count, length) for n, part in parts})


@asked_once.once
def signature(name: str) -> tuple[object, ...]:
    """A value that changes when the files of a text or of conversations change."""
    kind, _, rest = name.partition(":")
    rest = str(files.parse_tokens(name)[2]) if kind == "tokens" else rest
    return files.signature(rest) if kind in ("file", "chat", "tokens") else ()


@functools.lru_cache(maxsize=4)
def _load(name: str, signature: tuple[object, ...]) -> Corpus:
    kind, _, rest = name.partition(":")
    if kind == "grammar":
        return Grammar(number_after(name, rest, 0, 1))
    return files.tokens(name) if kind == "tokens" else of_bytes(documents(name))


def documents(name: str) -> Documents:
    """The split documents of a text of this installation or of files; BadText says what is wrong with them."""
    kind, _, rest = name.partition(":")
    if kind in INSTALLED:
        contents = files.installed_documents(kind, number_after(name, rest, 0.1, 1e6) if rest else float("inf"))
    elif kind == "file":
        contents = files.documents(rest)
    else:
        raise BadText(f"expected {FORMS}, got {name!r}")
    return split(contents, name)


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
def complaint(name: str, context: int) -> str | None:
    """What is wrong with a text for this context, or None. It reads the text, unless it is a large built-in one."""
    try:
        text = None if long_enough(name) else load(name)
    except BadText as error:
        return str(error)
    return too_short(name, text, context) if isinstance(text, Text) else None


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

"""Labelled examples for classification: a user's JSONL, or endless examples from two grammars. Imports no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from raysweep.training import draws
from raysweep.workloads.language import files
from raysweep.workloads.language.grammar import Grammar
from raysweep.workloads.language.texts import HELD_OUT, SPLITS, BadText, given, passes

BETWEEN = b"\n= "  # between a text and its label
FIELDS = ("text", "label")
TEXT_TOKENS = 40  # length of the text in an example of task:grammar:D
Example = tuple[bytes, int]
Encode = Callable[[bytes], np.ndarray]
"""Maps UTF-8 to its tokens, unsigned integers."""


def as_bytes(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8)


@dataclass(frozen=True)
class Task:
    """Examples for training and evaluation. A text (texts.Text) but for what it counts.

    labels: the name of each class.
    size: number of training examples, 0 if endless.
    draw: (split, seed, role, first, count) -> examples of that stream.
    """

    digest: str
    labels: tuple[bytes, ...]
    size: int
    draw: Callable[[str, int, str, int, int], list[Example]]
    encode: Encode = as_bytes
    train_tokens: ClassVar[int] = 0
    token_bytes: ClassVar[None] = None

    def sequences(self, split: str, seed: int, role: str, first: int, count: int, length: int) -> np.ndarray:
        """One example a row, int32 (count, length + 1); only the label's tokens are to be predicted."""
        examples = self.draw(split, seed, role, first, count)
        return np.stack([sequence(text, self.labels[truth], length, self.encode) for text, truth in examples])

    def held_out(self, split: str, count: int, length: int) -> np.ndarray:
        """Held-out examples with their right labels."""
        return self.sequences(split, 0, "held out", 0, count, length)

    def questions(self, split: str, count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Held-out examples with every possible label, int32 (examples, classes, length + 1), and the right classes."""
        examples = self.draw(split, 0, "held out", 0, count)
        asked = [[sequence(text, label, length, self.encode) for label in self.labels] for text, _ in examples]
        return np.array(asked), np.array([truth for _, truth in examples])


def sequence(text: bytes, label: bytes, length: int, encode: Encode = as_bytes) -> np.ndarray:
    """One example as tokens (length + 1); the beginning of a text that is too long is cut off."""
    answer = encode(label).astype(np.int32)
    asked = given(np.concatenate([encode(text), encode(BETWEEN)])[-(length + 1 - len(answer)) :])
    return np.concatenate([asked, answer, given(np.zeros(length + 1 - len(asked) - len(answer), np.uint8))])


def of_grammars(distance: float, encode: Encode = as_bytes) -> Task:
    """The task to tell texts of grammar:0 (label a) from texts of grammar:D (label b)."""
    grammars = (Grammar(0.0), Grammar(distance))

    def draw(split: str, seed: int, role: str, first: int, count: int) -> list[Example]:
        truth = draws.generator(seed, f"language/classes/{role}/{split}").integers(0, 2, first + count)[first:]
        texts = [grammar.sequences(split, seed, f"task/{role}", first, count, TEXT_TOKENS) for grammar in grammars]
        return [(texts[which][row].tobytes(), int(which)) for row, which in enumerate(truth)]

    digest = hashlib.sha256(f"task/{grammars[0].digest}/{grammars[1].digest}".encode()).hexdigest()[:16]
    return Task(digest, (b"a", b"b"), 0, draw, encode)


def of_file(path: str, encode: Encode = as_bytes) -> Task:
    """A user's task, in bytes or in other tokens. BadText names the file and line of an error.

    It is split by place in hash order, as documents are; twice the share is held out, because examples are short.
    """
    pairs: dict[bytes, tuple[bytes, bytes]] = {}
    for where, entry in files.entries(path):
        expected = f"expected a JSON object with {' and '.join(map(repr, FIELDS))}"
        text, label = (files.text_of(entry, field, where, expected) for field in FIELDS)
        if not (text and label):
            raise BadText(f"{where}: field {FIELDS[bool(text)]!r} is empty, {expected}")
        pairs[hashlib.sha256(text + b"\0" + label).digest()] = (text, label)
    labels = tuple(sorted({label for _, label in pairs.values()}))
    if len(labels) < 2:
        raise BadText(f"{path}: expected at least two different labels, got {len(labels)}")
    if len(pairs) < len(SPLITS):
        raise BadText(f"{path}: expected at least 3 examples, to train, validate and test on, got {len(pairs)}")
    examples = [(text, labels.index(label)) for _, (text, label) in sorted(pairs.items())]
    held = max(1, round(2 * HELD_OUT * len(examples)))
    splits = {"test": examples[:held], "validation": examples[held : 2 * held], "train": examples[2 * held :]}

    def draw(split: str, seed: int, role: str, first: int, count: int) -> list[Example]:
        if split != "train":
            return splits[split][first : first + count]
        return passes(splits[split], seed, f"language/task/{role}", first, count)

    digest = hashlib.sha256(b"".join(sorted(pairs))).hexdigest()[:16]
    return Task(digest, labels, len(splits["train"]), draw, encode)

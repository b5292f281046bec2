"""Texts: documents split into training, validation and test without repeats, and sequences of tokens with a digest."""

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from raysweep.training import draws

SPLITS = ("train", "validation", "test")
HELD_OUT = 0.05  # of the documents for validation, and again for test
VERSION = 2  # raise it when the same documents are split in another way
RUN = 3  # lines
LONG_LINE = 20  # bytes; shorter lines occur in unrelated texts
ALIKE = 0.5
SEPARATOR = b"\0"  # after every document


class BadText(ValueError):
    """A text that cannot be used; the message is one line and says where it is wrong."""


@dataclass(frozen=True)
class Documents:
    """The documents of each split. digest: 16 hexadecimal digits that identify documents and splitting."""

    digest: str
    splits: dict[str, list[bytes]]


def split(documents: Sequence[bytes], name: str) -> Documents:
    """Split the documents of a text of that name by the hash of their content. BadText if fewer than three differ.

    No document is in two splits, and a new document moves only its neighbours in hash order. A held-out document that
    is nearly the same as training documents becomes a training document.
    """
    hashed = sorted({hashlib.sha256(document).digest(): document for document in documents if document.strip()}.items())
    if len(hashed) < len(SPLITS):
        raise BadText(
            f"{name}: expected at least 3 different documents, to train, validate and test on, got {len(hashed)}"
        )
    held = max(1, round(HELD_OUT * len(hashed)))
    every = [document for _, document in hashed]
    duplicate = near_duplicates(every[: 2 * held], every[2 * held :])
    if all(duplicate[:held]) or all(duplicate[held:]):  # all documents are alike, so nothing new can be held out
        duplicate = [False] * 2 * held
    test, validation = ([every[i] for i in part if not duplicate[i]] for part in (range(held), range(held, 2 * held)))
    train = every[2 * held :] + [every[i] for i in range(2 * held) if duplicate[i]]
    digest = hashlib.sha256(f"split/{VERSION}/".encode() + b"".join(key for key, _ in hashed)).hexdigest()[:16]
    return Documents(digest, {"train": train, "test": test, "validation": validation})


def near_duplicates(held: Sequence[bytes], train: Sequence[bytes]) -> list[bool]:
    """Which held-out documents share more than half of their runs of three long lines with training documents."""
    runs = [set(_runs(document)) for document in held]
    asked = set().union(*runs)
    seen: set[bytes] = set()
    for document in train:
        seen.update(asked.intersection(_runs(document)))
    return [len(each & seen) > ALIKE * len(each) for each in runs]


def _runs(document: bytes) -> Iterator[bytes]:
    lines = [line for line in map(bytes.strip, document.split(b"\n")) if len(line) >= LONG_LINE]
    return map(b"\n".join, zip(*(lines[start:] for start in range(RUN)), strict=False))


@dataclass(frozen=True)
class Text:
    """A finite text, split by document. digest: 16 hexadecimal digits that identify it."""

    digest: str
    splits: Mapping[str, np.ndarray]

    @property
    def train_tokens(self) -> int:
        """Number of tokens to train on; 0 for endless texts, which are like this one in all else."""
        return len(self.splits["train"])

    def sequences(self, split: str, seed: int, role: str, first: int, count: int, length: int) -> np.ndarray:
        """Sequences first … first+count-1 of the stream of (seed, role): integers, (count, length + 1). An epoch visits
        every window once, in its own order, and cuts the text into windows at other places."""
        tokens, starts, last = self.splits[split], list[np.ndarray](), first + count
        each, slack = divmod(len(tokens) - 1, length)
        while first < last:
            epoch, within = divmod(first, each)
            offset, order = epoch_order(seed, f"language/order/{self.digest}/{role}/{split}/{epoch}", each, slack)
            starts.append(offset + length * order[within : within + last - first])
            first += len(starts[-1])
        return tokens[np.concatenate(starts)[:, None] + np.arange(length + 1)]

    def held_out(self, split: str, count: int, length: int) -> np.ndarray:
        """Up to `count` windows of a held-out split, evenly spread: integers, (sequences, length + 1)."""
        tokens = self.splits[split]
        each = (len(tokens) - 1) // length
        chosen = np.unique(np.linspace(0, each - 1, min(count, each)).round().astype(np.int64))
        return np.stack([tokens[start : start + length + 1] for start in chosen * length])


@functools.lru_cache(maxsize=8)
def epoch_order(seed: int, role: str, count: int, slack: int = 0) -> tuple[int, np.ndarray]:
    """Where an epoch begins, from 0 to `slack`, and the order in which it visits `count` things."""
    stream = draws.generator(seed, role)
    return int(stream.integers(slack + 1)), stream.permutation(count)


def of_bytes(documents: Documents) -> Text:
    """A text whose tokens are the bytes of split documents, with one separator after each document."""
    joined = ((part, SEPARATOR.join(contents) + SEPARATOR) for part, contents in documents.splits.items())
    return Text(documents.digest, {part: np.frombuffer(content, np.uint8) for part, content in joined})

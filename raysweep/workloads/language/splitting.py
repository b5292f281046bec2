"""Documents without repeats, split into training, validation and test documents. Imports nothing heavy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SPLITS = ("train", "validation", "test")
HELD_OUT = 0.05  # of the documents for validation, and again for test
VERSION = 2  # raise it when the same documents would be split in another way
RUN = 3  # lines
LONG_LINE = 20  # bytes; shorter lines say nothing of where they come from
ALIKE = 0.5


class BadText(ValueError):
    """A text that cannot be used; the message is one line and says where it is wrong."""


@dataclass(frozen=True)
class Documents:
    """The documents of each split; digest: 16 hexadecimal digits that pin them and how they are split."""

    digest: str
    splits: dict[str, list[bytes]]


def split(documents: Sequence[bytes]) -> Documents:
    """Split by the hash of the content: no document is in two splits, and adding one moves only its neighbours in hash
    order. What is held out and nearly the same as training documents goes to them. Needs three documents at least,
    BadText otherwise."""
    hashed = sorted({hashlib.sha256(document).digest(): document for document in documents if document.strip()}.items())
    if len(hashed) < len(SPLITS):
        raise BadText(f"expected at least 3 different documents, to train, validate and test on, got {len(hashed)}")
    held = max(1, round(HELD_OUT * len(hashed)))
    every = [document for _, document in hashed]
    known = nearly_known(every[: 2 * held], every[2 * held :])
    new = {
        "test": [every[i] for i in range(held) if not known[i]],
        "validation": [every[i] for i in range(held, 2 * held) if not known[i]],
    }
    if not (new["test"] and new["validation"]):  # a text of one mould: there is nothing new to hold out
        new, known = {"test": every[:held], "validation": every[held : 2 * held]}, [False] * 2 * held
    train = every[2 * held :] + [every[i] for i in range(2 * held) if known[i]]
    digest = hashlib.sha256(f"split/{VERSION}/".encode() + b"".join(key for key, _ in hashed)).hexdigest()[:16]
    return Documents(digest, {"train": train, **new})


def nearly_known(held: Sequence[bytes], train: Sequence[bytes]) -> list[bool]:
    """Which held-out documents have more than half of their runs of three long lines in training documents: copies of
    a package that another one brings along, generated files, boilerplate."""
    runs = [set(_runs(document)) for document in held]
    asked = set().union(*runs)
    seen: set[bytes] = set()
    for document in train:
        seen.update(asked.intersection(_runs(document)))
    return [len(own & seen) > ALIKE * len(own) for own in runs]


def _runs(document: bytes) -> Iterator[bytes]:
    lines = [line for line in map(bytes.strip, document.split(b"\n")) if len(line) >= LONG_LINE]
    return map(b"\n".join, zip(*(lines[start:] for start in range(RUN)), strict=False))

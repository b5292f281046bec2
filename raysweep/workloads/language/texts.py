"""Texts: documents split into training, validation and test without repeats, and sequences of tokens with a digest.
Endless ones are of a synthetic language."""

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
GRAMMAR = 1  # raise it when the same distance gives another text
WORDS, CLASSES, LONGEST = 128, 16, 8
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
DOCUMENT = 48  # words in a document
CHUNK = 2**16  # tokens drawn at a time
SUCCESSORS = 3  # classes that can follow a class


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
        needed = "at least 3 different documents, to train, validate and test on"
        raise BadText(f"{name}: expected {needed}, got {len(hashed)}")
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


class Grammar:
    """A synthetic language at a distance from grammar:0: an endless text, in all else like `Text`.

    The class of the next word depends on the class of the last one (a sparse Markov chain). Within a class, words
    follow Zipf's law; each is spelled with letters and ends with a space. So there is something to learn at every
    scale: letters, frequent words, rare words, classes. The entropy rate, the lower limit of the loss, is known.

    Distance D replaces a share D of the spellings, and the same share of the classes' transitions, by independent ones.
    What a smaller distance replaces, a larger distance replaces too.
    """

    train_tokens = 0

    def __init__(self, distance: float) -> None:
        self.distance = distance
        self.digest = hashlib.sha256(f"grammar/{GRAMMAR}/{distance!r}".encode()).hexdigest()[:16]
        self.spelling, self.transition, self.within = tables(distance)
        self.length = (self.spelling > 0).sum(1)  # bytes of each word, with its space

    def sequences(self, split: str, seed: int, role: str, first: int, count: int, length: int) -> np.ndarray:
        """Sequences first … first+count-1 of the stream of (seed, role): uint8, (count, length + 1)."""
        each = max(1, CHUNK // length)
        rows = []
        for number in range(first, first + count):
            chunk, within = divmod(number, each)
            text = _chunk(self, seed, f"{role}/{split}/{chunk}", each * length + 1)
            rows.append(text[within * length : (within + 1) * length + 1])
        return np.stack(rows)

    def held_out(self, split: str, count: int, length: int) -> np.ndarray:
        """The first sequences of a stream on which no seed trains."""
        return self.sequences(split, 0, "held out", 0, count, length)

    def text(self, stream: np.random.Generator, tokens: int) -> np.ndarray:
        """Documents of `tokens` tokens in all, uint8; the last document is cut."""
        documents = 1 + int(tokens / (DOCUMENT * self.length.min()))
        total, members, most = np.cumsum(self.transition, 1), np.cumsum(self.within, 1), self.within.shape[1]
        classes = np.searchsorted(np.cumsum(self.stationary()), stream.random(documents)).clip(max=CLASSES - 1)
        words = np.empty((documents, DOCUMENT), np.int64)
        for position in range(DOCUMENT):
            if position:
                classes = (total[classes] < stream.random(documents)[:, None]).sum(1).clip(max=CLASSES - 1)
            within = (members[classes] < stream.random(documents)[:, None]).sum(1).clip(max=most - 1)
            words[:, position] = classes * most + within
        spelled = self.spelling[words].reshape(documents, -1)  # 0 after the end of a word
        ended = np.concatenate([spelled, np.full((documents, 1), ord("\n"), np.uint8)], 1)
        return ended[ended > 0][:tokens]

    def stationary(self) -> np.ndarray:
        return np.linalg.matrix_power(self.transition, 512)[0]


@functools.lru_cache(maxsize=16)
def _chunk(grammar: Grammar, seed: int, role: str, tokens: int) -> np.ndarray:
    return grammar.text(draws.generator(seed, f"language/{grammar.digest}/{role}"), tokens)


def tables(distance: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The tables of the language at a distance: spelling (WORDS, LONGEST), bytes padded with 0; transitions between
    classes (CLASSES, CLASSES) and words within classes (CLASSES, WORDS / CLASSES), whose rows sum to 1."""
    spellings = _spellings(draws.generator(0, "language/grammar/spelling"), 2 * WORDS)
    replaced = draws.generator(0, "language/grammar/words").permutation(WORDS)[: round(distance * WORDS)]
    spelling = spellings[:WORDS].copy()
    spelling[replaced] = spellings[WORDS:][replaced]
    transition, other = (_transitions(draws.generator(0, f"language/grammar/classes/{which}")) for which in (0, 1))
    rows = draws.generator(0, "language/grammar/rows").permutation(CLASSES)[: round(distance * CLASSES)]
    transition[rows] = other[rows]
    rank = 1.0 / np.arange(1, WORDS // CLASSES + 1)
    return spelling, transition, np.tile(rank / rank.sum(), (CLASSES, 1))


def _spellings(stream: np.random.Generator, count: int) -> np.ndarray:
    """Distinct words of 2 to LONGEST-1 letters and a space. The letters follow Zipf's law."""
    weight = 1.0 / np.arange(1, 27)
    words: dict[bytes, None] = {}
    while len(words) < count:
        letters = LETTERS[stream.choice(26, int(stream.integers(2, LONGEST)), p=weight / weight.sum())]
        words.setdefault(letters.tobytes() + b" ")
    return np.stack([np.frombuffer(word.ljust(LONGEST, b"\0"), np.uint8) for word in words])


def _transitions(stream: np.random.Generator) -> np.ndarray:
    """Transitions from each class to a few others. One of them is always the next class, so all are reachable."""
    transition = np.zeros((CLASSES, CLASSES))
    for row in range(CLASSES):
        chosen = stream.choice(CLASSES, SUCCESSORS, replace=False)
        transition[row, chosen] = stream.dirichlet(np.ones(SUCCESSORS))
        transition[row] *= 0.9
        transition[row, (row + 1) % CLASSES] += 0.1
    return transition

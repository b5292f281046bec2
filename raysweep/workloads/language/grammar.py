"""Endless text of a synthetic language, with a parameter for the distance between two such languages.

The class of the next word depends on the class of the last one (a sparse Markov chain). Within a class, words follow
Zipf's law; each is spelled with letters and ends with a space. So there is something to learn at every scale: letters,
frequent words, rare words, classes. The entropy rate, the lower limit of the loss, is known. No text occurs twice.

Distance D replaces a share D of the spellings, and the same share of the classes' transitions, by independent ones.
What a smaller distance replaces, a larger distance replaces too.
"""

import functools
import hashlib

import numpy as np

from raysweep.training import draws

VERSION = 1  # raise it when the same distance gives another text
WORDS, CLASSES, LONGEST = 128, 16, 8
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
DOCUMENT = 48  # words in a document
CHUNK = 2**16  # tokens drawn at a time
SUCCESSORS = 3  # classes that can follow a class


class Grammar:
    """The language at a distance from grammar:0, an endless text (texts.Text)."""

    train_tokens = 0

    def __init__(self, distance: float) -> None:
        self.distance = distance
        self.digest = hashlib.sha256(f"grammar/{VERSION}/{distance!r}".encode()).hexdigest()[:16]
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

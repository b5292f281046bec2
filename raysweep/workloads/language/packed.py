"""Text that a user tokenized before: a flat array of token numbers on disk, memory-mapped and never read whole.

    tokens:VOCABULARY:SEPARATOR:PATH      e.g. tokens:50304:50279:/data/c4.npy

PATH is a one-dimensional .npy of unsigned integers; a file with any other name is raw little-endian uint16. SEPARATOR
ends a document. The last documents are held out, whole.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from raysweep.workloads.language.texts import BadText, Text

FORM = "tokens:VOCABULARY:SEPARATOR:PATH"
HELD_OUT = 0.005  # of the tokens for validation, and again for test; a small share, because such texts are long
WHOLE = 2**29  # tokens; a text up to this size is read whole for its check and its digest
BLOCKS, BLOCK = 256, 2**16  # of a longer text, 256 blocks of 65,536 tokens are read


def read(name: str) -> Text:
    """The text of that name; BadText says what is wrong with it."""
    vocabulary, separator, path = parse(name)
    tokens = _map(path)
    starts = np.arange(0, len(tokens), BLOCK)
    if len(tokens) > WHOLE:
        starts = np.linspace(0, len(tokens) - BLOCK, BLOCKS).astype(int)
    looked = [tokens[start : start + BLOCK] for start in starts]
    largest = max((int(block.max()) for block in looked if len(block)), default=0)
    if largest >= vocabulary:
        raise BadText(f"{path}: expected tokens below the vocabulary of {vocabulary:,}, found {largest:,}")
    digest = hashlib.sha256(f"{len(tokens)}/{tokens.dtype.str}/{separator}".encode())
    for block in looked:
        digest.update(np.ascontiguousarray(block).tobytes())
    test = _document_start(tokens, separator, 1 - HELD_OUT, path)
    validation = _document_start(tokens[:test], separator, 1 - HELD_OUT, path)
    parts = {"train": tokens[:validation], "validation": tokens[validation:test], "test": tokens[test:]}
    return Text(digest.hexdigest()[:16], parts)


def parse(name: str) -> tuple[int, int, Path]:
    """The vocabulary, the separator and the path in a name."""
    try:
        _, first, second, path = name.split(":", 3)
        vocabulary, separator = int(first), int(second)
    except ValueError:
        raise BadText(f"expected {FORM}, got {name!r}") from None
    if not 2 <= vocabulary <= 2**24 or not 0 <= separator < vocabulary:
        raise BadText(f"expected a vocabulary of 2 to {2**24:,} and a separator in it, got {name!r}")
    return vocabulary, separator, Path(path).expanduser()


def _map(path: Path) -> np.ndarray:
    try:
        mapped = path.suffix == ".npy"
        tokens = np.load(path, "r", allow_pickle=False) if mapped else np.memmap(path, "<u2", "r")
    except (OSError, ValueError, EOFError) as error:
        raise BadText(f"{path}: cannot be mapped ({error})") from None
    if tokens.ndim != 1 or tokens.dtype.kind != "u":
        got = f"got {tokens.dtype} of shape {tokens.shape}"
        raise BadText(f"{path}: expected a one-dimensional array of unsigned integers, {got}")
    return tokens


def _document_start(tokens: np.ndarray, separator: int, share: float, path: Path) -> int:
    """The first document start at or after a share of the tokens, or else the last document start before it."""
    at = int(share * len(tokens))
    for low, high, which in ((at, len(tokens), 0), (0, at, -1)):
        separators = np.flatnonzero(tokens[low:high] == separator)
        separators = separators[low + separators + 1 < len(tokens)]
        if len(separators):
            return int(low + separators[which] + 1)
    raise BadText(f"{path}: expected documents that end with token {separator}, found none to hold out")

"""How much is computed at a time, and less of it where memory was short. Imports no torch.

A pack whose memory was short is tried again with fewer samples at a time, then with fewer models side by side. Both
change results only by the order in which float32 numbers are added, and neither depends on how much memory is free.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

PIECE_BYTES = 8e9
"""Bytes that the forward and backward passes of all models may take at a time, besides logits; a larger batch is cut
into pieces whose gradients add up. A constant, so that no result depends on a machine's memory."""


@dataclass(frozen=True)
class Halvings:
    """How often the number of samples at a time is halved, and the number of models side by side."""

    samples: int = 0
    models: int = 0


_halvings, _used = Halvings(), dict[str, int]()  # of this process, which computes one trial at a time


@contextlib.contextmanager
def halved(halvings: Halvings) -> Iterator[dict[str, int]]:
    """Compute less at a time while the block runs. Gives the most samples and models that are then computed at a time,
    under these names."""
    global _halvings, _used
    before = _halvings, _used
    _halvings, _used = halvings, {}
    try:
        yield _used
    finally:
        _halvings, _used = before


def samples(count: int, bytes_each: float = 0.0) -> int:
    """How many of `count` samples to compute at a time, at least 1. bytes_each: of PIECE_BYTES; 0 if no limit."""
    most = count if not bytes_each else min(count, int(PIECE_BYTES / bytes_each))
    return _noted("samples", most >> _halvings.samples)


def models(count: int) -> int:
    """How many of `count` models to compute side by side at most, at least 1."""
    return _noted("models", count >> _halvings.models)


def _noted(what: str, count: int) -> int:
    _used[what] = max(_used.get(what, 0), size := max(1, count))
    return size

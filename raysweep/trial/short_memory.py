"""What a trial does when memory is short: it computes less at a time, before it takes fewer rows together.

Rows often share the cause, such as one pretraining, and then fewer rows would not help. So first the samples at a time
are halved, down to one, then the models side by side, and rows last (pack.py). The errors of a gang's workers come as
text, so a note of the error says what was computed at a time.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace

from raysweep.training import sizes
from raysweep.training.sizes import Halvings
from raysweep.trial import log

_SHORT = re.compile("MemoryError|out of memory|allocate memory|ALLOC_FAILED", re.IGNORECASE)
"""Matches tracebacks of short memory, as Python, NumPy, torch, CUDA's libraries or a gang write them."""
_NOTE = "computed at a time: up to {0} samples, and {1} models side by side"
_NOTED = re.compile(_NOTE.format(r"(\d+)", r"(\d+)"))


def is_short(problem: str) -> bool:
    return _SHORT.search(problem) is not None


@contextlib.contextmanager
def less(halvings: Halvings) -> Iterator[None]:
    """Compute less at a time while the block runs. An error of the block says how much that was."""
    with sizes.halved(halvings) as used:
        try:
            yield
        except Exception as error:
            if used:
                error.add_note(_NOTE.format(used.get("samples", 0), used.get("models", 0)))
            raise


def smaller(halvings: Halvings, problem: str) -> Halvings | None:
    """How much less to compute at a time after an error with this traceback; None if that would not help."""
    if not is_short(problem):
        return None
    noted = [tuple(map(int, match)) for match in _NOTED.findall(problem)]
    samples, models = (max((counts[i] for counts in noted), default=0) for i in range(2))
    again = "memory is short; again with at most %s %s instead of %s"
    if samples > 1:
        log.LOGGER.warning(again, samples // 2, "samples at a time", samples)
        return replace(halvings, samples=halvings.samples + 1)
    if models > 1:
        log.LOGGER.warning(again, models // 2, "models side by side", models)
        return replace(halvings, models=halvings.models + 1)
    return None

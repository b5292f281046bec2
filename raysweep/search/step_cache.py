"""The steps and the intervals of slices that were computed before, by a digest of all that they depend on.

A plan is made again after each round, and by every process that looks at a sweep, while most of its steps are the same
and each takes up to a second. So a driver leaves them in the sweep's folder. They save time: what is not there or
cannot be read is computed again. A step of an earlier release stays, so that a sweep that is complete stays
complete; intervals are those of the present code, as in the report.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from raysweep.plan.identity import source_digest
from raysweep.search.curves import Choice, Curve, Fitted, Step

VERSION = 2  # of steps: to be raised where those of earlier releases are not to stay
SOURCES = ("raysweep.search", "raysweep.fits")


class StepCache:
    """Steps and intervals of slices that were computed before.

    plain: what `as_plain` returned in this process or another one.
    """

    def __init__(self, plain: Mapping[str, Any] | None = None) -> None:
        plain = plain or {}
        entries = plain.get("found") if plain.get("version") == VERSION else None
        self._entries: dict[str, dict[str, Any]] = dict(entries) if isinstance(entries, dict) else {}
        self._rounds: dict[str, list[Step]] = {}

    def as_plain(self) -> dict[str, Any]:
        """Plain data for a file."""
        return {"version": VERSION, "found": self._entries}

    def round(self, key: str, compute: Callable[[], list[Step]]) -> list[Step]:
        """The steps of all slices after a round; this process alone remembers them."""
        if key not in self._rounds:
            self._rounds[key] = compute()
        return self._rounds[key]

    def step(self, key: str, points: int, compute: Callable[[], Step]) -> Step:
        """The step of this key; it is computed if it is not known."""
        if (step := _step(self._entries.get(key), points)) is not None:
            return step
        computed = compute()
        needed = None if computed.needed is None else computed.needed.tolist()
        numbers = {"half": computed.half, "then": computed.then, "place": computed.place}
        ways = [[[way.counts.tolist(), way.gain] for way in group] for group in computed.choices]
        plain = {"counts": computed.counts.tolist(), "state": computed.state, "needed": needed, "choices": ways}
        self._entries[key] = {**plain, **_words(numbers)}
        return computed

    def fitted(self, key: str, compute: Callable[[], Fitted]) -> Fitted:
        """The place and interval of this key; they are computed if the present code has not done so."""
        key = f"{key}-{source_digest(SOURCES)}"
        try:
            return Fitted(**_numbers(self._entries[key], "place", "low", "high"))
        except (KeyError, TypeError, ValueError):
            computed = compute()
            self._entries[key] = _words(vars(computed))
            return computed


def digest(plain: object, curve: Curve, *arrays: np.ndarray | None) -> str:
    """A digest of what a step depends on. plain: plain values."""
    every = [curve.x, curve.counts, curve.values, *(np.zeros(0) if array is None else array for array in arrays)]
    return hashlib.sha256(repr(plain).encode() + b"".join(array.tobytes() for array in every)).hexdigest()[:32]


def _words(numbers: Mapping[str, float]) -> dict[str, Any]:
    """JSON has no infinite numbers."""
    return {name: value if math.isfinite(value) else str(value) for name, value in numbers.items()}


def _numbers(plain: Mapping[str, Any], *names: str) -> dict[str, float]:
    return {name: float(plain[name]) for name in names}


def _step(plain: Any, points: int) -> Step | None:
    """A step from plain data; None if there is none, or if it cannot be one."""
    try:
        counts, needed = _counts(plain["counts"], points), plain["needed"]
        numbers = _numbers(plain, "half", "then", "place")
        ways = (tuple(Choice(_counts(c, points), float(gain)) for c, gain in group) for group in plain["choices"])
        needed = None if needed is None else _counts(needed, points)
        return Step(counts, str(plain["state"]), needed=needed, choices=tuple(ways), **numbers)
    except (KeyError, TypeError, ValueError):
        return None


def _counts(plain: Any, points: int) -> np.ndarray:
    counts = np.asarray(plain, dtype=np.int64)
    if counts.shape != (points,):
        raise ValueError(f"expected {points} counts")
    return counts

"""What was found of slices before: their steps and their intervals, by a digest of all that they depend on.

A plan is made again after each round, and by every process that looks at a sweep, while most of its steps are the same
and each takes up to a second. So a driver leaves them in the sweep's folder. They save time: what is not there or
cannot be read is computed again. A step that an earlier release found stays, so that a sweep that is complete stays
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


class KnownSteps:
    """Steps and intervals of slices that were computed before.

    plain: what `as_plain` returned in this process or another one.
    """

    def __init__(self, plain: Mapping[str, Any] | None = None) -> None:
        plain = plain or {}
        entries = plain.get("found") if plain.get("version") == VERSION else None
        self._found: dict[str, dict[str, Any]] = dict(entries) if isinstance(entries, dict) else {}

    def as_plain(self) -> dict[str, Any]:
        """Plain data for a file."""
        return {"version": VERSION, "found": self._found}

    def step(self, key: str, points: int, compute: Callable[[], Step]) -> Step:
        """The step of this key; it is computed if it is not known."""
        if (known := _step(self._found.get(key), points)) is not None:
            return known
        found = compute()
        needed = None if found.needed is None else found.needed.tolist()
        numbers = {"half": found.half, "then": found.then, "place": found.place}
        ways = [[[way.counts.tolist(), way.gain] for way in group] for group in found.choices]
        plain = {"counts": found.counts.tolist(), "state": found.state, "needed": needed, "choices": ways}
        self._found[key] = {**plain, **_words(numbers)}
        return found

    def fitted(self, key: str, compute: Callable[[], Fitted]) -> Fitted:
        """The place and interval of this key; they are computed if the present code has not found them."""
        key = f"{key}-{source_digest(SOURCES)}"
        try:
            return Fitted(**_numbers(self._found[key], "place", "low", "high"))
        except (KeyError, TypeError, ValueError):
            found = compute()
            self._found[key] = _words(vars(found))
            return found


def digest(said: object, curve: Curve, *arrays: np.ndarray | None) -> str:
    """A digest of what a step depends on. said: plain values."""
    every = [curve.x, curve.counts, curve.values, *(np.zeros(0) if array is None else array for array in arrays)]
    return hashlib.sha256(repr(said).encode() + b"".join(array.tobytes() for array in every)).hexdigest()[:32]


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
    found = np.asarray(plain, dtype=np.int64)
    if found.shape != (points,):
        raise ValueError(f"expected {points} counts")
    return found

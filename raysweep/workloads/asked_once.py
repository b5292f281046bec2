"""Files are looked at once while a plan is made, however many cells name them.

What a plan asks a workload of each cell (`check`, `stages`) may be answered from files. `@once` remembers the answers
of such a function while a `with one_look():` lasts: the next plan looks again, and outside of one nothing is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_seen: ContextVar[dict[Any, Any] | None] = ContextVar("seen", default=None)


@contextmanager
def one_look() -> Iterator[None]:
    """As long as it lasts, what is marked `@once` answers the same question from memory. One inside another adds
    nothing: the outer one remembers."""
    token = _seen.set({}) if _seen.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _seen.reset(token)


def once(function: Callable[P, R]) -> Callable[P, R]:
    """A function of hashable arguments that is asked once during one_look."""

    @functools.wraps(function)
    def remembering(*args: P.args, **kwargs: P.kwargs) -> R:
        seen = _seen.get()
        if seen is None:
            return function(*args, **kwargs)
        key = (function, args, tuple(sorted(kwargs.items())))
        if key not in seen:
            seen[key] = function(*args, **kwargs)
        answer: R = seen[key]
        return answer

    return remembering

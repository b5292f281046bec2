"""Reads files once while a plan is made, however many cells name them.

A plan asks a workload questions about each cell (`check`, `stages`), and the answers may come from files. Within a
`with one_look():` block, `@once` remembers the answers of such a function. The next plan reads the files again, and
outside of a block nothing is remembered.
"""

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
    """Remember the answers of functions marked `@once` while the block runs.

    A block inside another block changes nothing: the outer block remembers.
    """
    token = _seen.set({}) if _seen.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _seen.reset(token)


def once(function: Callable[P, R]) -> Callable[P, R]:
    """A function of hashable arguments that is called only once for equal arguments within one_look."""

    @functools.wraps(function)
    def remembering(*args: P.args, **kwargs: P.kwargs) -> R:
        seen = _seen.get()
        if seen is None:
            return function(*args, **kwargs)
        key = (function, args, tuple(sorted(kwargs.items())))
        if key not in seen:
            seen[key] = function(*args, **kwargs)
        return seen[key]

    return remembering

"""Independent fits in as many processes as there are cores: `mapped` within `helped`.

The processes are joblib's (loky): Pythons of their own, neither forked, which is not safe beside the threads of Ray,
MLflow or a notebook, nor do they import `__main__`. Functions that are mapped depend on their argument alone, so that
the results are the same with any number of processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 8  # processes: each takes a quarter of a gigabyte
WORTH = 4.0  # seconds that the rest must be expected to take: a process takes two to import what it needs

# How many items each call gave to processes, within `helped`.
_calls: ContextVar[list[int] | None] = ContextVar("calls", default=None)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def helped() -> Iterator[None]:
    """A context in which `mapped` may start processes, at most MOST and one for each of `cores()`. They end with it."""
    calls: list[int] = []
    token = _calls.set(calls)
    try:
        yield
    finally:
        _calls.reset(token)
        if calls:
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor().shutdown(wait=True, kill_workers=True)


def mapped(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """[function(item) for item in items], in `helped` by several processes if that takes seconds.

    function: depends on its argument only, and does not change it. An error is raised here as without processes. What
    cannot be sent to a process is computed here, and so is the rest if a process dies.
    """
    calls = _calls.get()
    if calls is None or len(items) < 2 or cores() < 2:
        return [function(item) for item in items]
    token = _calls.set(None)  # a function that maps has no processes of its own
    results: list[Result] = []
    begun = time.monotonic()
    try:
        for index, item in enumerate(items):
            if index and (time.monotonic() - begun) * (len(items) - index) / index > WORTH:
                calls.append(len(items) - index)
                return [*results, *_in_processes(function, items[index:])]
            results.append(function(item))
    finally:
        _calls.reset(token)
    return results


def _in_processes(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Like `mapped`, by as many processes as there are cores."""
    from joblib import Parallel, delayed, parallel_config

    for_the_helped = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is not for the helpers
    with parallel_config("loky", inner_max_num_threads=1, initializer=for_the_helped):
        parallel = Parallel(n_jobs=min(cores(), len(items), MOST), max_nbytes=None)
        try:
            return list(parallel(delayed(function)(item) for item in items))
        except Exception:  # what cannot be sent, a process that died, or an error of the function, which is raised here
            return [function(item) for item in items]

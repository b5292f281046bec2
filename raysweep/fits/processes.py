"""Independent fits in as many processes as there are cores: `mapped` within `helped`.

A helper is a Python of its own that reads calls from a pipe. It is neither forked, which is not safe beside the threads
of Ray, MLflow or a notebook, nor does it import `__main__`, as a pool of `multiprocessing` would. Functions that are
mapped depend on their argument alone, so that the results are the same with any number of processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 8  # processes: each takes a quarter of a gigabyte
WORTH = 2.0  # seconds that the rest must be expected to take: a helper takes one to import what it needs
CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from raysweep.fits import processes; processes.serve()"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass
class Helper:
    """A process, the pipe to it, and whether it has said that it listens."""

    process: subprocess.Popen[bytes]
    pipe: Connection[Any, Any]
    ready: bool = False


_helpers: ContextVar[list[Helper] | None] = ContextVar("helpers", default=None)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def helped() -> Iterator[None]:
    """A context in which `mapped` may start helpers, so that there is a process for each of `cores()`, at most MOST.
    They end with it."""
    helpers: list[Helper] = []
    token = _helpers.set(helpers)
    try:
        yield
    finally:
        _helpers.reset(token)
        for helper in helpers:
            helper.process.kill()
            helper.process.wait()
            helper.pipe.close()


def mapped(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """[function(item) for item in items], by this process and, in `helped`, by helpers if that takes seconds.

    function: depends on its argument only, and does not change it. What cannot be pickled is computed in this process,
    and so is what a helper fails at: an error is raised here as without helpers, of the first item that has one.
    """
    helpers = _helpers.get()
    if helpers is None or len(items) < 2 or cores() < 2:
        return [function(item) for item in items]
    token = _helpers.set(None)  # a function that maps has no helpers of its own
    waiting, found = deque(range(len(items))), dict[int, Result]()
    begun, threads = time.monotonic(), list[threading.Thread]()
    try:
        while waiting:
            rest = (time.monotonic() - begun) * len(waiting) / len(found) if found else 0.0
            if not threads and (helpers or rest > WORTH):
                threads = _started(helpers, function, items, waiting, found)
            try:
                index = waiting.popleft()
            except IndexError:  # a helper took the last one
                break
            found[index] = function(items[index])
    finally:
        waiting.clear()
        for thread in threads:
            thread.join()
        _helpers.reset(token)
    return [found[index] if index in found else function(item) for index, item in enumerate(items)]


def _started(
    helpers: list[Helper],
    function: Callable[[Item], Result],
    items: Sequence[Item],
    waiting: deque[int],
    found: dict[int, Result],
) -> list[threading.Thread]:
    """A thread for each helper that gives it items until none is waiting. The helpers are started if there are none."""
    if not helpers:
        with contextlib.suppress(OSError):  # no room for a process: this one works alone
            for _ in range(min(cores(), len(items), MOST) - 1):
                helpers.append(_helper())
    threads = [
        threading.Thread(target=_feed, args=(helper, function, items, waiting, found), daemon=True)
        for helper in helpers
    ]
    for thread in threads:
        thread.start()
    return threads


def _helper() -> Helper:
    """A new process, and the pipe to it."""
    pipe, its = Pipe()
    with its:
        command = [sys.executable, "-c", CODE, json.dumps(sys.path), str(its.fileno())]
        null = subprocess.DEVNULL
        process = subprocess.Popen(
            command, stdin=null, stdout=null, pass_fds=[its.fileno()], env={**os.environ, **ONE_THREAD}
        )
    return Helper(process, pipe)


def _feed(
    helper: Helper,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    waiting: deque[int],
    found: dict[int, Result],
) -> None:
    """Give a helper one item after the other."""
    with contextlib.suppress(Exception):  # what is missing then is computed by the caller
        while waiting and not helper.ready:  # it takes no item from others before it listens
            if helper.pipe.poll(0.05):
                helper.ready = bool(helper.pipe.recv())
        while waiting:
            index = waiting.popleft()
            helper.pipe.send((function, items[index]))
            succeeded, result = helper.pipe.recv()
            if succeeded:
                found[index] = result


def serve() -> None:
    """What a helper does: answer each call in the pipe with (whether it succeeded, its result)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that it helps
    with Connection(int(sys.argv[2])) as pipe, contextlib.suppress(EOFError, OSError):
        pipe.send(True)
        while True:
            try:
                function, item = pipe.recv()
                answer = (True, function(item))
            except (EOFError, OSError):
                raise
            except Exception:
                answer = (False, None)
            pipe.send(answer)

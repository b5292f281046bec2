"""Computes in a child process, so that what ends that process is an error here, and not the end of this process.

The child is forked: it has whatever this process has, also a function that cannot be pickled. Its results come back
through a pipe that nobody else can write.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from typing import Any, NoReturn, TypeVar

from raysweep.errors import RaysweepError
from raysweep.storage import leases

T = TypeVar("T")
_LOOK_EVERY = 1.0  # seconds between two looks whether a silent child lives: its own children may keep the pipe open
_INTERRUPTED = 130
_HINTS = {int(signal.SIGKILL): " (out of memory, or killed from outside)"}


class Died(Exception):
    """A child process ended before it was done. The message says how: "was killed by SIGSEGV", "exited with code 1"."""


class Raised(Exception):
    """A child process raised an error. The message is the traceback there."""


def possible() -> bool:
    """Whether a child of this process could compute: CUDA does not work in a fork of a process that uses it, and
    derivatives do not once torch has begun threads for them."""
    torch = sys.modules.get("torch")
    return torch is None or (not torch.cuda.is_initialized() and _differentiates(torch))


def _differentiates(torch: Any) -> bool:
    """Whether a child of this process can compute a derivative: torch does not say so otherwise."""
    if not (child := os.fork()):
        code = 1
        try:
            torch.ones((), requires_grad=True).backward()
            code = 0
        finally:
            os._exit(code)
    return _status(child) == 0


def results(work: Iterator[T]) -> Iterator[T]:
    """What an iterator yields in a child process, one by one as it comes. If this one is closed, the child is killed.
    Nothing in the child may use more than one thread of OpenMP: a pool of threads is not copied, and is waited for.
    Raises Died if the child ended too early; RaysweepError and leases.Held as the child did; Raised for other errors.
    """
    ear, mouth = Pipe(duplex=False)
    watched, held = os.pipe()  # `held` is closed when this process ends, however it does
    _flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about threads, which the child lacks
        child = os.fork()
    if not child:
        os.close(held)
        _work(mouth, watched, work)
    mouth.close()
    os.close(watched)
    error: Any
    value: Any
    status: int | None = None
    try:
        while True:
            while not ear.poll(_LOOK_EVERY) and status is None:
                status = _status(child, os.WNOHANG)
            try:
                error, value = ear.recv() if ear.poll() else (Died, ())
            except (EOFError, OSError):
                error, value = Died, ()
            if error is StopIteration:
                return
            if error is Died:
                status = _status(child) if status is None else status
                raise Died(_ending(status))
            if error is not None:
                raise error(*value)
            yield value
    finally:
        if status is None:
            os.kill(child, signal.SIGKILL)
            _status(child)
        ear.close()
        os.close(held)


def _work(mouth: Connection, watched: int, work: Iterator[Any]) -> NoReturn:
    """What the child does. It sends pairs: None with a result, or an error with the arguments to make it from."""
    code = _INTERRUPTED
    try:
        threading.Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
        try:
            for value in work:
                mouth.send((None, value))
            mouth.send((StopIteration, ()))
        except RaysweepError as error:
            mouth.send((type(error), ("", str(error))))
        except leases.Held as other:
            mouth.send((leases.Held, (other.stage,)))
        except Exception:
            mouth.send((Raised, (traceback.format_exc(),)))
        code = 0
    finally:
        _flush()
        os._exit(code)  # never back into what the parent was doing


def _end_with_parent(watched: int) -> None:
    os.read(watched, 1)
    os._exit(_INTERRUPTED)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, not there, or a full disk
            stream.flush()


def _status(child: int, options: int = 0) -> int | None:
    """How a child ended, as os.waitpid says it: None if it lives, -1 if the system has forgotten."""
    try:
        number, status = os.waitpid(child, options)
    except ChildProcessError:
        return -1
    return status if number else None


def _ending(status: int | None) -> str:
    if status is None or status < 0:
        return "ended early"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = next((each.name for each in signal.Signals if each == number), f"signal {number}")
        return f"was killed by {name}{_HINTS.get(number, '')}"
    return f"exited with code {os.waitstatus_to_exitcode(status)}"

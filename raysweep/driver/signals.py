"""How a driver ends when it is told to: SIGTERM (a spot notice), SIGHUP (a lost terminal) and Ctrl-C.

What is finished is in the ledger already; what an orderly end adds is the closed record in MLflow and a word on how to
go on. It must not take long: a spot notice may leave 25 seconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from raysweep import terminal
from raysweep.redaction import redact

INTERRUPTED = 130
DEADLINE = 18.0
"""Seconds from the signal to the end of the process, whatever it is in the middle of."""
_MOMENT = 0.02  # seconds after which a signal comes again that found an import
PATIENCE = 6.0
"""Seconds after which the main thread is not waited for: one call into a numerical library may hold it for minutes."""


def once(close: Callable[..., object]) -> Callable[..., None]:
    """`close`, done by whoever calls it first. Another, of the two threads that may both close what a signal ends,
    waits until it is done, and no longer than a signal leaves time for."""
    begun, done = threading.Lock(), threading.Event()

    def first(*arguments: Any) -> None:
        if not begun.acquire(blocking=False):
            done.wait(DEADLINE - PATIENCE)
            return
        try:
            close(*arguments)
        finally:
            done.set()

    return first


@contextlib.contextmanager
def on_signals(close: Callable[[], object]) -> Iterator[Callable[[], None]]:
    """Let SIGTERM and SIGHUP stop the block as Ctrl-C does, by KeyboardInterrupt; once, however many of them come.
    None of the three does so in the middle of an import (`amid_import`).

    A signal that was ignored when the block began (SIGHUP under nohup) stays ignored. Should the block not come to an
    end within DEADLINE, the process ends there and then, after `close` was called by another thread. Yields a function
    that puts the handlers back: `ray.init` replaces them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    numbers = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    interrupted = signal.getsignal(signal.SIGINT)
    told, over = threading.Event(), threading.Event()

    def stop(number: int, frame: Any) -> None:
        if not told.is_set() and not amid_import(number, frame):
            told.set()
            raise KeyboardInterrupt

    def interrupt(number: int, frame: Any) -> None:
        if not amid_import(number, frame):
            raise KeyboardInterrupt

    def install() -> None:
        for number in numbers:
            signal.signal(number, stop)
        if interrupted is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt)

    install()
    ear, mouth = os.pipe()  # Python writes the number of a signal there at once, whatever the main thread does
    os.set_blocking(mouth, False)
    listening = signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    watcher = threading.Thread(
        target=_watch,
        args=(ear, {int(number) for number in numbers}, over, close),
        name="raysweep-stopping",
        daemon=True,
    )
    watcher.start()
    try:
        yield install
    finally:
        over.set()
        signal.set_wakeup_fd(listening)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if interrupted is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupted)
        os.close(mouth)  # which ends the watcher


def amid_import(number: int, frame: Any) -> bool:
    """Whether a signal found the main thread inside Python's own import code, between taking a lock and giving it back:
    an exception there can be swallowed, with the lock held for good, and then every thread that imports waits for ever.
    The signal is then sent again a moment later."""
    if frame is None or not frame.f_code.co_filename.startswith("<frozen importlib"):
        return False
    again = threading.Timer(_MOMENT, signal.pthread_kill, (threading.main_thread().ident, number))
    again.daemon = True
    again.start()
    return True


def _watch(ear: int, numbers: set[int], over: threading.Event, close: Callable[[], object]) -> None:
    """In a thread of its own: see to it that a signal ends the process in time."""
    while heard := os.read(ear, 64):
        if not numbers.intersection(heard):
            continue
        told = time.monotonic()
        if not over.wait(PATIENCE):
            try:
                close()
            except Exception as problem:  # of whatever library the record is kept in; the end must come all the same
                terminal.say(redact(f"the record in MLflow was not closed ({problem}); `raysweep sync` does it"))
        if not over.wait(max(told + DEADLINE - time.monotonic(), 0)):
            os._exit(INTERRUPTED)
        break
    os.close(ear)


def leave_when_told(code: int) -> None:
    """All that was asked for is done: a signal from now on only cuts short what is still shut down (Ray takes seconds
    for it), and the command ends with its own code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: os._exit(code))


def leave_soon(seconds: float = DEADLINE / 3) -> None:
    """What is left to do is to leave: nothing that still wants to be shut down may hold the process for long, and not
    at all where Ctrl-C is pressed again."""
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def leave() -> None:
        time.sleep(seconds)
        os._exit(INTERRUPTED)

    threading.Thread(target=leave, name="raysweep-leaving", daemon=True).start()

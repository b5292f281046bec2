"""How a driver ends on a signal: by SIGTERM (a spot notice), SIGHUP (a lost terminal) or Ctrl-C.

Finished rows are in the ledger already. An orderly end also closes the record in MLflow and says how to continue. It
must be quick: a spot notice may leave only 25 seconds.
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
"""Seconds from the signal to the end of the process, whatever the process is doing."""
_TAKEN: list[Callable[[], object]] = []
"""For each block that hears signals now, what gives them back."""
_HELD = threading.local()  # forking: whether this thread forks now; mask: the signals that were blocked before
_RECEIVED = threading.Event()  # whether a signal raised KeyboardInterrupt in the block
_PROCESS = threading.Event()  # set: this process ends with the block that a signal ends
_MOMENT = 0.02  # seconds after which an untimely signal is sent again
PATIENCE = 6.0
"""Seconds to wait for the main thread, which a single call into a numerical library may block for minutes."""


def once(close: Callable[..., object]) -> Callable[..., None]:
    """Wrap `close` so that only the first call runs it. Another thread that calls it after a signal waits until that is
    done, for at most DEADLINE - PATIENCE seconds."""
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
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in the block, as Ctrl-C does.

    They raise it only once, however many signals come, and not in the middle of an import or a fork (see
    `is_untimely`). A signal that was ignored before the block (SIGHUP under nohup) stays ignored.

    If the block does not end within PATIENCE seconds of the signal, another thread calls `close`. If it does not end
    within DEADLINE seconds, the process exits.

    A process that is forked in the block (multiprocessing in a function) hears signals as before the block: it would
    else tell this one of those that are meant for it.

    Yields a function that installs the handlers again, because `ray.init` replaces them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    numbers = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    interrupted = signal.getsignal(signal.SIGINT)
    signalled, over = threading.Event(), threading.Event()
    _RECEIVED.clear()

    def stop(number: int, frame: Any) -> None:
        if not signalled.is_set() and not is_untimely(number, frame):
            signalled.set()
            _RECEIVED.set()
            raise KeyboardInterrupt

    def interrupt(number: int, frame: Any) -> None:
        if not is_untimely(number, frame):
            _RECEIVED.set()
            raise KeyboardInterrupt

    def install() -> None:
        for number in numbers:
            signal.signal(number, stop)
        if interrupted is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt)

    install()
    ear, mouth = os.pipe()  # Python writes a signal's number there at once, even if the main thread is busy
    os.set_blocking(mouth, False)
    listening = signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
    heard = (ear, {int(number) for number in numbers}, over, close)
    watcher = threading.Thread(target=_watch, args=heard, name="raysweep-stopping", daemon=True)

    def give_back(ignored: bool = False) -> None:
        signal.set_wakeup_fd(listening)
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL if handler is None else handler)
        if interrupted is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupted)

    watcher.start()
    _TAKEN.append(give_back)
    try:
        yield install
    finally:
        over.set()
        _TAKEN.remove(give_back)
        give_back(ignored=_PROCESS.is_set() and _RECEIVED.is_set())
        os.close(mouth)  # this ends the watcher


def received() -> bool:
    """Whether a signal has raised KeyboardInterrupt in the block. What arrives may be another error: NumPy, for one,
    turns whatever its own Python code raises while it compares types into a TypeError."""
    return _RECEIVED.is_set()


@contextlib.contextmanager
def ending_process() -> Iterator[None]:
    """Let no later signal replace the code with which this process ends if `on_signals` is interrupted in the block."""
    _PROCESS.set()
    try:
        yield
    finally:
        _PROCESS.clear()


def _before_fork() -> None:
    """Hold signals back, so that none reaches the new process before it hears them as it should."""
    _HELD.forking, _HELD.mask = True, None
    if _TAKEN:
        _HELD.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP, signal.SIGINT})


def _after_fork() -> None:
    if _HELD.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _HELD.mask)
    _HELD.forking = False


def _in_forked_process() -> None:
    while _TAKEN:
        _TAKEN.pop()()
    _after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_forked_process)


def is_untimely(number: int, frame: Any) -> bool:
    """Whether a signal arrived while the main thread runs Python's own import code or forks. If so, it is sent again.

    Import code may hold an import lock. An exception raised there can be swallowed and leave the lock held, and then
    every thread that imports waits for ever. One raised in a hook of a fork is swallowed always.

    number, frame: the signal, and what the main thread was executing, as Python passes them to a signal handler.
    """
    code = frame and frame.f_code
    forks = getattr(_HELD, "forking", False) or code is _before_fork.__code__
    if not forks and not (code and code.co_filename.startswith("<frozen importlib")):
        return False
    again = threading.Timer(_MOMENT, signal.pthread_kill, (threading.main_thread().ident, number))
    again.daemon = True
    again.start()
    return True


def _watch(ear: int, numbers: set[int], over: threading.Event, close: Callable[[], object]) -> None:
    """Make sure, in a thread, that a signal that is read from `ear` ends the process in time."""
    while numbers_read := os.read(ear, 64):
        if not numbers.intersection(numbers_read):
            continue
        since = time.monotonic()
        if not over.wait(PATIENCE):
            try:
                close()
            except Exception as problem:  # from MLflow or its database; the process must end anyway
                terminal.say(redact(f"the record in MLflow was not closed ({problem}); `raysweep sync` does it"))
        if not over.wait(max(since + DEADLINE - time.monotonic(), 0)):
            os._exit(INTERRUPTED)
        break
    os.close(ear)


def leave_on_signal(code: int) -> None:
    """Let every signal from now on end the process with this code: Ray takes seconds to shut down."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: os._exit(code))


def leave_soon(seconds: float = DEADLINE / 3) -> None:
    """End the process within these seconds, even if something still shuts down. A second Ctrl-C ends it at once."""
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def leave() -> None:
        time.sleep(seconds)
        os._exit(INTERRUPTED)

    threading.Thread(target=leave, name="raysweep-leaving", daemon=True).start()

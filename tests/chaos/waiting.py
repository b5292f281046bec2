"""Waiting for what another process does: a look now and then, with a deadline and an eye on the process."""

import contextlib
import signal
import subprocess
import threading
import time

LOOK = 0.02  # seconds between two looks
PATIENCE = 400.0
"""Seconds after which a test gives up. What it waits for takes seconds; a busy machine may take fifty times as long."""


def wait_for(condition, process=None, seconds=PATIENCE):
    """Whether a condition came about within so many seconds and, where a process is given, before that had ended."""
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        if process is None:
            pause.wait(LOOK)
            continue
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK)
            return bool(condition())  # it may have been the last thing that the process did
    return True


def hear():
    """To be called in a new process: undo what nohup or a shell's background would have it inherit."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)

"""Functions for tests of `fits/processes.py`, which its helpers import."""

from __future__ import annotations

import os
import time


def where(seconds: float) -> int:
    """The process that computes this, after a while."""
    time.sleep(seconds)
    return os.getpid()


def only_in(process: int) -> int:
    """The process if it is this one; any other one ends."""
    time.sleep(0.2)
    if os.getpid() != process:
        os._exit(1)
    return process


def printed(number: float) -> float:
    """The square root, and a line on standard output; a number below 0 is an error."""
    print("a line")
    time.sleep(0.1)
    if number < 0:
        raise ValueError(f"{number:g} has no square root")
    return float(number**0.5)

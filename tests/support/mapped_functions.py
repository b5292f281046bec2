"""Functions for tests of `fits/processes.py`, which its processes import."""

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


def root(number: float) -> float:
    """The square root; a number below 0 is an error."""
    if number < 0:
        raise ValueError(f"{number:g} has no square root")
    return float(number**0.5)

"""Functions for tests of `fits/processes.py`, which its processes import."""

import os
import time


def where(seconds):
    """The process that computes this, after a while."""
    time.sleep(seconds)
    return os.getpid()


def only_in(process):
    """The process if it is this one; any other one ends."""
    time.sleep(0.2)
    if os.getpid() != process:
        os._exit(1)
    return process


def root(number):
    if number < 0:
        raise ValueError(f"{number:g} has no square root")
    return float(number**0.5)

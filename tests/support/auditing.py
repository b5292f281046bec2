"""What Python tells of what it opens and locks (`sys.audit`): tests count it or come between, and replace nothing."""

import contextlib
import functools
import os
import signal
import sys
from pathlib import Path

import pytest

LISTENERS = []


def tell(event, arguments):
    for listener in tuple(LISTENERS):
        listener(event, arguments)


@functools.cache
def begin():
    """Once in a process: what was added can never be taken away."""
    sys.addaudithook(tell)


@contextlib.contextmanager
def listening(listener):
    """Let a listener hear of every event, before it comes to pass."""
    begin()
    LISTENERS.append(listener)
    try:
        yield
    finally:
        LISTENERS.remove(listener)


@contextlib.contextmanager
def opened(writing, wanted):
    """The files for which `wanted` holds that are opened for reading, or for writing; the list grows while they are."""
    result = []

    def listener(event, arguments):
        if event == "open" and isinstance(arguments[0], (str, os.PathLike)):
            path = Path(arguments[0])
            if bool(arguments[2] & os.O_ACCMODE) == writing and wanted(path):
                result.append(path)

    with listening(listener):
        yield result


def reading(folder):
    """The files that are opened for reading, in folders of this name."""
    return opened(False, lambda path: path.parent.name == folder and not path.is_dir())


def writing(suffix):
    """The files whose names end so that are opened for writing."""
    return opened(True, lambda path: path.name.endswith(suffix))


@contextlib.contextmanager
def just_before(*events, ending, do, number=1):
    """Do something before such an event (the so many-th) at a file whose path ends so; the call raises what it does."""
    met = []

    def listener(event, arguments):
        if event in events and any(str(argument).endswith(ending) for argument in arguments):
            met.append(event)
            if len(met) == number:
                do()

    with listening(listener):
        yield
    assert len(met) >= number, "it never came to that"


@contextlib.contextmanager
def ctrl_c_when(condition):
    """Ctrl-C as soon as a condition holds: at the next file that is opened, none of those that an import opens."""
    held = []

    def listener(event, arguments):
        if held or event != "open" or str(arguments[0]).endswith((".py", ".pyc", ".so")):
            return
        if condition():
            held.append(True)
            signal.raise_signal(signal.SIGINT)

    with listening(listener):
        yield
    assert held, "it never held"


@contextlib.contextmanager
def interrupted(sweep, segments):
    """Interrupt what runs here as soon as the ledger of a sweep has so many segments."""
    ledger = sweep / "ledger"
    with pytest.raises(KeyboardInterrupt), ctrl_c_when(lambda: len([*ledger.glob("*.jsonl")]) == segments):
        yield

"""What Python itself tells of what it opens and locks (`sys.audit`): tests count it or come in between, and replace
nothing."""

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Listener = Callable[[str, tuple[Any, ...]], object]
LISTENERS: list[Listener] = []


def tell(event: str, arguments: tuple[Any, ...]) -> None:
    for listener in tuple(LISTENERS):
        listener(event, arguments)


@functools.cache
def begin() -> None:
    """Once in a process: what was added can never be taken away."""
    sys.addaudithook(tell)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let a listener hear of every event, before it comes to pass."""
    begin()
    LISTENERS.append(listener)
    try:
        yield
    finally:
        LISTENERS.remove(listener)


@contextlib.contextmanager
def reading(folder: str) -> Iterator[list[Path]]:
    """The files that are opened for reading, in folders of this name; the list grows while they are."""
    result: list[Path] = []

    def listener(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], (str, os.PathLike)) or arguments[2] & os.O_ACCMODE:
            return
        path = Path(arguments[0])
        if path.parent.name == folder and not path.is_dir():
            result.append(path)

    with listening(listener):
        yield result


@contextlib.contextmanager
def writing(suffix: str) -> Iterator[list[Path]]:
    """The files whose names end so that are opened for writing; the list grows while they are."""
    result: list[Path] = []

    def listener(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith(suffix) and arguments[2] & os.O_ACCMODE:
            result.append(Path(arguments[0]))

    with listening(listener):
        yield result


@contextlib.contextmanager
def just_before(*events: str, ending: str, do: Callable[[], object], number: int = 1) -> Iterator[None]:
    """Do something before such an event (the so many-th) at a file whose path ends so; the call raises what it does."""
    met: list[str] = []

    def listener(event: str, arguments: tuple[Any, ...]) -> None:
        if event in events and any(str(argument).endswith(ending) for argument in arguments):
            met.append(event)
            if len(met) == number:
                do()

    with listening(listener):
        yield
    assert len(met) >= number, "it never came to that"


@contextlib.contextmanager
def ctrl_c_when(condition: Callable[[], object]) -> Iterator[None]:
    """Ctrl-C as soon as a condition holds: at the next file that is opened, none of those that an import opens."""
    held: list[bool] = []

    def listener(event: str, arguments: tuple[Any, ...]) -> None:
        if held or event != "open" or str(arguments[0]).endswith((".py", ".pyc", ".so")):
            return
        if condition():
            held.append(True)
            signal.raise_signal(signal.SIGINT)

    with listening(listener):
        yield
    assert held, "it never held"


@contextlib.contextmanager
def interrupted(sweep: Path, segments: int) -> Iterator[None]:
    """Interrupt what runs here as soon as the ledger of a sweep has so many segments."""
    ledger = sweep / "ledger"
    with pytest.raises(KeyboardInterrupt), ctrl_c_when(lambda: len([*ledger.glob("*.jsonl")]) == segments):
        yield

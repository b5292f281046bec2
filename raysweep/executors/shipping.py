"""Sends a Python function to Ray's workers: pickled by value, never as a file, so that they need no copy of its source.

The modules next to it go with it (helpers that it imports). What other packages are needed must be installed on the
workers.
"""

from __future__ import annotations

import contextlib
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from raysweep.errors import InputError


def check(function: Callable[..., Any], name: str) -> None:
    """InputError if something that the function uses cannot be sent. name: the name of the function for the error."""
    from ray import cloudpickle

    with by_value(function):
        try:
            cloudpickle.dumps(function)
        except Exception as error:  # whatever an object says that cannot be pickled
            why = f"{name} cannot be sent to Ray's workers, because of something outside of it that it uses ({error})"
            advice = "make that inside the function, or say --executor inline"
            raise InputError("workload", f"{why}; {advice}") from None


@contextlib.contextmanager
def by_value(function: Callable[..., Any]) -> Iterator[None]:
    """Let Ray send the modules next to the function by value inside the block."""
    from ray import cloudpickle

    registered = []
    for module in _beside(function):
        with contextlib.suppress(ValueError):  # it cannot be imported by its name
            cloudpickle.register_pickle_by_value(module)
            registered.append(module)
    try:
        yield
    finally:
        for module in registered:
            cloudpickle.unregister_pickle_by_value(module)


def _beside(function: Callable[..., Any]) -> list[Any]:
    """The loaded modules in the folder of the function's file and below it, without installed packages."""
    module = sys.modules.get(getattr(function, "__module__", "") or "")
    home = Path(getattr(module, "__file__", None) or Path.cwd() / "notebook").resolve().parent
    package = str(Path(__file__).parents[1])
    installed = [Path(path).resolve() for path in (*sysconfig.get_paths().values(), sys.prefix, package)]
    modules = []
    for name, other in list(sys.modules.items()):
        file = getattr(other, "__file__", None)
        if name == "__main__" or not isinstance(file, str):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(home) and not any(path.is_relative_to(folder) for folder in installed):
            modules.append(other)
    return modules

"""Finds the Python function that a space is about: given in Python, or named as `my_file.py:train`.

This is the only place that imports a user's file. It is called for a space, a file or a function that the user names
now, and with a place that `user_files` remembers of the user's own run; never with anything read from a storage.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from raysweep.errors import InputError, shown, unknown
from raysweep.space import function_digest
from raysweep.workloads import functions
from raysweep.workloads.function_description import Description

FUNCTION_KEYS = ("metrics", "version", "vectorized")
"""Keys of a space whose workload is a function."""
_NAMED = re.compile(r"(?P<file>.+\.py)(:(?P<name>.*))?", re.DOTALL)


@dataclass(frozen=True)
class Given:
    """A function that the user gave, and the digest of what it does. file, name: where it was imported from; None and
    "" if it was given in Python."""

    call: Callable[..., Any]
    digest: str
    file: Path | None = None
    name: str = ""


def is_named(workload: Any) -> bool:
    """Whether this is the value of `workload` for a function: a function, or a text like my_file.py:train."""
    return not isinstance(workload, (str, Mapping, type(None), int, float, list)) or (
        isinstance(workload, str) and _NAMED.fullmatch(workload) is not None
    )


Check = Callable[[str, str], None]
"""Called with the digest and the name of a function before its file is executed."""


def find(workload: Any, folder: Path, path: str = "workload", check: Check = lambda digest, name: None) -> Given:
    """The function: itself, or imported from FILE.py:NAME, relative to `folder`. InputError, at the key `path`, for a
    file that cannot be imported or has no such function."""
    if not isinstance(workload, str):
        given = Given(workload, function_digest.of_function(workload))
        check(given.digest, getattr(workload, "__name__", ""))
        return given
    match = _NAMED.fullmatch(workload)
    if match is None or not (match["name"] or "").isidentifier():
        raise InputError(path, f"expected FILE.py:FUNCTION, such as my_file.py:train, got {shown(workload)}")
    return imported(folder / match["file"], match["name"], match["file"], path, check)


def imported(file: Path, name: str, shown_as: str, path: str, check: Check = lambda digest, name: None) -> Given:
    """The function of this name in a file, which is executed. shown_as, path: the file and the key for errors."""
    try:
        text = file.read_bytes()
    except OSError as error:
        why = "no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error))
        raise InputError(path, f"{shown_as} cannot be read: {why}") from None
    file = file.resolve()
    digest = function_digest.of_file(text, file, name)
    check(digest, name)
    module = _module(file, text, shown_as, path)
    function = getattr(module, name, None)
    if function is None:
        defined = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        defined = [key for key in defined if vars(module)[key].__module__ == module.__name__]
        raise unknown(path, f"function in {shown_as}:", name, defined or ["none"])
    return Given(function, digest, file, name)


class RunsWhileImported(InputError):
    """A file runs a sweep while it is imported for the function in it."""


_IMPORTED: list[Path] = []
"""The files that are imported at this moment."""


class _Loader(SourceLoader):
    """Imports a file as it was read once, so that its digest is that of what is executed."""

    def __init__(self, file: Path, text: bytes) -> None:
        self._file, self._text = file, text

    def get_filename(self, fullname: str) -> str:
        return str(self._file)

    def get_data(self, path: str | bytes) -> bytes:
        return self._text


def _module(file: Path, text: bytes, shown_as: str, path: str) -> ModuleType:
    """The module of a file with this text. Files next to it can be imported from it, as from a script."""
    plain = re.sub(r"\W", "_", file.stem)
    suffix = hashlib.sha256(str(file).encode()).hexdigest()[:6]  # the file may be called like an installed module
    name = f"_raysweep_{plain}_{suffix}"
    spec = ModuleSpec(name, loader := _Loader(file, text), origin=str(file))
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        _IMPORTED.append(file)
        with contextlib.chdir("."):  # as on Ray, what the file does to the working directory is not kept
            loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
        if isinstance(error, SyntaxError) and error.filename == str(file):
            lines, error = [error.lineno], type(error)(error.msg)
        where = f", line {lines[-1]}" if lines else ""
        if isinstance(error, RunsWhileImported):
            raise InputError(
                path, f'{shown_as}{where} runs a sweep when it is imported; put that under `if __name__ == "__main__":`'
            ) from None
        raise InputError(path, f"{shown_as}{where} cannot be imported: {type(error).__name__}: {error}") from None
    finally:
        _IMPORTED.pop()
    return module


def check_not_imported() -> None:
    """RunsWhileImported if a file of a user is imported at this moment, which must not run a sweep."""
    if _IMPORTED:
        raise RunsWhileImported(str(_IMPORTED[-1]), "runs a sweep when it is imported")


def described(data: Mapping[str, Any], given: Given, name: str | None = None) -> dict[str, Any]:
    """The space, as plain data whose types are not checked yet, with the function's description instead of its code.
    name: that of a function that has none itself."""
    source = data["workload"] if isinstance(data["workload"], str) else ""
    title = getattr(given.call, "__name__", "")
    description = functions.describe(
        given.call,
        name=given.name or (name if not str(title).isidentifier() else None),
        digest=given.digest,
        source=source,
        axes=data.get("axes"),
        fixed=data.get("fixed"),
        **{key: data[key] for key in FUNCTION_KEYS if data.get(key) is not None},
    )
    if data.get("early_stopping") and not functions.takes_log(given.call):
        why = f"{description.name} has no argument log, by which it says its curve and hears when to stop"
        raise InputError("early_stopping", why)
    rest = {key: value for key, value in data.items() if key not in FUNCTION_KEYS}
    usual = re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9._-]", "", description.name)[:64] or "function"
    return {"name": usual, **rest, "workload": description.name, "function": description.plain()}


def unchanged(recorded: Description, sweep: str, path: str) -> Check:
    """A check that raises InputError, at `path`, unless this is the function that a sweep recorded."""

    def check(digest: str, name: str) -> None:
        if name.isidentifier() and name != recorded.name:
            raise InputError(path, f"expected the function {recorded.name} of the sweep {sweep}, got {name}")
        if digest != recorded.digest:
            again = (
                "run its space again (raysweep run, or raysweep.run in Python), where --on-code-change says what to do"
            )
            why = f"the source of {recorded.name} changed since the sweep {sweep} recorded it"
            raise InputError(path, f"{why}; {again} with its rows")

    return check

"""Analyses that are functions of somebody else: installed ones, by entry point, and those of a file of the user.

An entry of `analysis` names an installed one by its name, and one in a file as `my_file.py:rank`. Its options are the
keyword arguments of the function.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from raysweep.errors import InputError, shown, summary
from raysweep.space import function_files

GROUP = "raysweep.analyses"
"""The group of entry points by which a package provides analyses."""
OURS = ("where", "question")
"""The options of an entry that its function does not get."""
_IN_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)", re.DOTALL)

Function = Callable[..., Any]


def installed() -> list[str]:
    """The names of the analyses that installed packages provide."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def is_in_file(kind: str) -> bool:
    return _IN_FILE.fullmatch(kind) is not None


def files_of(analysis: list[dict[str, Any]], folder: Path) -> dict[str, Path]:
    """The files of the functions that entries name, by what these call them. folder: that of the space of the user."""
    matches = {kind: _IN_FILE.fullmatch(str(kind)) for entry in analysis for kind in entry}
    return {kind: (folder / match["file"]).resolve() for kind, match in matches.items() if match}


def find(kind: str, files: Mapping[str, Path], path: str) -> Function:
    """The function of an analysis. A file is executed only if it stands in `files`, which holds what the user named.
    InputError, at the key `path`, if it is not there, cannot be imported or is no function."""
    if match := _IN_FILE.fullmatch(kind):
        if kind not in files:
            why = f"{kind} was not executed, because no run of yours on this machine named this file"
            raise InputError(path, f"{why}; run the space that names it, which computes no row twice")
        function = function_files.imported(files[kind], match["name"], match["file"], path).call
    elif points := [point for point in entry_points(group=GROUP) if point.name == kind]:
        try:
            function = points[0].load()
        except Exception as error:  # whatever a package does while it is imported
            raise InputError(path, f"{kind} cannot be loaded: {summary(error)}") from error
    else:
        raise InputError(path, f"no package that is installed here provides the analysis {kind}")
    if not callable(function):
        raise InputError(path, f"expected a function as {kind}, got {shown(function)}")
    return function


def check_options(function: Function, options: Mapping[str, Any], path: str) -> None:
    """Raise InputError unless the function can be called with a frame and these options as keyword arguments."""
    try:
        inspect.signature(function).bind(None, **options)
    except TypeError as error:
        raise InputError(path, f"cannot be called as {name_of(function)}(frame, …): {error}") from None
    except ValueError:  # a function without a signature, such as one written in C
        return


def check_files(analysis: list[dict[str, Any]], folder: Path) -> None:
    """Import the functions that entries name in files, and check their options, before anything is computed."""
    files = files_of(analysis, folder)
    for index, entry in enumerate(analysis):
        for kind, given in entry.items():
            if kind in files:
                path = f"analysis[{index}]"
                check_options(find(kind, files, path), options_of(given), f"{path}.{kind}")


def options_of(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The keyword arguments in the options of an entry: all but `OURS`, and none that is null."""
    return {key: value for key, value in (given or {}).items() if key not in OURS and value is not None}


def name_of(function: Function) -> str:
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))

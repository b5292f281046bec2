"""Reads a Space from a path, a packaged space or plain data; `--set` is applied before validation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raysweep.errors import InputError, shown, unknown
from raysweep.space import analysis_functions, function_files, yaml_reader
from raysweep.space.function_files import Given
from raysweep.space.schema import KEYS, Space, unknown_key, validate
from raysweep.space.search_options import IMPORTED


def read(source: str | Path | Mapping[str, Any], sets: Mapping[str, Any] | None = None) -> Space:
    """A space from a path, the name of a packaged space, or plain data; `sets` maps dotted keys to values."""
    return read_with_function(source, sets)[0]


def read_with_function(
    source: str | Path | Mapping[str, Any], sets: Mapping[str, Any] | None = None, name: str | None = None
) -> tuple[Space, Given | None]:
    """A space as `read` gives it, and the Python function that it names, whose file is imported, as are those of
    functions that `analysis` names. name: that of a function that has none itself."""
    folder = Path()
    if isinstance(source, Mapping):
        data = _plain(source)
    elif isinstance(source, (str, os.PathLike)):
        data, folder = _loaded(source), locate(source).parent
    else:
        raise InputError("space", f"expected a packaged space, a file, a mapping or a function, got {shown(source)}")
    for key, value in (sets or {}).items():
        apply_set(data, key, _plain(value))
    search = data.get("search")
    if IMPORTED in (search if isinstance(search, dict) else [search]):
        raise InputError("search", f"{IMPORTED} stands in records only; `raysweep import` makes such a sweep")
    if "function" in data:
        raise InputError("function", "stands in records only; name the function in workload: my_file.py:train")
    given = None
    if function_files.is_named(data.get("workload")):
        for key in data:
            if key not in (allowed := (*KEYS, *function_files.FUNCTION_KEYS)):
                raise unknown(key, "key", key, allowed)
        given = function_files.find(data["workload"], folder)
        data = function_files.described(data, given, name)
    space = validate(data)
    analysis_functions.check_files(space.analysis, folder)
    return space, given


def analysis_files(space: Space, source: object) -> dict[str, Path]:
    """The files of the functions that a space's analyses name, by what it calls them. source: from what the space was
    read; they are relative to the folder of its file, or to the current one."""
    folder = locate(source).parent if isinstance(source, (str, Path)) else Path()
    return analysis_functions.files_of(space.analysis, folder)


def _loaded(source: str | Path) -> dict[str, Any]:
    file = str(source).partition(":")[0]
    if file.endswith(".py"):
        raise InputError(
            str(source),
            f"is Python, no space: write `workload: {file}:FUNCTION` in one, or in Python raysweep.run(FUNCTION, …)",
        )
    try:
        text = locate(source).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(str(source), "expected a UTF-8 text file") from None
    except OSError as error:
        raise InputError(str(source), f"cannot be read: {error.strerror}") from None
    data = yaml_reader.parse(text, str(source))
    if not isinstance(data, dict):
        raise InputError(str(source), f"expected a mapping with the keys {', '.join(KEYS)}")
    return data


def locate(source: str | Path) -> Path:
    """The file of a space: a path if the file exists, otherwise the packaged space with that name."""
    path = Path(source)
    if os.path.isfile(path):  # returns False for names that no file can have
        return path
    spaces = packaged()
    if str(source) in spaces:
        return spaces[str(source)]
    if path.suffix in (".yaml", ".yml") or path.name != str(source):
        raise InputError(str(source), "expected a file, this is a folder" if os.path.isdir(path) else "no such file")
    raise unknown(str(source), "space", str(source), sorted(spaces))


def packaged() -> dict[str, Path]:
    """The spaces that ship with raysweep by name (the file's name without .yaml), in alphabetical order, in a package
    and in a source checkout alike; FileNotFoundError if they are missing."""
    package = Path(__file__).parents[1]
    folder = package / "search_spaces"
    if not folder.is_dir() and (package.parent / "pyproject.toml").is_file():
        folder = package.parent / folder.name
    if not folder.is_dir():
        raise FileNotFoundError(f"no packaged spaces: {folder} is not there")
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def apply_set(data: dict[str, Any], key: str, value: Any) -> None:
    """Put `value` at a dotted key of plain data (numbers index lists); None removes the key."""
    parts = key.split(".")
    place: Any = data
    for depth, part in enumerate(parts):
        here, last = ".".join(parts[: depth + 1]), depth == len(parts) - 1
        step: str | int = part
        if isinstance(place, list):
            if not (part.isascii() and part.isdigit() and int(part) < len(place)):
                raise InputError(here, f"expected a position from 0 to {len(place) - 1}")
            step = int(part)
        elif not isinstance(place, dict):
            raise InputError(here, "there is nothing below this key to set")
        elif depth == 0 and part not in (*KEYS, *function_files.FUNCTION_KEYS):
            raise unknown_key(here, part, data)
        elif last and value is None:
            place.pop(part, None)
            return
        elif not last and place.get(part) is None:
            place[part] = {}
        if last:
            place[step] = value
        else:
            place = place[step]


def _plain(value: Any) -> Any:
    """Convert what Python callers may pass (arrays, tuples, ranges) to plain lists and numbers."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):
        return value.tolist()
    return [_plain(entry) for entry in value] if isinstance(value, (list, tuple, range)) else value

"""Notes of this user, in their home: what they gave once, and what a storage that somebody sends must not say.

Where their own runs found the functions of their sweeps, so that `resume`, `debug` and `report` find them; without the
note the user names the file (`--workload my_file.py:train`). And the MLflow servers that they gave, which may get their
password; without the note the user names the server (`--tracking-uri`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raysweep import plain_json as json
from raysweep.space.function_files import Given
from raysweep.storage import files

WORKLOAD, ANALYSES, SERVERS = "functions", "analyses", "servers"


def _note(name: str, folder: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "raysweep" / folder / f"{name}.json"


def _write(name: str, folder: str, content: Mapping[str, str]) -> None:
    """Write a note. A home that cannot be written is no error."""
    with contextlib.suppress(OSError, RuntimeError):
        note, text = _note(name, folder), json.dumps(content)
        note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not note.exists() or note.read_text() != text:
            files.replace(note, text.encode())


def _read(name: str, folder: str) -> dict[str, Any]:
    """What a note says; empty if there is none, or none that can be read."""
    try:
        note = json.loads(_note(name, folder).read_text())
    except (OSError, RuntimeError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def remember(sweep_id: str, given: Given) -> None:
    if given.file is not None:
        _write(sweep_id, WORKLOAD, {"file": str(given.file), "name": given.name})


def recall(sweep_id: str) -> tuple[Path, str] | None:
    """The file and the name of the function of a sweep that this user ran here; None if there is no such note."""
    note = _read(sweep_id, WORKLOAD)
    return (Path(str(note["file"])), str(note["name"])) if {"file", "name"} <= note.keys() else None


def remember_analyses(sweep_id: str, files: Mapping[str, Path]) -> None:
    """Note the files of the functions that the analyses of a sweep name. Those that were noted before stay."""
    if files:
        earlier = {kind: str(file) for kind, file in recall_analyses(sweep_id).items()}
        _write(sweep_id, ANALYSES, {**earlier, **{kind: str(file) for kind, file in files.items()}})


def recall_analyses(sweep_id: str) -> dict[str, Path]:
    """The files of functions that this user named for the analyses of a sweep, by what its space calls them."""
    return {kind: Path(str(file)) for kind, file in _read(sweep_id, ANALYSES).items()}


def remember_server(address: str) -> None:
    """Note the address of an MLflow server that this user gave, without credentials."""
    _write(_digest(address), SERVERS, {"address": address})


def gave_server(address: str) -> bool:
    return _read(_digest(address), SERVERS) == {"address": address}


def _digest(address: str) -> str:
    return hashlib.sha256(address.encode()).hexdigest()[:32]


def forget(sweep_id: str) -> None:
    for folder in (WORKLOAD, ANALYSES):
        with contextlib.suppress(OSError, RuntimeError):
            _note(sweep_id, folder).unlink(missing_ok=True)

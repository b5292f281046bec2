"""Where this user's own runs found the functions of their sweeps, so that `resume` and `debug` find them again.

This is a note of the user, in their home, and not part of a storage: a storage that somebody sends must not say which
file is imported. Without the note the user names the file (`--workload my_file.py:train`).
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from raysweep.space.function_files import Given


def _note(sweep_id: str) -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "raysweep" / "functions" / f"{sweep_id}.json"


def remember(sweep_id: str, given: Given) -> None:
    """Note where the function of a sweep is. A home that cannot be written is no error."""
    if given.file is None:
        return
    with contextlib.suppress(OSError, RuntimeError):
        note = _note(sweep_id)
        note.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        text = json.dumps({"file": str(given.file), "name": given.name})
        if not note.exists() or note.read_text() != text:
            part = note.with_suffix(f".{os.getpid()}.part")
            part.write_text(text)
            part.replace(note)


def recall(sweep_id: str) -> tuple[Path, str] | None:
    """The file and the name of the function of a sweep that this user ran here; None if there is no such note."""
    try:
        found = json.loads(_note(sweep_id).read_text())
        return Path(found["file"]), str(found["name"])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        return None


def forget(sweep_id: str) -> None:
    """Remove the note of a deleted sweep."""
    with contextlib.suppress(OSError, RuntimeError):
        _note(sweep_id).unlink(missing_ok=True)

"""The list of files that a report wrote into a directory, so that a new report can remove exactly these."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from raysweep import plain_json as json

NAME = ".report-files.json"
OWN = re.compile(r"(figures|tables)/[\w.-]+\.(png|svg|csv)")


def record(home: Path, files: Iterable[Path]) -> None:
    """Write the names and digests of this report's files into the list."""
    written = {path.relative_to(home).as_posix(): digest(path) for path in files}
    if (home / NAME).is_symlink():
        (home / NAME).unlink()
    (home / NAME).write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def remove_stale(home: Path, files: Iterable[Path]) -> None:
    """Delete figures and tables of an earlier report that are not in `files`, unless they were changed since then."""
    try:
        earlier = json.loads((home / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    kept = {path.relative_to(home).as_posix() for path in files}
    for name, known in earlier.items() if isinstance(earlier, dict) else ():
        path = home / name
        if name in kept or not OWN.fullmatch(name) or path.is_symlink() or not path.is_file():
            continue
        if digest(path) == known:
            path.unlink()


def digest(path: Path) -> str:
    """The SHA-256 digest of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()

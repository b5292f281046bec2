"""The files of a report: their names, and which of an earlier report go."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from raysweep import plain_json as json

LONGEST = 200  # bytes without the extension; file systems allow 255
NAME = ".report-files.json"
"""The list of files that a report wrote into its folder, with their digests."""
STALE = re.compile(r"(figures|tables)/[\w.-]+\.(png|svg|csv)")
"""What a report may delete."""


def plain_name(name: str, taken: set[str]) -> str:
    """A plain file name (letters, digits, `_`, `-`, `.`) that is not taken yet; it is then taken.

    Names of metrics and sweeps may hold any character: another one becomes `_`. If two names would become the same
    file, also on a disk that does not distinguish capital letters, the later one ends in -2, -3, ...
    """
    word = re.sub(r"[^\w.-]", "_", name).encode()[:LONGEST].decode(errors="ignore")
    word = f"_{word[1:]}" if word[:1] == "." else word or "_"
    chosen, count = word, 1
    while chosen.casefold() in taken:
        count += 1
        chosen = f"{word}-{count}"
    taken.add(chosen.casefold())
    return chosen


def free(path: Path) -> Path:
    """The path; a symbolic link there is removed first, so that nothing is written outside the folder."""
    if path.is_symlink():
        path.unlink()
    return path


def settle(home: Path, files: Iterable[Path]) -> None:
    """Delete figures and tables of an earlier report that are not in `files`, unless they were changed since then, and
    write the names and digests of this report's files into the list."""
    try:
        earlier = json.loads((home / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        earlier = {}
    written = {path.relative_to(home).as_posix(): digest(path) for path in files}
    for name, known in earlier.items() if isinstance(earlier, dict) else ():
        path = home / name
        if name in written or not STALE.fullmatch(name) or path.is_symlink() or not path.is_file():
            continue
        if digest(path) == known:
            path.unlink()
    free(home / NAME).write_text(json.dumps(written, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def digest(path: Path) -> str:
    """The SHA-256 digest of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()

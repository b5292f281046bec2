"""Text that every Python installation brings: its own source code, and the documentation in it.

What is found depends on the machine; the digest of the text pins it. Files come in the order of a hash of their path,
so that a part of them is a fair sample.
"""

from __future__ import annotations

import hashlib
import os
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = {"__pycache__", "raysweep"}  # raysweep: or a change of this file would change the text
DOCUMENTS = (".md", ".rst")
_DOCSTRING = re.compile(r'^[ \t]*[rR]?"""(.+?)"""', re.MULTILINE | re.DOTALL)
SHORTEST = 200  # characters; shorter ones are stubs


def documents(kind: str, megabytes: float) -> list[bytes]:
    """Documents of a kind (python-source or python-docs), up to that many MB, as UTF-8."""
    found: list[bytes] = []
    size = 0
    for path in _files(kind):
        if size >= megabytes * 1e6:
            break
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if kind == "python-docs":
            text = documentation(path, text)
        if len(text) < SHORTEST or "\0" in text:
            continue
        found.append(text.encode())
        size += len(found[-1])
    return found


def documentation(path: Path, text: str) -> str:
    """What a file says to people: a Python file's docstrings, a package description without its headers."""
    if path.suffix == ".py":
        return "\n\n".join(match.strip() for match in _DOCSTRING.findall(text))
    return text.partition("\n\n")[2] if path.name == "METADATA" else text


def _files(kind: str) -> list[Path]:
    def wanted(name: str) -> bool:
        return name.endswith(".py") or (kind == "python-docs" and (name.endswith(DOCUMENTS) or name == "METADATA"))

    chosen = {hashlib.sha256(relative.encode()).digest(): path for relative, path in _walk() if wanted(path.name)}
    return [path for _, path in sorted(chosen.items())]


def _walk() -> Iterator[tuple[str, Path]]:
    """Every file of the standard library and of the installed packages, with its path relative to there."""
    roots = dict.fromkeys(Path(sysconfig.get_paths()[key]) for key in ("stdlib", "purelib", "platlib"))
    for root in roots:
        for folder, names, files in os.walk(root):
            names[:] = sorted(
                name
                for name in names
                if name not in LEFT_OUT and Path(folder, name) not in roots and name != "site-packages"
            )
            for name in files:
                path = Path(folder, name)
                yield path.relative_to(root).as_posix(), path

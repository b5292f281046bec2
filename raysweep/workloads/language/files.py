"""A user's own text: plain files, or JSONL with a `text` field on every line."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

from raysweep.workloads.language.splitting import BadText

BLOCK = 2000  # characters; a single text file is cut at blank lines into documents of at least this many
FIELD = "text"
SUFFIXES = (".txt", ".md", ".jsonl")  # what is read of a folder


def paths(pattern: str) -> list[Path]:
    """The files that a path or pattern means, in order; BadText if there is none."""
    if not pattern:
        raise BadText("expected a path after file:")
    expanded = str(Path(pattern).expanduser())
    found = sorted(Path(name) for name in glob.glob(expanded, recursive=True) if Path(name).is_file())
    if Path(expanded).is_dir():
        found = sorted(path for path in Path(expanded).rglob("*") if path.suffix in SUFFIXES)
    if not found:
        raise BadText(f"expected a text file, no such file: {pattern}")
    return found


def signature(pattern: str) -> tuple[object, ...]:
    """What changes when the files do: their names, sizes and times."""
    return tuple((str(path), (status := path.stat()).st_size, status.st_mtime_ns) for path in paths(pattern))


def documents(pattern: str) -> list[bytes]:
    """Every document, UTF-8. A line of a JSONL file is one; so is a text file, unless it is the only one, which is cut
    at blank lines. BadText names the file, and the line where it is one that is wrong."""
    found = paths(pattern)
    read: list[bytes] = []
    for path in found:
        text = _text(path)
        if not text.strip():
            raise BadText(f"{path}: expected text, the file is empty")
        if path.suffix == ".jsonl":
            read += [_field(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        else:
            read += blocks(text) if len(found) == 1 else [text.encode()]
    return read


def blocks(text: str) -> list[bytes]:
    """Text cut at blank lines into runs of at least BLOCK characters, or less where that leaves too few documents."""
    least = min(BLOCK, len(text) // 20)
    result, run = [], ""
    for paragraph in text.split("\n\n"):
        run += paragraph + "\n\n"
        if len(run) >= least:
            result.append(run.encode())
            run = ""
    return [*result, run.encode()] if run.strip() else result


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadText(f"{path}: expected UTF-8, byte {error.start:,} is not") from None
    except OSError as error:
        raise BadText(f"{path}: cannot be read ({error.strerror})") from None


def entries(pattern: str) -> list[tuple[str, dict[str, Any]]]:
    """Every line of JSONL files as ("file line number", its object); BadText names the line that is none."""
    read = []
    for path in paths(pattern):
        lines = _text(path).splitlines()
        if not any(line.strip() for line in lines):
            raise BadText(f"{path}: expected text, the file is empty")
        read += [_entry(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return read


def _entry(path: Path, number: int, line: str) -> tuple[str, dict[str, Any]]:
    where = f"{path} line {number}"
    try:
        entry = json.loads(line)
    except ValueError:
        raise BadText(f"{where}: expected a JSON object") from None
    if not isinstance(entry, dict):
        raise BadText(f"{where}: expected a JSON object")
    return where, entry


def _field(path: Path, number: int, line: str) -> bytes:
    where, entry = _entry(path, number, line)
    if not isinstance(entry.get(FIELD), str):
        raise BadText(f"{where}: missing field {FIELD!r}, expected a JSON object with a text in it")
    return str(entry[FIELD]).encode()

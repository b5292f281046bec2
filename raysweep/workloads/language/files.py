"""Text in files: a user's own files, plain or JSONL with a `text` field on every line, and files that Python brings."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raysweep.workloads.language.texts import SPLITS, BadText

BLOCK = 2000  # characters; one or two text files are cut at blank lines into documents of at least this length
CUTS = ((r"\r?\n\r?\n", "\n\n"), (r"\r?\n", "\n"))  # where a text is cut, and the text that then ends a paragraph
MARK = "\ufeff"  # a mark that some editors put at the beginning of a file
FIELD = "text"
SUFFIXES = (".txt", ".md", ".jsonl")  # the files that are read in a folder
LEFT_OUT = {"__pycache__", "site-packages", "raysweep"}  # raysweep, or a change of this file would change the text
DOCUMENTS = (".md", ".rst")  # prose next to code
_DOCSTRING = re.compile(r'^[ \t]*[rR]?"""(.+?)"""', re.MULTILINE | re.DOTALL)
SHORTEST = 200  # characters; shorter ones are stubs


def paths(pattern: str) -> list[Path]:
    """The files that a path or pattern matches, in order; BadText if there is no such file."""
    if not pattern:
        raise BadText("expected a path after file:")
    given = Path(pattern).expanduser()
    candidates = [given] if given.exists() else [Path(name) for name in glob.glob(str(given), recursive=True)]
    if given.is_dir():
        candidates = [path for path in given.rglob("*") if path.suffix in SUFFIXES]
    matched = sorted(path for path in candidates if path.is_file())  # `given` even if it holds characters of a pattern
    if not matched:
        raise BadText(f"expected a text file, no such file: {pattern}")
    return matched


def signature(pattern: str) -> tuple[object, ...]:
    """A value that changes when the files change: their names, sizes and times."""
    return tuple((str(path), (status := path.stat()).st_size, status.st_mtime_ns) for path in paths(pattern))


def documents(pattern: str) -> list[bytes]:
    """All documents, as UTF-8.

    A line of a JSONL file is a document. A text file is a document too; but if there are too few text files, they are
    cut into blocks. BadText names the file and, for JSONL, the line.
    """
    matched = paths(pattern)
    few = len(matched) < len(SPLITS) and all(path.suffix != ".jsonl" for path in matched)
    read: list[bytes] = []
    for path in matched:
        if path.suffix == ".jsonl":
            expected = "expected a JSON object with a text in it"
            read += [text_of(entry, FIELD, where, expected) for where, entry in entries(str(path))]
        else:
            text = _text(path)
            read += blocks(text) if few else [text.encode()]
    return read


def blocks(text: str) -> list[bytes]:
    """Text cut at blank lines into blocks of at least BLOCK characters, or less if there would be too few documents;
    with too few blank lines at the ends of lines, and with too few lines anywhere."""
    least = max(1, min(BLOCK, len(text) // 20))
    for cut, end in CUTS:
        runs = [""]
        for paragraph in re.split(cut, text):
            runs[-1] += paragraph + end
            if len(runs[-1]) >= least:
                runs.append("")
        kept = runs if runs[-1].strip() else runs[:-1]
        if len(kept) >= len(SPLITS):
            return [run.encode() for run in kept]
    return [text[start : start + least].encode() for start in range(0, len(text), least)]


def _text(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8").removeprefix(MARK)
    except UnicodeDecodeError as error:
        raise BadText(f"{path}: expected UTF-8, byte {error.start:,} is not") from None
    except OSError as error:
        raise BadText(f"{path}: cannot be read ({error.strerror})") from None
    if not text.strip():
        raise BadText(f"{path}: expected text, the file is empty")
    return text


def entries(pattern: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every line of JSONL files as ("file line number", its object); BadText names a line that is not a JSON object."""
    # only a newline ends a line: a text may contain the other characters that Unicode counts as the end of one
    lines = ((path, *line) for path in paths(pattern) for line in enumerate(_text(path).split("\n"), 1))
    for path, number, line in lines:
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            raise BadText(f"{path} line {number}: expected a JSON object")
        yield f"{path} line {number}", entry


def text_of(entry: dict[str, Any], field: str, where: str, expected: str) -> bytes:
    """A field as UTF-8; BadText if it is missing or not a text. where: file and line."""
    if field not in entry:
        raise BadText(f"{where}: missing field {field!r}, {expected}")
    if not isinstance(entry[field], str):
        raise BadText(f"{where}: field {field!r} is no text, {expected}")
    try:
        return str(entry[field]).encode()
    except UnicodeEncodeError:  # JSON can contain half a surrogate pair, such as \ud800, which is not a character
        raise BadText(f"{where}: field {field!r} holds half a character, which is no text") from None


def installed_documents(kind: str, megabytes: float) -> list[bytes]:
    """Documents of this Python installation up to this size, as UTF-8: its source code (python-source), or the
    documentation in it (python-docs). Files come in the order of a hash of their path: a part is a fair sample."""
    documents: list[bytes] = []
    size = 0
    for path in _installed(kind):
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
        documents.append(text.encode())
        size += len(documents[-1])
    return documents


def documentation(path: Path, text: str) -> str:
    """The prose of a file: a Python file's docstrings, or a package description without its headers."""
    if path.suffix == ".py":
        return "\n\n".join(match.strip() for match in _DOCSTRING.findall(text))
    return text.partition("\n\n")[2] if path.name == "METADATA" else text


def _installed(kind: str) -> list[Path]:
    """The files of the standard library and of the installed packages that may hold such documents."""
    roots = dict.fromkeys(Path(sysconfig.get_paths()[key]) for key in ("stdlib", "purelib", "platlib"))
    chosen: dict[bytes, Path] = {}
    for root in roots:
        for folder, names, files in os.walk(root):
            names[:] = sorted(name for name in names if name not in LEFT_OUT and Path(folder, name) not in roots)
            for path in (Path(folder, name) for name in files):
                prose = path.suffix in DOCUMENTS or path.name == "METADATA"
                if path.suffix == ".py" or (kind == "python-docs" and prose):
                    chosen[hashlib.sha256(path.relative_to(root).as_posix().encode()).digest()] = path
    return [path for _, path in sorted(chosen.items())]

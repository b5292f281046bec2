"""Text in files: a user's own files, plain or JSONL with a `text` field on every line; files that Python brings; and
text that a user tokenized before, as a flat array of token numbers, memory-mapped and never read whole.

    tokens:VOCABULARY:SEPARATOR:PATH      e.g. tokens:50304:50279:/data/c4.npy

PATH is a one-dimensional .npy of unsigned integers; a file with any other name is raw little-endian uint16. SEPARATOR
ends a document. The last documents are held out, whole.
"""

import glob
import hashlib
import json
import os
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from raysweep.workloads.language.texts import SPLITS, BadText, Text

BLOCK = 2000  # characters; one or two text files are cut at blank lines into documents of at least this length
CUTS = ((r"\r?\n\r?\n", "\n\n"), (r"\r?\n", "\n"))  # where a text is cut, and the text that then ends a paragraph
MARK = "\ufeff"  # a mark that some editors put at the beginning of a file
FIELD = "text"
SUFFIXES = (".txt", ".md", ".jsonl")  # the files that are read in a folder
LEFT_OUT = {"__pycache__", "site-packages", "raysweep"}  # raysweep, or a change of this file would change the text
DOCUMENTS = (".md", ".rst")  # prose next to code
_DOCSTRING = re.compile(r'^[ \t]*[rR]?"""(.+?)"""', re.MULTILINE | re.DOTALL)
SHORTEST = 200  # characters; shorter ones are stubs
TOKENS = "tokens:VOCABULARY:SEPARATOR:PATH"
TOKENS_HELD_OUT = 0.005  # for validation, and again for test; a small share, because such texts are long
WHOLE = 2**29  # tokens; a text up to this size is read whole for its check and its digest
SAMPLES, SAMPLE = 256, 2**16  # of a longer text, 256 blocks of 65,536 tokens are read


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
        raise BadText(f"expected a file, no such file: {pattern}")
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
            read += [text_of(entry, where) for where, entry in entries(str(path))]
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


def text_of(entry: dict[str, Any], where: str) -> bytes:
    """The text of a line as UTF-8; BadText if it is missing or not a text. where: file and line."""
    if not isinstance(text := entry.get(FIELD), str):
        raise BadText(f"{where}: expected a JSON object with a text in the field {FIELD!r}")
    try:
        return text.encode()
    except UnicodeEncodeError:  # JSON can contain half a surrogate pair, such as \ud800, which is not a character
        raise BadText(f"{where}: field {FIELD!r} holds half a character, which is no text") from None


def installed_documents(kind: str, megabytes: float) -> list[bytes]:
    """Documents of this Python installation up to this size, as UTF-8: its source code (python-source), or the
    documentation in it (python-docs). Files come in the order of a hash of their path: a part is a fair sample."""
    roots = dict.fromkeys(Path(sysconfig.get_paths()[key]) for key in ("stdlib", "purelib", "platlib"))
    chosen: dict[bytes, Path] = {}
    for root in roots:
        for folder, names, files in os.walk(root):
            names[:] = sorted(name for name in names if name not in LEFT_OUT and Path(folder, name) not in roots)
            for path in (Path(folder, name) for name in files):
                prose = path.suffix in DOCUMENTS or path.name == "METADATA"
                if path.suffix == ".py" or (kind == "python-docs" and prose):
                    chosen[hashlib.sha256(path.relative_to(root).as_posix().encode()).digest()] = path
    documents: list[bytes] = []
    size = 0
    for _, path in sorted(chosen.items()):
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


def tokens(name: str) -> Text:
    """The text of token numbers of that name; BadText says what is wrong with it."""
    vocabulary, separator, path = parse_tokens(name)
    try:
        mapped = path.suffix == ".npy"
        numbers = np.load(path, "r", allow_pickle=False) if mapped else np.memmap(path, "<u2", "r")
    except (OSError, ValueError, EOFError) as error:
        raise BadText(f"{path}: cannot be mapped ({error})") from None
    if numbers.ndim != 1 or numbers.dtype.kind != "u":
        got = f"got {numbers.dtype} of shape {numbers.shape}"
        raise BadText(f"{path}: expected a one-dimensional array of unsigned integers, {got}")
    starts = np.arange(0, len(numbers), SAMPLE)
    if len(numbers) > WHOLE:
        starts = np.linspace(0, len(numbers) - SAMPLE, SAMPLES).astype(int)
    looked = [numbers[start : start + SAMPLE] for start in starts]
    largest = max((int(block.max()) for block in looked if len(block)), default=0)
    if largest >= vocabulary:
        raise BadText(f"{path}: expected tokens below the vocabulary of {vocabulary:,}, found {largest:,}")
    digest = hashlib.sha256(f"{len(numbers)}/{numbers.dtype.str}/{separator}".encode())
    for block in looked:
        digest.update(np.ascontiguousarray(block).tobytes())
    test = _document_start(numbers, separator, path)
    validation = _document_start(numbers[:test], separator, path)
    parts = {"train": numbers[:validation], "validation": numbers[validation:test], "test": numbers[test:]}
    return Text(digest.hexdigest()[:16], parts)


def parse_tokens(name: str) -> tuple[int, int, Path]:
    """The vocabulary, the separator and the path in the name of a text of token numbers; BadText if it is wrong."""
    try:
        _, first, second, path = name.split(":", 3)
        vocabulary, separator = int(first), int(second)
    except ValueError:
        raise BadText(f"expected {TOKENS}, got {name!r}") from None
    if not 2 <= vocabulary <= 2**24 or not 0 <= separator < vocabulary:
        raise BadText(f"expected a vocabulary of 2 to {2**24:,} and a separator in it, got {name!r}")
    return vocabulary, separator, Path(path).expanduser()


def _document_start(numbers: np.ndarray, separator: int, path: Path) -> int:
    """The first document start in the part to hold out, or else the last one before it."""
    at = int((1 - TOKENS_HELD_OUT) * len(numbers))
    for low, high, which in ((at, len(numbers), 0), (0, at, -1)):
        starts = low + np.flatnonzero(numbers[low:high] == separator) + 1
        starts = starts[starts < len(numbers)]
        if len(starts):
            return int(starts[which])
    raise BadText(f"{path}: expected documents that end with token {separator}, found none to hold out")

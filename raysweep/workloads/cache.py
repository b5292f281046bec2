"""A cache in the user's folder for results that take a while to compute: tokenized text,
digests of folders of images.

The folder is RAYSWEEP_CACHE, or else raysweep in XDG_CACHE_HOME or ~/.cache. It may be deleted at any time. Damaged
files are computed again. If the folder cannot be written, nothing is kept.
"""

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np

VARIABLE = "RAYSWEEP_CACHE"


def folder() -> Path:
    if named := os.environ.get(VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "raysweep"


def text(name: str, compute: Callable[[], str]) -> str:
    """The text cached under a name; otherwise compute it and cache it, as JSON with its digest."""
    path = folder() / f"{name}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(path.read_bytes())
        if hashlib.sha256(kept["content"].encode()).hexdigest() == kept["sha256"]:
            return str(kept["content"])
    content = compute()
    with contextlib.suppress(OSError):
        sealed = {"sha256": hashlib.sha256(content.encode()).hexdigest(), "content": content}
        _replace(path, json.dumps(sealed).encode())
    return content


def array(name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """The array cached under a name, memory-mapped; otherwise compute it and cache it."""
    path = folder() / f"{name}.npy"
    with contextlib.suppress(OSError, ValueError):
        kept = np.load(path, mmap_mode="r", allow_pickle=False)
        if path.with_suffix(".sha256").read_text() == _digest(kept):
            return kept
    computed = compute()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{uuid.uuid4().hex}.npy")
        np.save(aside, computed, allow_pickle=False)
        os.replace(aside, path)
        _replace(path.with_suffix(".sha256"), _digest(computed).encode())
    return computed


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{uuid.uuid4().hex}")
    aside.write_bytes(content)
    os.replace(aside, path)

"""A cache in the user's folder for results that take a while to compute: tokenized text,
digests of folders of images.

The folder is RAYSWEEP_CACHE, or else raysweep in XDG_CACHE_HOME or ~/.cache. It may be deleted at any time. Damaged
files are computed again. If the folder cannot be written, nothing is kept.
"""

import contextlib
import hashlib
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


def array(name: str, compute: Callable[[], np.ndarray]) -> np.ndarray:
    """The array cached under a name, memory-mapped; otherwise compute it and cache it."""
    path = folder() / f"{name}.npy"
    with contextlib.suppress(OSError, ValueError):
        kept = np.load(path, mmap_mode="r", allow_pickle=False)
        if path.with_suffix(".sha256").read_text() == _digest(kept):
            return kept
    computed, aside = compute(), path.with_suffix(f".{uuid.uuid4().hex}.npy")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(aside, computed, allow_pickle=False)
        os.replace(aside, path)
        aside.write_text(_digest(computed))
        os.replace(aside, path.with_suffix(".sha256"))
    return computed


def _digest(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()

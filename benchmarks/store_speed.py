"""Checkpoints against the disk: publishing and fetching one through the stage store, beside the same bytes raw.

Run with: python benchmarks/store_speed.py [FOLDER] [MEGABYTES]. Raw is one file written from memory and fsynced, and
read back whole; before every read the pages of the files are dropped from the cache. Raw and store take turns at going
first (on a virtual machine memory that is touched for the first time costs more than the disk, and whoever goes first
pays), and after one round that does not count the medians do.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from raysweep.stages.store import Store

ROUNDS = 8


def _raw_write(path: Path, content: memoryview) -> None:
    with open(path, "wb", buffering=0) as stream:
        while len(content):
            content = content[stream.write(content) :]
        os.fsync(stream.fileno())


def _forget(folder: Path) -> None:
    """Drop the files of a folder from the page cache, so that reading them asks the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def measure(folder: str, megabytes: int = 256) -> dict[str, float]:
    """Medians over ROUNDS: raw_write, raw_read, publish and fetch in MB/s, and the ratios write and read."""
    generator = np.random.default_rng(0)
    count = megabytes * 10**6 // 8 // 4
    tensors = {f"layers.{i}": generator.standard_normal(count) for i in range(4)}
    content = np.concatenate(list(tensors.values())).view(np.uint8).data
    speeds: dict[str, list[float]] = {"raw_write": [], "publish": [], "raw_read": [], "fetch": []}
    for number in range(ROUNDS + 1):
        with tempfile.TemporaryDirectory(prefix="raysweep-store-", dir=folder) as room:
            raw, store = Path(room, "raw"), Store(Path(room, "store"))
            store.check()
            turn = slice(None, None, 1 if number % 2 else -1)
            seconds = {}
            for name in ("raw_write", "publish")[turn]:
                write = (
                    partial(_raw_write, raw, content)
                    if name == "raw_write"
                    else partial(store.publish, "stage", tensors, {})
                )
                seconds[name] = _seconds(write)
            _forget(Path(room))
            for name in ("raw_read", "fetch")[turn]:
                seconds[name] = _seconds(raw.read_bytes if name == "raw_read" else partial(_fetch, store))
            found = _fetch(store)
            assert all(np.array_equal(found[name], array) for name, array in tensors.items())
        for name, value in seconds.items():
            if number:
                speeds[name].append(len(content) / 1e6 / value)
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    return {
        **medians,
        "write": medians["publish"] / medians["raw_write"],
        "read": medians["fetch"] / medians["raw_read"],
    }


def _fetch(store: Store) -> dict[str, np.ndarray]:
    entry = store.fetch("stage")
    assert entry is not None
    return entry.tensors()


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else tempfile.gettempdir()
    size = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    if shutil.disk_usage(where).free < 4e6 * size:
        sys.exit(f"{where} has no room for two checkpoints of {size} MB")
    result = measure(where, size)
    for what, raw, ours in (("write", "raw_write", "publish"), ("read", "raw_read", "fetch")):
        print(f"{what}: raw {result[raw]:.0f} MB/s, store {result[ours]:.0f} MB/s: {result[what]:.2f} of raw")

"""Local copies of files in a bucket, for code that needs a folder or an open file. A local folder is used as it is."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from raysweep.storage import files
from raysweep.storage.paths import AnyPath

SHOWN_EVERY = 10.0
"""Seconds between two looks at a growing file; if it has grown, it is uploaded to the bucket."""


@contextlib.contextmanager
def copied(folder: AnyPath, names: Iterable[str]) -> Iterator[Path]:
    """A local folder with those of these files and folders that exist in `folder`: itself, or a copy for reading."""
    if isinstance(folder, Path):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="raysweep-", ignore_cleanup_errors=True) as room:
        for name in names:
            for source in [folder / name / inner for inner in files.tree(folder / name)] or [folder / name]:
                with contextlib.suppress(FileNotFoundError):
                    content = files.read(source)
                    target = Path(room) / source.relative_to(folder).as_posix()
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(content)
        yield Path(room)


@contextlib.contextmanager
def growing(path: AnyPath) -> Iterator[Path]:
    """A file to append to: itself, or a local copy if it lies in a bucket, where appending is impossible. The copy is
    uploaded at the beginning, at the end, and every SHOWN_EVERY seconds if it has grown."""
    if isinstance(path, Path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="raysweep-", ignore_cleanup_errors=True) as room:
        local = Path(room) / path.name
        with contextlib.suppress(OSError):
            local.write_bytes(files.read(path))
        done = threading.Event()

        def show() -> None:
            before = b""
            while True:
                over = done.wait(SHOWN_EVERY if before else 0.05)
                with contextlib.suppress(OSError):  # a log that cannot be uploaded now is uploaded later
                    if (now := local.read_bytes()) != before:
                        files.replace(path, now)
                        before = now
                if over:
                    return

        thread = threading.Thread(target=show, name="raysweep-growing", daemon=True)
        thread.start()
        try:
            yield local
        finally:
            done.set()
            thread.join()


@contextlib.contextmanager
def workplace(folder: AnyPath) -> Iterator[Path]:
    """A folder to work in: itself, or a local copy that is uploaded to the bucket after the block has succeeded."""
    if isinstance(folder, Path):
        yield folder
        return
    before = files.tree(folder)
    with copied(folder, before) as room:
        yield room
        after = files.tree(room)
        for name in after:
            files.replace(folder / name, (room / name).read_bytes())
    files.remove([folder / name for name in set(before) - set(after)])

"""Local copies of what lies in a bucket, for those who need a folder or an open file; a folder of this machine is used
as it is."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from raysweep.storage import files
from raysweep.storage.paths import AnyPath

SHOWN_EVERY = 10.0
"""Seconds between two looks at a growing file, which is put into the bucket if it has grown."""


@contextlib.contextmanager
def copied(folder: AnyPath, names: Iterable[str]) -> Iterator[Path]:
    """A local folder with these files and folders of `folder`, those that are there: itself, or a copy to be read."""
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
    """A file to be added to: itself, or, in a bucket, which knows no adding, a copy that is put there at the beginning,
    at the end and every SHOWN_EVERY seconds as far as it has grown."""
    if isinstance(path, Path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="raysweep-", ignore_cleanup_errors=True) as room:
        own = Path(room) / path.name
        with contextlib.suppress(OSError):
            own.write_bytes(files.read(path))
        done = threading.Event()

        def show() -> None:
            before = b""
            while True:
                over = done.wait(SHOWN_EVERY if before else 0.05)
                with contextlib.suppress(OSError):  # a log that cannot be shown now is shown later
                    if (now := own.read_bytes()) != before:
                        files.replace(path, now)
                        before = now
                if over:
                    return

        thread = threading.Thread(target=show, name="raysweep-growing", daemon=True)
        thread.start()
        try:
            yield own
        finally:
            done.set()
            thread.join()


@contextlib.contextmanager
def workplace(folder: AnyPath) -> Iterator[Path]:
    """A folder to work in: itself, or a copy that is brought back into the bucket once the block has succeeded."""
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

"""Where sweeps are kept: a folder of this machine (pathlib.Path) or a prefix in a bucket (UPath), of one algebra.

Both know `/`, name, parent, exists, is_dir, read_bytes, glob, rename and unlink; whatever is written goes through
`files`, which knows what each place guarantees. Only object stores with conditional creation are taken, because "one
driver at a time" and "published once" rest on it: s3:// and gs://.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from raysweep.errors import InputError
from raysweep.redaction import has_password
from raysweep.storage import objects

if TYPE_CHECKING:
    from upath import UPath

AnyPath: TypeAlias = "Path | UPath"

BUCKETS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
"""Protocols, and the extra of raysweep that brings what they need."""
SHOWN_EVERY = 10.0
EXPECTED = "expected a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"


def slashes_short(address: str) -> str | None:
    """What was meant by s3:/bucket or gs:bucket, which is a folder of that name only by its letters."""
    found = re.match(r"(s3a?|gs|gcs|https?|file|memory):/?(?!/)(.*)", address)
    return f"{found.group(1)}://{found.group(2)}" if found else None


def locate(address: str | AnyPath) -> AnyPath:
    """What a path or URL names; InputError if it is none that can hold sweeps. Asks nobody."""
    if not isinstance(address, str):
        return address
    protocol, separator, rest = address.partition("://")
    if not separator:
        if almost := slashes_short(address):
            raise InputError("--storage", f"{EXPECTED} (such as {almost}), got {address!r}")
        return Path(address)
    if has_password(address):
        raise InputError(
            "--storage",
            "the address of a bucket is recorded and shown; give its credentials by the "
            "environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS)",
        )
    if protocol not in BUCKETS or not rest.strip("/") or "::" in address:
        raise InputError("--storage", f"{EXPECTED}, got {address!r}")
    try:
        from fsspec import get_filesystem_class
        from upath import UPath

        get_filesystem_class(protocol)  # imports what the protocol needs
    except ImportError as error:
        raise InputError(
            "--storage",
            f"{address} needs a package that is not installed ({error}); pip install 'raysweep[{BUCKETS[protocol]}]'",
        ) from None
    return UPath(address.rstrip("/"), use_listings_cache=False)  # other machines write too


def storage(address: str | AnyPath) -> AnyPath:
    """As `locate`; InputError, in one line, if it is in a bucket that cannot be reached."""
    found = locate(address)
    if not isinstance(found, Path):
        try:
            found.fs.ls(found.path, detail=False)
        except FileNotFoundError:
            pass
        except Exception as error:  # every object store's client has its own
            raise InputError("--storage", f"{found} cannot be reached: {first_line(error)}") from None
    return found


def absolute(where: AnyPath) -> str:
    """An address that means the same in every process, whatever its working directory."""
    return str(where.resolve()) if isinstance(where, Path) else str(where)


def first_line(error: BaseException) -> str:
    """What an object store's client complains about, short."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def tree(folder: AnyPath) -> list[str]:
    """Names of all files below a folder, relative to it, sorted; none if there is no such folder."""
    if isinstance(folder, Path):
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    base = folder.path.rstrip("/") + "/"
    found = map(str, folder.fs.find(base))  # which, of an object, names the object
    return sorted(name.removeprefix(base) for name in found if name.startswith(base))


@contextlib.contextmanager
def copied(folder: AnyPath, names: Iterable[str]) -> Iterator[Path]:
    """A local folder with these files and folders of `folder`, those that are there: itself, or a copy to be read."""
    if isinstance(folder, Path):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="raysweep-", ignore_cleanup_errors=True) as room:
        for name in names:
            for source in [folder / name / inner for inner in tree(folder / name)] or [folder / name]:
                with contextlib.suppress(FileNotFoundError):
                    content = source.read_bytes()
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
            own.write_bytes(path.read_bytes())
        done = threading.Event()

        def show() -> None:
            before = b""
            while True:
                over = done.wait(SHOWN_EVERY if before else 0.05)
                with contextlib.suppress(OSError):  # a log that cannot be shown now is shown later
                    if (now := own.read_bytes()) != before:
                        objects.replace(path.fs, path.path, now)
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
    before = tree(folder)
    with copied(folder, before) as room:
        yield room
        after = tree(room)
        for name in after:
            target = folder / name
            target.fs.pipe_file(target.path, (room / name).read_bytes())
    for name in set(before) - set(after):
        (folder / name).unlink()

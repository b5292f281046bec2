"""Where sweeps and stages are kept: a local folder (pathlib.Path) or a place elsewhere (UPath).

Both types join names by `/` and have name, parent, exists, is_dir and glob. All reads and writes go through `files`,
which knows what each place guarantees. Sweeps are kept only in folders and in object stores with conditional creation
(s3:// and gs://), because "one driver at a time" and "published once" need it. Stages may be on any file system of
fsspec.

Credentials and endpoints are fsspec's own configuration (FSSPEC_S3_ENDPOINT_URL, ~/.config/fsspec/*.json, AWS_*, …).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from raysweep.errors import InputError, shown
from raysweep.redaction import has_password

if TYPE_CHECKING:
    from upath import UPath

AnyPath: TypeAlias = "Path | UPath"

BUCKETS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
"""Protocols, and the optional dependency of raysweep (extra) that provides each."""
EXPECTED = "expected a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"


def locate(address: str | AnyPath, key: str = "--storage") -> AnyPath:
    """The place that a path or URL, given as `key`, names; InputError if it cannot hold sweeps. Does not contact the
    place. A folder is an absolute path, so that it stays the same if a user's code changes the working directory."""
    if isinstance(address, Path):
        return address.absolute()
    if not isinstance(address, str):
        if hasattr(address, "fs"):  # an UPath, whose package is loaded only for a place elsewhere
            return address
        raise InputError(key, f"{EXPECTED}, got {shown(address)}")
    protocol, rest = _parts(address, key)
    if address and not protocol:
        return Path(address).absolute()
    if protocol not in BUCKETS or not rest.strip("/") or "::" in rest:
        raise InputError(key, f"{EXPECTED}, got {address!r}")
    return _elsewhere(address, protocol, key)


def locate_store(address: str) -> AnyPath:
    """The place that a path or URL names; InputError if it cannot hold stages. Does not contact the place."""
    if "::" in address:
        raise InputError(address, "expected a plain path or URL for the store (a cache hides what others do)")
    if not address:
        raise InputError("--store", f"{EXPECTED}, got {address!r}")
    protocol, rest = _parts(address, address)
    if protocol in ("", "file", "local"):
        return Path(rest).expanduser().absolute()
    return _elsewhere(address, protocol, address)


def _parts(address: str, key: str) -> tuple[str, str]:
    """The protocol of an address (empty for a plain path) and the rest; InputError if it is neither path nor URL."""
    if has_password(address):
        advice = "AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, FSSPEC_…"
        raise InputError(key, f"the address is recorded and shown; give its credentials by the environment ({advice})")
    protocol, separator, rest = address.partition("://")
    if separator:
        return protocol, rest
    # s3:/bucket or gs:bucket reads as a folder name, but is a mistyped URL
    if meant := re.match(r"(s3a?|gs|gcs|https?|file|memory):/?(?!/)(.*)", address):
        raise InputError(key, f"{EXPECTED} (such as {meant.group(1)}://{meant.group(2)}), got {address!r}")
    return "", address


def _elsewhere(address: str, protocol: str, key: str) -> UPath:
    try:
        from fsspec import get_filesystem_class
        from upath import UPath

        get_filesystem_class(protocol)  # imports the packages of the protocol
        return UPath(address.rstrip("/"), use_listings_cache=False)  # other machines write too
    except ImportError as error:
        hint = f"; pip install 'raysweep[{BUCKETS[protocol]}]'" if protocol in BUCKETS else ""
        raise InputError(key, f"{address} needs a package that is not installed ({error}){hint}") from None
    except ValueError as error:
        raise InputError(key, f"{EXPECTED}, got {address!r} ({error})") from None


def storage(address: str | AnyPath) -> AnyPath:
    """Like `locate`; InputError, in one line, if the place is in a bucket that cannot be reached."""
    place = locate(address)
    if not isinstance(place, Path):
        try:
            place.fs.ls(place.path, detail=False)
        except FileNotFoundError:
            pass
        except Exception as error:  # each object store's client has its own errors
            raise InputError("--storage", f"{place} cannot be reached: {first_line(error)}") from None
    return place


def absolute(where: AnyPath) -> str:
    """An address that means the same in every process, in any working directory."""
    return str(where.resolve()) if isinstance(where, Path) else str(where)


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__

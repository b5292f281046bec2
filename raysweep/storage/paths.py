"""Where sweeps and stages are kept: a folder of this machine (pathlib.Path) or a place elsewhere (UPath).

Both join names by `/` and know name, parent, exists, is_dir and glob; whatever is read or written goes through `files`,
which knows what each place guarantees. Sweeps are kept only in folders and in object stores with conditional creation
(s3:// and gs://), because "one driver at a time" and "published once" rest on it; stages on any file system of fsspec.

Credentials and endpoints are fsspec's own configuration (FSSPEC_S3_ENDPOINT_URL, ~/.config/fsspec/*.json, AWS_*, …).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from raysweep.errors import InputError
from raysweep.redaction import has_password

if TYPE_CHECKING:
    from upath import UPath

AnyPath: TypeAlias = "Path | UPath"

BUCKETS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
"""Protocols, and the extra of raysweep that brings what they need."""
EXPECTED = "expected a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"


def locate(address: str | AnyPath) -> AnyPath:
    """What a path or URL names; InputError if it is none that can hold sweeps. Asks nobody."""
    if not isinstance(address, str):
        return address
    protocol, rest = _parts(address, "--storage")
    if not protocol:
        return Path(address)
    if protocol not in BUCKETS or not rest.strip("/") or "::" in rest:
        raise InputError("--storage", f"{EXPECTED}, got {address!r}")
    return _elsewhere(address, protocol, "--storage")


def locate_store(address: str) -> AnyPath:
    """What a path or URL names; InputError if it is none that can hold stages. Asks nobody."""
    if "::" in address:
        raise InputError(address, "expected a plain path or URL for the store (a cache hides what others do)")
    protocol, rest = _parts(address, address)
    if protocol in ("", "file", "local"):
        return Path(rest).expanduser().absolute()
    return _elsewhere(address, protocol, address)


def _parts(address: str, key: str) -> tuple[str, str]:
    """The protocol of an address, empty for a plain path, and the rest; InputError for what neither can be."""
    if has_password(address):
        raise InputError(
            key,
            "the address is recorded and shown; give its credentials by the environment "
            "(AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, FSSPEC_…)",
        )
    protocol, separator, rest = address.partition("://")
    if separator:
        return protocol, rest
    # s3:/bucket or gs:bucket is a folder of that name only by its letters
    if meant := re.match(r"(s3a?|gs|gcs|https?|file|memory):/?(?!/)(.*)", address):
        raise InputError(key, f"{EXPECTED} (such as {meant.group(1)}://{meant.group(2)}), got {address!r}")
    return "", address


def _elsewhere(address: str, protocol: str, key: str) -> UPath:
    try:
        from fsspec import get_filesystem_class
        from upath import UPath

        get_filesystem_class(protocol)  # imports what the protocol needs
        return UPath(address.rstrip("/"), use_listings_cache=False)  # other machines write too
    except ImportError as error:
        hint = f"; pip install 'raysweep[{BUCKETS[protocol]}]'" if protocol in BUCKETS else ""
        raise InputError(key, f"{address} needs a package that is not installed ({error}){hint}") from None
    except ValueError as error:
        raise InputError(key, f"{EXPECTED}, got {address!r} ({error})") from None


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

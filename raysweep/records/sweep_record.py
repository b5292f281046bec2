"""The record of a sweep: what was asked, in one file written before any work. Without it the sweep does not exist."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from raysweep.errors import InputError, unknown
from raysweep.records import driver_lock, files, ledger, paths
from raysweep.records.paths import AnyPath
from raysweep.space import plain_name, restore

FORMAT = 1
STORE = "store"
RESERVED = ("mlflow.db", "mlflow-artifacts", STORE)
FILE, LEDGER, LOGS = "sweep.json", "ledger", "logs"
INSIDE = (FILE, driver_lock.FILE, LEDGER, LOGS, "report", "tune")


@dataclass(frozen=True)
class Record:
    """sweep: its name; sweep_id: unique, new for every sweep that is started afresh; space: resolved, as plain data;
    tracking_uri: where it is mirrored (without credentials), None for nowhere; runs_per: what has a run there of its
    own, cell, pack or sweep (None: of a time when their number alone decided); store: where its stages are shared, None
    for the storage's own."""

    sweep: str
    sweep_id: str
    space: dict[str, Any]
    tracking_uri: str | None
    created: str
    format: int = FORMAT
    runs_per: str | None = None
    store: str | None = None


def create(folder: AnyPath, sweep: str, space: dict[str, Any], tracking_uri: str | None, runs_per: str) -> Record:
    """Start the record of a new sweep; FileExistsError if there is one."""
    record = Record(sweep, uuid.uuid4().hex, space, tracking_uri, datetime.now(UTC).isoformat(timespec="seconds"),
                    runs_per=runs_per)
    if isinstance(folder, Path):  # a bucket has no folders
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{folder.name} in it is a file", str(folder))
        folder.mkdir(parents=True, exist_ok=True)
        for inner in (LEDGER, LOGS):
            (folder / inner).mkdir(exist_ok=True)
    if not files.publish(folder / FILE, _encode(record)):
        raise FileExistsError(folder / FILE)
    return record


def abandon(folder: AnyPath) -> None:
    """Take away the empty folders of a record that could not be written."""
    if not isinstance(folder, Path):
        return
    with contextlib.suppress(OSError):
        (folder / LEDGER).rmdir()
        folder.rmdir()
        folder.parent.rmdir()


def update(folder: AnyPath, record: Record) -> None:
    """Replace the record, in one step."""
    files.replace(folder / FILE, _encode(record))


def load(folder: AnyPath) -> Record | None:
    """The record of a sweep, or None if there is no such sweep; InputError if it cannot be understood."""
    for path in (folder, *(folder / inner for inner in INSIDE)):  # a name is a folder of this storage, not a way out
        if isinstance(path, Path) and path.is_symlink():
            raise InputError(str(path), "is a link; expected to lie in the storage itself")
    try:
        text = (folder / FILE).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise InputError(str(folder / FILE), "not the record of a sweep (not UTF-8)") from None
    try:
        plain = json.loads(text)
        if plain["format"] != FORMAT:
            raise InputError("format", f"{plain['format']} where this version reads {FORMAT}")
        plain["space"] = restore(_decode(plain["space"])).as_dict()
        plain_name(plain["sweep"], "sweep")  # what follows from both are names of files and filters of searches
        if not re.fullmatch(r"[0-9a-f]{32}", plain["sweep_id"]):
            raise InputError("sweep_id", "expected 32 hexadecimal digits")
        for key in ("tracking_uri", "store", "runs_per"):
            if not isinstance(plain.get(key), (str, type(None))):
                raise InputError(key, "expected a text or null")
        return Record(**plain)
    except InputError as error:
        raise InputError(str(folder / FILE), f"not the record of a sweep that can be read here ({error})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(str(folder / FILE), f"not the record of a sweep ({error})") from None


def sweeps(storage: AnyPath) -> list[str]:
    """Names of the sweeps in a storage directory; InputError if it cannot be read."""
    try:
        return sorted(path.parent.name for path in storage.glob(f"*/{FILE}"))
    except OSError as error:
        raise InputError("--storage", f"{storage} cannot be read ({error.strerror})") from None


def find(storage: AnyPath, name: str) -> AnyPath:
    """The folder of a sweep; InputError names the nearest if there is none. '-' and '_' may stand for each other."""
    known = sweeps(storage)
    alike = [entry for entry in known if entry.replace("-", "_") == name.replace("-", "_")]
    chosen = name if name in known else (alike[0] if len(alike) == 1 else None)
    if chosen is None:
        if not known:
            raise InputError(name, f"no such sweep: there is none in {storage}")
        raise unknown(name, f"sweep in {storage}", name, known)
    return storage / chosen


def delete(folder: AnyPath) -> None:
    """Remove a sweep: its record first, so that a deletion cut short leaves no half sweep behind."""
    (folder / FILE).unlink()
    paths.remove_tree(folder)


def _encode(record: Record) -> bytes:
    return (json.dumps(_plain(asdict(record)), indent=1, allow_nan=False) + "\n").encode()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        encoded = ledger.encode(value)
        return {"float": encoded} if isinstance(encoded, str) else encoded
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"float"} and value["float"] in ledger.WORDS:
            return ledger.WORDS[value["float"]]
        return {key: _decode(entry) for key, entry in value.items()}
    return [_decode(entry) for entry in value] if isinstance(value, list) else value

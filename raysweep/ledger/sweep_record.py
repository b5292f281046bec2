"""The record of a sweep: what was asked, in one file written before any work. Without it the sweep does not exist.

The record is sealed by a checksum: a changed digit of its space would be another cell, whose rows nobody has computed.
Earlier versions wrote it without a seal, as format 1. Such a record is read, and sealed when it is next written. A
sealed record cannot pass for one of these, whatever happens to its seal: its format is another, and every key counts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import uuid
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from raysweep import plain_json as json
from raysweep.errors import InputError, unknown
from raysweep.phrases import command, place
from raysweep.space.schema import plain_name, restore
from raysweep.storage import driver_lock, files, leases, sealed, signs
from raysweep.storage.paths import AnyPath

UNSEALED, FORMAT = 1, 2
STORE = "store"
RESERVED = ("mlflow.db", "mlflow-artifacts", STORE)
FILE, LEDGER, LOGS = "sweep.json", "ledger", "logs"
DELETING = "sweep.deleting.json"
"""The record of a sweep whose deletion has begun; parts of the sweep may already be missing."""
REPORT, PART = "report", "report-part"
"""Folders of a sweep's report, and of a report of a part of the sweep."""
REPAIR = "; its rows are whole: move this file away and run the same space again, which takes them over"
INSIDE = (
    *(FILE, DELETING, driver_lock.FILE, signs.PHASE, signs.MIRRORED, signs.STEPS, signs.COMPUTING),
    *(LEDGER, LOGS, REPORT, PART, "tune"),
)


@dataclass(frozen=True)
class Record:
    """What was asked of a sweep.

    sweep_id: unique, new for every sweep that is started afresh.
    space: resolved, as plain data.
    tracking_uri: where it is logged to MLflow (without credentials); None if nowhere.
    created: when, in UTC.
    runs_per: what one run in MLflow stands for: cell, pack or sweep (None in records that are older than this key).
    store: where its stages are shared; None for the store inside the storage.
    """

    sweep: str
    sweep_id: str
    space: dict[str, Any]
    tracking_uri: str | None
    created: str
    format: int = FORMAT
    runs_per: str | None = None
    store: str | None = None


def create(folder: AnyPath, sweep: str, space: dict[str, Any], tracking_uri: str | None, runs_per: str) -> Record:
    """Create the record of a new sweep; FileExistsError if there is one."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    record = Record(sweep, uuid.uuid4().hex, space, tracking_uri, created, runs_per=runs_per)
    if isinstance(folder, Path):  # a bucket has no folders
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{folder.name} in it is a file", str(folder))
        folder.mkdir(parents=True, exist_ok=True)
        for inner in (LEDGER, LOGS):
            (folder / inner).mkdir(exist_ok=True)
    if not files.create(folder / FILE, sealed.seal(asdict(record))):
        raise FileExistsError(folder / FILE)
    return record


def abandon(folder: AnyPath, storage_too: bool) -> None:
    """Remove empty folders that were made for a sweep; storage_too: also the storage, if it was made for the sweep."""
    if not isinstance(folder, Path):  # a bucket has none
        return
    for made in (folder / LEDGER, folder / LOGS, folder, *([folder.parent] if storage_too else [])):
        with contextlib.suppress(OSError):  # the folder is not empty
            made.rmdir()


def withdraw(folder: AnyPath, storage_too: bool, record: str = FILE) -> None:
    """Take back the creation of a record, as the holder of the sweep's lock. Rows that were there without a record
    stay. storage_too: also remove the storage, if it was made for this sweep and is empty."""
    files.remove([folder / record])
    if isinstance(folder, Path):
        files.remove([folder / driver_lock.FILE])  # in a bucket a lease is released
    abandon(folder, storage_too)


def update(folder: AnyPath, record: Record) -> None:
    files.replace(folder / FILE, sealed.seal(asdict(record)))


def load(folder: AnyPath, to_delete: bool = False) -> Record | None:
    """The record of a sweep, or None if there is no such sweep; InputError if it cannot be understood, and if the
    deletion of the sweep has begun, unless `to_delete`."""
    try:
        with files.reading(folder):
            for path in (folder, *(folder / inner for inner in INSIDE)):  # a name must not lead out of the storage
                if isinstance(path, Path) and path.is_symlink():
                    raise InputError(str(path), "is a link; expected to lie in the storage itself")
            content = _content(folder, to_delete)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        plain = json.loads(content, object_hook=sealed.restored)
        if plain["format"] == UNSEALED:
            plain["format"] = FORMAT
        else:
            plain = sealed.unseal(content)
        if plain["format"] != FORMAT:
            raise InputError("format", f"{plain['format']} where this version reads {FORMAT}")
        plain["space"] = restore(plain["space"]).as_dict()
        plain_name(plain["sweep"], "sweep")  # both are used in names of files and in filters of searches
        if not re.fullmatch(r"[0-9a-f]{32}", plain["sweep_id"]):
            raise InputError("sweep_id", "expected 32 hexadecimal digits")
        for key in ("tracking_uri", "store", "runs_per"):
            if not isinstance(plain.get(key), (str, type(None))):
                raise InputError(key, "expected a text or null")
        return Record(**plain)
    except InputError as error:
        raise InputError(str(folder / FILE), f"not the record of a sweep that can be read here ({error})") from None
    except (sealed.Damaged, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(str(folder / FILE), f"not the record of a sweep ({error}){REPAIR}") from None


def _content(folder: AnyPath, to_delete: bool) -> bytes:
    try:
        return files.read(folder / FILE)
    except FileNotFoundError:
        content = files.read(folder / DELETING)
        if to_delete:
            return content
        again = command("delete", folder.name, folder.parent)
        why = f"is being deleted, or its deletion was cut short; finish that with: {again}"
        raise InputError(folder.name, why) from None


def sweeps(storage: AnyPath) -> list[str]:
    try:
        return sorted({path.parent.name for name in (FILE, DELETING) for path in storage.glob(f"*/{name}")})
    except OSError as error:
        raise InputError("--storage", f"{place(storage)} cannot be read ({error.strerror})") from None


def find(storage: AnyPath, name: str) -> AnyPath:
    """The folder of a sweep; InputError names the nearest if there is none. '-' and '_' may replace each other."""
    names = sweeps(storage)
    alike = [entry for entry in names if entry.replace("-", "_") == name.replace("-", "_")]
    chosen = name if name in names else (alike[0] if len(alike) == 1 else None)
    if chosen is None:
        folder = storage / name
        if name and isinstance(folder, Path) and folder.is_dir():
            with files.reading(folder):
                os.scandir(folder).close()
        if not names:
            raise InputError(name or "SWEEP", f"no such sweep: there is none in {place(storage)}")
        raise unknown(name or "SWEEP", f"sweep in {place(storage)}", name, names)
    return storage / chosen


def begin_deletion(folder: AnyPath) -> bool:
    """Rename the record, so that nobody continues this sweep; False if the deletion had begun before. On a disk this is
    one step, which works even if the disk is full. In a bucket the new name is there before the old one is removed."""
    return files.move(folder / FILE, folder / DELETING)


def keep(folder: AnyPath) -> None:
    files.move(folder / DELETING, folder / FILE)


def delete(folder: AnyPath) -> None:
    """Remove a sweep whose deletion has begun, as the holder of its lock. The record is removed last. So an interrupted
    deletion leaves something that is never taken for a sweep and that can be deleted again."""
    if isinstance(folder, Path):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name not in (DELETING, driver_lock.FILE):
                path.unlink()
    else:  # except for the lock, which is released as usual
        kept = (DELETING, f"{leases.FOLDER}/")
        if rest := [folder / name for name in files.tree(folder) if not name.startswith(kept)]:
            files.remove(rest)
    withdraw(folder, storage_too=False, record=DELETING)


def clear_leftovers(folder: AnyPath) -> None:
    """Delete half-written files of a killed driver. A bucket has none: its files appear whole."""
    if isinstance(folder, Path):
        for path in (*folder.glob(".*.part"), *(folder / LEDGER).glob(".*.part")):
            path.unlink(missing_ok=True)

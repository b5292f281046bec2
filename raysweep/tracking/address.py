"""Which MLflow a sweep is logged to, and which form of its address the record keeps.

A record may be somebody else's, and MLflow's client sends a password, token or key of this user to whatever address it
connects to. So a server is asked only if this user gave its address: by --tracking-uri, in an earlier run (user_files)
or by MLFLOW_TRACKING_URI. SQLite is a file and asks for nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from raysweep.errors import InputError
from raysweep.ledger.sweep_record import Record
from raysweep.phrases import command
from raysweep.redaction import without_credentials
from raysweep.space import user_files
from raysweep.storage.paths import AnyPath
from raysweep.tracking import server

NOWHERE = "none"
OF_DRIVER = "sqlite:///mlflow.db"
"""The default for a sweep in a bucket: a database in the driver's working directory."""


def chosen(asked: str | None, record: Record | None, storage: AnyPath) -> str | None:
    """The MLflow to log to: the one that was asked for, else the recorded one, else a database in the storage; for a
    bucket ./mlflow.db on the machine that drives the sweep, where it is complete, because it is replayed from the
    ledger.

    Returns None if the sweep is logged nowhere. Raises InputError for a recorded server that this user did not give,
    and where the folder's name has a letter that the address of a database gives another meaning.
    """
    if asked is not None:
        return None if asked == NOWHERE else asked
    if record is not None and record.tracking_uri != OF_DRIVER:
        uri, usual = record.tracking_uri, without_credentials(os.environ.get("MLFLOW_TRACKING_URI", ""))
        if uri and not (_is_file(uri) or uri.rstrip("/") == usual.rstrip("/") or user_files.gave_server(uri)):
            why = f"{record.sweep} is mirrored to {uri}, which no run of yours on this machine gave, and your password"
            why += f" goes to no such address: give it if you trust it, or {NOWHERE}"
            raise InputError("--tracking-uri", f"missing; {why}")
        return uri
    database = ((storage if isinstance(storage, Path) else Path()) / "mlflow.db").resolve()
    if meaning := [letter for letter in "?%" if letter in str(database)]:
        why = f"MLflow's database cannot lie in a folder with {' or '.join(meaning)} in its name"
        raise InputError(str(database.parent), f"{why}; name another storage, or another MLflow with --tracking-uri")
    return f"sqlite:///{database}"


def _is_file(uri: str) -> bool:
    return re.match(r"sqlite\b", uri) is not None


def recorded(uri: str | None, storage: AnyPath) -> str | None:
    """The form of a tracking URI that a record keeps: without credentials, and without a folder of one machine."""
    if not isinstance(storage, Path) and uri == chosen(None, None, storage):
        return OF_DRIVER
    return without_credentials(uri) if uri else None


def check(uri: str | None, record: Record | None, storage: AnyPath, say: Callable[[str], None]) -> None:
    """Check that the MLflow to log to can be reached, and note that this user gave it. Raises InputError if not. If the
    sweep was logged there before, an unreachable server is only reported, and the missing runs are written later."""
    if uri is None:
        return
    try:
        server.check(uri)
    except server.NotLetIn as error:  # waiting does not help against a wrong password
        raise InputError("--tracking-uri", str(error)) from None
    except server.Unreachable as error:
        if record is None:
            later = f"{NOWHERE} runs without, and `raysweep sync SWEEP` with an address writes it later"
            raise InputError("--tracking-uri", f"{error} ({later})") from None
        if record.tracking_uri not in (without_credentials(uri), OF_DRIVER):
            raise InputError("--tracking-uri", str(error)) from None
        later = command("sync", record.sweep, storage)
        say(f"--tracking-uri: {error}; going on, and trying again meanwhile; if it stays away: {later}, later")
    if not _is_file(uri):
        user_files.remember_server(without_credentials(uri))


def artifacts(uri: str, storage: AnyPath) -> str | None:
    """The URI for the artifacts of a new experiment; None if the server decides."""
    folder = storage if isinstance(storage, Path) else Path()
    return (folder.resolve() / "mlflow-artifacts").as_uri() if uri.startswith("sqlite:") else None

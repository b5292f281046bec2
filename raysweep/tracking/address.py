"""Which MLflow a sweep is logged to, and what its record keeps of the address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from raysweep.errors import InputError
from raysweep.ledger.sweep_record import Record
from raysweep.phrases import command
from raysweep.redaction import without_credentials
from raysweep.storage.paths import AnyPath
from raysweep.tracking import server

NOWHERE = "none"
OF_DRIVER = "sqlite:///mlflow.db"
"""Where a sweep in a bucket is logged unless asked otherwise: in the working directory of whoever drives it."""


def chosen(asked: str | None, record: Record | None, storage: AnyPath) -> str | None:
    """The MLflow to log to: as asked, else as before, else a database in the storage; None for none.

    A bucket holds no database: it is ./mlflow.db then, of whatever machine drives the sweep, and whole there, because
    it is replayed from the ledger.
    """
    if asked is not None:
        return None if asked == NOWHERE else asked
    if record is not None and record.tracking_uri != OF_DRIVER:
        return record.tracking_uri
    return f"sqlite:///{((storage if isinstance(storage, Path) else Path()) / 'mlflow.db').resolve()}"


def recorded(uri: str | None, storage: AnyPath) -> str | None:
    """What a sweep's record keeps of a tracking URI: no credentials, and no folder of a machine that is one of many."""
    if not isinstance(storage, Path) and uri == chosen(None, None, storage):
        return OF_DRIVER
    return without_credentials(uri) if uri else None


def check(uri: str | None, record: Record | None, storage: AnyPath, say: Callable[[str], None]) -> None:
    """InputError if the MLflow to log to cannot be reached. Where the sweep was logged there before, that is only said:
    the sweep does not wait for a server, and what is missing there is written later."""
    if uri is None:
        return
    try:
        server.check(uri)
    except server.NotLetIn as error:  # a server that stays away is waited for, a wrong password is not
        raise InputError("--tracking-uri", str(error)) from None
    except server.Unreachable as error:
        if record is None:
            raise InputError(
                "--tracking-uri",
                f"{error} ({NOWHERE} runs without, and `raysweep sync SWEEP` with an address writes it later)",
            ) from None
        if record.tracking_uri not in (without_credentials(uri), OF_DRIVER):
            raise InputError("--tracking-uri", str(error)) from None
        say(
            f"--tracking-uri: {error}; going on, and trying again meanwhile; if it stays away: "
            f"{command('sync', record.sweep, storage)}, later"
        )


def artifacts(uri: str, storage: AnyPath) -> str | None:
    """Where the artifacts of a new experiment go; None where the server decides."""
    folder = storage if isinstance(storage, Path) else Path()
    return (folder.resolve() / "mlflow-artifacts").as_uri() if uri.startswith("sqlite:") else None

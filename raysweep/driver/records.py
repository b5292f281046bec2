"""The record of the sweep that a driver drives: it is made, changed, and taken back if the sweep cannot begin. Only one
driver at a time works on a sweep: it holds the sweep's lock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from raysweep.driver import shared_stages
from raysweep.driver.options import Options
from raysweep.errors import Halted, InputError
from raysweep.ledger import sweep_record
from raysweep.ledger.sweep_record import Record
from raysweep.phrases import place
from raysweep.plan.cells import Cells
from raysweep.query.sweep import Sweep
from raysweep.space import user_files
from raysweep.space.function_files import Given
from raysweep.space.schema import Space
from raysweep.storage import driver_lock, files, signs
from raysweep.storage.paths import AnyPath
from raysweep.tracking import address, runs, server
from raysweep.tracking.session import default_runs_per


def create(folder: AnyPath, space: Space, cells: Cells, options: Options, uri: str | None, new_storage: bool) -> Record:
    """Create the record of a new sweep. uri: the MLflow to log to; None for none. new_storage: whether the storage is
    made for it. Raises InputError if another driver has done so, or if it cannot be written."""
    storage, name = folder.parent, options.name or space.name
    runs_per = options.runs_per or default_runs_per(cells)
    tracking_uri = address.recorded(uri, storage)
    try:
        record = sweep_record.create(folder, name, space.as_dict(), tracking_uri, runs_per)
        return sweep_record.load(folder) or record  # as read from the file: only_driver compares them
    except FileExistsError:
        raise InputError(name, "another driver has just started a sweep of this name") from None
    except OSError as error:
        sweep_record.abandon(folder, new_storage)
        raise InputError("--storage", f"{place(storage)} cannot be written: {error.strerror}") from None


def remember(folder: AnyPath, record: Record, space: Space, uri: str | None) -> Record:
    """The record with this space and this tracking URI. It is written to the folder if it changed."""
    tracking_uri = address.recorded(uri, folder.parent) if uri else record.tracking_uri
    current = replace(record, space=space.as_dict(), tracking_uri=tracking_uri)
    if current != sweep_record.load(folder):
        sweep_record.update(folder, current)
    return current


def withdraw(folder: AnyPath, record: Record, function: Given | None, new_storage: bool) -> None:
    """Remove a new sweep that could not begin. function: the Python function of which first rows may be there."""
    if function:
        for inner in (sweep_record.LEDGER, sweep_record.LOGS):
            files.remove([folder / inner / name for name in files.tree(folder / inner)])
        user_files.forget(record.sweep_id)
    shared_stages.withdraw(folder, record, new_storage)
    sweep_record.withdraw(folder, new_storage)


def take_back(sweep: Sweep, uri: str | None, new_storage: bool) -> None:
    """Remove a new sweep without rows, whose workload cannot be run as it is declared, and its runs in MLflow."""
    storage = sweep.folder.parent
    if uri and new_storage and isinstance(storage, Path) and uri == address.chosen(None, None, storage):
        (storage / "mlflow.db").unlink(missing_ok=True)  # made for this sweep too
    elif uri:
        with contextlib.suppress(server.Unreachable):  # its runs say that they were killed
            runs.forget(uri, sweep.space.name, sweep.record.sweep_id)
    shared_stages.withdraw(sweep.folder, sweep.record, new_storage)
    sweep_record.begin_deletion(sweep.folder)
    sweep_record.delete(sweep.folder)
    sweep_record.abandon(sweep.folder, new_storage)


@contextlib.contextmanager
def only_driver(
    folder: AnyPath, record: Record, say: Callable[[str], None], to_delete: bool = False
) -> Iterator[Callable[[], None]]:
    """Hold a sweep while the block runs. Yields a function that raises Halted if the hold was lost to another driver.

    to_delete: whether a record whose deletion has begun is accepted.

    Raises Halted if another driver holds the sweep, if its record on disk is no longer `record`, or if its folder is
    full or cannot be written; InputError if its folder was copied or renamed.
    """
    sweep = record.sweep
    if folder.name != sweep:
        why = f"is a copied or renamed folder of the sweep {sweep}, whose runs in MLflow and stages it shares"
        raise InputError(folder.name, f"{why}; only read it, rename it to {sweep}, or remove the folder by hand")

    @contextlib.contextmanager
    def busy_is_halted() -> Iterator[None]:
        try:
            yield
        except driver_lock.Busy as error:
            raise Halted(sweep, f"is being driven by {error}; one driver at a time") from None

    def check() -> None:
        with busy_is_halted():
            still_held()

    with contextlib.ExitStack() as stack:
        try:
            with busy_is_halted():
                still_held = stack.enter_context(driver_lock.held(folder, lambda line: say(f"{sweep}: {line}")))
        except FileNotFoundError:
            raise Halted(sweep, "was deleted meanwhile") from None
        except OSError as error:
            raise files.in_one_line(error, folder) or error from None
        if (now := sweep_record.load(folder, to_delete)) != record:
            raise Halted(sweep, f"was {'changed' if now else 'deleted'} meanwhile; try again")
        signs.clear(folder, signs.PHASE)  # a killed driver may have left it
        try:
            yield check
        except OSError as error:
            raise files.in_one_line(error, folder) or error from None

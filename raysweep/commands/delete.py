"""`raysweep delete`: delete a sweep and its runs in MLflow, in an order that can be continued after an interruption."""

from __future__ import annotations

from raysweep import terminal
from raysweep.driver import shared_stages
from raysweep.driver.records import only_driver
from raysweep.errors import InputError
from raysweep.ledger import sweep_record
from raysweep.query.sweep import Sweep
from raysweep.space import user_files
from raysweep.storage import driver_lock, files
from raysweep.tracking import address, runs, server


def delete(sweep: Sweep, tracking_uri: str | None) -> None:
    """Delete a sweep and its runs. Raises InputError while a driver works on it or somebody else deletes it."""
    if driver_lock.is_held(sweep.folder):
        begun = not (sweep.folder / sweep_record.FILE).exists()
        raise InputError(sweep.name, "is being deleted by somebody else" if begun else "is running; stop it first")
    files.check_not_read_only(sweep.folder)
    uri = address.chosen(tracking_uri, sweep.record, sweep.folder.parent)
    with only_driver(sweep.folder, sweep.record, terminal.say, to_delete=True):
        whole = sweep_record.begin_deletion(sweep.folder)
        try:
            if uri is not None:
                runs.forget(uri, sweep.space.name, sweep.record.sweep_id)
        except BaseException as error:
            if whole:  # it is still whole
                sweep_record.keep(sweep.folder)
            if isinstance(error, server.Unreachable):
                advice = "--tracking-uri none deletes the sweep and leaves its runs in MLflow"
                raise InputError("--tracking-uri", f"{error}; {advice}") from None
            raise
        if sweep.stored:
            shared_stages.release(sweep.folder, sweep.record)
        user_files.forget(sweep.record.sweep_id)
        try:
            sweep_record.delete(sweep.folder)
        except OSError as error:
            why = f"could not be deleted whole ({error}); `raysweep delete` again goes on"
            raise InputError(sweep.name, why) from None

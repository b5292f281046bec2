"""Replay a sweep's ledger into MLflow, without computing anything."""

from __future__ import annotations

from collections.abc import Callable

from raysweep.driver import signals
from raysweep.driver.driver import log_the_rest, only_driver, remember
from raysweep.driver.stored_sweep import Sweep
from raysweep.errors import Halted, InputError
from raysweep.tracking import session
from raysweep.tracking.session import Session


def sync(found: Sweep, tracking_uri: str | None, say: Callable[[str], None]) -> Sweep:
    """Log to MLflow what it lacks of a sweep. InputError if it is logged nowhere, Halted if MLflow cannot be made to
    have all of it."""
    uri = session.tracking(tracking_uri, found.record, found.folder.parent)
    if uri is None:
        raise InputError("--tracking-uri", f"{found.name} is mirrored nowhere; say where to")
    session.check(uri, None, found.folder.parent, say)
    logging: Session | None = None

    @signals.once
    def stop() -> None:
        if logging is not None and not logging.closed and (warning := logging.stop("KILLED")):
            say(f"interrupted: {warning}")

    with only_driver(found.folder, found.record, say), signals.on_signals(stop):
        found = Sweep(found.folder, remember(found.folder, found.record, found.space, uri))
        state = found.state()
        logging = Session(uri, found.folder, found.record, found.space, found.cells, state)
        try:
            missing = log_the_rest(logging, found, state, say)
        except KeyboardInterrupt:
            stop()
            raise
    if missing:
        raise Halted("", missing)
    return found

"""Only one driver at a time works on a sweep: it holds the sweep's lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from raysweep.errors import Halted
from raysweep.ledger import sweep_record
from raysweep.ledger.sweep_record import Record
from raysweep.storage import driver_lock, files, signs
from raysweep.storage.paths import AnyPath


@contextmanager
def only_driver(
    folder: AnyPath, record: Record, say: Callable[[str], None], to_delete: bool = False
) -> Iterator[Callable[[], None]]:
    """Hold a sweep while the block runs. Yields a function that raises Halted if the hold was lost to another driver.

    to_delete: whether a record whose deletion has begun is accepted.

    Raises Halted if another driver holds the sweep, if its record on disk is no longer `record`, or if its folder is
    full or cannot be written.
    """
    sweep = record.sweep

    @contextmanager
    def busy_is_halted() -> Iterator[None]:
        try:
            yield
        except driver_lock.Busy as error:
            raise Halted(sweep, f"is being driven by {error}; one driver at a time") from None

    def check() -> None:
        with busy_is_halted():
            still_held()

    with ExitStack() as stack:
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

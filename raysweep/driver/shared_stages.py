"""The stages that a sweep shares through the store: where they lie, which it needs, and what became of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from raysweep.driver import stage_plan
from raysweep.driver.options import code_note
from raysweep.driver.state import PendingRows, State
from raysweep.errors import InputError, RaysweepError
from raysweep.ledger import sweep_record
from raysweep.ledger.sweep_record import Record
from raysweep.stages.store import Store
from raysweep.storage import paths
from raysweep.storage.folder import Folder
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import Damaged
from raysweep.workloads.declaration import Workload


def address(folder: AnyPath, record: Record | None) -> str:
    """Where the stages of the sweep in this folder are shared: where it was told, else in the storage it lies in."""
    if record is not None and record.store is not None:
        return record.store
    return paths.absolute(folder.parent / sweep_record.STORE)


def absolute(url: str) -> str:
    """An address as a sweep remembers it: a folder by its whole path, for it may be resumed from elsewhere."""
    return url if "://" in url or "::" in url else str(Path(url).expanduser().absolute())


def placed(record: Record, url: str | None) -> Record:
    """The record of a sweep that shares its stages there from now on; as it is without an address."""
    return record if url is None else replace(record, store=absolute(url))


def check_asked(url: str | None, workload: Workload, folder: AnyPath) -> None:
    """InputError for a store that the workload has no use for, an address that can be none, or a place in the folder of
    a sweep (of this one: `folder`), with which others' stages would be deleted."""
    if url is None:
        return
    if not workload.stored:
        raise InputError("--store", f"workload {workload.name} leaves no stages to store; leave it out")
    Folder(url)
    if "://" in url:
        return
    place = Path(absolute(url)).resolve()
    for parent in (place, *place.parents):
        if parent == Path(str(folder)).resolve() or (parent / sweep_record.FILE).is_file():
            raise InputError(
                "--store",
                f"{url} lies in the folder of the sweep {parent.name} and would be deleted "
                "with it; expected a place of its own",
            )


def user(record: Record) -> str:
    """The name under which a sweep refers to its stages."""
    return f"{record.sweep}-{record.sweep_id[:8]}"


class SharedStages:
    """How a running sweep shares its stages; RaysweepError if its store is none, or cannot be read."""

    def __init__(
        self, folder: AnyPath, record: Record, state: State, on_code_change: str, say: Callable[[str], None]
    ) -> None:
        self.url, self.user = address(folder, record), user(record)
        self._state, self._on_code_change, self._say = state, on_code_change, say
        self._store = Store(self.url) if state.workload.stored else None
        self._before: dict[str, str] = {}  # stage that was needed -> the weights it had then, if it was there
        self._told = False

    def claim(self, pending: PendingRows) -> PendingRows:
        """Before any of these rows is computed: refer to every stage they need, and do with those of other code as was
        said. Returns the rows, estimated without the stages that are there.

        Halted if the store cannot be written, InputError if stages of other code are refused.
        """
        if self._store is None or not pending.rows:
            return pending
        self._store.check()
        recompute = self._on_code_change == "recompute"
        plan = stage_plan.build(self._state, pending, self._store, recompute)
        if plan.older:
            note = code_note(
                self._state.workload.name, f"{len(plan.older):,} of the stages in the store", self._on_code_change
            )
            if not self._told:
                self._say(note)
            self._told = True
        self._store.refer(self.user, plan.needed)
        weights = {stage: plan.found[stage]["weights"] if stage in plan.found else "" for stage in plan.needed}
        self._before = weights | self._before
        if recompute:
            for stage in plan.older:
                self._store.supersede(stage)
        return replace(pending, seconds=plan.seconds)

    def account(self) -> str | None:
        """In words, what became of the stages that this run needed; None if it needed none."""
        if self._store is None or not self._before:
            return None
        return _in_words(self._store, self.user, self._before)


def release(folder: AnyPath, record: Record) -> None:
    """A sweep is gone: it needs no stage any more."""
    store = Store(address(folder, record))
    if store.exists():
        store.forget(user(record))


def withdraw(folder: AnyPath, record: Record, new_storage: bool) -> None:
    """A sweep could not even begin: it leaves no reference, and no store in a storage that was made for it."""
    with contextlib.suppress(RaysweepError):
        release(folder, record)
        if new_storage and record.store is None:
            Store(address(folder, record)).discard(folder_too=True)


def _in_words(store: Store, own: str, before: Mapping[str, str]) -> str:
    """What became of some stages for a sweep, as a line, also where the store cannot be asked.

    own: the name under which the sweep refers to its stages.
    before: each of the stages with the weights that it had, or "".
    """
    try:
        found = stage_plan.records(store, before)
    except RaysweepError as error:
        return f"stages: {error}"
    mine = [
        record
        for stage, record in found.items()
        if record["meta"].get("sweep") == own and record["weights"] != before[stage]
    ]
    again = sum(int(record["meta"].get("computed", 1)) - 1 for record in mine)
    missing = len(before) - len(found)
    return (
        f"stages: {len(before):,} distinct, {len(mine):,} computed, {len(found) - len(mine):,} reused, "
        f"{again:,} computed twice"
        + (" (after an expired lease)" if again else "")
        + (f", {missing:,} not in the store" if missing else "")
    )


def of_sweep(folder: AnyPath, record: Record) -> str:
    """What became of all stages that a sweep ever needed, as a line."""
    try:
        store = Store(address(folder, record))
        return _in_words(store, user(record), dict.fromkeys(store.referred(user(record)), ""))
    except RaysweepError as error:
        return f"stages: {error}"
    except Damaged as error:
        return f"stages: a reference in {address(folder, record)} is damaged: {error}"

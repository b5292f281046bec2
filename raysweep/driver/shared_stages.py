"""The stages that a sweep shares through the store: where they are, which ones it needs, and what happened to them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from raysweep.driver import stage_plan
from raysweep.errors import InputError, RaysweepError
from raysweep.ledger import sweep_record
from raysweep.ledger.sweep_record import Record
from raysweep.phrases import counted
from raysweep.plan.cells import enumerate_cells
from raysweep.plan.row_stages import cell_stages
from raysweep.query.stage_store import address, in_words, user
from raysweep.query.state import PendingRows, State
from raysweep.space.schema import Space
from raysweep.stages import references
from raysweep.stages.store import Store
from raysweep.storage import leases
from raysweep.storage.folder import Folder
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import Damaged
from raysweep.workloads.declaration import Workload


def placed(record: Record, url: str | None) -> Record:
    """The record with this address as its store; the unchanged record if there is no address."""
    return record if url is None else replace(record, store=url)


def check_asked(url: str | None, workload: Workload, keep: Sequence[str], folder: AnyPath) -> None:
    """Raises InputError if the workload stores no stages, if the store's address is not valid, or if it would lie in
    the folder of a sweep, this one (`folder`) or another: deleting that would delete the stages of others too."""
    if url is None:
        return
    if not workload.stores(keep):
        raise InputError("--store", f"workload {workload.name} leaves no stages to store; leave it out")
    Folder(url)
    if "://" in url:
        return
    place = Path(url).resolve()
    for parent in (place, *place.parents):
        if parent == Path(str(folder)).resolve() or (parent / sweep_record.FILE).is_file():
            why = f"{url} lies in the folder of the sweep {parent.name} and would be deleted with it"
            raise InputError("--store", f"{why}; expected a place of its own")


class SharedStages:
    """The shared stages of a running sweep. Raises RaysweepError if its store is not a store or cannot be read.

    there: the stages that the store had when rows were claimed last.
    expired: the leases of stages that this driver has seen expire, each with its content.
    """

    def __init__(self, record: Record, state: State, on_code_change: str, say: Callable[[str], None]) -> None:
        self.url, self.user = address(state.folder, record), user(record)
        self._record, self._state, self._on_code_change, self._say = record, state, on_code_change, say
        self._store = Store(self.url) if state.stored else None
        self._before: dict[str, str] = {}  # needed stage -> its weights in the store before this run, or ""
        self._noted = False
        self._new: set[str] = set()  # the stages that were to be computed when rows were claimed last
        self.there: set[str] = set()
        self.expired: dict[str, bytes] = {}
        self._claims: dict[str, leases.Claim] = {}

    def add_metrics(self) -> None:
        """Have metrics measured that the workload has gained, where the store has what is needed."""
        if note := stage_plan.renew(self._state, self._store, self._on_code_change):
            self._say(f"note: {note}")

    def claim(self, pending: PendingRows) -> PendingRows:
        """Refer to every stage that these rows need, before any row is computed. Stages that other code computed are
        treated as `on_code_change` says. Returns the rows with an estimate that leaves out what is in the store. Raises
        Halted if the store cannot be written, and InputError if stages of other code are refused."""
        if self._store is None or not pending.rows:
            return pending
        recompute = self._on_code_change == "recompute"
        plan = stage_plan.build(self._state, pending, self._store, recompute)
        self._store.check()
        notes = stage_plan.notes(plan, self._state.workload, self._on_code_change)
        for note in [] if self._noted else notes:
            self._say(f"note: {note}")
        self._noted = True
        references.refer(self._store, self.user, plan.needed)
        self._let_go(plan.needed)
        weights = {stage: plan.stored[stage]["weights"] if stage in plan.stored else "" for stage in plan.needed}
        self._before = weights | self._before
        if recompute:
            for stage in plan.older | plan.lacking.keys():
                self._store.supersede(stage)
        self.there, self._new = plan.reused, plan.new
        return replace(pending, seconds=plan.seconds)

    def _let_go(self, needed: set[str]) -> None:
        """Once in a run, drop the references to stages that no row of the sweep needs any more, and say so."""
        if self._store is None or self._before:
            return
        with contextlib.suppress(Damaged, InputError):  # a damaged reference, or a text that has gone: all stay
            former = references.referred(self._store, self.user) - needed
            # rows that are done may need them, or did before the user took a stage out of `keep`
            former -= _stages_of(self._record) if former else set()
            if former:
                references.release(self._store, self.user, former)
                stages = f"{counted(len(former), 'stage')} of an earlier identity"
                are = "(of an earlier release, or of a text that has changed) " + ("is" if len(former) == 1 else "are")
                self._say(f"note: {stages} {are} used no longer; what missing rows need of them is computed again")

    def is_busy(self, stage: str) -> bool:
        """Whether somebody else computes a stage now: it is not published, and its lease is live. Says so once. A lease
        also counts as expired if it was not renewed while this driver looked; trials are told (`expired`)."""
        if self._store is None or self._store.look(stage) is not None:
            return False
        new = leases.Claim(self._store.files, stage, self._store.lease_seconds)
        expired = self._claims.setdefault(stage, new).expired()
        if expired is not None:
            self.expired[stage] = expired
            return False
        holder = leases.latest(self._store.files, stage)
        if holder is not None and self._claims[stage] is new:
            self._say(f"stage {stage} is being computed by {holder.holder}; what needs it begins later")
        return holder is not None

    def progress(self) -> tuple[int, int]:
        """How many stages that were to be computed are there, and how many they are. RaysweepError if unreadable."""
        if self._store is None or not self._new:
            return 0, 0
        return len(self._new.intersection(self._store.stages())), len(self._new)

    def account(self) -> str | None:
        """A line that counts how many stages this run computed and reused; None if it needed no stage."""
        return in_words(self._store, self.user, self._before) if self._store and self._before else None


def release(folder: AnyPath, record: Record) -> None:
    store = Store(address(folder, record))
    if store.exists():
        references.forget(store, user(record))


def withdraw(folder: AnyPath, record: Record, new_storage: bool) -> None:
    """Undo what a sweep that could not begin left: its references, and the store if its storage is new as well."""
    with contextlib.suppress(RaysweepError):
        release(folder, record)
        if new_storage and record.store is None:
            Store(address(folder, record)).discard(folder_too=True)


def _stages_of(record: Record) -> set[str]:
    """The stages that the rows of a whole sweep have, whether the sweep keeps them or not."""
    space = Space(**record.space)
    cells = enumerate_cells(space, check=False)
    stages_of = cell_stages(space.declaration, cells, space.keep)
    return {stage for cell in range(len(cells)) for stage in stages_of(cell, space.seeds)}

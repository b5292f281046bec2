"""The stage store: the results of stages, kept by identity and computed once for everybody who shares the store.

    STORE/store.json                       the format of the store
    STORE/entries/STAGE.json               a published stage: meta, description, checksum of weights (checkpoints.py)
    STORE/entries/STAGE.TOKEN.safetensors  its weights
    STORE/progress/STAGE.N.TOKEN.*         intermediate checkpoints of a stage that is being computed, in the same form
    STORE/leases/                          who computes what now (leases.py)
    STORE/refs/SWEEP/HASH.json             stages that a sweep refers to; pruning leaves them alone (references.py)
    STORE/damaged/                         files that did not match their checksum, set aside
    STORE/superseded/                      stages that other code computed and that had to be computed again, set aside

A store lies in a local folder or on any file system of fsspec; storage/files.py says what each of them guarantees.
Writes raise Halted, with one line, if the store is read-only or full.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from raysweep import plain_json as json
from raysweep.errors import Halted, InputError, RaysweepError
from raysweep.plan.identity import content_id
from raysweep.stages import checkpoints
from raysweep.stages.checkpoints import FORMAT, Entry, Record
from raysweep.stages.intermediate import Progress
from raysweep.storage import leases
from raysweep.storage.folder import Folder
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import Damaged, seal

__all__ = ["Damaged", "Entry", "Progress", "Store"]

LOGGER = logging.getLogger("raysweep.store")  # goes into the log of the trial
MARKER = "store.json"
_MARKING = json.dumps({"raysweep": "stage store", "format": FORMAT}).encode() + b"\n"
SUPERSEDED = "superseded"
FOLDERS = ("entries", "progress", "leases", "refs", "damaged", SUPERSEDED)
_SHORTEST, _SLOWEST = 0.01, 1.0  # seconds between two looks while waiting
_STAGE = re.compile(r"[A-Za-z0-9_-]{1,128}")

Computed = tuple[Mapping[str, np.ndarray], dict[str, Any]]


class Store:
    """A store at a path or URL.

    Opening it reads its format and creates nothing; InputError if the format is of another version, or if this is no
    store. If the format file is lost or cannot be read, the next writer writes it again. A store can be pickled and
    used by several threads.

    lease_seconds: how long a lease lasts after its last renewal.
    provenance: the sweep, and what a trial for stages alone holds; added to the meta of every stage that is computed
        through this object.
    waits: whether `once` waits for a stage that somebody else computes; if not, it raises leases.Held. True at first.
    expired: by stage, the content of a lease that the caller knows to have expired.
    """

    def __init__(
        self, url: str | AnyPath, lease_seconds: float = leases.SECONDS, provenance: Mapping[str, Any] | None = None
    ) -> None:
        self.files = Folder(url)
        self.url = self.files.root
        self.lease_seconds = lease_seconds
        self.provenance = dict(provenance or {})
        self.waits = True
        self.expired: Mapping[str, bytes] = {}
        self._lost = False  # whether this is a store whose marker is missing
        self._ready = self._marked()

    def _marked(self) -> bool:
        """Whether the store exists; InputError if we must not read it."""
        try:
            content = self.files.read(MARKER)
        except FileNotFoundError:
            content = b""
        try:
            stated = json.loads(content)["format"]
        except (ValueError, KeyError, TypeError, RecursionError):
            stated = None
        if stated is None:
            there = {name for name in self.files.names("") if not name.startswith(".")}
            others = sorted(there - {MARKER})
            # every record states its own format, so a store stays readable without the marker, which is written again
            self._lost = "entries" in others and set(FOLDERS).issuperset(others)
            if self._lost:
                return True
            if not content and MARKER in there and self.files.size(MARKER):  # created between the two reads
                return self._marked()
            if content or (MARKER in there and not others):
                expected = _MARKING.decode().strip()
                raise InputError(self.url, f"{MARKER} cannot be read; expected {expected} (or no such file)")
            if others:
                raise InputError(self.url, f"is not a store: it has no {MARKER}, but {others[0]}")
            return False
        if stated != FORMAT:
            formats = f"format {stated}; this version reads and writes {FORMAT}"
            why = f"the store was written by another version of raysweep ({formats}); use another store"
            raise InputError(self.url, why)
        return True

    def exists(self) -> bool:
        """Whether there is a store here; opening one does not create it."""
        self._ready = self._ready or self._marked()
        return self._ready

    def check(self) -> None:
        """Halted if nothing can be written here (then nothing is left behind). Call it before any work starts."""
        was_there, probe = self._ready, f".probe.{uuid.uuid4().hex}"
        try:
            self.prepare()
            self.files.replace(probe, bytes(4096))
            self.files.remove(probe)
        except RaysweepError:
            if not was_there:
                self.discard()
            raise

    def discard(self, folder_too: bool = False) -> None:
        """Remove a store in which nothing was ever put, and with folder_too its folder; any other stays."""
        with contextlib.suppress(RaysweepError):
            if not any(self.files.names(folder) for folder in FOLDERS if folder != "refs"):
                self.files.take_back(MARKER, folder_too)
                self._ready = False

    def prepare(self) -> None:
        """Make sure that the store exists and has its format file. Every writer calls it first."""
        if self._lost:
            self.files.replace(MARKER, _MARKING)
            self._lost = False
        if not self._ready:
            self.files.create(MARKER, _MARKING)
            self._ready = self._marked()

    def supersede(self, stage: str) -> bool:
        """Set a published stage aside, so that it is computed again; False if it is missing or leased."""
        with self.leased(stage) as lease:
            return lease is not None and checkpoints.set_aside(self.files, record_name(stage), SUPERSEDED)

    def look(self, stage: str) -> Record | None:
        """The record of a stage, without its weights; None if it is not published or its record is damaged."""
        with contextlib.suppress(Damaged):
            return checkpoints.look(self.files, record_name(stage), stage)
        return None

    def fetch(self, stage: str) -> Entry | None:
        """A published stage with every byte verified; None if there is none. A damaged one is set aside (None too)."""
        try:
            return checkpoints.read(self.files, record_name(stage), stage)
        except Damaged:
            with self.leased(stage) as lease:
                return self._whole(stage, leased=True) if lease else None  # the holder of the lease handles it

    def _whole(self, stage: str, leased: bool = False) -> Entry | None:
        """A published stage; None if there is none, or a damaged one, which the holder of its lease sets aside."""
        try:
            return checkpoints.read(self.files, record_name(stage), stage)
        except Damaged:
            if leased:
                checkpoints.set_aside(self.files, record_name(stage))
            return None

    def publish(
        self,
        stage: str,
        tensors: Mapping[str, np.ndarray],
        meta: dict[str, Any],
        describe: Mapping[str, Any] | None = None,
    ) -> bool:
        """Publish a stage, atomically and durably; False, without a change, if it was published before. tensors: any
        shapes, of dtypes that safetensors knows. meta, describe: plain data (TypeError otherwise)."""
        record = record_name(stage)
        self.prepare()
        published = datetime.now(UTC).isoformat(timespec="seconds")
        body = {"meta": meta, "describe": dict(describe or {}), "published": published}
        return checkpoints.write(self.files, record, stage, tensors, body)

    def once(self, stage: str, compute: Callable[[Progress], Computed], *, describe: dict[str, Any]) -> Entry:
        """A stage, from the store or computed now; as `once_together` for a single stage."""
        return self.once_together({stage: describe}, lambda stages, progress: [compute(progress)])[0]

    def once_together(
        self, stages: Mapping[str, dict[str, Any]], compute: Callable[[list[str], Progress], Sequence[Computed]]
    ) -> list[Entry]:
        """Stages, from the store or computed now: the holder of a lease computes, all others wait and read.

        stages: maps each id to a description (workload, parameters and seed), kept for `raysweep store list`.
        compute: computes those stages whose leases this call holds, and returns them in that order.

        The meta of an entry gets the provenance and two keys. `computed` counts how often the computation was started
        because the lease before had expired (1 if never); `seconds` is the time that all these computations took,
        shared by the stages computed together. If compute raises, the exception goes to its caller, and the next
        waiter tries. leases.Held if the store does not wait and somebody else computes one of the stages.
        """
        for stage, describe in stages.items():
            record_name(stage)
            seal({"describe": describe})  # so that an error in `describe` is found before the work
        expired = {stage: self.expired.get(stage, b"") for stage in stages}
        claims = {stage: leases.Claim(self.files, stage, self.lease_seconds, expired[stage]) for stage in stages}
        entries: dict[str, Entry] = {}
        pause = _SHORTEST
        while True:
            for stage in stages.keys() - entries.keys():
                if (entry := self._whole(stage)) is not None:
                    LOGGER.info("stage %s: read", stage)
                    entries[stage] = entry
            missing = [stage for stage in stages if stage not in entries]
            if not missing:
                return [entries[stage] for stage in stages]
            self.prepare()
            held = [lease for stage in missing if (lease := claims[stage].take()) is not None]
            if held:
                with contextlib.suppress(leases.Lost):
                    entries |= self._computed(held, stages, compute)
                continue
            if not self.waits:
                raise leases.Held(missing[0])
            if pause == _SHORTEST:
                LOGGER.info("stage %s: somebody else computes it; waiting", missing[0])
            time.sleep(pause)
            pause = min(1.5 * pause, _SLOWEST, self.lease_seconds / 4)

    def _computed(
        self,
        held: Sequence[leases.Lease],
        describe: Mapping[str, dict[str, Any]],
        compute: Callable[[list[str], Progress], Sequence[Computed]],
    ) -> dict[str, Entry]:
        """The stages whose leases are held: those that are whole after all, and the others computed and published."""
        with contextlib.ExitStack() as stack:
            for lease in held:
                stack.enter_context(leases.kept(lease))
            entries = {
                lease.stage: entry for lease in held if (entry := self._whole(lease.stage, leased=True)) is not None
            }
            missing = [lease for lease in held if lease.stage not in entries]
            if not missing:
                return entries
            stages = [lease.stage for lease in missing]
            name = stages[0] if len(stages) == 1 else content_id(stages)
            progress = Progress(self.files, name, missing)
            LOGGER.info("stage %s: computing, start %d", ", ".join(stages), missing[0].latest())
            results = compute(stages, progress)
            seconds = progress.seconds()
            LOGGER.info("stage %s: computed in %.1f s", ", ".join(stages), seconds)
            for lease, (tensors, meta) in zip(missing, results, strict=True):
                provenance = {"computed": lease.latest(), "seconds": seconds / len(missing), **self.provenance}
                self.publish(lease.stage, tensors, {**meta, **provenance}, describe[lease.stage])
            progress.clear()
            for stage in stages:
                if (entry := self._whole(stage)) is None:  # published by us or by the holder before us
                    raise Halted(self.url, f"stage {stage} was published there and cannot be read back whole")
                entries[stage] = entry
            return entries

    def held_elsewhere(self, stages: Iterable[str]) -> str | None:
        """One of these stages that is not published and that somebody else computes now; None if there is none."""
        live = leases.live(self.files, self.expired)
        return next((stage for stage in stages if stage in live and self.look(stage) is None), None)

    def leased(self, stage: str) -> contextlib.AbstractContextManager[leases.Lease | None]:
        """Hold the lease of a stage; None, without waiting, if somebody else holds it."""
        record_name(stage)
        self.prepare()
        return leases.at_once(self.files, stage, self.lease_seconds)

    def stages(self) -> list[str]:
        """The published stages, sorted; their records are not read."""
        records = (name for name in self.files.names("entries") if name.endswith(".json"))
        return [stage for stage in (name.removesuffix(".json") for name in records) if _STAGE.fullmatch(stage)]


def record_name(stage: str) -> str:
    """The name of the file of a stage's record in the store; ValueError if this cannot be the id of a stage."""
    if not _STAGE.fullmatch(stage):
        raise ValueError(f"expected a stage id of letters, digits, '_' and '-', got {stage!r}")
    return f"entries/{stage}.json"

"""The stage store: the results of stages, kept by identity and computed once for everybody who shares the store.

    STORE/store.json                       the format of the store
    STORE/entries/STAGE.json               a published stage: meta, description, checksum of weights (checkpoints.py)
    STORE/entries/STAGE.TOKEN.safetensors  its weights
    STORE/progress/STAGE.N.TOKEN.*         intermediate checkpoints of a stage that is being computed, in the same form
    STORE/leases/                          who computes what now (leases.py)
    STORE/refs/SWEEP/HASH.json             stages that a sweep refers to; pruning leaves them alone
    STORE/damaged/                         files that did not match their checksum, set aside
    STORE/superseded/                      stages that other code computed and that had to be computed again, set aside

A store lies in a local folder or on any file system of fsspec; storage/files.py says what each of them guarantees.
Writes raise Halted, with one line, if the store is read-only or full.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from raysweep.errors import Halted, InputError, RaysweepError
from raysweep.plan.identity import content_id
from raysweep.stages import checkpoints
from raysweep.stages.checkpoints import FORMAT, Entry, Record
from raysweep.stages.intermediate import Progress
from raysweep.storage import leases
from raysweep.storage.folder import Folder
from raysweep.storage.paths import AnyPath
from raysweep.storage.sealed import Damaged, seal, unseal

__all__ = ["Damaged", "Entry", "Progress", "Store"]

LOGGER = logging.getLogger("raysweep.store")  # goes into the log of the trial
MARKER = "store.json"
_MARKING = json.dumps({"raysweep": "stage store", "format": FORMAT}).encode() + b"\n"
SUPERSEDED = "superseded"
FOLDERS = ("entries", "progress", "leases", "refs", "damaged", SUPERSEDED)
_SHORTEST, _SLOWEST = 0.01, 1.0  # seconds between two looks while waiting
_STAGE = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SWEEP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

Computed = tuple[Mapping[str, np.ndarray], dict[str, Any]]


class Store:
    """A store at a path or URL.

    Opening it reads its format and creates nothing; InputError if the format is of another version, or if this is no
    store. If the format file is lost, the next writer restores it. A store can be pickled and used by several threads.

    lease_seconds: how long a lease lasts after its last renewal.
    provenance: which sweep and which code; added to the meta of every stage that is computed through this object.
    """

    def __init__(
        self, url: str | AnyPath, lease_seconds: float = leases.SECONDS, provenance: Mapping[str, str] | None = None
    ) -> None:
        self.files = Folder(url)
        self.url = self.files.root
        self.lease_seconds = lease_seconds
        self.provenance = dict(provenance or {})
        self._lost = False  # whether this is a store whose marker is missing
        self._ready = self._marked()

    def _marked(self) -> bool:
        """Whether the store exists; InputError if we must not read it."""
        try:
            content = self.files.read(MARKER)
        except FileNotFoundError:
            content = b""
        if not content:
            there = {name for name in self.files.names("") if not name.startswith(".")}
            others = sorted(there - {MARKER})
            # every record states its own format, so a store stays readable after a crash has lost the marker
            self._lost = "entries" in others and set(FOLDERS).issuperset(others)
            if self._lost:
                return True
            if MARKER in there and self.files.size(MARKER):  # created between the two reads
                return self._marked()
            if others:
                raise InputError(self.url, f"is not a store: it has no {MARKER}, but {others[0]}") from None
            if not there:
                return False
        try:
            found = json.loads(content)["format"]
        except (ValueError, KeyError, TypeError):
            raise InputError(self.url, f"{MARKER} cannot be read; expected {_MARKING.decode().strip()}") from None
        if found != FORMAT:
            raise InputError(
                self.url,
                f"the store was written by another version of raysweep (format {found}; this "
                f"version reads and writes {FORMAT}); use another store",
            )
        return True

    def exists(self) -> bool:
        """Whether there is a store here; opening one does not create it."""
        self._ready = self._ready or self._marked()
        return self._ready

    def check(self) -> None:
        """Halted if nothing can be written here (then nothing is left behind). Call it before any work starts."""
        was_there, probe = self._ready, f".probe.{uuid.uuid4().hex}"
        try:
            self._prepare()
            self.files.replace(probe, bytes(4096))
            self.files.remove(probe)
        except RaysweepError:
            if not was_there:
                self.discard()
            raise

    def discard(self, folder_too: bool = False) -> None:
        """Remove a store in which nothing was ever put; any other store stays as it is.

        folder_too: also remove its folder if that existed when the store was opened.
        """
        with contextlib.suppress(RaysweepError):
            if not any(self.files.names(folder) for folder in FOLDERS if folder != "refs"):
                self.files.take_back(MARKER, folder_too)
                self._ready = False

    def _prepare(self) -> None:
        if self._lost:
            self.files.replace(MARKER, _MARKING)
            self._lost = False
        if not self._ready:
            self.files.create(MARKER, _MARKING)
            self._ready = self._marked()

    def supersede(self, stage: str) -> bool:
        """Set a published stage aside, so that it is computed again; False if it is missing or leased."""
        with self.leased(stage) as lease:
            return lease is not None and checkpoints.set_aside(self.files, _record(stage), SUPERSEDED)

    def look(self, stage: str) -> Record | None:
        """The record of a stage (meta, describe, bytes, published), for dry runs and lists. Its weights are not read.

        None if the stage is not published or its record is damaged.
        """
        with contextlib.suppress(Damaged):
            return checkpoints.look(self.files, _record(stage), stage)
        return None

    def fetch(self, stage: str) -> Entry | None:
        """A published stage with every byte verified; None if there is none. A damaged one is set aside (None too)."""
        try:
            return checkpoints.read(self.files, _record(stage), stage)
        except Damaged:
            with self.leased(stage) as lease:
                return self._sound(stage) if lease else None  # otherwise the holder of the lease handles it

    def _whole(self, stage: str) -> Entry | None:
        with contextlib.suppress(Damaged):
            return checkpoints.read(self.files, _record(stage), stage)
        return None

    def _sound(self, stage: str) -> Entry | None:
        """Like `fetch`, for the holder of the lease."""
        try:
            return checkpoints.read(self.files, _record(stage), stage)
        except Damaged:
            checkpoints.set_aside(self.files, _record(stage))
            return None

    def publish(
        self,
        stage: str,
        tensors: Mapping[str, np.ndarray],
        meta: dict[str, Any],
        describe: Mapping[str, Any] | None = None,
    ) -> bool:
        """Publish a stage, atomically and durably; False, without a change, if it was published before.

        tensors: any shapes, of dtypes that safetensors knows.
        meta, describe: plain data (TypeError otherwise).
        """
        record = _record(stage)
        self._prepare()
        published = datetime.now(UTC).isoformat(timespec="seconds")
        return checkpoints.write(
            self.files, record, stage, tensors, {"meta": meta, "describe": dict(describe or {}), "published": published}
        )

    def once(self, stage: str, compute: Callable[[Progress], Computed], *, describe: dict[str, Any]) -> Entry:
        """A stage, from the store or computed now: the holder of its lease computes it, all others wait and read it.

        describe: workload, parameters and seed, kept for `raysweep store list`.

        The meta of the entry gets the provenance and two keys. `computed` counts how often the computation was started
        because the lease before had expired (1 if never); `seconds` is the time that all these computations took. If
        compute raises, the exception goes to its caller, and the next waiter tries.
        """
        _record(stage)
        claim = leases.Claim(self.files, stage, self.lease_seconds)
        seal({"describe": describe})  # so that an error in `describe` is found before the work
        pause = _SHORTEST
        while True:
            if (found := self._whole(stage)) is not None:
                LOGGER.info("stage %s: read", stage)
                return found
            self._prepare()
            lease = claim.take()
            if lease is None:
                if pause == _SHORTEST:
                    LOGGER.info("stage %s: somebody else computes it; waiting", stage)
                time.sleep(pause)
                pause = min(1.5 * pause, _SLOWEST, self.lease_seconds / 4)
                continue
            with leases.kept(lease), contextlib.suppress(leases.Lost):
                if (found := self._sound(stage)) is not None:
                    return found
                progress = Progress(self.files, stage, lease)
                LOGGER.info("stage %s: computing, start %d", stage, lease.latest())
                tensors, meta = compute(progress)
                LOGGER.info("stage %s: computed in %.1f s", stage, progress.seconds())
                told = {"computed": lease.latest(), "seconds": progress.seconds(), **self.provenance}
                self.publish(stage, tensors, {**meta, **told}, describe)
                progress.clear()
                if (found := self._whole(stage)) is None:  # published by us or by the holder before us
                    raise Halted(self.url, f"stage {stage} was published there and cannot be read back whole")
                return found

    def leased(self, stage: str) -> contextlib.AbstractContextManager[leases.Lease | None]:
        """Hold the lease of a stage; None, without waiting, if somebody else holds it."""
        _record(stage)
        return leases.at_once(self.files, stage, self.lease_seconds)

    def stages(self) -> list[str]:
        """The published stages, sorted; their records are not read."""
        return [
            name.removesuffix(".json")
            for name in self.files.names("entries")
            if name.endswith(".json") and _STAGE.fullmatch(name.removesuffix(".json"))
        ]

    def refer(self, sweep: str, stages: Iterable[str]) -> None:
        """Record, before any work, that a sweep needs these stages, so that pruning leaves them alone."""
        wanted = sorted(set(stages))
        for stage in wanted:
            _record(stage)
        self._prepare()
        name, content = f"{_references(sweep)}/{content_id(wanted)}.json", seal({"stages": wanted})
        if not self.files.create(name, content):
            self.files.replace(name, content)  # a different content under this name was damaged

    def forget(self, sweep: str) -> None:
        """Remove a sweep's references, because the sweep was deleted."""
        folder = _references(sweep)
        for name in self.files.names(folder):
            self.files.remove(f"{folder}/{name}")

    def referred(self, sweep: str) -> set[str]:
        """The stages that a sweep recorded as needed; Damaged if a reference cannot be read."""
        return set(self._references_of([sweep]))

    def users(self) -> dict[str, list[str]]:
        """stage -> sweeps that refer to it; Damaged if a reference cannot be read (the answer is then unknown)."""
        return self._references_of(self.files.names("refs"))

    def _references_of(self, sweeps: Iterable[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for sweep in sweeps:
            for name in self.files.names(f"refs/{sweep}"):
                if name.startswith("."):
                    continue
                try:
                    stages = unseal(self.files.read(f"refs/{sweep}/{name}"))["stages"]
                except FileNotFoundError:  # removed between the two reads
                    continue
                except (Damaged, KeyError) as error:
                    raise Damaged(f"refs/{sweep}/{name}: {error}") from None
                for stage in stages:
                    users = found.setdefault(stage, [])
                    if sweep not in users:
                        users.append(sweep)
        return found


def _record(stage: str) -> str:
    if not _STAGE.fullmatch(stage):
        raise ValueError(f"expected a stage id of letters, digits, '_' and '-', got {stage!r}")
    return f"entries/{stage}.json"


def _references(sweep: str) -> str:
    if not _SWEEP.fullmatch(sweep):
        raise ValueError(f"expected a plain name or id of a sweep, got {sweep!r}")
    return f"refs/{sweep}"

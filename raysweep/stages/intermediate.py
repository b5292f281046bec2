"""Intermediate checkpoints of a stage that is being computed: after a crash, the next worker continues from them."""

from __future__ import annotations

import contextlib
import logging
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from raysweep.stages import checkpoints
from raysweep.stages.checkpoints import Entry
from raysweep.storage.folder import Folder
from raysweep.storage.leases import Lease
from raysweep.storage.sealed import Damaged

LOGGER = logging.getLogger("raysweep.store")  # goes into the log of the trial
FOLDER = "progress"
_NAME = re.compile(r"([^.]+)\.(\d{8})\.[0-9a-f]{8}\.json")
_KEPT = 2  # the last one, and the one before in case the last is damaged


def unfinished(store: Folder) -> dict[str, str]:
    """stage -> how far its last intermediate checkpoint is, in words; weights are not read."""
    texts = {}
    for name, stage, _ in _records(store):
        with contextlib.suppress(Damaged):
            record = checkpoints.look(store, name, stage)
            if record is not None:  # they are sorted, so the last one counts
                texts[stage] = f"{reached(record['meta'])}, after {record.get('seconds', 0):.0f} s of computing"
    return texts


def reached(meta: Mapping[str, Any]) -> str:
    return f"step {meta['step']:,}" if isinstance(meta.get("step"), int) else "an intermediate checkpoint"


def _records(store: Folder) -> list[tuple[str, str, int]]:
    """The intermediate checkpoints, in order within each stage: name of the record, stage, number."""
    matches = map(_NAME.fullmatch, store.names(FOLDER))
    return [(f"{FOLDER}/{match[0]}", match[1], int(match[2])) for match in matches if match]


class Progress:
    """Intermediate checkpoints of a stage, for the worker that computes it."""

    def __init__(self, store: Folder, stage: str, held: Sequence[Lease]) -> None:
        self._store, self._stage, self._leases = store, stage, held
        self._started, self._before, self._number = time.monotonic(), 0.0, 0

    def load(self) -> Entry | None:
        """The last intermediate checkpoint that is whole, whoever saved it; damaged ones are set aside."""
        for name, number in reversed(self._saved()):
            self._number = max(self._number, number)
            try:
                entry = checkpoints.read(self._store, name, self._stage)
            except Damaged:
                checkpoints.set_aside(self._store, name)
                continue
            if entry is not None:
                self._before = entry.seconds
                LOGGER.info("stage %s: going on from %s", self._stage, reached(entry.meta))
                return entry
        return None

    def save(self, tensors: Mapping[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Save an intermediate checkpoint, and renew the leases. Raises Lost, which must not be caught, if a lease has
        expired and somebody else continues from the checkpoint before."""
        for lease in self._leases:
            lease.renew()
        earlier = self._saved()
        self._number = 1 + max([self._number, *(number for _, number in earlier)])
        name = f"{FOLDER}/{self._stage}.{self._number:08d}.{uuid.uuid4().hex[:8]}.json"
        checkpoints.write(self._store, name, self._stage, tensors, {"meta": meta, "seconds": self.seconds()})
        for old, _ in earlier[: 1 - _KEPT]:
            checkpoints.remove(self._store, old)

    def seconds(self) -> float:
        """Wall time spent on the stage so far, including the time before the checkpoint that was loaded."""
        return self._before + time.monotonic() - self._started

    def clear(self) -> None:
        for name, _ in self._saved():
            checkpoints.remove(self._store, name)

    def _saved(self) -> list[tuple[str, int]]:
        return [(name, number) for name, stage, number in _records(self._store) if stage == self._stage]

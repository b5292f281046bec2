"""Intermediate checkpoints of a stage that is being computed: whoever comes after a crash goes on from there."""

from __future__ import annotations

import contextlib
import logging
import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.stages import checkpoints
from raysweep.stages.checkpoints import Entry
from raysweep.stages.store_format import Damaged
from raysweep.storage.leases import Lease
from raysweep.storage.store_files import Files

LOGGER = logging.getLogger("raysweep.store")  # read in the log of the trial
FOLDER = "progress"
_NAME = re.compile(r"[^.]+\.\d{8}\.[0-9a-f]{8}\.json")
_KEPT = 2  # the last one, and the one before should that be damaged


def unfinished(files: Files) -> dict[str, str]:
    """stage -> how far its last intermediate checkpoint is, in words; weights are not read."""
    found = {}
    for name in files.names(FOLDER):
        if _NAME.fullmatch(name):
            stage = name.split(".")[0]
            with contextlib.suppress(Damaged):
                record = checkpoints.look(files, f"{FOLDER}/{name}", stage)
                if record is not None:  # names are sorted: the last one counts
                    found[stage] = f"{reached(record['meta'])}, after {record.get('seconds', 0):.0f} s of computing"
    return found


def reached(meta: Mapping[str, Any]) -> str:
    """How far a checkpoint is, as far as its meta says."""
    return f"step {meta['step']:,}" if isinstance(meta.get("step"), int) else "an intermediate checkpoint"


class Progress:
    """Intermediate checkpoints of a stage, for the one who computes it."""

    def __init__(self, files: Files, stage: str, lease: Lease) -> None:
        self._files, self._stage, self._lease = files, stage, lease
        self._started, self._before, self._number = time.monotonic(), 0.0, 0

    def load(self) -> Entry | None:
        """The last intermediate checkpoint that is whole, by whoever saved it; damaged ones are set aside."""
        for name in reversed(self._records()):
            self._number = max(self._number, int(name.split(".")[1]))
            record = f"{FOLDER}/{name}"
            try:
                entry = checkpoints.read(self._files, record, self._stage)
            except Damaged:
                checkpoints.set_aside(self._files, record, self._stage)
                continue
            if entry is not None:
                self._before = entry.seconds
                LOGGER.info("stage %s: going on from %s", self._stage, reached(entry.meta))
                return entry
        return None

    def save(self, tensors: Mapping[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Keep an intermediate checkpoint, and renew the lease. Raises Lost, which is not to be caught, if the
        lease expired meanwhile and somebody else goes on from the checkpoint before."""
        self._lease.renew()
        earlier = self._records()
        self._number = 1 + max([self._number, *(int(name.split(".")[1]) for name in earlier)])
        record = f"{FOLDER}/{self._stage}.{self._number:08d}.{uuid.uuid4().hex[:8]}.json"
        checkpoints.write(self._files, record, self._stage, tensors, {"meta": meta, "seconds": self.seconds()})
        for name in earlier[: max(0, len(earlier) - _KEPT + 1)]:
            checkpoints.remove(self._files, f"{FOLDER}/{name}")

    def seconds(self) -> float:
        """Wall time spent on the stage so far, up to the checkpoint it was resumed from and since."""
        return self._before + time.monotonic() - self._started

    def clear(self) -> None:
        """Drop the intermediate checkpoints: the stage is published."""
        for name in self._records():
            checkpoints.remove(self._files, f"{FOLDER}/{name}")

    def _records(self) -> list[str]:
        return [
            name for name in self._files.names(FOLDER) if _NAME.fullmatch(name) and name.split(".")[0] == self._stage
        ]

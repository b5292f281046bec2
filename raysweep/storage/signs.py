"""Signs: small files in a sweep's folder by which a driver tells other processes its phase, what MLflow has, what it
has found of slices, and that it computes rows itself.

Each is replaced in one step. The ledger remains the truth about rows, and MLflow the truth about its runs. A sign is
ignored if it cannot be read, is old, or belongs to another sweep or address.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from raysweep import plain_json as json
from raysweep.errors import RaysweepError
from raysweep.redaction import redact
from raysweep.storage import files
from raysweep.storage.paths import AnyPath

PHASE, MIRRORED, STEPS, COMPUTING = "phase.json", "mirrored.json", "steps.json", "computing.json"
LOGGER = logging.getLogger("raysweep.signs")
LOST = (OSError, RaysweepError)
"""Errors of a storage, a folder or a bucket. They lose a sign, and nothing else."""
FRESH = 60.0
"""Seconds after which a phase that its driver did not repeat is ignored, as far as the clocks agree."""


@dataclass(frozen=True)
class Phase:
    """What a driver does besides rows: steps done, steps in all, and seconds left (None: unknown)."""

    name: str
    done: int
    of: int
    left: float | None


@dataclass(frozen=True)
class Mirrored:
    """What MLflow is known to have of a sweep: for each cell or pack the mark of the rows from which its run was
    written, the status with which the sweep's own run ended there, and the number of the experiment."""

    sweep_id: str
    tracking_uri: str | None
    runs: dict[str, str] = field(default_factory=dict)
    status: str | None = None
    experiment: str | None = None


def leave_phase(folder: AnyPath, phase: Phase) -> None:
    leave(folder, PHASE, {**asdict(phase), "at": time.time()})


def phase(folder: AnyPath) -> Phase | None:
    """The phase that the driver of a sweep wrote last; None if it wrote none, or none lately."""
    plain = read(folder, PHASE)
    try:
        if abs(time.time() - plain.pop("at")) > FRESH:
            return None
        phase = Phase(**plain)
        valid = isinstance(phase.name, str) and 0 <= phase.done <= phase.of and (phase.left is None or phase.left >= 0)
    except (KeyError, TypeError):
        return None
    return phase if valid else None


def leave_mirrored(folder: AnyPath, mirrored: Mirrored) -> None:
    leave(folder, MIRRORED, asdict(mirrored))


def mirrored(folder: AnyPath) -> Mirrored | None:
    """What MLflow has, as a driver wrote it last; None if none was written."""
    plain = read(folder, MIRRORED)
    try:
        there = Mirrored(**plain)
    except TypeError:
        return None
    texts = all(isinstance(text, (str, type(None))) for text in (there.tracking_uri, there.status, there.experiment))
    return there if texts and isinstance(there.runs, dict) else None


@contextlib.contextmanager
def computing(folder: AnyPath) -> Iterator[None]:
    """Leave a sign while the block runs, in which this process computes rows. It stays if the process dies there."""
    if has_died(folder):
        yield
        return
    leave(folder, COMPUTING, {"process": os.getpid()})
    try:
        yield
    finally:
        clear(folder, COMPUTING)


def has_died(folder: AnyPath) -> bool:
    """Whether a driver died while it computed rows itself. Only the driver that holds the sweep now can ask."""
    return bool(read(folder, COMPUTING))


def leave(folder: AnyPath, name: str, plain: dict[str, Any]) -> None:
    """Write a sign, as plain data. If the disk is full, the sign is lost, but not the sweep."""
    try:
        files.replace(folder / name, json.dumps(plain, separators=(",", ":")).encode())
    except LOST as error:
        LOGGER.info("%s cannot be written: %s", name, redact(str(error)))


def read(folder: AnyPath, name: str) -> dict[str, Any]:
    """A sign as it was written last; empty if there is none, or none that can be read."""
    try:
        plain = json.loads(files.read(folder / name))
    except (*LOST, ValueError, RecursionError):
        return {}
    return plain if isinstance(plain, dict) else {}


def clear(folder: AnyPath, name: str) -> None:
    with contextlib.suppress(*LOST):
        files.remove([folder / name])

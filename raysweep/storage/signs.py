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
    """What MLflow is known to have of a sweep.

    runs: for each cell or pack, the mark of the rows from which its run was written
    status: the status with which the sweep's own run ended there (None: not yet)
    experiment: the number of the experiment there
    """

    sweep_id: str
    tracking_uri: str | None
    runs: dict[str, str] = field(default_factory=dict)
    status: str | None = None
    experiment: str | None = None


def leave_phase(folder: AnyPath, phase: Phase) -> None:
    """Write what the driver does now. If the disk is full, the sign is lost, but not the sweep."""
    _leave(folder / PHASE, {**asdict(phase), "at": time.time()})


def phase(folder: AnyPath) -> Phase | None:
    """The phase that the driver of a sweep wrote last; None if it wrote none, or none lately."""
    plain = _read(folder / PHASE)
    try:
        if abs(time.time() - plain.pop("at")) > FRESH:
            return None
        read = Phase(**plain)
        valid = isinstance(read.name, str) and 0 <= read.done <= read.of and (read.left is None or read.left >= 0)
    except (KeyError, TypeError):
        return None
    return read if valid else None


def clear_phase(folder: AnyPath) -> None:
    with contextlib.suppress(*LOST):
        files.remove([folder / PHASE])


def leave_mirrored(folder: AnyPath, mirrored: Mirrored) -> None:
    """Write what MLflow has. If the disk is full, `status` knows of less than MLflow has."""
    _leave(folder / MIRRORED, asdict(mirrored))


def mirrored(folder: AnyPath) -> Mirrored | None:
    """What MLflow has, as a driver wrote it last; None if none was written."""
    plain = _read(folder / MIRRORED)
    try:
        read = Mirrored(**plain)
    except TypeError:
        return None
    texts = all(isinstance(text, (str, type(None))) for text in (read.tracking_uri, read.status, read.experiment))
    return read if texts and isinstance(read.runs, dict) else None


def leave_steps(folder: AnyPath, plain: dict[str, Any]) -> None:
    """Write what a precision has found of slices, as plain data. If the disk is full, others compute it again."""
    _leave(folder / STEPS, plain)


def steps(folder: AnyPath) -> dict[str, Any]:
    """What a precision has found of slices, as a driver wrote it last; empty if it wrote nothing."""
    return _read(folder / STEPS)


@contextlib.contextmanager
def computing(folder: AnyPath) -> Iterator[None]:
    """Leave a sign while the block runs, in which this process computes rows. It stays if the process dies there."""
    if has_died(folder):
        yield
        return
    _leave(folder / COMPUTING, {"process": os.getpid()})
    try:
        yield
    finally:
        forget_death(folder)


def has_died(folder: AnyPath) -> bool:
    """Whether a driver died while it computed rows itself. Only the driver that holds the sweep now can ask."""
    return bool(_read(folder / COMPUTING))


def forget_death(folder: AnyPath) -> None:
    with contextlib.suppress(*LOST):
        files.remove([folder / COMPUTING])


def _leave(path: AnyPath, plain: dict[str, Any]) -> None:
    try:
        files.replace(path, json.dumps(plain, separators=(",", ":")).encode())
    except LOST as error:
        LOGGER.info("%s cannot be written: %s", path.name, redact(str(error)))


def _read(path: AnyPath) -> dict[str, Any]:
    try:
        plain = json.loads(files.read(path))
    except (*LOST, ValueError, RecursionError):
        return {}
    return plain if isinstance(plain, dict) else {}

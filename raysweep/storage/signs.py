"""Signs: what a driver writes into a sweep's folder for other processes to show: its phase, and what MLflow has.

Both are small files, replaced in one step. The ledger remains the truth about rows, and MLflow about its runs: a sign
that cannot be read, is old, or belongs to another sweep or address counts as none.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from raysweep.errors import RaysweepError
from raysweep.redaction import redact
from raysweep.storage import files
from raysweep.storage.paths import AnyPath

PHASE, MIRRORED = "phase.json", "mirrored.json"
LOGGER = logging.getLogger("raysweep.signs")
LOST = (OSError, RaysweepError)
"""What a storage raises, a folder or a bucket: a sign is lost then, and nothing else."""
FRESH = 60.0
"""Seconds after which a phase that its driver did not repeat is not believed, as far as the clocks agree."""


@dataclass(frozen=True)
class Phase:
    """What a driver does besides rows: how many of how many steps of it are done, and seconds left (None: unknown)."""

    name: str
    done: int
    of: int
    left: float | None


@dataclass(frozen=True)
class Mirrored:
    """What MLflow is known to have of a sweep.

    runs: by cell or pack, the mark of the rows that its run was written from
    status: with which the sweep's own run was ended there (None: not yet)
    experiment: the number of the experiment there
    """

    sweep_id: str
    tracking_uri: str | None
    runs: dict[str, str] = field(default_factory=dict)
    status: str | None = None
    experiment: str | None = None


def leave_phase(folder: AnyPath, phase: Phase) -> None:
    """Say what the driver does now. A disk without room loses the sign, not the sweep."""
    _leave(folder / PHASE, {**asdict(phase), "at": time.time()})


def phase(folder: AnyPath) -> Phase | None:
    """What the driver of a sweep said last that it does; None if it said nothing, or not lately."""
    plain = _read(folder / PHASE)
    try:
        if abs(time.time() - plain.pop("at")) > FRESH:
            return None
        found = Phase(**plain)
        known = isinstance(found.name, str) and 0 <= found.done <= found.of and (found.left is None or found.left >= 0)
    except (KeyError, TypeError):
        return None
    return found if known else None


def clear_phase(folder: AnyPath) -> None:
    """Take the sign away: the phase is over."""
    with contextlib.suppress(*LOST):
        files.remove([folder / PHASE])


def leave_mirrored(folder: AnyPath, mirrored: Mirrored) -> None:
    """Say what MLflow has; without room on the disk `status` knows of less than there is."""
    _leave(folder / MIRRORED, asdict(mirrored))


def mirrored(folder: AnyPath) -> Mirrored | None:
    """What a driver said last that MLflow has; None if none ever did."""
    plain = _read(folder / MIRRORED)
    try:
        found = Mirrored(**plain)
    except TypeError:
        return None
    texts = all(isinstance(text, (str, type(None))) for text in (found.tracking_uri, found.status, found.experiment))
    return found if texts and isinstance(found.runs, dict) else None


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

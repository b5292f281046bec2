"""The options of running a sweep. `raysweep run` and `resume`, their dry run and the Python API share them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from raysweep import terminal
from raysweep.errors import InputError, shown, unknown
from raysweep.storage import paths
from raysweep.storage.paths import AnyPath

EXECUTORS = ("ray", "inline")
ON_CODE_CHANGE = ("reuse", "recompute", "refuse")
_RELATIVE = re.compile(r"sqlite:///([^/].*)")


@dataclass(frozen=True)
class Options:
    """How to run a sweep. None lets raysweep choose. Raises InputError for a value that is not valid.

    Relative paths become absolute ones here, before any code of a user runs that may change the working directory.

    name: the sweep's name; None for the name of its space.
    storage: the folder or bucket that holds the sweeps.
    store: where stages are shared; None for the store that this sweep used before, or STORAGE/store.
    tracking_uri: the MLflow to log to; "none" to log nowhere.
    runs_per: what has its own run in MLflow: cell, pack or sweep.
    workers: how many trials run at a time on Ray.
    executor: "ray", or "inline" for this process.
    max_hours: hours after which the sweep stops; it can be resumed.
    on_code_change: what to do with rows and stages that older code computed: reuse, recompute or refuse.
    report: whether to write the report at the end.
    yes: confirms a sweep of a million rows or more.
    download: whether files that the space names and that are missing are downloaded.
    say: called with every line for the user.
    """

    name: str | None = None
    storage: str | AnyPath = "sweeps"
    store: str | None = None
    tracking_uri: str | None = None
    runs_per: str | None = None
    workers: int | None = None
    executor: str | None = None
    max_hours: float | None = None
    on_code_change: str = "reuse"
    report: bool = True
    yes: bool = False
    download: bool = False
    say: Callable[[str], None] = terminal.say

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", paths.locate(self.storage))
        if self.store and "://" not in self.store and "::" not in self.store:
            object.__setattr__(self, "store", str(paths.locate_store(self.store)))
        if database := _RELATIVE.fullmatch(self.tracking_uri or ""):
            object.__setattr__(self, "tracking_uri", f"sqlite:///{Path(database[1]).absolute()}")
        if self.executor is not None and self.executor not in EXECUTORS:
            raise unknown("executor", "executor", self.executor, EXECUTORS)
        workers = self.workers
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise InputError("workers", f"expected a whole number of at least 1, got {workers!r}")
        if self.on_code_change not in ON_CODE_CHANGE:
            raise unknown("on_code_change", "choice", self.on_code_change, ON_CODE_CHANGE)
        hours = self.max_hours
        if hours is not None and (isinstance(hours, bool) or not isinstance(hours, (int, float)) or not hours > 0):
            raise InputError("max_hours", f"expected hours above 0, got {shown(hours)}")

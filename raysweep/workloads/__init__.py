"""The workloads: those of raysweep, and those that other packages bring by the entry point `raysweep.workloads`."""

from __future__ import annotations

import functools
import importlib
import sys
from importlib.metadata import EntryPoint, entry_points

from raysweep.workloads.declaration import Workload

BUILT_IN = {
    "language": "raysweep.workloads.language",
    "linear_spectrum": "raysweep.workloads.linear_spectrum",
    "linear_transfer": "raysweep.workloads.linear_transfer",
}
GROUP = "raysweep.workloads"


def names() -> list[str]:
    """Names of every workload that can be run here."""
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def get(name: str) -> Workload:
    """The declaration of a workload; KeyError if there is none of that name."""
    if name in BUILT_IN:
        return importlib.import_module(BUILT_IN[name]).WORKLOAD
    return _brought(name, tuple(sys.path)).load()


@functools.cache
def _brought(name: str, path: tuple[str, ...]) -> EntryPoint:
    """Where another package on the path has the workload of that name; KeyError, looked for anew each time, while none
    has. Kept, because looking reads what every installed package says of itself: tens of milliseconds."""
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point
    raise KeyError(name)

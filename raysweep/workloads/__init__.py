"""The workloads: those of raysweep, and those that other packages bring by the entry point `raysweep.workloads`."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from raysweep.workloads.declaration import Workload

BUILT_IN = {"language": "raysweep.workloads.language",
            "linear_spectrum": "raysweep.workloads.linear_spectrum",
            "linear_transfer": "raysweep.workloads.linear_transfer"}
GROUP = "raysweep.workloads"


def names() -> list[str]:
    """Names of every workload that can be run here."""
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def get(name: str) -> Workload:
    """The declaration of a workload; KeyError if there is none of that name."""
    if name in BUILT_IN:
        return importlib.import_module(BUILT_IN[name]).WORKLOAD
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point.load()
    raise KeyError(name)

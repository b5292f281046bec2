"""The workloads of raysweep, and the workloads that other packages add by the entry point `raysweep.workloads`."""

from __future__ import annotations

import functools
import importlib
import sys
from importlib.metadata import EntryPoint, entry_points

from raysweep.errors import InputError
from raysweep.workloads.declaration import Workload

BUILT_IN = {
    "language": "raysweep.workloads.language",
    "linear_spectrum": "raysweep.workloads.linear_spectrum",
    "linear_transfer": "raysweep.workloads.linear_transfer",
}
GROUP = "raysweep.workloads"


def names() -> list[str]:
    """Names of all workloads that can be run here."""
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def get(name: str) -> Workload:
    """The declaration of a workload; KeyError if no workload has this name.

    InputError if the stages or parameters of another package's declaration do not fit together.
    """
    if name in BUILT_IN:
        return importlib.import_module(BUILT_IN[name]).WORKLOAD
    try:
        return _brought(name, tuple(sys.path)).load()
    except ValueError as error:
        raise InputError("workload", f"{name} cannot be loaded: {error}") from error


@functools.cache
def _brought(name: str, path: tuple[str, ...]) -> EntryPoint:
    """The entry point of a workload that another package on `path` provides; KeyError if no package provides it.

    A result is remembered, because a search reads the metadata of every installed package, which takes tens of
    milliseconds. A failed search is not remembered.
    """
    for point in entry_points(group=GROUP):
        if point.name == name:
            return point
    raise KeyError(name)

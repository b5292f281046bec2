"""The workloads of raysweep, and the workloads that other packages add by the entry point `raysweep.workloads`."""

import functools
import importlib
import sys
from importlib.metadata import EntryPoint, entry_points

from raysweep.errors import InputError, shown, summary
from raysweep.workloads.declaration import Workload
from raysweep.workloads.function_description import check_metric

_NAMES = "checkpoints image_regression language linear_covariance linear_spectrum linear_transfer multiview"
BUILT_IN = {name: f"{__name__}.{name}" for name in (*_NAMES.split(), "relu_features", "relu_kernel", "vision")}
GROUP = "raysweep.workloads"


def names() -> list[str]:
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=GROUP))})


def get(name: str) -> Workload:
    """The declaration of a workload; KeyError if no workload has this name.

    InputError if another package cannot be imported, if the stages or parameters of its declaration do not fit
    together, or if no metric can have the name of one of them.
    """
    if name in BUILT_IN:
        return importlib.import_module(BUILT_IN[name]).WORKLOAD
    point = _brought(name, tuple(sys.path))
    try:
        workload = point.load()
    except Exception as error:  # whatever a package does while it is imported
        why = str(error) if isinstance(error, ValueError) else summary(error)
        raise InputError("workload", f"{name} cannot be loaded: {why}") from error
    if not isinstance(workload, Workload):
        why = f"expected a Workload as {point.value}, got {shown(workload)}"
        raise InputError("workload", f"{name} cannot be loaded: {why}")
    for metric in workload.metrics:
        check_metric(metric.name, f"workload: {name}")
    return workload


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

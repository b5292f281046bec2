"""Workloads of another package, brought by entry point, that are only reported on: what each declares is the test."""

from dataclasses import replace

import numpy as np

from raysweep.workloads.declaration import Cost, Engines, Metric, Parameter, Workload


def closed_form(columns):
    return {"gain": np.asarray(columns["heat"], float) - np.asarray(columns["load"], float)}


TOY = Workload(
    name="toy",
    summary="a workload of somebody else",
    identity_version=1,
    compute="nowhere:compute",
    parameters=(
        Parameter("heat", float, 1.0, "heat", unit="kelvin"),
        Parameter("load", int, 1, "load"),
        Parameter("kind", str, "a", "kind", choices=("a", "b")),
    ),
    metrics=(Metric("gain", "what is gained", unit="watts"),),
    cost=lambda columns: Cost(0.0, 0.0),
    sources=(),
    closed_form=closed_form,
)
SWITCHED = replace(
    TOY, name="toy_switched", parameters=(*TOY.parameters, Parameter("fast", bool, False, "a switch")), closed_form=None
)
ENGINES = replace(
    SWITCHED,
    name="toy_engines",
    parameters=(*SWITCHED.parameters, Parameter("engine", str, "limit", "engine", choices=("limit", "flow"))),
    engines=Engines("engine", reference="limit"),
)

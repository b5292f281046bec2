"""Fine-tuning a linear map where inputs have a covariance: which directions the tasks differ in matters (paper T, §4).

This file is the declaration; it does not import the engines.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.theory.arrays import samples
from raysweep.workloads import common, symmetric
from raysweep.workloads.common import Loss
from raysweep.workloads.declaration import Columns, Engines, Metric, Parameter, Symmetry, Workload, modules_of
from raysweep.workloads.linear_covariance import closed_forms
from raysweep.workloads.linear_covariance.closed_forms import FORM, SHIFTS, in_words

ENGINES = {"limit": "the exact end point of each draw", "theory": "its limit of many dimensions"}
SYMMETRY = Symmetry(
    "the difference between target and source and of the label noise",
    ("risk_scratch", "risk_finetune", "transferability_finetune"),
)
SIZE: dict[str, Any] = {"minimum": 0, "maximum": 1e6}

PARAMETERS = (
    common.engine("limit", ENGINES),
    Parameter("depth", int, 1, "number of weight matrices", minimum=1, maximum=1000, symbol="L"),
    Parameter("dim", int, 1000, "input dimension d", minimum=1, maximum=20_000, symbol="d"),
    Parameter(
        "gamma", float, 0.3, common.SAMPLES, minimum=0, maximum=1000, symbol="γ", label="target samples per dimension"
    ),
    Parameter("spectrum", str, "1.5:50,0.3", f"eigenvalues of the inputs' covariance: {FORM}", words=in_words),
    Parameter(
        "shift",
        str,
        "all",
        "the eigenspace in which target and source differ, evenly in all its directions on average: top, that of the "
        "first listed value; bottom, that of the others; all (T's Top Eigen Align is bottom)",
        choices=SHIFTS,
        words="shift in {} directions".format,
    ),
    Parameter("shift_norm", float, 1.0, "length of the difference of both maps", **SIZE, searched_by="boundary"),
    Parameter("noise", float, 0.0, "standard deviation of the target's labels", **SIZE, symbol="σ"),
    Parameter("target_norm", float, 1.0, "length of the target map, in a random direction", **SIZE),
    symmetric.parameter(SYMMETRY.signs),
)

METRICS = (
    Loss("risk_scratch", "population risk (b - b_t)ᵀΣ(b - b_t) trained from scratch", label="risk from scratch"),
    Loss("risk_finetune", "population risk after fine-tuning from the source map", label="risk after fine-tuning"),
    common.GAIN,
    Metric(
        "bound_thm42",
        "T's bound of the risk after fine-tuning without noise (Thm 4.2) with its open constant c = 1, m the count of "
        "the first eigenvalue and probability 1 - 1/e: its shape can be compared, not its size; NaN where eigenvalues "
        "rise",
        label="T's bound (Thm 4.2)",
    ),
)


def check(parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    try:
        _, counts = closed_forms.read(parameters["spectrum"], int(parameters["dim"]))
    except ValueError as error:
        return "spectrum", str(error)
    if not closed_forms.shifted(parameters["shift"], counts).any():
        return "shift", f"expected top or all where the spectrum has one value, got {parameters['shift']}"
    return None


def heavy_tailed(metric: str, columns: Columns) -> np.ndarray:
    """Cells whose draws have no finite variance, boolean array: with noise, those with n within three samples of dim.

    The noise that is fitted, ‖X⁺ε‖², has tail index (|n-d|+1)/2, as without a covariance (F Thm 3.6).
    """
    near = (columns["noise"] > 0) & (np.abs(samples(columns) - columns["dim"]) <= 3)
    return near & (metric != "bound_thm42")


WORKLOAD = Workload(
    name="linear_covariance",
    summary="fine-tuning linear maps on inputs with a covariance: tasks that differ in its top or bottom eigenspace "
    "(paper T, Fine-tuning with Linear Teachers)",
    identity_version=1,
    parameters=PARAMETERS,
    metrics=METRICS,
    compute="raysweep.workloads.linear_covariance.engines:compute",
    cost=closed_forms.of_rows,
    sources=modules_of(
        workloads="linear_covariance symmetric least_squares", training="draws", theory="arrays covariance finetune"
    ),
    shared=("engine", "dim", "spectrum"),
    engines=Engines("engine", reference="limit"),
    symmetry=SYMMETRY,
    closed_form=closed_forms.risks,
    check=check,
    heavy_tailed=heavy_tailed,
)

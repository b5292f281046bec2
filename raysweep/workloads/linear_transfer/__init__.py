"""Transfer between two linear teachers at an angle, through deep linear networks (papers F and T).

This file is the declaration; it does not import the engines.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.theory.arrays import samples
from raysweep.workloads import common, symmetric
from raysweep.workloads.common import Loss
from raysweep.workloads.declaration import Columns, Engines, Metric, Parameter, Symmetry, Workload, deferred, modules_of

ENGINES = {
    "theory": "closed forms",
    "limit": "the exact end point of each draw",
    "flow": "gradient flow of the end-to-end map",
    "network": "gradient descent on the real layers",
}
DISTANCE: dict[str, Any] = {"minimum": 0, "maximum": 5000, "label": "samples for Wasserstein distance"}
SYMMETRY = Symmetry(
    "the target teacher's part across the source and of the label noise",
    ("risk_scratch", "risk_linear", "risk_finetune", "transferability_linear", "transferability_finetune"),
)

PARAMETERS = (
    common.engine("limit", ENGINES),
    common.FLOW_LENGTH,
    Parameter("finetune_lr", float, 0.01, common.STEP.format(", scratch too"), **common.RATE),
    Parameter("depth", int, 2, "number of weight matrices", minimum=1, maximum=1000, symbol="L"),
    Parameter("overlap_angle", float, 45.0, "angle between source and target teacher", **common.ANGLE),
    Parameter("gamma", float, 0.5, common.SAMPLES, **common.ABOVE_0, symbol="γ", label="target samples per dimension"),
    Parameter("dim", int, 100, "input dimension d (and hidden width)", minimum=2, maximum=100_000, symbol="d"),
    Parameter("noise", float, 0.0, "standard deviation of the target's label noise", minimum=0, symbol="σ"),
    Parameter("init_scale", float, 0.01, "scale of each layer: the map starts at init_scale^depth", **common.START),
    Parameter(
        "finetune_steps",
        float,
        math.inf,
        "steps on the target: a budget, or .inf for convergence; "
        "diverged: a risk that is not finite; at .inf with engine network also a gradient 1e6 times its start",
        **common.BUDGET,
    ),
    Parameter(
        "ridge", float, 0.0, "penalty on the retrained last layer of linear transfer (F eq. 14)", minimum=0, symbol="λ"
    ),
    Parameter("frozen_layers", int, 0, "first layers kept fixed while fine-tuning", minimum=0),
    Parameter("source_norm", float, 1.0, "norm of the source teacher", **common.ABOVE_0),
    Parameter("target_norm", float, 1.0, "norm of the target teacher", minimum=0),
    common.EXACT_START,
    Parameter(
        "distance_samples", int, 0, "samples of source and of target for wasserstein_1; 0 leaves it out", **DISTANCE
    ),
    symmetric.parameter(SYMMETRY.signs),
)

METRICS = (
    Loss("risk_scratch", "population risk |b - b_t|^2 trained from scratch", label="risk from scratch"),
    Loss("risk_linear", "population risk of linear transfer (last layer retrained)", label="risk of linear transfer"),
    Loss("risk_finetune", "population risk after fine-tuning", label="risk after fine-tuning"),
    common.LINEAR_GAIN,
    common.GAIN,
    Metric("pretrain_scale", "norm c of the pretrained end-to-end map", label="norm of pretrained map"),
    Loss(
        "pretrain_loss",
        "source population loss (c - |b_s|)^2 / 2 before fine-tuning",
        label="source loss after pretraining",
    ),
    Metric("kl_divergence", "divergence from source to target data", "nats", label="Kullback-Leibler divergence"),
    Metric("wasserstein_1", "distance between distance_samples samples of both tasks", label="Wasserstein-1 distance"),
)


def check(parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    engine, frozen, steps = (parameters[name] for name in ("engine", "frozen_layers", "finetune_steps"))
    if frozen >= parameters["depth"]:
        return "frozen_layers", f"expected fewer than depth = {parameters['depth']}, got {frozen}"
    if engine in ("theory", "limit") and np.isfinite(steps):
        budget = f"got {steps:g}; a budget needs engine flow or network"
        return "finetune_steps", f"expected .inf with engine {engine}, which gives the end point, {budget}"
    return None


def caveat(parameters: Mapping[str, Any]) -> str | None:
    """Why the closed forms do not describe the cell's training, in a sentence, or None."""
    if np.isfinite(steps := parameters["finetune_steps"]):
        return (
            f"The closed forms are those of training to convergence; these runs stop after {steps:.0f} steps, scratch "
            "and transfer alike, so a distance to the closed form is what the budget leaves undone, not an error of "
            "the theory. A network from scratch that has hardly left its initialization makes transfer look good."
        )
    if parameters["engine"] == "network":
        return "The closed forms are those of vanishing steps; a finite step moves the end point in proportion."
    return None


def heavy_tailed(metric: str, columns: Columns) -> np.ndarray:
    """Cells whose draws have no finite variance, boolean array.

    |X⁺ε|² has tail index (|n-d|+1)/2, so with noise the variance of a risk is infinite for n within three samples of
    dim (F Thm 3.6). The transferability of fine-tuning is exactly 0 for n >= dim; for n < dim it grows only with the
    power (L-1)/L of |X⁺ε|². The least-squares multiple of the source has variance spread/χ²_n, so four samples or fewer
    are heavy-tailed.
    """
    n, dim = samples(columns), columns["dim"]
    noisy, frozen = columns["noise"] > 0, columns["frozen_layers"] > 0
    near = noisy & (np.abs(n - dim) <= 3)
    few = (n > 0) & (n <= 4) & (noisy | (columns["overlap_angle"] % 180 > 0))
    few_linear = few & (columns["ridge"] == 0)
    power = (columns["depth"] - 1) / columns["depth"]
    feels = noisy & (n < dim) & (2 * power >= (dim - n + 1) / 2)
    by_metric = {
        "risk_scratch": near,
        "risk_linear": few_linear,
        "risk_finetune": np.where(frozen, few, near),
        "transferability_linear": near | few_linear,
        "transferability_finetune": np.where(frozen, near | few, feels),
    }
    return by_metric.get(metric, np.zeros(len(n), dtype=bool))


WORKLOAD = Workload(
    name="linear_transfer",
    summary="fine-tuning between two linear teachers at an angle, deep linear networks (papers F, "
    "Features are fate, and T, Fine-tuning with Linear Teachers)",
    identity_version=2,
    parameters=PARAMETERS,
    metrics=METRICS,
    compute="raysweep.workloads.linear_transfer.engines:compute",
    cost=deferred("raysweep.workloads.linear_transfer.costs:of_rows"),
    sources=modules_of(
        workloads="linear_transfer symmetric least_squares",
        training="draws",
        theory="arrays quadrature finetune finetune_mean pretraining transfer",
    ),
    shared=("engine", "dim"),
    engines=Engines("engine", reference="limit", start="init_scale", from_zero=("limit",)),
    symmetry=SYMMETRY,
    closed_form=deferred("raysweep.theory.transfer:closed_form"),
    check=check,
    caveat=caveat,
    heavy_tailed=heavy_tailed,
)

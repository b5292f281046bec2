"""Linear transfer between two-layer ReLU networks whose teachers share a part of their features (paper F, §4).

f(x) = (1/m) Σ_i c_i σ(w_i·x) with rows w_i of length 1, inputs x ~ N(0, I). The target's teacher has teacher_width
features; the source's lacks the share `ablation` of them. This file is the declaration; the functions of its stages are
in stages.py, and it does not import them.

What F leaves open, and what is taken here:
- The teachers' output weights: all 1. F's Fig. 4d decides between equal signs and random ones: what is outside of the
  source's features is at most a few percent of the target there, and with random signs it would be tens of percent.
- The loss is half the mean square (F eq. 4 and 5), also in the tolerance at which training ends.
- Features stay on the sphere: each step follows the part of the gradient that is tangent to it, then the rows are
  scaled to length 1.
- Every initial output weight is init_scale. A draw has one start for all its trainings, and one teacher. The removed
  features are the teacher's first ones: its features are drawn independently, so this is a random subset, and those of
  a larger ablation contain those of a smaller one.
- Linear transfer is the interpolation of least norm of the output weights (F: "kernel interpolation"), by least
  squares: singular values below rounding count as 0. F may have trained them by gradient descent like the networks (F
  App. D.2), which stops before small singular values matter: that is risk_linear_descent, from the pretrained weights.
- F's number of steps and F's tolerance are a budget: a training is ok wherever it ends. The metrics *_converged say
  whether it reached the tolerance.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from raysweep.workloads import common
from raysweep.workloads.common import Gain, Loss
from raysweep.workloads.declaration import Columns, Metric, Parameter, Workload, modules_of, stage_of

Pretraining = partial(Parameter, stage="pretrain")
Target = partial(Parameter, stage="target")
Scratch = partial(Loss, free_of=("ablation",))
Pretrained = partial(Metric, stage="pretrain")
Source = partial(Loss, stage="pretrain")
SHARE: dict[str, Any] = {"minimum": 0, "maximum": 1, "symbol": "μ", "searched_by": "boundary"}
SAMPLES: dict[str, Any] = {"minimum": 1, "maximum": 1_000_000, "symbol": "n", "scale": "log", "searched_by": "optimum"}
RATE: dict[str, Any] = {**common.ABOVE_0, "maximum": 1e3}

PARAMETERS = (
    Pretraining("dim", int, 20, "input dimension d", minimum=1, maximum=10_000, symbol="d"),
    Pretraining("width", int, 200, "neurons of the trained networks", minimum=1, maximum=100_000, symbol="m"),
    Pretraining("teacher_width", int, 20, "neurons of the target's teacher", minimum=1, maximum=10_000, symbol="m*"),
    Pretraining(
        "ablation",
        float,
        0.5,
        "share of the target teacher's neurons that the source's lacks: round(ablation * teacher_width) of them",
        **SHARE,
    ),
    Pretraining("init_scale", float, 1e-7, "every output weight before training", **RATE, label="initialization scale"),
    Pretraining(
        "learning_rate",
        float,
        1.0,
        "step size of gradient descent divided by the width (F: 0.01); times steps it is the time of gradient flow",
        **RATE,
    ),
    Pretraining("steps", int, 1000, "most steps of a training (F: 100,000)", minimum=0, maximum=10**8),
    Pretraining("tolerance", float, 1e-6, "half the mean square at which a training ends", minimum=0, maximum=1e6),
    Target("target_samples", int, 100, "samples of the target in each data set", **SAMPLES),
    Target("noise", float, 0.0, "standard deviation of the target's labels", minimum=0, maximum=1e6, symbol="σ"),
    Target(
        "datasets",
        int,
        1,
        "data sets of a draw, each with a network from scratch and a transfer; risks are means over them",
        minimum=1,
        maximum=10_000,
    ),
)

METRICS = (
    Scratch("risk_scratch", "population risk E(f - f_t)² trained from scratch", label="risk from scratch"),
    Loss("risk_linear", "population risk, output weights alone retrained", label="risk of linear transfer"),
    Loss(
        "risk_linear_descent",
        "the same where they are trained by gradient descent, with the steps and the tolerance of all trainings",
        label="risk of linear transfer with descent",
    ),
    common.LINEAR_GAIN,
    Gain(
        "transferability_linear_descent",
        "risk from scratch minus that of linear transfer with descent",
        label="gain by linear transfer with descent",
    ),
    Scratch("scratch_loss", "training loss of the networks from scratch", label="training loss from scratch"),
    Metric(
        "scratch_converged",
        "share of the networks from scratch whose training loss reached the tolerance",
        label="share of converged networks from scratch",
        free_of=("ablation",),
    ),
    Source("residual", "squared length of the target outside of the span of the pretrained features (F eq. 159)"),
    Source(
        "residual_source",
        "the same for the span of the source teacher's features, to which F expects the pretrained ones to shrink",
        label="residual for source teacher's features",
    ),
    Source("residual_share", "residual / E f_t² (F Fig. 4d)", label="relative residual"),
    Pretrained("target_variance", "variance of the target f_t (unit of F Fig. 4e)", label="target variance"),
    Source(
        "kernel_distance",
        "distance in L2 of the pretrained features' kernel from the source teacher's, over the length of the latter (F "
        "Fig. 4a, b)",
        label="distance to source teacher's kernel",
    ),
    Pretrained(
        "kernel_distance_before",
        "the same at the random start",
        label="distance to teacher's kernel before pretraining",
    ),
    Source("pretrain_loss", "half the population risk on the source", label="source loss after pretraining"),
    Pretrained(
        "pretrain_converged", "1 if pretrain_loss reached the tolerance, else 0", label="convergence of pretraining"
    ),
)


def check(parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    """Errors of one cell that no single range can catch: a source without a feature."""
    share, width = parameters["ablation"], parameters["teacher_width"]
    if removed(share, width) < width:
        return None
    return "ablation", f"expected a share that leaves at least one of teacher_width = {width:,} neurons, got {share:g}"


def removed(ablation: float, teacher_width: int) -> int:
    return round(ablation * teacher_width)


def heavy_tailed(metric: str, columns: Columns) -> np.ndarray:
    """Cells whose draws have no finite variance, boolean array: interpolation with about as many samples as neurons.

    The pretrained features stay independent, so that the activations are a nearly square matrix of full rank, whose
    inverse has the tail index (|n - m| + 1)/2, as for a linear map (F Thm 3.6).
    """
    near = np.abs(columns["target_samples"] - columns["width"]) <= 3
    return near if metric in ("risk_linear", "transferability_linear") else np.zeros(len(near), dtype=bool)


_stage = partial(stage_of, "raysweep.workloads.relu_features")
WORKLOAD = Workload(
    name="relu_features",
    summary="linear transfer between two-layer ReLU networks, the source lacking some of the target's features (paper "
    "F, Features are fate, §4); diverged: a loss that is not finite",
    identity_version=1,
    parameters=PARAMETERS,
    metrics=METRICS,
    stages=(
        _stage("pretrain", keeps=True, together=("ablation",)),
        _stage("target", "pretrain", together=("ablation", "target_samples", "noise")),
    ),
    sources=modules_of(workloads="relu_features", training="draws sizes", theory="arrays relu"),
    # the networks from scratch serve every ablation
    shared=("dim", "width", "teacher_width", "init_scale", "learning_rate", "steps", "tolerance", "datasets"),
    check=check,
    heavy_tailed=heavy_tailed,
    gpu_guess="within a factor of 5 either way: the work is counted, and the speed is assumed from the data sheet of "
    "an H100; no GPU has confirmed it",
)

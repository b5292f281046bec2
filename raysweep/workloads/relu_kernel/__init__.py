"""Wide two-layer ReLU networks against their kernel: how far fine-tuning moves the weights, and how well it ends.

D §6 and T §6. This file is the declaration; it does not import torch.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from raysweep.workloads import common
from raysweep.workloads.common import Loss
from raysweep.workloads.declaration import Metric, Parameter, Workload, modules_of, stage_of
from raysweep.workloads.image_data import FORMS, digest_of, fetch
from raysweep.workloads.relu_kernel import tasks

Pretraining, Finetuning = (partial(Parameter, stage=name) for name in ("pretrain", "finetune"))
ANGLE = {**common.ANGLE, "symbol": "α", "searched_by": ""}
WIDTH: dict[str, Any] = {"unit": "neurons", "minimum": 1, "whole": True, "infinite": True, "scale": "log"}

PARAMETERS = (
    Pretraining(
        "data",
        str,
        "sphere",
        f"inputs: sphere (uniform on the unit sphere, linear labels), {FORMS} (pixels divided by their length, labels "
        "of classes)",
    ),
    Pretraining("dim", int, 10, "dimension d of the sphere, not of images", minimum=2, maximum=10_000, symbol="d"),
    Pretraining("source_samples", int, 100, "samples of the source", minimum=1, maximum=20_000),
    Pretraining(
        "width", float, 1024.0, "neurons of the hidden layer; .inf: the limit, in closed form", **WIDTH, symbol="m"
    ),
    Pretraining(
        "init_scale",
        float,
        0.1,
        "standard deviation of the weights at initialization; D and T give only an upper bound with an open constant",
        **{**common.START, "symbol": "κ"},
        maximum=1e3,
    ),
    Pretraining(
        "rate",
        float,
        1.0,
        "rate of gradient descent on ½‖y - f‖², times the largest eigenvalue of the samples' H∞; below 2",
        **common.ABOVE_0,
        maximum=1.95,
    ),
    Finetuning("overlap_angle", float, 45.0, "angle between the label functions of source and target", **ANGLE),
    Finetuning("target_samples", int, 50, "samples of the target n", minimum=1, maximum=20_000, symbol="n"),
    Finetuning("noise", float, 0.0, "standard deviation of the target's labels", minimum=0, maximum=1e3, symbol="σ"),
)

METRICS = (
    Loss("deviation", "‖W(Q) - W(P)‖_F: how far fine-tuning moved the weights"),
    Metric(
        "bound_thm2",
        "D's bound of deviation (Thm 2) without its vanishing terms, so that deviation may lie above it",
        label="leading term of D's bound (Thm 2)",
    ),
    Metric(
        "excess_thm2", "deviation over D's bound, minus 1: above 0 beyond it", label="excess over D's bound (Thm 2)"
    ),
    Metric(
        "deviation_limit",
        "what deviation becomes with ever more neurons at this init_scale, for this draw's samples: root of its mean "
        "square over initializations",
        label="deviation at infinite width",
    ),
    Loss(
        "deviation_error",
        "|deviation / √(ỹᵀ(H∞)⁻¹ỹ) - 1|: against the kernel from the same start, ỹ what is left of the labels there",
        label="difference from kernel in deviation",
    ),
    Loss(
        "gradient_change",
        "‖∂L/∂X¹‖² on target samples at W(P) minus at W(0)",
        label="change of squared activation gradient",
    ),
    Metric(
        "gradient_change_thm1",
        "D's value of gradient_change (Thm 1) without the terms that vanish",
        label="leading term of D's Thm 1",
    ),
    Metric(
        "gradient_change_limit",
        "what gradient_change becomes with ever more neurons, mean over initializations",
        label="change of gradient at infinite width",
    ),
    Loss(
        "gradient_error",
        "|gradient_change - that of the kernel from the same W(0)|, relative to ‖y‖²",
        label="difference from kernel in squared gradient",
    ),
    Loss("risk", "mean of min(1, |f - y|) on 1,000 test samples"),
    Metric("risk_pretrained", "the same before fine-tuning", label="risk before fine-tuning"),
    Metric("risk_kernel", "the same of the kernel that starts from f = 0", label="risk of kernel started at zero"),
    Loss(
        "output_error",
        "root mean square of f minus what the kernel makes of the same W(P), on the test samples, relative to labels",
        label="difference from kernel in outputs",
    ),
    Metric(
        "bound_thm61",
        "T's bound of risk (Thm 6.1) without its second term: 2√(ỹᵀ(H∞)⁻¹ỹ/n)",
        label="first term of T's bound (Thm 6.1)",
    ),
    Metric(
        "bound_cor63",
        "T's bound for linear labels (Cor. 6.3) without its second term; NaN where they are not",
        label="first term of T's bound (Cor. 6.3)",
    ),
    Metric(
        "bound_rest", "√(log(n/λ₀δ)/n), with δ = 0.05 and T's open constant c = 1", label="second term of T's bounds"
    ),
    Metric("whole_bound_thm61", "the sum of both terms, with c = 1", label="T's bound (Thm 6.1)"),
    Metric("whole_bound_cor63", "the sum of both terms, with c = 1", label="T's bound (Cor. 6.3)"),
    Metric("smallest_eigenvalue", "λ₀ of H∞ of the target's samples", label="least eigenvalue of kernel matrix"),
    Metric("pretrain_steps", "steps on the source", "steps", stage="pretrain", label="number of pretraining steps"),
    Metric("steps", "steps of gradient descent on the target", "steps", stage="finetune"),
)


def identify(stage: str, values: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies a stage: the digest of images instead of their name, without the sphere's dimension."""
    if row["data"] == tasks.SPHERE:
        return values
    return {**{name: value for name, value in values.items() if name != "dim"}, "data": digest_of(row["data"])}


_stage = partial(stage_of, "raysweep.workloads.relu_kernel")
_ALIKE = ("overlap_angle", "noise")
WORKLOAD = Workload(
    name="relu_kernel",
    summary="fine-tuning wide two-layer ReLU networks beside their kernel: weight change, activation gradients and "
    "risk against the bounds of two papers (D, Transferability of Deep Representations, and T, Fine-tuning with Linear "
    "Teachers); not_converged: a residual above 1e-5 of the labels after 100,000 steps",
    identity_version=1,
    parameters=PARAMETERS,
    metrics=METRICS,
    stages=(
        _stage("pretrain", keeps=True),
        _stage("finetune", "pretrain", together=_ALIKE),
        _stage("evaluate", "finetune", together=_ALIKE),
    ),
    sources=modules_of(workloads="relu_kernel image_data cache", training="draws", theory="arrays relu"),
    identify=identify,
    check=tasks.complaint,
    fetch=fetch,
)

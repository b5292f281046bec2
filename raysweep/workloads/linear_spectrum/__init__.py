"""Overtraining in deep linear networks with chosen spectra (paper O §4, App. A).

This file is the declaration; it does not import the engines.
"""

from collections.abc import Mapping
from typing import Any

from raysweep.workloads import common, symmetric
from raysweep.workloads.common import Loss
from raysweep.workloads.declaration import Engines, Metric, Parameter, Symmetry, Workload, deferred, modules_of
from raysweep.workloads.linear_spectrum import tasks

ENGINES = {"theory": "closed forms", "flow": "gradient flow", "network": "gradient descent on the real layers"}
SYMMETRY = Symmetry(
    "the perturbation of the layers 1, 3, … and of that of the layers 2, 4, …",
    ("pretrain_loss_after", "finetune_loss", "sensitivity"),
)

DEVIATION: dict[str, Any] = {"minimum": 0, "maximum": 1000, "symbol": "σ"}

PARAMETERS = (
    common.engine("flow", ENGINES),
    common.FLOW_LENGTH,
    Parameter("finetune_lr", float, 0.01, common.STEP.format(""), **common.RATE, maximum=1e6),
    Parameter("depth", int, 2, "number of weight matrices", minimum=1, maximum=100, symbol="L"),
    Parameter(
        "overlap_angle",
        float,
        0.0,
        "angle by which the target's right singular vectors are turned, vector i towards vector i + dim//2",
        **common.ANGLE,
    ),
    Parameter("source_spectrum", str, "geometric:2:0.6", f"source task, from the largest: {tasks.FORMS}"),
    Parameter("target_spectrum", str, "geometric:1:0.8", f"target task, in any order: {tasks.FORMS}"),
    Parameter("dim", int, 8, "input, hidden and output dimension d", minimum=1, maximum=10_000, symbol="d"),
    Parameter(
        "init_scale",
        float,
        0.01,
        "scale of each layer: every mode starts at init_scale^depth",
        **common.START,
        maximum=100,
    ),
    Parameter(
        "noise",
        float,
        0.0,
        "standard deviation of the Gaussian perturbation of every weight after pretraining (before any fine-tuning)",
        **DEVIATION,
    ),
    Parameter(
        "finetune_steps",
        float,
        0.0,
        "steps on the target: a budget, .inf for convergence, 0 for none (the "
        "perturbation alone); diverged: a loss that is not finite; at .inf with engine network also a distance "
        "from the goal 1e6 times its size",
        **common.BUDGET,
    ),
    Parameter(
        "penalty",
        float,
        0.0,
        "weight of the map's squared distance from where fine-tuning started",
        minimum=0,
        maximum=1e6,
    ),
    common.EXACT_START,
    symmetric.parameter(SYMMETRY.signs),
)

METRICS = (
    Loss(
        "pretrain_loss", "source loss |P - A|_F^2 before noise and fine-tuning", label="source loss after pretraining"
    ),
    Loss("pretrain_loss_after", "source loss after noise on the weights or fine-tuning", label="final source loss"),
    Loss("finetune_loss", "target loss after noise on the weights or fine-tuning (in-domain)", label="target loss"),
    Loss("sensitivity", "final source loss minus that after pretraining"),
    Metric("learned_modes", "source modes past half of their singular value after pretraining", label="learned modes"),
    Metric(
        "finetune_lr_bound",
        "largest locally stable finetune_lr, over the learned modes; .inf without any, NaN where modes couple or "
        "nothing is fine-tuned",
        label="largest stable fine-tuning rate",
    ),
    Metric(
        "inflection_modes",
        "learned modes after which more pretraining raises pretrain_loss_after (O Def. 4.2), counted in whole modes; "
        "the number of source modes if never, NaN where there is no such number",
        label="number of modes at inflection",
    ),
    Metric(
        "whole_mode_loss_after",
        "pretrain_loss_after as O has it: learned modes whole, the others 0; NaN where they are not",
        label="final source loss by O's formula",
    ),
    Metric("whole_mode_finetune_loss", "finetune_loss as O has it, likewise", label="target loss by O's formula"),
    Metric(
        "closed_form_valid",
        "1 where the closed forms (_theory) hold, 0 where not: they are NaN then",
        label="validity of closed forms",
    ),
    Metric(
        "whole_mode_valid",
        "1 where O's closed forms, in whole modes, hold besides, 0 where not",
        label="validity of O's closed forms",
    ),
    Metric(
        "closed_form_failure",
        "why not: 0 both hold; 1 modes couple (overlap_angle); 2 noise and fine-tuning "
        "together; 3 finetune_lr not stable; in whole modes only: 4 an unlearned mode is not negligible at the end, "
        "5 a learned mode is not whole, or has not converged",
        label="reason for invalid closed forms",
    ),
)


def check(parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    for name in ("source_spectrum", "target_spectrum"):
        try:
            tasks.read(parameters[name], int(parameters["dim"]), name == "source_spectrum")
        except ValueError as error:
            return name, str(error)
    return None


WORKLOAD = Workload(
    name="linear_spectrum",
    summary="overtraining: noise or fine-tuning after pretraining, deep linear networks with chosen spectra (paper O, "
    "Overtrained Language Models)",
    identity_version=2,
    parameters=PARAMETERS,
    metrics=METRICS,
    compute="raysweep.workloads.linear_spectrum.closed_forms:compute",
    cost=tasks.of_rows,
    sources=modules_of(workloads="linear_spectrum symmetric", training="draws", theory="arrays spectrum"),
    shared=("engine", "dim"),
    engines=Engines("engine", reference="flow", start="init_scale"),
    symmetry=SYMMETRY,
    closed_form=deferred("raysweep.workloads.linear_spectrum.closed_forms:losses"),
    check=check,
)

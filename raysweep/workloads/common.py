"""Kinds of parameters and metrics that several workloads declare: ranges, units, letters and labels."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from raysweep.workloads.declaration import Metric, Parameter

ABOVE_0: dict[str, Any] = {"minimum": 0, "open_minimum": True}
ANGLE: dict[str, Any] = {"unit": "degrees", "minimum": 0, "maximum": 180, "symbol": "θ", "searched_by": "boundary"}
RATE: dict[str, Any] = {**ABOVE_0, "symbol": "η", "searched_by": "optimum"}
START: dict[str, Any] = {**ABOVE_0, "symbol": "α", "label": "initialization scale"}
BUDGET: dict[str, Any] = {"unit": "steps", "minimum": 0, "infinite": True, "whole": True}
STEP = "step size of gradient descent on the target{} (flow: a step count times this is the flow time)"
SAMPLES = "target samples per dimension: n = round(gamma * dim)"
FLOW_LENGTH = Parameter(
    "pretrain_length",
    float,
    math.inf,
    "time of gradient flow on the source task, .inf = converged",
    minimum=0,
    infinite=True,
    symbol="t",
    label="pretraining time",
)
EXACT_START = Parameter(
    "pretrain_start", str, "exact", "what is fine-tuned: the exact state of gradient flow", choices=("exact",)
)

Loss = partial(Metric, direction="minimize")
Gain = partial(Metric, direction="maximize", positive="transfer helps", negative="transfer hurts")
Helped = partial(Metric, direction="maximize", positive="pretraining helps", negative="pretraining hurts")
GAIN = Gain(
    "transferability_finetune",
    "risk from scratch minus that after fine-tuning; positive: transfer helps",
    label="gain by fine-tuning",
)
LINEAR_GAIN = Gain(
    "transferability_linear",
    "risk from scratch minus that of linear transfer; positive: transfer helps",
    label="gain by linear transfer",
)


def engine(default: str, engines: Mapping[str, str]) -> Parameter:
    """How exactly rows are solved. engines: what each engine does, in words."""
    how = f"how exactly it is solved: {'; '.join(engines.values())}"
    return Parameter("engine", str, default, how, choices=tuple(engines))

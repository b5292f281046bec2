"""Small language models, pretrained once and fine-tuned or perturbed many times (paper O, the controlled experiments).

This file is the declaration. The other files here compute the workload. No file that is imported here imports torch.
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

from raysweep.workloads.declaration import Former, Metric, Parameter, Workload, deferred, stage_of
from raysweep.workloads.language import corpus
from raysweep.workloads.language.model_config import PRESETS, config_of, share_of, trunk_points, vocabulary_of

Trunk, Pretraining, Finetuning, Evaluation = (
    partial(Parameter, stage=name) for name in ("trunk", "pretrain", "finetune", "evaluate")
)
"""Parameters by the first stage that they matter to."""
RATE: dict[str, Any] = {"minimum": 0, "open_minimum": True}
STEPS: dict[str, Any] = {"unit": "steps", "minimum": 0, "maximum": 10**9}
BATCH: dict[str, Any] = {"unit": "sequences", "minimum": 1, "maximum": 65536}
TOKENS: dict[str, Any] = {"unit": "tokens", "minimum": 1, "maximum": 10**9}
LENGTH: dict[str, Any] = {**RATE, "unit": "tokens", "whole": True}
FORMER = Former("overlap", share_of)
ANGLE: dict[str, Any] = {"unit": "degrees", "minimum": 0, "maximum": 90, "symbol": "θ", "formerly": FORMER}
TUNED: dict[str, Any] = {**RATE, "symbol": "η", "searched_by": "optimum"}
DROPOUT: dict[str, Any] = {"minimum": 0, "maximum": 0.9, "absent": 0.0}
LOOKS: dict[str, Any] = {"minimum": 0, "maximum": 1000}
SHIFT: dict[str, Any] = {"minimum": 0, "symbol": "σ"}
SHARE: dict[str, Any] = {"minimum": 0, "maximum": 100, "symbol": "λ", "absent": 1.0}
SCHEDULE: dict[str, Any] = {"choices": ("cosine", "constant", "constant_warmup")}
PRETRAINING: dict[str, Any] = {"choices": ("cosine", "constant", "wsd")}
NOISE = "Gaussian noise on the weights (O eq. 1), in units of each tensor's"


def in_words(role: str, name: str) -> str:
    """What a report calls a text: a grammar is a synthetic language."""
    kind, _, distance = name.partition(":")
    return f"{role} synthetic language at distance {distance}" if kind == "grammar" else f"{role} {name}"


PARAMETERS = (
    Trunk("preset", str, "tiny", "width, heads, layers, context; 15m, 30m, 90m: O Table 3", choices=tuple(PRESETS)),
    Pretraining("pretrain_length", float, 2.0**18, "a whole number of steps of pretrain_batch times context", **LENGTH),
    Finetuning("finetune_lr", float, 1e-3, "peak rate of AdamW on the target, at width 256 (muP)", **TUNED),
    Trunk("depth", int, 0, "layers; 0 takes the preset's", unit="layers", minimum=0, maximum=200, symbol="L"),
    Finetuning("overlap_angle", float, 90.0, "its cosine is the share of target text drawn from the source", **ANGLE),
    Trunk("width", int, 0, "residual width, a multiple of the head width; 0: the preset's", minimum=0, maximum=16384),
    Trunk("context", int, 0, "tokens a sequence; 0 takes the preset's", unit="tokens", minimum=0, maximum=65536),
    Trunk("source", str, "grammar:0", f"text to pretrain on: {corpus.FORMS}", words=partial(in_words, "source")),
    Finetuning(
        "target", str, "grammar:0.5", "text to fine-tune on, in the same forms", words=partial(in_words, "target")
    ),
    Trunk("pretrain_lr", float, 2e-3, "peak rate of AdamW on the source, at width 256 (muP)", **RATE),
    Trunk("pretrain_schedule", str, "cosine", "wsd: lengths share a trunk at constant rate, then decay", **PRETRAINING),
    Trunk("pretrain_batch", int, 16, "sequences a step", **BATCH),
    Trunk("pretrain_warmup", int, 0, "steps of linear warm-up; 0: a tenth of the length (wsd: 50)", **STEPS),
    Trunk("pretrain_weight_decay", float, 0.1, "AdamW's decay on the source", minimum=0),
    Finetuning("noise", float, 0.0, f"{NOISE} deviation at initialization, before fine-tuning", **SHIFT),
    Finetuning("finetune_steps", int, 50, "steps on the target; 0 for none", **STEPS),
    Finetuning("finetune_batch", int, 16, "sequences a step", **BATCH),
    Finetuning("finetune_schedule", str, "cosine", "all but constant warm up for a tenth of the steps", **SCHEDULE),
    Finetuning("finetune_weight_decay", float, 0.0, "AdamW's decay on the target", minimum=0),
    Finetuning(
        "early_stopping", int, 0, "looks at the validation loss; the best weights are kept (0: the last)", **LOOKS
    ),
    Finetuning("evaluation_tokens", int, 16384, "held-out tokens for each loss", **TOKENS),
    Evaluation("sharpness_iterations", int, 0, "Lanczos steps on the source's Hessian", minimum=0, maximum=200),
    Trunk("pretrain_dropout", float, 0.0, "of embedding, attention and residual additions; O has 0.1", **DROPOUT),
    Finetuning("finetune_dropout", float, 0.0, "the same on the target", **DROPOUT),
    Evaluation("interpolation", float, 1.0, "where between pretrained (0) and final weights (1), O Fig. 10", **SHARE),
)

Loss = partial(Metric, unit="nats", direction="minimize")
Perplexity = partial(Metric, direction="minimize")
Change = partial(Metric, unit="nats")

CURVATURE = (
    Metric("sharpness", "largest eigenvalue of the Hessian of the source loss at the pretrained weights (O App. D)"),
    Metric("hessian_trace", "estimate of its trace in units of initialization, Tr(ΣH)", label="scaled Hessian trace"),
    Change(
        "quadratic_sensitivity",
        "sensitivity to the change of weights made, by gradient and Hessian alone (O5)",
        label="sensitivity by the quadratic model",
    ),
    Change(
        "sensitivity_beyond_quadratic",
        "sensitivity minus quadratic_sensitivity, both on the text and in the precision of the latter (O Fig. 9, 10)",
        label="sensitivity beyond the quadratic model",
    ),
    Change(
        "trace_sensitivity",
        "(interpolation · noise)² · hessian_trace / 2: quadratic_sensitivity on average over such noise (O Prop. D.1)",
        label="sensitivity by Hessian trace",
    ),
)
"""Measured only if `sharpness_iterations` is above 0."""
METRICS = (
    Loss("pretrain_loss", "source loss, held out, before noise and fine-tuning", label="source loss after pretraining"),
    Loss("pretrain_loss_after", "source loss, held out, after noise or fine-tuning", label="final source loss"),
    Loss("sensitivity", "final source loss minus that after pretraining"),
    Perplexity(
        "pretrain_perplexity",
        "exp of source loss after pretraining, of a token",
        label="source perplexity after pretraining",
    ),
    Perplexity("pretrain_perplexity_after", "exp of final source loss, of a token", label="final source perplexity"),
    Perplexity(
        "sensitivity_perplexity",
        "final source perplexity minus that after pretraining",
        label="sensitivity in perplexity",
    ),
    Loss("finetune_loss", "final target loss, on test documents", label="target loss"),
    Perplexity("finetune_perplexity", "exp of target loss, of a token", label="target perplexity"),
    Loss("finetune_loss_validation", "on validation documents, to choose a rate by", label="target validation loss"),
    Loss("finetune_loss_before", "target loss before noise and fine-tuning", label="target loss after pretraining"),
    Metric("distance_moved", "length of the change of all weights (O Fig. 8)", label="length of weight change"),
    Metric("epochs", "times pretraining went over the source's training text; 0 for endless text", stage="pretrain"),
    Metric("finetune_epochs", "times fine-tuning went over the target's", label="number of fine-tuning epochs"),
    *CURVATURE,
)


def check(parameters: Mapping[str, Any]) -> tuple[str, str] | None:
    """Errors of one cell that no single range can catch: a part of a step, an impossible shape, an unusable text."""
    try:
        config = config_of(parameters)
    except ValueError as error:
        return "width", str(error)
    step, length = int(parameters["pretrain_batch"]) * config.context, parameters["pretrain_length"]
    if length % step:
        steps, nearest = f"{step:,} tokens (pretrain_batch x context)", f"{max(1, round(length / step)) * step:,}"
        return "pretrain_length", f"expected a whole number of steps of {steps}, got {length:,.0f}; nearest: {nearest}"
    if vocabulary_of(str(parameters["target"])) != config.vocabulary:
        return "target", f"expected text of the source's vocabulary, {config.vocabulary:,} tokens"
    for name in ("source", "target"):
        if complaint := corpus.complaint(str(parameters[name]), config.context):
            return name, complaint
    return None


def identify(stage: str, values: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies a stage: the shape of the model instead of its preset, and the digests of texts.

    InputError if a text has gone since the sweep was planned.
    """
    identity = {name: value for name, value in values.items() if name not in ("preset", "depth", "width", "context")}
    identity["model"] = asdict(config_of(row))
    for name in ("source", "target"):
        if name in identity:
            identity[name] = corpus.digest(name, str(row[name]))
    if stage == "finetune" and not row["early_stopping"]:  # only the validation of early stopping looks at them
        identity.pop("evaluation_tokens", None)
    return identity


_HERE = "raysweep.workloads.language"
_stage = partial(stage_of, _HERE)
WORKLOAD = Workload(
    name="language",
    summary="overtraining of small language models: noise or fine-tuning after pretraining (paper O, "
    "Overtrained Language Models); diverged: a loss, gradient or weight that is not finite",
    identity_version=5,
    parameters=PARAMETERS,
    metrics=METRICS,
    stages=(
        _stage("trunk", keeps=True, points=trunk_points, version=5),
        _stage("pretrain", "trunk", keeps=True, version=5),
        _stage("finetune", "pretrain"),
        _stage("evaluate", "finetune"),
    ),
    sources=("raysweep.workloads.language", "raysweep.workloads.cache", "raysweep.training"),
    identify=identify,
    data_parallel=True,
    check=check,
    exports=dict.fromkeys(("pretrain", "finetune"), deferred(f"{_HERE}.exported:exported")),
    gpu_guess="within a factor of 3 either way: flops are counted and divided by 30 % of the peak of an H200, where "
    "training was measured at 21 to 36 %",
)

"""What the workload measures: errors, and which features kernels have captured."""

from collections.abc import Callable
from functools import partial

from raysweep.workloads.declaration import Metric

FromScratch, Pretrained = (partial(Metric, stage=name) for name in ("scratch", "pretrain"))


def _errors(make: Callable[..., Metric], end: str, how: str) -> list[Metric]:
    error, training = (f"error {how}", f"error {how}") if end else ("error", "error after fine-tuning")
    kinds = [
        ("error", f"share of test samples named wrong, {how}", error if end else ""),
        ("error_multi_view", f"the same among multi-view samples, {how}", f"{error} on multi-view samples"),
        ("error_single_view", f"the same among single-view samples, {how}", f"{error} on single-view samples"),
        ("train_error", f"share of training samples named wrong, {how}", f"training {training}"),
    ]
    return [make(f"{name}{end}", what, direction="minimize", share=True, label=label) for name, what, label in kinds]


def _captured(make: Callable[..., Metric], end: str, what: str, label: str) -> Metric:
    return make(f"features_captured{end}", what, direction="maximize", share=True, label=label)


_SCRATCH = "share of the features that some kernel of their own class captures, from scratch"
METRICS = (
    *_errors(FromScratch, "_scratch", "from scratch"),
    _captured(FromScratch, "_scratch", _SCRATCH, "share of captured features from scratch"),
    _captured(Pretrained, "", "share of the features that some kernel captures", "share of captured features"),
    _captured(
        Pretrained, "_half", "the same where half of the threshold is enough", "share captured at half threshold"
    ),
    _captured(
        Pretrained, "_double", "the same where twice the threshold is asked for", "share captured at double threshold"
    ),
    Pretrained(
        "features_per_kernel",
        "features that a kernel captures, mean over kernels that capture any",
        label="feature count per capturing kernel",
    ),
    Pretrained(
        "most_features",
        "features that one kernel captures, largest over kernels",
        direction="minimize",
        label="largest feature count per kernel",
    ),
    Pretrained("correlation", "largest weight of a kernel along a feature, mean over features"),
    Pretrained(
        "second_correlation",
        "second largest weight of a kernel along a feature, largest over kernels, over init_scale",
        direction="minimize",
        label="relative second-largest correlation",
    ),
    Pretrained(
        "winners",
        "share of the captured features whose strongest kernel was in M^(0)",
        direction="maximize",
        share=True,
    ),
    *_errors(Metric, "", "pretrained and fine-tuned"),
    Metric(
        "transferability",
        "error_scratch - error; positive: pretraining helps",
        direction="maximize",
        positive="pretraining helps",
        negative="pretraining hurts",
    ),
)

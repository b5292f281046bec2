"""What the workload measures: errors, and which features kernels have captured."""

from __future__ import annotations

from functools import partial
from typing import Any

from raysweep.workloads.declaration import Metric

_ALSO = "of test samples named wrong"
FromScratch, Pretrained = (partial(Metric, stage=name) for name in ("scratch", "pretrain"))
ERROR: dict[str, Any] = {"direction": "minimize", "share": True}
SHARE: dict[str, Any] = {"direction": "maximize", "share": True}
METRICS = (
    FromScratch("error_scratch", f"share {_ALSO}, trained from scratch", **ERROR, label="error from scratch"),
    FromScratch(
        "error_multi_view_scratch",
        f"share {_ALSO} among multi-view ones, from scratch",
        **ERROR,
        label="error from scratch on multi-view samples",
    ),
    FromScratch(
        "error_single_view_scratch",
        f"share {_ALSO} among single-view ones, from scratch",
        **ERROR,
        label="error from scratch on single-view samples",
    ),
    FromScratch(
        "train_error_scratch",
        "share of training samples named wrong, from scratch",
        **ERROR,
        label="training error from scratch",
    ),
    FromScratch(
        "features_captured_scratch",
        "share of the features that some kernel of their own class captures, from scratch",
        **SHARE,
        label="share of captured features from scratch",
    ),
    Pretrained(
        "features_captured",
        "share of the features that some kernel captures",
        **SHARE,
        label="share of captured features",
    ),
    Pretrained(
        "features_captured_half",
        "the same where half of the threshold is enough",
        **SHARE,
        label="share captured at half threshold",
    ),
    Pretrained(
        "features_captured_double",
        "the same where twice the threshold is asked for",
        **SHARE,
        label="share captured at double threshold",
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
    Pretrained("winners", "share of the captured features whose strongest kernel was in M^(0)", **SHARE),
    Metric("error", f"share {_ALSO}, pretrained and fine-tuned", **ERROR),
    Metric("error_multi_view", f"share {_ALSO} among multi-view ones", **ERROR, label="error on multi-view samples"),
    Metric("error_single_view", f"share {_ALSO} among single-view ones", **ERROR, label="error on single-view samples"),
    Metric("train_error", "share of training samples named wrong", **ERROR, label="training error after fine-tuning"),
    Metric(
        "transferability",
        "error_scratch - error; positive: pretraining helps",
        direction="maximize",
        positive="pretraining helps",
        negative="pretraining hurts",
    ),
)

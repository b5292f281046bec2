"""What the workload measures: errors, and which features kernels have captured."""

from __future__ import annotations

from functools import partial

from raysweep.workloads.declaration import Metric

_ALSO = "of test samples named wrong"
FromScratch, Pretrained = (partial(Metric, stage=name) for name in ("scratch", "pretrain"))
METRICS = (
    FromScratch(
        "error_scratch",
        f"share {_ALSO}, trained from scratch",
        direction="minimize",
        label="error from scratch",
        share=True,
    ),
    FromScratch(
        "error_multi_view_scratch",
        f"share {_ALSO} among multi-view ones, from scratch",
        direction="minimize",
        label="error from scratch on multi-view samples",
        share=True,
    ),
    FromScratch(
        "error_single_view_scratch",
        f"share {_ALSO} among single-view ones, from scratch",
        direction="minimize",
        label="error from scratch on single-view samples",
        share=True,
    ),
    FromScratch(
        "train_error_scratch",
        "share of training samples named wrong, from scratch",
        direction="minimize",
        label="training error from scratch",
        share=True,
    ),
    FromScratch(
        "features_captured_scratch",
        "share of the features that some kernel of their own class captures, from scratch",
        direction="maximize",
        label="share of captured features from scratch",
        share=True,
    ),
    Pretrained(
        "features_captured",
        "share of the features that some kernel captures",
        direction="maximize",
        label="share of captured features",
        share=True,
    ),
    Pretrained(
        "features_captured_half",
        "the same where half of the threshold is enough",
        direction="maximize",
        label="share captured at half threshold",
        share=True,
    ),
    Pretrained(
        "features_captured_double",
        "the same where twice the threshold is asked for",
        direction="maximize",
        label="share captured at double threshold",
        share=True,
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
    Metric("error", f"share {_ALSO}, pretrained and fine-tuned", direction="minimize", share=True),
    Metric(
        "error_multi_view",
        f"share {_ALSO} among multi-view ones",
        direction="minimize",
        label="error on multi-view samples",
        share=True,
    ),
    Metric(
        "error_single_view",
        f"share {_ALSO} among single-view ones",
        direction="minimize",
        label="error on single-view samples",
        share=True,
    ),
    Metric(
        "train_error",
        "share of training samples named wrong",
        direction="minimize",
        label="training error after fine-tuning",
        share=True,
    ),
    Metric(
        "transferability",
        "error_scratch - error; positive: pretraining helps",
        direction="maximize",
        positive="pretraining helps",
        negative="pretraining hurts",
    ),
)

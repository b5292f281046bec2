"""What the workload measures, under the names that `language` has for it."""

from raysweep.workloads.language.metrics import METRICS as LANGUAGE

_NAMES = (
    "pretrain_loss",
    "pretrain_loss_after",
    "sensitivity",
    "pretrain_perplexity",
    "pretrain_perplexity_after",
    "sensitivity_perplexity",
    "finetune_loss",
    "finetune_perplexity",
    "finetune_loss_validation",
    "finetune_loss_before",
    "distance_moved",
    "finetune_epochs",
)
METRICS = tuple(metric for metric in LANGUAGE if metric.name in _NAMES)

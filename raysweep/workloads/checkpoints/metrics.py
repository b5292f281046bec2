"""What the workload measures, under the names that `language` has for it, and the accuracy on tasks."""

from raysweep.workloads.declaration import Metric
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
METRICS = (
    *(metric for metric in LANGUAGE if metric.name in _NAMES),
    Metric(
        "task_accuracy",
        "mean accuracy (acc) on `tasks` after noise on the weights or fine-tuning; NaN without tasks",
        direction="maximize",
        label="accuracy on tasks",
        share=True,
        error="task_accuracy_error",
    ),
    Metric(
        "task_accuracy_error",
        "its standard error, by lm-eval, over the examples of the tasks",
        label="error of accuracy on tasks",
    ),
    Metric(
        "task_accuracy_before",
        "the same accuracy of the checkpoint itself",
        direction="maximize",
        label="accuracy on tasks before",
        share=True,
    ),
)

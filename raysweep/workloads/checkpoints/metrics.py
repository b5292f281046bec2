"""What the workload measures, under the names that `language` has for it, and the accuracy on tasks."""

from functools import partial

from raysweep.workloads.declaration import Metric
from raysweep.workloads.language.metrics import METRICS as LANGUAGE

_LOSSES = "pretrain_loss pretrain_loss_after sensitivity finetune_loss finetune_loss_validation finetune_loss_before"
_NAMES = f"""{_LOSSES} pretrain_perplexity pretrain_perplexity_after sensitivity_perplexity finetune_perplexity
    distance_moved finetune_epochs""".split()
Accuracy = partial(Metric, direction="maximize", share=True)
METRICS = (
    *(metric for metric in LANGUAGE if metric.name in _NAMES),
    Accuracy(
        "task_accuracy",
        "mean accuracy (acc) on `tasks` after noise on the weights or fine-tuning; NaN without tasks",
        label="accuracy on tasks",
        error="task_accuracy_error",
    ),
    Metric("task_accuracy_error", "its standard error over examples, by lm-eval", label="error of accuracy on tasks"),
    Accuracy("task_accuracy_before", "the same of the checkpoint itself", label="accuracy on tasks before"),
)

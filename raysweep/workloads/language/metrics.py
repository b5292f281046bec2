"""What the workload measures: losses before and after, their sensitivity, and the quadratic model of it."""

from __future__ import annotations

from functools import partial

from raysweep.workloads.declaration import Metric

Loss = partial(Metric, unit="nats", direction="minimize")
Perplexity = partial(Metric, direction="minimize")
Change = partial(Metric, unit="nats")
RISE = "training loss at the end minus that at the start, mean over the last 10 batches: above 0 it ended worse"

METRICS = (
    Loss("pretrain_loss", "source loss, held out, before noise and fine-tuning", label="source loss after pretraining"),
    Loss("pretrain_loss_after", "source loss, held out, after noise or fine-tuning", label="final source loss"),
    Loss("sensitivity", "pretrain_loss_after - pretrain_loss"),
    Perplexity("pretrain_perplexity", "exp(pretrain_loss), of a token", label="source perplexity after pretraining"),
    Perplexity("pretrain_perplexity_after", "exp(pretrain_loss_after) (O Fig. 3, 5)", label="final source perplexity"),
    Perplexity(
        "sensitivity_perplexity", "pretrain_perplexity_after less that before", label="sensitivity in perplexity"
    ),
    Loss("finetune_loss", "final target loss, on test documents; of a task, of the right class", label="target loss"),
    Perplexity("finetune_perplexity", "exp(finetune_loss) (O Fig. 5 bottom)", label="target perplexity"),
    Loss("finetune_loss_validation", "on validation documents, to choose a rate by", label="target validation loss"),
    Metric(
        "finetune_accuracy",
        "share of test examples classified right, by length-normalized likelihood; NaN where the target is no task",
        direction="maximize",
        label="target accuracy",
    ),
    Loss("finetune_loss_before", "finetune_loss before noise and fine-tuning", label="target loss after pretraining"),
    Loss(
        "finetune_training_loss_rise",
        f"{RISE}; of the weights that were kept, 0 without steps",
        stage="finetune",
        label="rise of target training loss",
    ),
    Loss("pretrain_training_loss_rise", RISE, stage="pretrain", label="rise of source training loss"),
    Loss(
        "pretrain_loss_after_per_byte",
        "pretrain_loss_after in nats a byte of text, so that vocabularies compare; NaN where tokens are given",
        label="final source loss per byte",
    ),
    Loss("finetune_loss_per_byte", "finetune_loss likewise; NaN of a task too", label="target loss per byte"),
    Metric("distance_moved", "length of the change of all weights (O Fig. 8)", label="length of weight change"),
    Metric("epochs", "times pretraining went over the source's training text; 0 for endless text", stage="pretrain"),
    Metric("finetune_epochs", "times fine-tuning went over the target's", label="number of fine-tuning epochs"),
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

"""What the workload measures: losses before and after, their sensitivity, and the quadratic model of it."""

from functools import partial

from raysweep.workloads.declaration import Metric

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
    Loss("sensitivity", "pretrain_loss_after - pretrain_loss"),
    Perplexity("pretrain_perplexity", "exp(pretrain_loss), of a token", label="source perplexity after pretraining"),
    Perplexity("pretrain_perplexity_after", "exp(pretrain_loss_after) (O Fig. 3, 5)", label="final source perplexity"),
    Perplexity("sensitivity_perplexity", "the difference of these two", label="sensitivity in perplexity"),
    Loss("finetune_loss", "final target loss, on test documents", label="target loss"),
    Perplexity("finetune_perplexity", "exp(finetune_loss) (O Fig. 5 bottom)", label="target perplexity"),
    Loss("finetune_loss_validation", "on validation documents, to choose a rate by", label="target validation loss"),
    Loss("finetune_loss_before", "finetune_loss before noise and fine-tuning", label="target loss after pretraining"),
    Metric("distance_moved", "length of the change of all weights (O Fig. 8)", label="length of weight change"),
    Metric("epochs", "times pretraining went over the source's training text; 0 for endless text", stage="pretrain"),
    Metric("finetune_epochs", "times fine-tuning went over the target's", label="number of fine-tuning epochs"),
    *CURVATURE,
)

"""How long to pretrain a small net on the digits 0-4, and how fast to fine-tune it on a few images of 5-9."""

from raysweep import Cost, Metric, Parameter, Stage, Workload

WORKLOAD = Workload(
    name="digits",
    summary="a small net on scikit-learn's digits: pretrained on 0-4, fine-tuned on 5-9",
    identity_version=1,
    parameters=(
        Parameter("pretrain_length", int, 10, "epochs on 0-4", unit="epochs", stage="pretrain", minimum=1),
        Parameter("finetune_lr", float, 0.1, "rate of SGD on 5-9", stage="finetune", minimum=0),
        Parameter("target_samples", int, 20, "images of 5-9 to fine-tune on", stage="finetune", minimum=1),
    ),
    stages=(
        Stage(
            "pretrain",
            run="digits.net:pretrain",
            keeps=True,  # in the store: computed once, and shared by all rows and sweeps
            points=lambda row: range(1, row["pretrain_length"] + 1),  # epoch 3 continues epoch 2
            until="pretrain_length",
            cost=lambda columns, before, point: Cost(seconds=0.03, peak_bytes=3e8),
        ),
        Stage("finetune", after="pretrain", run="digits.net:finetune", cost=lambda columns: Cost(0.05, 3e8)),
        Stage("evaluate", after="finetune", run="digits.net:evaluate"),
    ),
    metrics=(Metric("accuracy", "share of held-out images of 5-9 named right", direction="maximize"),),
    sources=("digits",),
)

"""The package of another person: ridge regression on one half of the data, then towards its answer on the other half.

The functions of its later stages stand in docs/staged_workloads.md, and the test puts them below."""

import numpy as np

from raysweep import Metric, Parameter, Result, Stage, Workload
from raysweep.workloads.declaration import ANY

WORKLOAD = Workload(
    name="halves",
    summary="ridge regression on one half of the data, then towards its answer on the other half",
    identity_version=1,
    parameters=(
        Parameter("dim", int, 5, "input dimension", stage="pretrain", minimum=1),
        Parameter("samples", int, 12, "samples in each half", stage="pretrain", minimum=1),
        Parameter("noise", float, 0.5, "standard deviation of the labels' noise", stage="pretrain", minimum=0),
        Parameter("pretrain_penalty", float, 0.1, "penalty on the first half", stage="pretrain", minimum=0),
        Parameter("finetune_penalty", float, 1.0, "penalty on leaving the first answer", stage="finetune", minimum=0),
    ),
    stages=(
        Stage("pretrain", run="halves_workload:pretrain", keeps=True),
        Stage("finetune", after="pretrain", run="halves_workload:finetune", together=("finetune_penalty",)),
        Stage("evaluate", after="finetune", run="halves_workload:evaluate", together=ANY),
    ),
    metrics=(Metric("risk", "squared distance to the teacher", direction="minimize"),),
    sources=("halves_workload",),
)


def teacher(row):
    """A vector of norm 1, shape (dim,)."""
    w = np.random.default_rng([row["seed"], 0]).normal(size=row["dim"])
    return w / np.linalg.norm(w)


def half(row, number):
    """Inputs with orthogonal columns, shape (samples, dim), and noisy labels."""
    random = np.random.default_rng([row["seed"], number])
    x = np.linalg.qr(random.normal(size=(row["samples"], row["dim"])))[0] * row["samples"] ** 0.5
    return x, x @ teacher(row) + row["noise"] * random.normal(size=row["samples"])


def ridge(x, y, penalty):
    """The minimizer of |xw - y|^2 / n + penalty |w|^2."""
    n, d = x.shape
    return np.linalg.solve(x.T @ x + n * penalty * np.eye(d), x.T @ y)


def pretrain(rows, parent, context):
    """Ridge regression on the first half."""
    row = rows.row()
    return Result({"w": ridge(*half(row, 1), row["pretrain_penalty"])})

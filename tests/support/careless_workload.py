"""A staged workload of another package, brought by entry point, whose stages give back what does not fit."""

from dataclasses import replace

import numpy as np

from raysweep.workloads.declaration import Metric, Parameter, Stage, Workload
from raysweep.workloads.rows import Result

RESULTS = {
    "fine": lambda n: Result({"w": np.zeros((n, 3))}, {"loss": np.ones(n)}),
    "failed": lambda n: Result({"w": np.zeros((n, 3))}, {"loss": np.ones(n)}, "failed"),
    "rows too many": lambda n: Result({"w": np.zeros((n, 3))}, {"loss": np.ones(n + 1)}),
    "an unknown metric": lambda n: Result({"w": np.zeros((n, 3))}, {"loss": np.ones(n), "accuracy": np.ones(n)}),
    "another stage's metric": lambda n: Result({"w": np.zeros((n, 3))}, {"loss": np.ones(n), "score": np.ones(n)}),
    "tensors of another length": lambda n: Result({"layers": [{"w": np.zeros((n + 1, 3))}]}, {"loss": np.ones(n)}),
    "a tensor without axes": lambda n: Result({"step": np.float64(3)}, {"loss": np.ones(n)}),
    "no result": lambda n: {"loss": np.ones(n)},
    "nothing": lambda n: None,
    "an unknown status": lambda n: Result({"w": np.zeros((n, 3))}, {"loss": np.ones(n)}, "good"),
    "statuses too few": lambda n: Result({"w": np.zeros((n, 3))}, {"loss": np.ones(n)}, ["ok"] * (n - 1)),
    "a text as metric": lambda n: Result({"w": np.zeros((n, 3))}, {"loss": "low"}),
}


def learn(rows, parent, context):
    """What `gives` says; "an odd log" logs a number for one row more than there are."""
    gives = rows.row()["gives"]
    if gives == "an odd log":
        context.log(1, loss=np.zeros(len(rows) + 1))
    return RESULTS.get(gives, RESULTS["fine"])(len(rows))


def score(rows, parent, context):
    return Result(metrics={"score": np.ones(len(rows))})


LEARN = Stage("learn", "careless_workload:learn", together=("x",))
SCORE = Stage("score", "careless_workload:score", after="learn", together=("x",))
WORKLOAD = Workload(
    name="careless",
    summary="a workload that does not fit",
    identity_version=1,
    parameters=(
        Parameter("x", float, 0.0, "a number", stage="learn"),
        Parameter("gives", str, "fine", "what a stage gives back", stage="learn"),
    ),
    metrics=(Metric("loss", "a loss", stage="learn"), Metric("score", "a score")),
    stages=(LEARN, SCORE),
    sources=("careless_workload",),
)


def __getattr__(name):
    """A workload that is wrong in its declaration: what an entry point names is an error when it is loaded."""
    if name == "CIRCLE":
        return replace(WORKLOAD, name="circle", stages=(replace(LEARN, after="score"), SCORE))
    raise AttributeError(name)

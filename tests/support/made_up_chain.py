"""Workloads of several stages for tests, made up of stages that do next to nothing and remember that they were called.

The value of a stage is a digest of everything that it may depend on: its rows' parameters, their seeds, the point, and
the value of its parent. So two rows have equal values exactly if they have the same past, whoever computed it.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.stages.artifacts import Artifact, Stacked
from raysweep.workloads.declaration import ANY, Cost, Metric, Parameter, Stage, Workload, column
from raysweep.workloads.rows import Result


@dataclass(frozen=True)
class Call:
    """One call of a stage's function: what it was given."""

    stage: str
    rows: list[dict[str, Any]]
    point: float | None
    before: float
    parent: Artifact | Stacked | None


CALLS = []


def work(rows, parent, context):
    """The values of rows. A row's parameter `fate_STAGE` is its status there."""
    CALLS.append(Call(context.stage, list(rows), context.point, context.before, parent))
    values = np.array([_digest(context, row, past) for row, past in zip(rows, _past(rows, parent), strict=True)])
    for step in (1, 2):
        context.log(context.before + step, loss=values / step)
    fates = [row.get(f"fate_{context.stage}", "ok") for row in rows]
    return Result({"nested": [{"value": values}]}, {f"{context.stage}_value": values}, fates)


def careless(rows, parent, context):
    """The same without a look at the parent, and without metrics."""
    CALLS.append(Call(context.stage, list(rows), context.point, context.before, parent))
    return Result({"nested": [{"value": np.array([_digest(context, row, 0.0) for row in rows])}]})


def blind(rows, parent, context):
    """A metric without a look at the parent."""
    CALLS.append(Call(context.stage, list(rows), context.point, context.before, parent))
    return Result(metrics={f"{context.stage}_value": np.array([_digest(context, row, 0.0) for row in rows])})


def at_most_two(rows):
    """For Stage.size."""
    return 2


def _digest(context, row, past):
    text = json.dumps([context.stage, context.point, row, past], sort_keys=True)
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 2**48


def _past(rows, parent):
    if parent is None:
        return [0.0] * len(rows)
    values = np.ravel(parent.tensors()["nested"][0]["value"]).tolist()
    return values if isinstance(parent, Stacked) else values * len(rows)


def workload(*stages, parameters, types=None):
    """A workload of these stages. parameters: "STAGE.NAME"; a number unless `types` or the name (fate_) says text."""
    declared = []
    for path in parameters:
        stage, _, name = path.partition(".")
        kind = (types or {}).get(name, str if name.startswith("fate_") else float)
        declared.append(Parameter(name, kind, "ok" if kind is str else kind(0), "", stage=stage))
    metrics = tuple(Metric(f"{stage.name}_value", "", stage=stage.name) for stage in stages)
    return Workload("made_up", "", 1, tuple(declared), metrics, stages=stages)


def stage(name, after="", **options):
    return Stage(name, options.pop("run", "made_up_chain:work"), after=after, **options)


def random_workload(draw, costs=False):
    """One to four stages with up to two parameters each, taken alone or together, in points or whole, kept or not.
    costs: whether each row costs COST seconds, and a point SPAN more for each unit since the point before."""
    stages, parameters = [], ["s0.every"] * costs  # of which a cost has a column at least
    for number in range(draw.randint(1, 4)):
        added = [f"{'abcd'[number]}{i}" for i in range(draw.randint(0, 2))]
        parameters += [f"s{number}.{name}" for name in added]
        names = [path.partition(".")[2] for path in parameters]
        options = {"keeps": draw.random() < 0.3}
        kind = draw.choice(["alone", "alone", "together", "any", "points"])
        if kind == "points" and added:
            options |= {
                "until": added[0],
                "points": lambda row, name=added[0]: [1.0 * n for n in range(int(row[name]))],
            }
        elif kind == "together" and names:
            options["together"] = tuple(draw.sample(names, draw.randint(1, len(names))))
        elif kind == "any":
            options["together"] = ANY
        if "together" in options and draw.random() < 0.5:
            options["size"] = "made_up_chain:at_most_two"
        if costs:
            options["cost"] = span_cost if "points" in options else row_cost
        stages.append(stage(f"s{number}", f"s{number - 1}" if number else "", **options))
    draw.shuffle(stages)
    return workload(*stages, parameters=parameters)


COST, SPAN = 3.0, 10.0


def row_cost(columns):
    return Cost(COST * len(next(iter(columns.values()), ())), 1.0)


def span_cost(columns, before, point):
    return Cost(COST + SPAN * (point - before), 1.0)


def table(made, *rows):
    """Rows as columns, defaults filled in."""
    return {p.name: column(p, [row.get(p.name, p.default) for row in rows]) for p in made.parameters}


def called(name):
    return [call for call in CALLS if call.stage == name]

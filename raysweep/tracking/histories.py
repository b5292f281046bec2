"""Learning curves as metric histories of a cell's run in MLflow.

A run stands for a cell, which has several draws, and MLflow's charts show one line per run and metric. So the history
of STAGE/METRIC is the mean over the ok draws, at the steps that all of them logged. The curve of each draw stays in the
ledger (`raysweep results --curves`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from raysweep.ledger.curves import STEP
from raysweep.ledger.segments import Curve

Point = tuple[str, float, int]
"""A point of a metric: key, value, step."""
LONGEST = 100
"""Points of a history. MLflow writes a few thousand points a second, and the ledger keeps them all."""
DESCRIPTION = (
    "The histories (`STAGE/METRIC`) are learning curves: means over the ok draws, at the steps that all of them "
    f"logged, {LONGEST} points at most. `raysweep results SWEEP --curves` has every point of every draw."
)


def of_draws(draws: Sequence[Mapping[str, Curve]]) -> list[Point]:
    """The histories of a cell: for each STAGE/METRIC the means over draws.

    draws: the learning curves of each ok draw, by stage.

    A history of more than LONGEST points is thinned evenly; its first and last point stay. MLflow's steps are whole
    numbers: if a stage logged at others, the points are numbered from 0. Points that are not finite are left out.
    """
    found: list[Point] = []
    names = dict.fromkeys(
        (stage, name) for curves in draws for stage, curve in curves.items() for name in curve if name != STEP
    )
    for stage, name in names:
        steps, means = _mean([curves.get(stage, {}) for curves in draws], name)
        if len(steps) > LONGEST:
            kept = np.linspace(0, len(steps) - 1, LONGEST).round().astype(int)
            steps, means = steps[kept], means[kept]
        whole = bool(np.all(steps == np.round(steps)))
        key = f"{stage}/{re.sub(r'[^-. :0-9A-Za-z_]', '_', name)}"[:250]
        found += [
            (key, float(value), int(step) if whole else number)
            for number, (step, value) in enumerate(zip(steps, means, strict=True))
            if math.isfinite(value)
        ]
    return found


def _mean(draws: Sequence[Curve], name: str) -> tuple[np.ndarray, np.ndarray]:
    """(steps, means over draws) of one metric, at the steps at which all draws have a finite value of it."""
    steps, values = [], []
    for curve in draws:
        at, logged = np.asarray(curve.get(STEP, ()), float), np.asarray(curve.get(name, ()), float)
        finite = np.isfinite(logged) if len(logged) else np.zeros(len(at), bool)
        steps.append(at[finite])
        values.append(logged[finite] if len(logged) else logged)
    if any(not np.array_equal(at, steps[0]) for at in steps):
        common = sorted(set.intersection(*(set(at.tolist()) for at in steps)))
        known = [dict(zip(at.tolist(), one.tolist(), strict=True)) for at, one in zip(steps, values, strict=True)]
        steps, values = [np.array(common)], [np.array([one[at] for at in common]) for one in known]
    return steps[0], sum((one / len(values) for one in values), np.zeros(len(steps[0])))  # a sum might overflow

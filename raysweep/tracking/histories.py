"""Learning curves as metric histories of a cell's run in MLflow.

A run stands for a cell, which has several draws, and MLflow's charts show one line per run and metric. So the history
of STAGE/METRIC is the mean over the ok draws, at the steps that all of them logged. The curve of each draw stays in the
ledger (`raysweep results --curves`). A run that stands for a pack of cells has no histories.
"""

from __future__ import annotations

import hashlib
import math
import posixpath
import re
from collections.abc import Mapping, Sequence

import numpy as np

from raysweep.ledger.curves import STEP, aligned, are_whole
from raysweep.ledger.segments import Curve

Point = tuple[str, float, int]
"""A point of a metric: key, value, step."""
LONGEST = 100
"""Points of a history. MLflow writes a few thousand points a second, and the ledger keeps more."""
LONGEST_KEY = 240
"""Characters of a key. MLflow takes 250; a prefix may be added."""
DESCRIPTION = (
    "The histories (`STAGE/METRIC`) are learning curves: means over the ok draws, at the steps that all of them "
    f"logged, {LONGEST} points at most. `raysweep results SWEEP --curves` has every draw, with 513 points at most."
)


def of_draws(draws: Sequence[Mapping[str, Curve]]) -> list[Point]:
    """The histories of a cell: for each STAGE/METRIC the means over its ok draws, given the learning curves of each, by
    stage.

    A history of more than LONGEST points is thinned evenly; its first and last point stay. MLflow's steps are whole
    numbers: if a stage logged at others, the points are numbered from 0. Points that are not finite are left out.
    """
    points: list[Point] = []
    logged = [(stage, name) for curves in draws for stage, curve in curves.items() for name in curve if name != STEP]
    for stage, name in dict.fromkeys(logged):
        steps, means = _mean([curves.get(stage, {}) for curves in draws], name)
        if len(steps) > LONGEST:
            kept = np.linspace(0, len(steps) - 1, LONGEST).round().astype(int)
            steps, means = steps[kept], means[kept]
        whole = are_whole(steps)
        key = _key(stage, name)
        points += [
            (key, float(value), int(step) if whole else number)
            for number, (step, value) in enumerate(zip(steps, means, strict=True))
            if math.isfinite(value)
        ]
    return points


def _key(stage: str, name: str) -> str:
    """STAGE/METRIC as MLflow takes it. A name that it does not take is told apart from others by a hash."""
    whole = f"{stage}/{name}"
    if re.fullmatch(r"[-\w. :/]+", whole) and posixpath.normpath(whole) == whole and len(whole) <= LONGEST_KEY:
        return whole
    mark = hashlib.sha256(whole.encode(errors="backslashreplace")).hexdigest()[:16]
    plain = re.sub(r"[^-\w. :]", "_", name)
    return f"{stage}/{plain}"[: LONGEST_KEY - len(mark) - 1] + f"-{mark}"


def _mean(draws: Sequence[Curve], name: str) -> tuple[np.ndarray, np.ndarray]:
    """(steps, means over draws) of one metric, at the steps at which all draws have a finite value of it."""
    if not all(name in curve for curve in draws):
        return np.empty(0), np.empty(0)
    steps, values = aligned([(np.asarray(curve[STEP], float), np.asarray(curve[name], float)) for curve in draws])
    return steps, (values / len(draws)).sum(axis=0)  # divided first: the sum of large values may overflow

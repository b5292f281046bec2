"""Stops rows early whose logged metric is worse than that of others.

A row is compared only with rows of earlier rounds, which are all there when its round begins (raysweep.search says
which cells a round has). So what is stopped depends on the space alone, and never on the order in which trials finish.
The driver makes a table of thresholds for each round, and a trial compares its own curve with the table.

median: from the step `grace` on, a row is stopped at a step if the best value that it logged so far is worse than the
    median of the values that the ok rows of earlier rounds had there.
asha: at the steps grace, grace * reduction, grace * reduction ** 2, ... (rungs) a row is stopped unless its value is at
    least as good as the best 1/reduction of all rows of earlier rounds that came so far. (The stopping variant of
    Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020, with rounds instead of arrivals.)

A value that is not a number counts as not logged. A stage that is kept in the store is never stopped, because its
artifact belongs to other sweeps too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from raysweep.workloads.declaration import DIVERGED, NOT_CONVERGED, OK, STOPPED

FEWEST = 4
"""Rows that must have come to a step before others are compared with them there."""

Table = tuple[list[float], list[float]]
"""Steps in ascending order, and the threshold at each, on a scale where lower is better."""


@dataclass
class Rule:
    """How rows are stopped: by a logged metric, and a rule (median or asha) with grace and reduction as above.
    maximize: whether more of the metric is better. tables: for each stage that logs it, the thresholds for the rows
    that are computed now."""

    metric: str
    maximize: bool
    rule: str
    grace: float
    reduction: float
    tables: dict[str, Table] = field(default_factory=dict)

    def learn(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Make the tables from the rows of all earlier rounds. Rows that failed count nowhere."""
        curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        counted = (OK,) if self.rule == "median" else (OK, NOT_CONVERGED, STOPPED, DIVERGED)
        for row in rows:
            for stage, curve in (row.get("curves") or {}).items() if row["status"] in counted else ():
                if self.metric in curve:
                    values = np.asarray(curve[self.metric], float)
                    there = ~np.isnan(values)
                    points = np.asarray(curve["step"], float)[there], self.scored(values[there])
                    curves.setdefault(stage, []).append(points)
        make = self._medians if self.rule == "median" else self._rungs
        self.tables = {stage: make(points) for stage, points in curves.items()}

    def scored(self, values: np.ndarray) -> np.ndarray:
        return -values if self.maximize else values

    def _medians(self, curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> Table:
        steps = np.unique(np.concatenate([logged for logged, _ in curves]))
        steps = steps[steps >= self.grace]
        at = np.full((len(curves), len(steps)), np.nan)
        for number, (logged, values) in enumerate(curves):
            place = np.searchsorted(logged, steps, side="right") - 1  # the last point that was logged by then
            came = (place >= 0) & (steps <= logged[-1]) if len(logged) else np.zeros(len(steps), dtype=bool)
            at[number, came] = values[place[came]]
        enough = (~np.isnan(at)).sum(axis=0) >= FEWEST
        return steps[enough].tolist(), [float(np.nanmedian(column)) for column in at[:, enough].T]

    def _rungs(self, curves: Sequence[tuple[np.ndarray, np.ndarray]]) -> Table:
        steps, thresholds, rung = [], [], float(self.grace)
        while len(come := [values[logged >= rung][0] for logged, values in curves if (logged >= rung).any()]) >= FEWEST:
            steps.append(rung)
            thresholds.append(float(np.sort(come)[max(1, int(len(come) // self.reduction)) - 1]))
            rung *= self.reduction
        return steps, thresholds


class Watch:
    """Compares the rows of one call of a stage with a table. stopped: whether each row is to stop, shape (rows,)."""

    def __init__(self, rule: Rule, stage: str, rows: int) -> None:
        self._rule = rule
        self._steps, self._thresholds = rule.tables.get(stage, ([], []))
        self._best = np.full(rows, np.nan)
        self._passed = 0  # how many rungs are behind
        self.stopped = np.zeros(rows, dtype=bool)

    def add(self, step: float, metrics: Mapping[str, Any]) -> None:
        if not self._steps or self._rule.metric not in metrics:
            return
        value = metrics[self._rule.metric]
        value = value.detach().cpu().double().numpy() if hasattr(value, "detach") else np.asarray(value, float)
        scores = np.broadcast_to(self._rule.scored(value), self.stopped.shape)
        by_now = int(np.searchsorted(self._steps, step, side="right"))
        if self._rule.rule == "asha":
            for threshold in self._thresholds[self._passed : by_now]:
                self.stopped = self.stopped | (scores > threshold)
            self._passed = max(self._passed, by_now)
            return
        self._best = np.fmin(self._best, scores)
        if by_now and step <= self._steps[-1]:
            self.stopped = self.stopped | (self._best > self._thresholds[by_now - 1])

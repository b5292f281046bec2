"""The rows of slices as far as their places are read from them: curves of a metric, and whether it has noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from raysweep.fits.lost_draws import LARGEST, can_be_fitted, most
from raysweep.search.completed import completed
from raysweep.search.curves import Curve
from raysweep.search.slices import Slice

Value = Callable[[int, int, str], float | None]
"""(cell, seed, metric) -> the metric of a row; None if the row is not there, infinite if it diverged or failed, NaN if
it has no value for another reason."""
DIGITS = 9  # of a metric, as decisions read it: the last digits of a row may depend on its pack


class SliceRows:
    """The metrics of the finished rows, as far as slices need them.

    seeds: those of the space.
    """

    def __init__(self, seeds: Sequence[int], members: Sequence[Slice], value: Value) -> None:
        self._seeds, self._value = seeds, value
        self._metrics: dict[int, list[str]] = {}
        for own in members:
            for cell in own.cells:
                self._metrics.setdefault(cell, []).append(own.metric)
        self._known: dict[tuple[int, str], list[float]] = {}

    def read(self, rows: Sequence[tuple[int, int]]) -> bool:
        """Read the rows (cell, draw) of a round. False if one of them is not there."""
        for cell, draw in rows:
            for metric in dict.fromkeys(self._metrics.get(cell, ())):
                known = self._value(cell, self._seeds[draw], metric)
                if known is None:
                    return False
                closed = self._value(cell, self._seeds[draw], f"{metric}_theory")
                exact = closed is not None and math.isclose(known, closed, rel_tol=1e-12, abs_tol=1e-300)
                closed = math.nan if closed is None else _rounded(known if exact else closed)
                self._known.setdefault((cell, metric), []).append(_rounded(known))
                self._known.setdefault((cell, f"{metric}_theory"), []).append(closed)
        return True

    def read_all(self, draws: int) -> np.ndarray:
        """Read the rows that are there, out of the first draws of the space. Returns for each cell of the plan up to
        the last of a slice how many draws it has; one that is missing among them is NaN."""
        counts = np.zeros(max(self._metrics, default=-1) + 1, dtype=np.int64)
        for cell, metrics in self._metrics.items():
            rows = {draw for draw in range(draws) if self._value(cell, self._seeds[draw], metrics[0]) is not None}
            counts[cell] = max(rows, default=-1) + 1
            for draw in range(int(counts[cell])):
                if draw in rows:
                    self.read([(cell, draw)])
                    continue
                for metric in dict.fromkeys(metrics):
                    for name in (metric, f"{metric}_theory"):
                        self._known.setdefault((cell, name), []).append(math.nan)
        return counts

    def curve(self, own: Slice, counts: np.ndarray, metric: str) -> Curve:
        """The curve of a metric along a slice, from the rows that were read.

        counts: how many draws each cell has, (cells,).
        """
        of_points = counts[np.asarray(own.cells, dtype=np.int64)]
        values = np.full((int(of_points.max(initial=0)), len(of_points)), np.nan)
        for point, cell in enumerate(own.cells):
            known = np.asarray(self._known.get((cell, metric), [])[: of_points[point]])
            good, lost = can_be_fitted(known), np.abs(known) > LARGEST
            values[: of_points[point], point] = np.where(good & (not most(lost)), known, np.nan)
        return Curve(own.x, of_points, values)

    def curves(self, members: Sequence[Slice], counts: np.ndarray) -> tuple[list[Curve], list[bool]]:
        """(the curves of all slices, whether each has no noise). The draws of slices of an analysis `optimum` are
        `completed` from each other, as in the report."""
        curves = [self.curve(own, counts, own.metric) for own in members]
        exact = [
            is_exact(curve.values, self.curve(own, counts, f"{own.metric}_theory").values)
            for own, curve in zip(members, curves, strict=True)
        ]
        together: dict[str, list[int]] = {}
        for place, own in enumerate(members):
            if own.fit == "optimum" and not exact[place]:
                together.setdefault(own.analysis, []).append(place)
        for places in together.values():
            values = completed([curves[place].values for place in places])
            for place, own_values in zip(places, values, strict=True):
                curves[place] = replace(curves[place], values=own_values)
        return curves, exact


def is_exact(values: np.ndarray, theory: np.ndarray) -> bool:
    """Whether the values equal their closed form up to rounding, so that there is no noise."""
    both = np.isfinite(values) & np.isfinite(theory)
    return bool(both.any() and (values[both] == theory[both]).all())


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")

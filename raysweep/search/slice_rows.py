"""The rows of slices as far as their places are read from them: curves of a metric, and whether it has noise."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from raysweep.fits.completed import completed
from raysweep.fits.lost_draws import LARGEST, can_be_fitted, most
from raysweep.search.curves import Curve
from raysweep.search.slices import Slice, asked

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
        for slice_ in members:
            for cell in slice_.cells:
                self._metrics.setdefault(cell, []).append(slice_.metric)
        self._values: dict[tuple[int, str], list[float]] = {}
        self._digest = hashlib.sha256(repr([len(seeds), *map(asked, members)]).encode())

    @property
    def digest(self) -> str:
        """A digest of what is asked of the slices and of all rows that were read."""
        return self._digest.hexdigest()

    def read(self, rows: Sequence[tuple[int, int]]) -> bool:
        """Read the rows (cell, draw) of a round. False if one of them is not there."""
        for cell, draw in rows:
            for metric in dict.fromkeys(self._metrics.get(cell, ())):
                value = self._value(cell, self._seeds[draw], metric)
                if value is None:
                    return False
                closed = self._value(cell, self._seeds[draw], f"{metric}_theory")
                exact = closed is not None and math.isclose(value, closed, rel_tol=1e-12, abs_tol=1e-300)
                closed = math.nan if closed is None else _rounded(value if exact else closed)
                self._digest.update(repr((cell, draw, metric, value, closed)).encode())
                self._values.setdefault((cell, metric), []).append(_rounded(value))
                self._values.setdefault((cell, f"{metric}_theory"), []).append(closed)
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
                        self._values.setdefault((cell, name), []).append(math.nan)
        return counts

    def curve(self, slice_: Slice, counts: np.ndarray, metric: str) -> Curve:
        """The curve of a metric along a slice, from the rows that were read.

        counts: how many draws each cell has, (cells,).
        """
        draws = counts[np.asarray(slice_.cells, dtype=np.int64)]
        values = np.full((int(draws.max(initial=0)), len(draws)), np.nan)
        for point, cell in enumerate(slice_.cells):
            observed = np.asarray(self._values.get((cell, metric), [])[: draws[point]])
            good, lost = can_be_fitted(observed), np.abs(observed) > LARGEST
            values[: draws[point], point] = np.where(good & (not most(lost)), observed, np.nan)
        return Curve(slice_.x, draws, values)

    def curves(self, members: Sequence[Slice], counts: np.ndarray) -> tuple[list[Curve], list[bool]]:
        """(the curves of all slices, whether each has no noise). The draws of slices of an analysis `optimum` are
        `completed` from each other, as in the report."""
        curves = [self.curve(slice_, counts, slice_.metric) for slice_ in members]
        exact = [
            is_exact(curve.values, self.curve(slice_, counts, f"{slice_.metric}_theory").values)
            for slice_, curve in zip(members, curves, strict=True)
        ]
        together: dict[str, list[int]] = {}
        for place, slice_ in enumerate(members):
            if slice_.fit == "optimum" and not exact[place]:
                together.setdefault(slice_.analysis, []).append(place)
        for places in together.values():
            values = completed([curves[place].values for place in places])
            for place, filled in zip(places, values, strict=True):
                curves[place] = replace(curves[place], values=filled)
        return curves, exact


def is_exact(values: np.ndarray, theory: np.ndarray) -> bool:
    """Whether the values equal their closed form up to rounding, so that there is no noise."""
    both = np.isfinite(values) & np.isfinite(theory)
    return bool(both.any() and (values[both] == theory[both]).all())


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")

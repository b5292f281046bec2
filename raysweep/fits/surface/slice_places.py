"""Where each slice is best, from one surface over all slices with its noise pooled: as a fit, and for laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from raysweep.fits.draws import check_options, in_log
from raysweep.fits.optimum import COLUMNS
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import Fit, Status, fitted
from raysweep.fits.statistics import LEVEL
from raysweep.fits.surface.best import FEWEST, Best, Pair, best, jointly, squared_distance, widened
from raysweep.fits.surface.law import Place
from raysweep.fits.surface.posterior import FEW, Cells, fit_surface
from raysweep.fits.surface.slices import Slices, slices_of
from raysweep.lazy import pd

CELLS = 15  # cells from which on their roughness says how large the noise is
METHOD = "posterior of the whole surface, noise pooled over its slices"
MIRRORED = 1.5  # gaps of the grid from an open end up to which draws are mirrored at it
Places = tuple[Best, ...] | None  # of each axis of a slice; None where the slice says nothing


@dataclass(frozen=True, eq=False)
class SlicePlaces:
    """Per slice what is best along the first axis, and of two axes jointly."""

    slices: Slices
    places: list[Place | None]  # None where the slice says nothing
    bests: list[Best | None]  # bests, pairs: None where it was not sought
    pairs: list[Pair | None]

    def parts(self, counts: Sequence[int]) -> list[SlicePlaces]:
        """So many neighbouring slices each, which differ only in the last key."""
        return [self._part(slice(first, last)) for first, last in pairwise(np.cumsum([0, *counts]).tolist())]

    def _part(self, which: slice) -> SlicePlaces:
        whole, number = self.slices, np.arange(len(self.places))[which]
        some = np.isin(whole.cells.slices, number)
        cells = {name: values[some] for name, values in vars(whole.cells).items()}
        slices = replace(
            whole,
            settings=[setting[-1:] for setting in whole.settings[which]],
            cells=Cells(**cells | {"slices": cells["slices"] - number[0]}),
            values=whole.values[which],
            limit=whole.limit[which],
        )
        return SlicePlaces(slices, self.places[which], self.bests[which], self.pairs[which])


def slice_places(
    frame: pd.DataFrame,
    axes: Sequence[str],
    y: str,
    by: Sequence[str],
    *,
    turn: str,
    error: str | None = None,
    level: float = LEVEL,
    logarithmic: Sequence[bool] = (True, True),
) -> SlicePlaces:
    """The places along the first of the axes, alone or jointly with the second.

    by: the columns of the slices. turn: min or max. error: the column of given standard errors.
    logarithmic: which axes are; places of a law must be.
    """
    read = partial(slices_of, axes=axes, y=y, by=by, turn=turn, logarithmic=logarithmic[: len(axes)], error=error)
    slices = read(frame)
    with threadpool_limits(1):  # the matrices are small: more threads only wait for each other
        places, pairs = _best_places(slices, level)
        halves = [(half.settings, _best_places(half, level)[0]) for half in map(read, _halves(frame, slices))]
    if halves:
        one, other = (dict(zip(*half, strict=True)) for half in halves)
        times = _disagreement(one, other, len(axes))
        places = [both and tuple(map(widened, both, times)) for both in places]
        pairs = [pair and replace(pair, axes=tuple(map(widened, pair.axes, times))) for pair in pairs]
    bests = [one[0] if one else None for one in places]
    return SlicePlaces(slices, [_place(one) for one in bests], bests, pairs)


def _best_places(slices: Slices, level: float) -> tuple[list[Places], list[Pair | None]]:
    """(the best values of the axes in each slice, what is jointly best where there are two axes)."""
    places: list[Places] = [None] * len(slices.settings)
    pairs: list[Pair | None] = [None] * len(places)
    try:
        surface = fit_surface(slices.cells)
    except ValueError:  # all cells are equal
        return places, pairs
    for s, values in enumerate(slices.values):
        if not values.all():
            continue
        low, high = slices.range_of(s)
        if len(values) == 1:
            first, last, wall = float(low[0]), float(high[0]), slices.wall(s)
            places[s] = (best(surface, s, level, low=first, high=last, wall=wall, values=int(values[0])),)
        else:
            pairs[s] = pair = jointly(surface, s, level, low, high, values)
            places[s] = pair.axes
    return places, pairs


def _halves(frame: pd.DataFrame, slices: Slices) -> list[pd.DataFrame]:
    """The rows of either half of the draws, if there are several and each is used in most cells; else none."""
    sizes = frame.groupby("seed").size() if "seed" in frame else pd.Series([0])
    if len(sizes) < 2 or sizes.min() <= len(slices.cells.y) / 2:
        return []
    return [frame[frame["seed"].isin(sizes.index[first::2])] for first in (0, 1)]


def _disagreement(one: dict[Any, Places], other: dict[Any, Places], axes: int) -> list[float]:
    """How many times as far apart as their errors the places of two halves of the draws are, at least 1, per axis.

    A draw may move all of its cells alike. Neighbouring cells do not show such an error, only other draws do.
    """
    pairs = [(a, b) for key in one if (a := one[key]) and (b := other.get(key))]
    squares = np.array([[squared_distance(a[k], b[k]) for k in range(axes)] for a, b in pairs]).reshape(-1, axes)
    return [max(1.0, float(np.mean(some))) ** 0.5 if (some := k[~np.isnan(k)]).size else 1.0 for k in squares.T]


def _place(one: Best | None) -> Place | None:
    """What a law takes of a slice.

    Draws near an end of the grid lie too far inside, in all slices that are open there on the same side. So half of
    these stand beyond the end, as far as they are from it."""
    if one is None or one.status == Status.UNDETERMINED:
        return None
    below, above = (one.edge == -1), (one.edge == 1)
    inside = one.draws[~below & ~above]
    low, high = float(one.points[0]), float(one.points[-1])
    if one.status in (Status.CENSORED_LOW, Status.CENSORED_HIGH):
        end = low if one.status == Status.CENSORED_LOW else high
        near = np.abs(inside - end) < MIRRORED * one.gap
        inside = np.concatenate([np.where(near, 2 * end - inside, inside), inside])
    return Place(inside, low, high, float(below.mean()), float(above.mean()), one.shared)


def has_few_draws(frame: pd.DataFrame, x: str, y: str, by: Sequence[str]) -> bool:
    """Whether half of the cells have at most `FEW` draws with a value, and there are enough cells to pool them."""
    values = frame[np.isfinite(frame[y].to_numpy(float)) & (frame[x].notna()).to_numpy()]
    draws = values.groupby([x, *by], dropna=False).size()
    return len(draws) >= CELLS and bool(draws.median() <= FEW)


def fit_few_draws(
    frame: pd.DataFrame,
    x: str,
    y: str,
    by: Sequence[str],
    level: float = LEVEL,
    *,
    turn: str = "min",
    logarithmic: bool | None = None,
    error: str | None = None,
) -> Fit:
    """Estimate where a metric is best along x in every slice, from one or two runs per cell.

    frame, x, y, level, turn, logarithmic: as in `fit_optimum`. by: the columns of the slices, which share
        hyperparameters and noise. A value of 0 on a logarithmic axis is left out. error: the column of the given
        standard error of each run, which takes the place of the noise.

    The table has two more columns: choice, the value of x of least expected regret, and regret, how much worse than the
    best the metric is expected to be there.

    Status of a slice: as in `fit_optimum`, and undetermined with fewer than five values of x.
    """
    check_options(level, turn)
    logarithmic = in_log(frame[x].to_numpy(np.float64)) if logarithmic is None else logarithmic
    places = slice_places(frame, [x], y, by, turn=turn, error=error, level=level, logarithmic=[logarithmic])
    return fit_of(places, by, turn, level)


def fit_of(places: SlicePlaces, by: Sequence[str], turn: str, level: float) -> Fit:
    """The best values along the only axis of a surface as `fit_few_draws` returns them. by: the keys of its slices."""
    slices, lines = places.slices, []
    draws = np.zeros(len(slices.settings), dtype=int)
    np.maximum.at(draws, slices.cells.slices, np.where(slices.cells.diverged, 0, slices.cells.draws).astype(int))
    for s, setting in enumerate(slices.settings):
        about = {"diverged_from": slices.limit[s], "points": slices.values[s, 0], "draws": draws[s], "turn": turn}
        lines.append({**dict(zip(by, setting, strict=True)), **_line(places.bests[s], slices, s), **about})
    table = pd.DataFrame(lines).reindex(columns=[*by, *COLUMNS, "choice", "regret"])
    about = {"points": len(np.unique(slices.cells.x)), "rows": slices.rows, "dropped": slices.dropped}
    return fitted("optimum", table, level=level, method=METHOD, **about)


def _line(one: Best | None, slices: Slices, s: int) -> dict[str, Any]:
    """The fit of a slice as a row of the table."""
    out: dict[str, Any] = dict.fromkeys(("estimate", "low", "high", "choice", "regret", "method_spread"), np.nan)
    out |= {"exact": False, "halved": False, "method": METHOD, "low_simultaneous": np.nan, "high_simultaneous": np.nan}
    values = int(slices.values[s, 0])
    if one is None or values < FEWEST:
        reason = Reason.TOO_FEW_POINTS if values < FEWEST else Reason.FLAT
        return out | {"status": Status.UNDETERMINED} | because(reason, points=values, least=FEWEST)
    coordinates = {"low": one.low, "high": one.high, "estimate": one.estimate, "choice": one.choice}
    out |= {name: slices.back(0, end) if np.isfinite(end) else end for name, end in coordinates.items()}
    if slices.logarithmic[0] and one.low == -np.inf:
        out["low"] = 0.0
    if one.high == slices.wall(s):
        out["high"] = slices.limit[s]
    return out | {"regret": one.regret, "status": one.status} | because(one.reason)

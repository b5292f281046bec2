"""Best values from one or two runs per cell: a fit of all slices at once, with the noise pooled over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raysweep.fits.draws import check_options, in_log
from raysweep.fits.optimum import COLUMNS
from raysweep.fits.reasons import Reason, because
from raysweep.fits.result import Fit, Status, fitted
from raysweep.fits.statistics import LEVEL
from raysweep.fits.surface.best import FEWEST, Best
from raysweep.fits.surface.posterior import FEW
from raysweep.fits.surface.slice_places import SlicePlaces, slice_places
from raysweep.fits.surface.slices import Slices
from raysweep.lazy import pd

CELLS = 15  # cells from which on their roughness says how large the noise is
METHOD = "posterior of the whole surface, noise pooled over its slices"


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
    return fitted(
        "optimum",
        table,
        level=level,
        points=len(np.unique(slices.cells.x)),
        draws=int(table["draws"].max()),
        rows=slices.rows,
        dropped=slices.dropped,
        method=METHOD,
    )


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

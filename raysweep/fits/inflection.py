"""Where a noisy curve turns: the inflection point, at which more of x stops helping."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.draws import draw_curves, even_in_log, repeated, usable
from raysweep.fits.extremum import find_extremum
from raysweep.fits.result import Fit, Status
from raysweep.fits.sample_size import more_columns
from raysweep.fits.statistics import t_quantile

if TYPE_CHECKING:
    import pandas as pd


def fit_inflection(
    frame: pd.DataFrame,
    x: str,
    y: str,
    seed: str,
    level: float = 0.95,
    *,
    turn: str = "min",
    exact: bool = False,
    logarithmic: bool | None = None,
) -> Fit:
    """Where the mean over draws of `y` over `x` turns: its minimum, or with turn="max" its maximum.

    frame: one row per (x, draw), other columns are ignored; with a `status` column only rows that are ok enter. `x`
    may hold .inf (converged): such rows stay outside the fit, but if they are clearly better than every finite x the
    answer is censored_high. Interpolation is by Akima and by cubic spline, the latter on a bent axis too (places.py);
    the interval holds for each. logarithmic: whether in log x; if None, where x is positive and spread more evenly
    there. exact: the values carry no noise (closed forms), one draw is enough.

    located: the curve clearly falls before and rises after the place. censored_low / censored_high: the turn lies at
    or beyond that edge, or cannot be told from it (low or high then says what is known). monotone: it falls or rises
    over all and does not flatten (its note says "throughout" where every step was shown to go that way). undetermined:
    fewer than 5 points, fewer than 2 draws, or neither a fall nor a rise that is clear.
    Raises ValueError for an unknown column, level or turn.
    """
    import pandas as pd

    if not 0 < level < 1:
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    if turn not in ("min", "max"):
        raise ValueError(f"turn: expected min or max, got {turn!r}")
    rows, dropped = usable(frame, y, [x, seed])
    notes = []
    twice = repeated(rows, [x, seed])
    if twice:
        notes.append(f"{twice} rows repeat a draw at the same x; each such draw enters with its mean")
    curves = draw_curves(rows, x, y, seed)
    values = curves.values if turn == "min" else -curves.values
    finite = np.isfinite(curves.x)
    if (curves.x == 0).any() and even_in_log(curves.x[finite & (curves.x != 0)], logarithmic):
        finite &= curves.x != 0
        notes.append("x = 0 has no logarithm and stays outside the fit")
    inside = values[:, finite]
    found = find_extremum(curves.x[finite], inside, level, exact, advise=True, logarithmic=logarithmic)
    outside = curves.x == np.inf
    if outside.any():
        notes.append("x = inf (converged) is compared with the finite points, but lies outside the fit")
        if better_at_infinity(inside, values[:, outside][:, 0], level, exact):
            last = float(curves.x[finite].max()) if finite.any() else -np.inf
            found = replace(
                found,
                status=Status.CENSORED_HIGH,
                estimate=np.nan,
                low=last,
                high=np.inf,
                note="best at x = inf, clearly better than at any finite x",
                more=None,
            )
    if found.note:
        notes.append(found.note)
    table = pd.DataFrame(
        [
            {
                "estimate": found.estimate,
                "low": found.low,
                "high": found.high,
                "status": found.status,
                "method_spread": found.method_spread,
                "points": int(finite.sum()),
                "draws": len(curves.values),
                "turn": turn,
                "method": found.method,
                "note": found.note,
                **more_columns(found.more),
            }
        ]
    )
    return Fit(
        kind="inflection",
        level=level,
        rows=len(rows),
        dropped=dropped,
        scale="linear",
        method=found.method,
        table=table,
        crossings=pd.DataFrame(),
        notes=tuple(notes),
        status=found.status,
        estimate=found.estimate,
        low=found.low,
        high=found.high,
        method_spread=found.method_spread,
        points=int(finite.sum()),
        draws=len(curves.values),
    )


def better_at_infinity(inside: np.ndarray, at_infinity: np.ndarray, level: float, exact: bool) -> bool:
    """Whether the value at x = inf is clearly below that at every finite x, draw against draw."""
    if not inside.size:
        return False
    for point in range(inside.shape[1]):
        difference: Any = inside[:, point] - at_infinity
        difference = difference[np.isfinite(difference)]
        if len(difference) < (1 if exact else 2):
            return False
        error = 0.0 if exact else difference.std(ddof=1) / np.sqrt(len(difference))
        quantile = 0.0 if exact else t_quantile(2 * level - 1, len(difference) - 1)
        if not difference.mean() > quantile * error:
            return False
    return True

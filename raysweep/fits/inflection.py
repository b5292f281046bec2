"""Where a noisy curve turns: the inflection point, at which more of x stops helping."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from raysweep.fits.draws import Axis, check_options, draw_curves, even_in_log, repeated, usable
from raysweep.fits.extremum import find_extremum
from raysweep.fits.result import Fit, Status, overall
from raysweep.fits.sample_size import NO_ADVICE
from raysweep.fits.statistics import clearly_positive

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("estimate", "low", "high", "status", "method_spread", "points", "draws", "turn", "method", "note"),
    *("draws_to_halve", "points_to_halve", "points_from", "points_to", "halved"),
)


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
    """Where the mean over draws of `y` over `x` turns: the word of the papers for its minimum (or maximum).

    frame: one row per (x, draw), other columns are ignored; with a `status` column only rows that are ok enter.
    x, y, seed: its columns. x may hold .inf (converged): such rows stay outside the fit, but if they are clearly better
        than every finite x the answer is censored_high.
    level: of the interval.
    turn: min or max.
    exact: the values carry no noise (closed forms), one draw is enough.
    logarithmic: whether x is read in log; if None, where x is positive and spread more evenly there.

    located: the curve clearly falls before and rises after the place. censored_low / censored_high: the place lies at
    or beyond that edge, or cannot be told from it (low or high then says what is known). monotone: it falls or rises
    over all and does not flatten (its note says "throughout" where every step was shown to go that way). undetermined:
    fewer than 5 points, fewer than 2 draws, or neither a fall nor a rise that is clear.

    The interval holds for Akima and for cubic splines, for the noise between draws and for what the grid leaves open
    (`extremum_interval`). How often it holds the truth is measured in COVERAGE.md.

    Raises ValueError for an unknown column, level or turn.
    """
    import pandas as pd

    check_options(level, turn)
    rows, dropped = usable(frame, y, [x, seed])
    notes = repeated(rows, [x, seed], "x")
    curves = draw_curves(rows, x, y, seed, turn)
    finite = np.isfinite(curves.x)
    if (curves.x == 0).any() and even_in_log(curves.x[finite & (curves.x != 0)], logarithmic):
        finite &= curves.x != 0
        notes.append("x = 0 has no logarithm and stays outside the fit")
    places, inside = curves.x[finite], curves.values[:, finite]
    found = find_extremum(places, inside, level, exact, advise=True, axis=Axis(even_in_log(places, logarithmic)))
    outside = curves.x == np.inf
    if outside.any():
        notes.append("x = inf (converged) is compared with the finite points, but lies outside the fit")
        if inside.size and clearly_positive(inside - curves.values[:, outside], level, exact).all():
            found = replace(
                found,
                status=Status.CENSORED_HIGH,
                estimate=np.nan,
                low=float(places.max()),
                high=np.inf,
                note="best at x = inf, clearly better than at any finite x",
                advice=NO_ADVICE,
            )
    if found.note:
        notes.append(found.note)
    line = {**vars(found), **vars(found.advice), "points": len(places), "draws": len(curves.values), "turn": turn}
    table = pd.DataFrame([line], columns=COLUMNS)
    return Fit(
        kind="inflection",
        level=level,
        points=len(places),
        draws=len(curves.values),
        rows=len(rows),
        dropped=dropped,
        scale="linear",
        method=found.method,
        table=table,
        crossings=pd.DataFrame(),
        notes=tuple(notes),
        **overall(table),
    )

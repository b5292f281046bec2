"""The inflection point of a noisy curve: its extremum, from which on more of x no longer helps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from raysweep.fits.axis_scale import on_scale
from raysweep.fits.draws import Axis, DrawCurves, check_options, draw_curves, even_in_log, repeated, usable
from raysweep.fits.extremum import Extremum, find_extremum
from raysweep.fits.reasons import Reason, because, message
from raysweep.fits.result import Fit, Status, fitted
from raysweep.fits.sample_size import NO_ADVICE
from raysweep.fits.statistics import LEVEL, clearly_positive
from raysweep.lazy import pd

COLUMNS = (
    *("estimate", "low", "high", "status", "method_spread"),
    *("points", "draws", "turn", "method", "exact", "reason", "note"),
    *("draws_to_halve", "points_to_halve", "points_from", "points_to", "halved"),
)


def fit_inflection(
    frame: pd.DataFrame,
    x: str,
    y: str,
    seed: str,
    level: float = LEVEL,
    *,
    turn: str = "min",
    exact: bool = False,
    logarithmic: bool | None = None,
    advise: bool = True,
) -> Fit:
    """Estimate the x at which the mean over draws of `y` has its minimum (or maximum), with a confidence interval.

    The papers call this place the inflection point. The interval covers the noise between draws and the uncertainty
    between grid points: it is that of the lowest place under a posterior of the mean curve (see `fits/posterior`).
    Values without noise are interpolated by Akima and cubic splines. COVERAGE.md says how often the interval contains
    the true place (measured).

    frame: one row per (x, draw). Other columns are ignored. With a `status` column only rows with status ok are used.
    x: the column of x. Rows with x = inf (converged) are not fitted. If they are clearly better than every finite x,
        the status is censored_high.
    y: the column of the metric.
    seed: the column of the draw.
    level, turn, exact, advise: as in `fit_optimum`.
    logarithmic: whether x is interpolated in log x; None chooses log x if x is positive, apart from a 0, and more
        evenly spread in log. x = 0 is then compared with the best of the others (see `beside_zero`).

    The status is as of a slice of `fit_optimum`. The reason of a monotone curve says (`IMPROVES_THROUGHOUT`) whether
    every step was shown to go the same way.

    Raises ValueError for an unknown column, level or turn.
    """
    check_options(level, turn)
    rows, dropped = usable(frame, y, [x, seed])
    notes = repeated(rows, [x, seed], "x")
    curves = draw_curves(rows, x, y, seed, turn)
    finite = np.isfinite(curves.x)
    places, inside = curves.x[finite], curves.values[:, finite]
    whole, log = DrawCurves(places, inside, curves.seeds), even_in_log(places, logarithmic)

    def find(part: DrawCurves, log: bool) -> Extremum:
        return find_extremum(part.x, part.values, level, exact, advise, axis=Axis(log))

    extremum = on_scale(find, whole, level, exact, log)
    if log and (places == 0).any():
        notes.append(message(Reason.ZERO_APART))
    outside = curves.x == np.inf
    if outside.any():
        notes.append(message(Reason.INFINITY_APART))
        if inside.size and clearly_positive(inside - curves.values[:, outside], level, exact).all():
            extremum = replace(
                extremum,
                status=Status.CENSORED_HIGH,
                estimate=np.nan,
                low=float(places.max()),
                high=np.inf,
                advice=NO_ADVICE,
                **because(Reason.BEST_AT_INFINITY),
            )
    if extremum.note:
        notes.append(extremum.note)
    line = {**vars(extremum), **vars(extremum.advice), "points": len(places), "draws": len(curves.values), "turn": turn}
    table = pd.DataFrame([line], columns=COLUMNS)
    about = {"rows": len(rows), "dropped": dropped, "method": extremum.method, "notes": tuple(notes)}
    return fitted("inflection", table, level=level, **about)

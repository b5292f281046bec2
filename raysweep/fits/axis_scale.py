"""What the scale of x leaves open about a minimum: x = 0 beside a logarithmic axis, decades on a linear one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from raysweep.fits.draws import DrawCurves, log_axis, not_zero
from raysweep.fits.extremum import Extremum
from raysweep.fits.reasons import Reason, and_because, because
from raysweep.fits.result import Status
from raysweep.fits.sample_size import NO_ADVICE
from raysweep.fits.statistics import clearly_positive, two_way_anova


def on_scale(
    find: Callable[[DrawCurves, bool], Extremum], curves: DrawCurves, level: float, exact: bool, logarithmic: bool
) -> Extremum:
    """The minimum of curves along x, which is read in log or not. In log, x = 0 is compared with it (`beside_zero`).

    Where x is read linearly although its values are spread evenly over decades, most of the axis is empty, and where
    the minimum lies in it depends on the scale. Then the interval covers what either scale says. If these say different
    things, nothing is decided.

    find: finds the minimum of curves, in the units of x; its last argument says whether x is read in log.
    """

    def on(log: bool) -> Extremum:
        part = curves.without_zero() if log else curves
        answer = find(part, log)
        return beside_zero(answer, curves, level, exact) if len(part.x) < len(curves.x) else answer

    answer = on(logarithmic)
    if logarithmic or not log_axis(not_zero(curves.x)):
        return answer
    other = on(True)
    if other.status != answer.status:
        return Extremum(method=answer.method, exact=answer.exact, **because(Reason.SCALE_DECIDES))
    low, high = min(answer.low, other.low), max(answer.high, other.high)
    return replace(answer, low=low, high=high, **and_because(answer, Reason.EITHER_SCALE))


def beside_zero(answer: Extremum, curves: DrawCurves, level: float, exact: bool) -> Extremum:
    """The minimum of curves with a value at x = 0, of the minimum `answer` among the other x (in the units of x).

    The value at 0 is compared draw by draw (Student's t) with the lowest mean of the others. Where it is clearly
    higher, the answer stands. Where it is clearly lower than at every other x, the best place is 0 (monotone). Where
    neither is clear, any x from 0 to the upper end of the answer may be the best (censored_low).
    """
    if answer.status == Status.UNDETERMINED:
        return answer
    zero = curves.x == 0
    higher = curves.values[:, zero] - curves.values[:, ~zero]
    lowest = int(np.argmin(two_way_anova(curves.without_zero().values).curve))
    if clearly_positive(higher[:, [lowest]], level, exact)[0]:
        return answer
    nothing = replace(answer, estimate=np.nan, low=-np.inf, method_spread=np.nan, advice=NO_ADVICE)
    if clearly_positive(-higher, level, exact).all():
        first = float(curves.x[~zero][0])
        best = because(Reason.BEST_AT_ZERO)
        return replace(nothing, status=Status.MONOTONE, high=first, falls=False, climbs=True, **best)
    nothing = replace(nothing, **because(Reason.ZERO_ALIKE))
    if answer.high == np.inf:
        return replace(nothing, status=Status.UNDETERMINED, low=np.nan, high=np.nan)
    return replace(nothing, status=Status.CENSORED_LOW)

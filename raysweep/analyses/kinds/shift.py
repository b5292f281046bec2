"""By what factor the best value of an axis differs between a setting and the first one, all else equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from raysweep.analyses.analysis import Analysis
from raysweep.analyses.finding import Finding, Needed, Outcome, Plot, as_table
from raysweep.analyses.nothing import Nothing, nothing
from raysweep.analyses.question import Question
from raysweep.analyses.rows import better_extremum, groups
from raysweep.analyses.series import Where
from raysweep.fits.shift import Shift, fit_shift
from raysweep.space import analysis_options as allowed


@dataclass(frozen=True, eq=False)
class ShiftPlot(Plot):
    """The factors of the settings and their intervals, (settings,) each.

    x, over: the axis of the best value, and the axis over which it is averaged.
    base: the setting with which the others are compared. wheres: in what each of them differs from it.
    """

    x: str
    over: str
    metric: str
    base: Where
    wheres: Sequence[Where]
    factor: np.ndarray
    low: np.ndarray
    high: np.ndarray


def run(question: Question) -> Finding:
    """The factor of each setting against the first one of the design."""
    import pandas as pd

    x, metric, over = question.x, question.metric, str(question.options["over"])
    keys = [key for key in question.keys(x, over) if key != over]
    parts = list(groups(question.rows, keys))
    if len(parts) < 2:
        return nothing(question, "shift", Nothing.ONE_SETTING, metric=metric, x=x)
    order = [next(iter(question.design.values(key)), None) for key in keys]
    first = next((k for k, (values, _) in enumerate(parts) if list(values) == order), 0)
    base, base_rows = parts.pop(first)
    turn, level = better_extremum(metric, question.workload), question.level
    shifts = [fit_shift(base_rows, rows, x, metric, over, "seed", level, turn=turn) for _, rows in parts]
    settings = [dict(zip(keys, values, strict=True)) for values, _ in parts]
    whole = pd.DataFrame([{**where, **vars(one)} for where, one in zip(settings, shifts, strict=True)])
    beside = dict(zip(keys, base, strict=True))

    def plots() -> Sequence[Plot]:
        known = np.isfinite(whole["factor"].to_numpy(float))
        if not known.any():
            return []
        wheres = [{key: where[key] for key in keys if where[key] != beside[key]} for where in settings]
        ends = (whole.loc[known, name].to_numpy(float) for name in ("factor", "low", "high"))
        shown = [where for where, there in zip(wheres, known, strict=True) if there]
        return [ShiftPlot(question.name, x, over, metric, beside, shown, *ends)]

    rows = [{**where, **setting_row(one)} for where, one in zip(settings, shifts, strict=True)]
    return Finding(
        "shift",
        question.name,
        as_table(rows, keys),
        metric,
        x,
        keys,
        level=level,
        facts={"base": beside, "over": over},
        tables={f"{question.name}_factors": whole},
        plots=cache(plots),
    )


def setting_row(one: Shift) -> dict[str, Any]:
    """One setting: HIGHER or LOWER if the interval of its factor leaves out 1, UNDECIDED if there is none."""
    outcome = Outcome.HIGHER if one.low > 1 else Outcome.LOWER if one.high < 1 else Outcome.UNCLEAR
    outcome = outcome if np.isfinite(one.low) else Outcome.UNDECIDED
    is_open = outcome in (Outcome.UNCLEAR, Outcome.UNDECIDED) and bool(np.isfinite(one.factor))
    return {
        "outcome": outcome,
        "estimate": one.factor,
        "low": one.low,
        "high": one.high,
        "needed": Needed.MORE_DRAWS if is_open else "",
        "needed_number": one.draws if is_open else np.nan,
        "slices": one.slices,
        "left_out": one.left_out,
        "draws": one.draws,
    }


ANALYSIS = Analysis(
    kind="shift",
    question="By what factor does the best {x} for {metric} differ between settings?",
    run=run,
    required={**allowed.METRIC_X, "over": allowed.number_axis},
    optional=allowed.BY_LEVEL,
    columns=("draws", "factor", "high", "left_out", "low", "setting", "shown", "slices", "values_averaged"),
    along="x",
    above=0.0,
)

"""By what factor the best value of an axis differs between a setting and the first one, all else equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed, Nothing, Outcome, Plot
from raysweep.analyses.outcomes import side, takes
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import groups
from raysweep.fits.shift import Shift, fit_shift
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed


class ShiftPlot(Plot):
    """The factors of the settings that have one, as the table of the finding has them."""


def run(question: Question) -> Finding:
    """The factor of each setting against the first one of the design."""
    x, metric, over = question.x, question.metric, str(question.options["over"])
    keys = question.keys_besides(x, over)
    parts = list(groups(question.rows, keys))
    if len(parts) < 2:
        return question.nothing("shift", Nothing.ONE_SETTING, metric=metric, x=x)
    order = [next(iter(question.design.values(key)), None) for key in keys]
    first = next((k for k, (where, _) in enumerate(parts) if list(where.values()) == order), 0)
    base, base_rows = parts.pop(first)
    turn, level = question.turn, question.level
    shifts = [(where, fit_shift(base_rows, rows, x, metric, over, "seed", level, turn=turn)) for where, rows in parts]
    whole = pd.DataFrame([{**where, **vars(one)} for where, one in shifts])
    return question.finding(
        "shift",
        [{**where, **setting_row(one)} for where, one in shifts],
        keys,
        facts={"base": base, "over": over},
        tables={f"{question.name}_factors": whole},
        plots=lambda: [ShiftPlot(question.name)] if np.isfinite(whole["factor"].to_numpy(float)).any() else [],
    )


def setting_row(one: Shift) -> dict[str, Any]:
    """One setting: HIGHER or LOWER if the interval of its factor leaves out 1, UNDECIDED if there is none."""
    outcome = side(one.low, one.high, Outcome.HIGHER, Outcome.LOWER, at=1)
    is_open = outcome in (Outcome.UNCLEAR, Outcome.UNDECIDED) and bool(np.isfinite(one.factor))
    row = {"outcome": outcome, "estimate": one.factor, "low": one.low, "high": one.high}
    row |= takes(Needed.MORE_DRAWS, one.draws) if is_open else {}
    return {**row, "slices": one.slices, "left_out": one.left_out, "draws": one.draws}


ANALYSIS = Analysis(
    kind="shift",
    question="By what factor does the best {x} for {metric} differ between settings?",
    run=run,
    required={**allowed.METRIC_X, "over": allowed.number_axis},
    optional=allowed.BY_LEVEL,
    columns=("draws", "factor", "left_out", "slices"),
    along="x",
    above=0.0,
)

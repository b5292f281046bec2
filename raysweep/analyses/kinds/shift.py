"""By what factor the best value of an axis differs between a setting and the first one, all else equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed, Nothing, Outcome, Plot
from raysweep.analyses.outcomes import side, takes
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import groups, is_exact
from raysweep.fits.shift import Shift, fit_shift, shift_of
from raysweep.fits.surface.slice_places import has_few_draws, slice_places
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed


class ShiftPlot(Plot):
    """The factors of the settings that have one, as the table of the finding has them."""


def run(question: Question) -> Finding:
    """The factor of each setting against the first one of the design; with few draws per cell off one surface over all
    settings."""
    x, metric, over, every = question.x, question.metric, str(question.options["over"]), question.rows
    keys, turn, level = question.keys_besides(x, over), question.turn, question.level
    parts = list(groups(every, keys))
    if len(parts) < 2:
        return question.nothing("shift", Nothing.ONE_SETTING, metric=metric, x=x)
    order = [next(iter(question.design.values(key)), None) for key in keys]
    first = next((k for k, (where, _) in enumerate(parts) if list(where.values()) == order), 0)
    settings, by, facts = [where for where, _ in parts], [*keys, over], {}
    if not is_exact(every, metric) and has_few_draws(every, x, metric, by):
        surface = slice_places(every, [x], metric, by, turn=turn, error=question.error_in(every), level=level)
        places = surface.parts([rows[over].nunique(dropna=False) for _, rows in parts])
        fits, facts = [shift_of(places[first], one, level) for one in places], {"method": "one_surface"}
    else:
        base_rows = parts[first][1]
        fits = [fit_shift(base_rows, rows, x, metric, over, "seed", level, turn=turn) for _, rows in parts]
    base = settings.pop(first)
    fits.pop(first)
    shifts = list(zip(settings, fits, strict=True))
    whole = pd.DataFrame([{**where, **vars(one)} for where, one in shifts])
    return question.finding(
        "shift",
        [{**where, **setting_row(one)} for where, one in shifts],
        keys,
        facts={"base": base, "over": over} | facts,
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

"""The value of an axis at which a metric is best, such as the best rate."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from raysweep.analyses.closed_form import add_theory, closed_form, extrema
from raysweep.analyses.finding import Finding
from raysweep.analyses.outcomes import with_outcomes
from raysweep.analyses.places import EVERYWHERE, FITTED, HALVED, curves_and_places, places_finding
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import edges_of, groups, is_exact, is_logarithmic, with_choice, zero_may_be_best
from raysweep.fits.completed import completed_rows
from raysweep.fits.optimum import fit_optimum
from raysweep.fits.processes import mapped
from raysweep.fits.surface.slice_places import fit_few_draws, has_few_draws
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.workloads.declaration import Workload


def run(question: Question) -> Finding:
    """The best x for a metric, one per setting in which x has more than one value."""
    x, metric, level, workload = question.x, question.metric, question.level, question.workload
    turn = question.turn
    keys = question.keys(x)
    frame = with_choice(question.rows, x, keys)
    log, exact, at = is_logarithmic(frame, x, workload), is_exact(frame, metric), question.read_at("optimum")
    errors, beside_zero = question.error_in(frame), log and zero_may_be_best(frame, x, metric, keys, turn)
    # A surface in log has no place for 0, which the other fit compares with the best of the rest.
    if not exact and not beside_zero and (errors or has_few_draws(frame, x, metric, keys)):
        fit = fit_few_draws(frame, x, metric, keys, at, turn=turn, logarithmic=log, error=errors)
    else:
        joint = not exact and question.precision("optimum") is not None
        rows = completed_rows(frame, x, metric, keys) if joint else frame
        fit = fit_optimum(rows, x, metric, keys or None, "seed", at, turn=turn, exact=exact, logarithmic=log)
        if joint:  # how many were computed, not completed
            draws = frame.groupby(keys, dropna=False)["seed"].nunique().to_numpy() if keys else frame["seed"].nunique()
            count = len(frame) - sum(fit.dropped.values())
            fit = replace(fit, rows=count, table=fit.table.assign(draws=draws))
    parts = list(groups(frame, keys))
    blind = knows_no_rate(parts[0][1], x, metric, workload)
    theory = partial(extrema, x=x, metric=metric, workload=workload, turn=turn)
    expected = [np.empty(0)] * len(parts) if blind else mapped(theory, [rows for _, rows in parts])
    whole = with_outcomes(add_theory(fit.table, expected, level), edges_of(frame, x))
    return places_finding(
        question,
        "optimum",
        whole,
        keys,
        {"turn": turn},
        fits=[fit],
        # level lines would say nothing of the rate
        plots=partial(curves_and_places, question, parts, whole, keys, "optimum", theory=not blind),
        tables={f"{question.name}_optima": whole},
    )


def knows_no_rate(rows: pd.DataFrame, x: str, metric: str, workload: Workload) -> bool:
    """Whether there is a closed form that does not depend on the rate."""
    curve = closed_form(rows, metric, workload, x)
    values = np.sort(rows[x].unique().astype(float))
    if curve is None or len(values) < 2:
        return False
    heights = curve(values[[0, -1]])
    return bool(heights[0] == heights[1])


ANALYSIS = Analysis(
    kind="optimum",
    question="Which {x} is best for {metric}?",
    run=run,
    required=allowed.METRIC_X,
    optional=allowed.BY_LEVEL,
    columns=(*FITTED, *HALVED, *EVERYWHERE, "diverged_from", "choice", "regret"),
    along="x",
    above=-math.inf,
    means_only=True,
)

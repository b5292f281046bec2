"""Where a metric has its extremum along an axis."""

from __future__ import annotations

from functools import partial

import numpy as np

from raysweep.analyses.closed_form import add_theory, extrema
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.outcomes import with_outcomes
from raysweep.analyses.places import FITTED, HALVED, curves_and_places, in_front, joined, places_finding
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import edges_of, groups, is_exact, is_logarithmic, zero_may_be_best
from raysweep.analyses.single_runs import has_single_runs
from raysweep.fits.optimum import fit_inflection
from raysweep.fits.processes import mapped
from raysweep.fits.result import Fit
from raysweep.fits.surface.slice_places import fit_few_draws
from raysweep.fits.turn import fit_turns
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.workloads.declaration import Workload


def run(question: Question) -> Finding:
    """The turning points of a metric over x, one per setting: with one run per point and given errors each curve by
    itself, with one run per point made elsewhere all at once."""
    x, metric, workload, turn = question.x, question.metric, question.workload, question.turn
    level, at, rows, keys = question.level, question.read_at("optimum"), question.rows, question.keys(question.x)
    parts, errors = list(groups(rows, keys)), question.error_in(rows)
    placed = "maximum" if turn == "max" else "minimum"
    facts, expected = {"turn": placed}, [np.empty(0)] * len(parts)
    if errors and rows.groupby([x, *keys], dropna=False).size().median() <= 1:
        fits = [fit_turns([rows for _, rows in parts], x, metric, errors, level, turn=turn)]
        facts["method"], table = "known_turns", fits[0].table
        settings = pd.DataFrame([where for where, _ in parts], columns=keys, index=table.index)
        whole = pd.concat([settings, table], axis=1)
    elif has_single_runs(question, [*keys, x]) and not (
        (log := is_logarithmic(rows, x, workload)) and zero_may_be_best(rows, x, metric, keys, turn)
    ):
        fits = [fit_few_draws(rows, x, metric, keys, at, turn=turn, logarithmic=log)]
        whole, expected = fits[0].table, [extrema(rows, x, metric, workload, turn) for _, rows in parts]
    else:
        fit_one = partial(one_turn, x=x, metric=metric, level=at, turn=turn, workload=workload)
        fitted = mapped(fit_one, [rows for _, rows in parts])
        fits, expected = [fit for fit, _ in fitted], [theory for _, theory in fitted]
        whole = in_front(joined((where, fit.table) for (where, _), fit in zip(parts, fits, strict=True)), keys)
    whole = with_outcomes(add_theory(whole, expected, level), edges_of(rows, x))
    return places_finding(
        question,
        "inflection",
        whole,
        keys,
        facts,
        fits=fits,
        plots=partial(curves_and_places, question, parts, whole, keys, placed),
        tables={f"{question.name}_turns": whole},
        meanings={Outcome.LOCATED: question.words["turns"]} if question.words else {},
    )


def one_turn(
    rows: pd.DataFrame, *, x: str, metric: str, level: float, turn: str, workload: Workload
) -> tuple[Fit, np.ndarray]:
    """(the fit of one curve, the place of the closed form)."""
    log, exact = workload.logarithmic(x), is_exact(rows, metric)
    fit = fit_inflection(rows, x, metric, "seed", level, turn=turn, exact=exact, logarithmic=log)
    return fit, extrema(rows, x, metric, workload, turn)


ANALYSIS = Analysis(
    kind="inflection",
    question="At which {x} does {metric} turn for the worse?",
    run=run,
    required=allowed.METRIC_X,
    optional={**allowed.BY_LEVEL, "words": allowed.words("turns")},
    columns=(*FITTED, *HALVED, "base", "fall", "fall_high", "fall_low", "p", "p_holm"),
    along="x",
    means_only=True,
)

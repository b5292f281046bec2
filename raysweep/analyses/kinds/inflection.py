"""Where a metric has its extremum along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from raysweep.analyses.analysis import Analysis
from raysweep.analyses.closed_form import add_theory, extrema
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.places import FITTED, HALVED, curves_and_places, in_front, joined, places_finding
from raysweep.analyses.question import Question
from raysweep.analyses.rows import Part, groups, is_exact, is_logarithmic, is_number
from raysweep.analyses.series import marked_panels
from raysweep.analyses.single_runs import has_single_runs
from raysweep.fits.inflection import fit_inflection
from raysweep.fits.processes import mapped
from raysweep.fits.result import Fit
from raysweep.fits.surface.few_draws import fit_few_draws
from raysweep.fits.turn import fit_turns
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.workloads.declaration import Workload


def run(question: Question) -> Finding:
    """The turning points of a metric over x, one per setting."""
    x, metric, level, workload = question.x, question.metric, question.level, question.workload
    turn = question.turn
    keys = question.keys(x)
    parts = list(groups(question.rows, keys))
    errors = question.error_in(question.rows)
    if errors and question.rows.groupby([x, *keys], dropna=False).size().median() <= 1:
        return turns_given_errors(question, parts, keys, errors, turn)
    if has_single_runs(question, x, keys):
        return turns_of_single_runs(question, parts, keys, turn)
    fit_one = partial(one_turn, x=x, metric=metric, level=question.read_at("optimum"), turn=turn, workload=workload)
    fitted = mapped(fit_one, [rows for _, rows in parts])
    tables = (
        (where, add_theory(fit.table, [expected], level))
        for (where, _), (fit, expected) in zip(parts, fitted, strict=True)
    )
    whole = in_front(joined(tables), keys)
    return turns_finding(question, parts, keys, whole, [fit for fit, _ in fitted], turn)


def turns_given_errors(question: Question, parts: Sequence[Part], keys: list[str], error: str, turn: str) -> Finding:
    """The turning points of curves with one run per point and given errors."""
    fit = fit_turns([rows for _, rows in parts], question.x, question.metric, error, question.level, turn=turn)
    whole = add_theory(fit.table, [np.empty(0)] * len(parts), question.level)
    settings = pd.DataFrame([where for where, _ in parts], columns=keys, index=whole.index)
    return turns_finding(question, parts, keys, pd.concat([settings, whole], axis=1), [fit], turn, method="known_turns")


def turns_of_single_runs(question: Question, parts: Sequence[Part], keys: list[str], turn: str) -> Finding:
    """The turning points of curves with one run per point, from all of them at once."""
    x, metric, workload = question.x, question.metric, question.workload
    log = is_logarithmic(question.rows, x, workload)
    fit = fit_few_draws(question.rows, x, metric, keys, question.read_at("optimum"), turn=turn, logarithmic=log)
    theory = [extrema(rows, x, metric, workload, turn) for _, rows in parts]
    return turns_finding(question, parts, keys, add_theory(fit.table, theory, question.level), [fit], turn)


def turns_finding(
    question: Question,
    parts: Sequence[Part],
    keys: list[str],
    whole: pd.DataFrame,
    fits: Sequence[Fit],
    turn: str,
    **facts: Any,
) -> Finding:
    """The finding of fitted turning points. whole: one row per setting."""
    placed = "maximum" if turn == "max" else "minimum"
    along = next((key for key in keys if is_number(question.rows, key) and runs_along(whole, keys, key)), None)
    return places_finding(
        question,
        "inflection",
        whole,
        keys,
        fits,
        lambda: curves_and_places(question, marked_panels(parts, keys, whole, question), whole, keys, along, placed),
        {f"{question.name}_turns": whole},
        facts={"turn": placed, **facts},
        meanings={Outcome.LOCATED: question.words["turns"]} if question.words else {},
    )


def one_turn(
    rows: pd.DataFrame, *, x: str, metric: str, level: float, turn: str, workload: Workload
) -> tuple[Fit, np.ndarray]:
    """(the fit of one curve, the place of the closed form)."""
    log, exact = workload.logarithmic(x), is_exact(rows, metric)
    fit = fit_inflection(rows, x, metric, "seed", level, turn=turn, exact=exact, logarithmic=log)
    return fit, extrema(rows, x, metric, workload, turn)


def runs_along(whole: pd.DataFrame, keys: list[str], key: str) -> bool:
    """Whether most places lie on a line over `key`: several of its values at equal values of all other keys."""
    others = [other for other in keys if other != key]
    sizes = whole.groupby(others, dropna=False)[key].transform("nunique") if others else whole[key].nunique()
    return bool(np.mean(np.asarray(sizes) > 1) > 0.5)


ANALYSIS = Analysis(
    kind="inflection",
    question="At which {x} does {metric} turn for the worse?",
    run=run,
    required=allowed.METRIC_X,
    optional={**allowed.BY_LEVEL, "words": allowed.words("turns")},
    columns=(*FITTED, *HALVED, "base", "closed_form", "fall", "fall_high", "fall_low", "p", "p_holm"),
    along="x",
    means_only=True,
)

"""Where a metric has its extremum along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.analysis import Analysis
from raysweep.analyses.closed_form import add_theory, extrema
from raysweep.analyses.finding import Finding, Outcome, Plot
from raysweep.analyses.places import FITTED, HALVED, few, in_front, joined, places_finding, places_plot
from raysweep.analyses.question import Question
from raysweep.analyses.rows import better_extremum, groups, is_exact, is_number
from raysweep.analyses.series import CurvesPlot, marked_panels
from raysweep.fits.inflection import fit_inflection
from raysweep.fits.processes import mapped
from raysweep.fits.result import Fit
from raysweep.space import analysis_options as allowed
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def run(question: Question) -> Finding:
    """The turning points of a metric over x, one per setting."""
    x, metric, level, workload = question.x, question.metric, question.level, question.workload
    turn = better_extremum(metric, workload)
    keys = question.keys(x)
    parts = list(groups(question.rows, keys))
    how = partial(one_turn, x=x, metric=metric, level=question.read_at("optimum"), turn=turn, workload=workload)
    found = mapped(how, [rows for _, rows in parts])
    tables = [
        (values, add_theory(fit.table, [expected], level))
        for (values, _), (fit, expected) in zip(parts, found, strict=True)
    ]
    whole = in_front(joined(tables, keys), keys)
    placed = "maximum" if turn == "max" else "minimum"
    along = next((key for key in keys if is_number(question.rows, key) and runs_along(whole, keys, key)), None)

    def plots() -> Sequence[Plot]:
        panels = marked_panels(parts, keys, whole, question)
        curves = CurvesPlot(f"{question.name}_curves", panels, x, metric, len(parts), placed=placed)
        lines = places_plot(question, whole, keys, along, placed) if along else []
        return [curves, *lines] if few(whole) else [*lines, curves]

    return places_finding(
        question,
        "inflection",
        whole,
        keys,
        [fit for fit, _ in found],
        plots,
        {f"{question.name}_turns": whole},
        facts={"turn": placed},
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
    question="At which {x} does {metric} turn?",
    run=run,
    required=allowed.METRIC_X,
    optional={**allowed.BY_LEVEL, "words": allowed.words("turns")},
    columns=(*FITTED, *HALVED, "closed_form"),
    along="x",
    means_only=True,
)

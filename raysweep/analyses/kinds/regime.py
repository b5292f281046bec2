"""How the best rate changes with the pretraining length, and how metrics at this rate change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed, Outcome, Plot
from raysweep.analyses.held_out import largest_out, place
from raysweep.analyses.outcomes import outcome, takes, with_outcomes
from raysweep.analyses.places import EVERYWHERE, FITTED, HALVED, PlaceLine, PlacesPlot, drawable, joined, moves
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import (
    CellMeans,
    Where,
    better_extremum,
    cell_means,
    edges_of,
    groups,
    is_exact,
    spread,
    with_choice,
)
from raysweep.analyses.series import CurvesPlot, Panel, Series, base_means, base_metric, laid_out
from raysweep.fits.at_best_lr import change_word
from raysweep.fits.processes import mapped
from raysweep.fits.reasons import Reason
from raysweep.fits.regime import FEWEST_LENGTHS, FEWEST_OF_LAW, Regime, Verdict, case_of, fit_regime
from raysweep.fits.result import Status
from raysweep.fits.surface.slice_places import SlicePlaces, has_few_draws, slice_places
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space import checks
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

NOT_IN_ROWS = ("verdict", "slope", "note", "tuned_turn_low", "tuned_turn_high")
BEST = "best"  # what stands for a rate in the setting of a line at the best one
MOST_RATES = 7  # a figure shows at most this many fixed rates
MOST_SCORED = 12  # settings of which the longest lengths are forecast from the others
OUTCOMES = {
    Verdict.CONSTANT: Outcome.CONSTANT,
    Verdict.INCREASING: Outcome.INCREASING,
    Verdict.SLOWLY: Outcome.SLOWLY_DECREASING,
    Verdict.QUICKLY: Outcome.QUICKLY_DECREASING,
}


def run(question: Question) -> Finding:
    """The regime of each setting."""
    lr, length, metric = (str(question.options[name]) for name in ("lr", "length", "metric"))
    metrics = list(dict.fromkeys([metric, *metrics_of(question.options)]))
    # A loss that the base model has too is the pretraining loss: fine-tuning changes it.
    pretraining = next((name for name in metrics[1:] if base_metric(name, question.workload)), "")
    rows, keys = question.rows, question.keys_besides(lr, length)
    frame = with_choice(rows, lr, keys)
    parts = list(groups(frame, keys))
    turns = {name: better_extremum(name, question.workload) for name in metrics}
    beside = {name: turn for name, turn in turns.items() if name != metric}
    asked: dict[str, Any] = {"level": question.level, "turn": turns[metric], "beside": beside}
    fit = partial(one_regime, lr=lr, length=length, metric=metric, **asked)
    places: list[SlicePlaces | None] = [None] * len(parts)
    if not is_exact(frame, metric) and has_few_draws(frame, lr, metric, [*keys, length]):
        by, error = [*keys, length], question.error_in(frame)
        surface = slice_places(frame, [lr], metric, by, turn=turns[metric], error=error, level=question.level)
        places = [*surface.parts([part[length].nunique(dropna=False) for _, part in parts])]
    regimes = mapped(fit, [(part, place) for (_, part), place in zip(parts, places, strict=True)])
    answers = [(where, one) for (where, _), one in zip(parts, regimes, strict=True)]
    at_best = [(where, one.at_best_lr.table.assign(metric=metric)) for where, one in answers]
    at_best += [(where, at.table.assign(metric=name)) for where, one in answers for name, at in one.beside.items()]
    slopes = pd.DataFrame([{**where, **numbers(one, pretraining)} for where, one in answers])
    status = np.where(np.isfinite(slopes["slope"]), Status.LOCATED, Status.UNDETERMINED)
    edges = edges_of(rows, lr)
    settings = [setting_row(row, one, edges) for row, one in zip(slopes.to_dict("records"), regimes, strict=True)]

    scored = spread(list(zip(regimes, places, strict=True)), MOST_SCORED)
    logs = np.log(edges if edges[0] > 0 else np.full(2, np.nan))
    hits = np.concatenate(mapped(partial(longest_out, length=length, edges=logs, level=question.level), scored))
    score = {"inside": int(np.nansum(hits)), "of": int(np.isfinite(hits).sum()), "settings": len(scored)}

    def plots() -> Sequence[Plot]:
        best = laid_out(answers, keys[:1], keys[1:], partial(rates_line, length=length, edges=edges))
        out: list[Plot] = [*drawable(PlacesPlot(f"{question.name}_rates", best, lr, metric, "optimum", len(parts)))]
        pairs = [(where, (part, one)) for (where, part), one in zip(parts, regimes, strict=True)]
        for name in metrics:
            line = partial(tuned_line, length=length, metric=name, workload=question.workload)
            panels, every = laid_out(pairs, keys[:1], keys[1:], line), len(pairs)
            if len(parts) == 1:
                fixed = fixed_rates(parts[0][1], lr, length, name, question.workload)
                panels, every = [Panel(parts[0][0], [line({lr: BEST}, pairs[0][1]), *fixed])], 0
            out.append(CurvesPlot(f"{question.name}_{name}", panels, length, name, every))
        return out

    return question.finding(
        "regime",
        settings,
        keys,
        x=lr,
        moves=moves(slopes.assign(status=status, estimate=slopes["slope"], theory=np.nan), keys),
        facts={"length": length, "cases": dict(Counter(slopes["paper_case"])) if pretraining else {}}
        | ({"longest_out": score} if score["of"] else {}),
        tables={
            f"{question.name}_slopes": slopes,
            f"{question.name}_rates": joined((where, one.optimum.table) for where, one in answers),
            f"{question.name}_tuned": joined(at_best),
        },
        plots=plots,
    )


def rates_line(where: Where, one: Regime, length: str, edges: tuple[float, float]) -> PlaceLine:
    """The best rates over the lengths that are finite and above 0, and the power law where its slope decides.
    edges: the smallest and the largest rate."""
    table = with_outcomes(positive(one.optimum.table, length), edges)
    decides = one.verdict != Verdict.UNDETERMINED and np.isfinite(one.slope) and len(table)
    ends = table[length].to_numpy(float)[[0, -1] if decides else []]
    return PlaceLine(where, length, table, ends, np.exp(one.intercept) * ends**one.slope)


def positive(table: pd.DataFrame, length: str) -> pd.DataFrame:
    """The rows whose length is finite and above 0."""
    return table[(table[length] > 0) & (table[length] < np.inf)]


def tuned_line(
    where: Where, pair: tuple[pd.DataFrame, Regime], *, length: str, metric: str, workload: Workload
) -> Series:
    """A metric at the best rate over the lengths, open where that lies beyond the rates (as in O Fig. 6)."""
    rows, regime = pair
    table = positive(regime.beside.get(metric, regime.at_best_lr).table, length)
    x, mean, low, high = table[[length, "mean", "low", "high"]].to_numpy(float).T
    means = CellMeans(x, mean, low, high, table["censored"].to_numpy(bool))
    return Series(where, means, base=base_means(positive(rows, length), length, metric, workload))


def one_regime(
    setting: tuple[pd.DataFrame, SlicePlaces | None], *, lr: str, length: str, metric: str, level: float, **more: Any
) -> Regime:
    """The regime of one setting, from its rows and its best rates on a surface of all settings, if there is one."""
    rows, places = setting
    return fit_regime(rows, lr, length, metric, "seed", level, exact=is_exact(rows, metric), places=places, **more)


def longest_out(
    setting: tuple[Regime, SlicePlaces | None], *, length: str, edges: np.ndarray, level: float
) -> np.ndarray:
    """Whether the best rates at the two longest lengths lie as a law of the others forecasts (`largest_out`). edges:
    logs of the smallest and the largest rate; NaN if one is 0, and then there is no forecast."""
    regime, surface = setting
    rows = regime.optimum.table.to_dict("records")
    outcomes = [outcome(row["status"], row["reason"]) for row in rows]
    placed = [place(row | {"outcome": one}, edges, level) for row, one in zip(rows, outcomes, strict=True)]
    usable = [
        (one, row[length], reached)
        for one, row, reached in zip(surface.places if surface else placed, rows, outcomes, strict=True)
        if one and np.isfinite(one.low) and 0 < row[length] < np.inf
    ]
    if not usable:
        return np.empty(0)
    places, lengths, reached = zip(*usable, strict=True)
    return largest_out(places, np.array(lengths, dtype=float)[:, None], np.array(reached), level)


def fixed_rates(rows: pd.DataFrame, lr: str, length: str, metric: str, workload: Workload) -> list[Series]:
    """The metric over the length at up to MOST_RATES fixed rates (as in O Fig. 7)."""
    rows = positive(rows, length)
    rates = spread(sorted(map(float, rows[lr].unique())), MOST_RATES)
    lines = [Series({lr: rate}, cell_means(rows[rows[lr] == rate], length, metric, workload)) for rate in rates]
    return [line for line in lines if len(line.means.x)]


def numbers(one: Regime, pretraining: str) -> dict[str, Any]:
    """One setting as a row of the table of slopes. pretraining: the metric that is the pretraining loss; empty if
    none is, and then the paper's case is open."""
    change = one.at_best_lr.over_length
    return {
        "verdict": one.verdict,
        "paper_case": case_of(change, one.beside[pretraining].over_length) if pretraining else "",
        "slope": one.slope,
        "low": one.low,
        "high": one.high,
        "lengths_located": one.located,
        "lengths_bounded": one.bounded,
        "lengths_left_out": one.left_out,
        "draws": one.draws,
        "tuned": change_word(change),
        "tuned_turn": change.estimate,
        "tuned_turn_low": change.low,
        "tuned_turn_high": change.high,
        **{f"{name}_tuned": change_word(other.over_length) for name, other in one.beside.items()},
        "note": one.note,
    }


def setting_row(row: Mapping[str, Any], one: Regime, edges: tuple[float, float]) -> dict[str, Any]:
    """One setting of the finding. row: of the table of slopes. What is open needs rates beyond the grid where bounds
    leave a side open, more lengths if there are too few, else more draws."""
    outcome = OUTCOMES.get(one.verdict, Outcome.DECREASING if one.high < 0 else Outcome.UNDECIDED)
    decides: dict[str, Any] = {}
    if one.verdict == Verdict.UNDETERMINED:
        status = one.optimum.table["status"]
        decides = takes(Needed.MORE_DRAWS, one.draws)
        least = FEWEST_OF_LAW if "choice" in one.optimum.table else FEWEST_LENGTHS
        if one.reason == Reason.TOO_FEW_LENGTHS and len(status) < least:
            decides = takes(Needed.MORE_X)
        elif one.bounded and not np.isfinite([one.low, one.high]).all():
            above = (status == Status.CENSORED_HIGH).sum() >= (status == Status.CENSORED_LOW).sum()
            decides = takes(Needed.LARGER_X, edges[1]) if above else takes(Needed.SMALLER_X, edges[0])
    left = {name: value for name, value in row.items() if name not in NOT_IN_ROWS and not name.endswith("_tuned")}
    return {**left, "outcome": outcome, "reason": one.reason, "estimate": one.slope, **decides}


ANALYSIS = Analysis(
    kind="regime",
    question="How does the best {lr} for {metric} change with {length}?",
    run=run,
    required={"metric": checks.metric, "lr": allowed.number_axis, "length": allowed.number_axis},
    optional={"metrics": allowed.metrics, **allowed.BY_LEVEL},
    columns=(
        *(*FITTED, *HALVED, *EVERYWHERE, "censored", "diverged_from", "lengths_bounded", "lengths_left_out"),
        *("lengths_located", "mean", "metric", "paper_case", "rate", "slope", "tuned", "tuned_turn", "tuned_turn_high"),
        *("tuned_turn_low", "verdict"),
    ),
    along="lr",
    above=0.0,
)

"""The regime analysis: how the best rate changes with the pretraining length, and how a metric at this rate changes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from raysweep.analyses.places import joined
from raysweep.analyses.question import Question
from raysweep.analyses.rows import all_keys, better_extremum, cell_means, groups, is_exact, spread, with_choice
from raysweep.analyses.series import base_means, base_metric
from raysweep.fits.at_best_lr import change_word
from raysweep.fits.processes import mapped
from raysweep.fits.regime import Regime, fit_regime
from raysweep.numbers import interval, number
from raysweep.report.figures.regime import Setting, at_best_lr_figure, rates_figure
from raysweep.report.names import plain
from raysweep.reporting.analyses.regime_words import (
    Regimes,
    cases_and_losses,
    of_one,
    of_several,
    open_words,
    paragraphs,
    slope_words,
    verdict_word,
)
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.analyses.series import laid_out
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

MOST_RATES = 7  # a figure shows at most this many fixed rates


def regime_section(asked: Question) -> Section:
    """Fits, figures and tables of one `regime` entry."""
    import pandas as pd

    lr, length, metric, workload = asked.options["lr"], asked.options["length"], asked.metric, asked.workload
    beside = [other for other in metrics_of(asked.options) if other != metric]
    # A loss that the base model has too is the pretraining loss: fine-tuning changes it.
    pretraining = next((other for other in beside if base_metric(other, workload)), "")
    keys = [key for key in all_keys(asked.rows, workload, lr, [length, *asked.by], asked.design) if key != length]
    parts = list(groups(with_choice(asked.rows, lr, keys), keys))
    turns = {each: better_extremum(each, workload) for each in beside}
    turn = better_extremum(metric, workload)
    how = partial(one_regime, lr=lr, length=length, metric=metric, level=asked.level, turn=turn, beside=turns)
    fits = mapped(how, [rows for _, rows in parts])
    answers = [(values, fit) for (values, _), fit in zip(parts, fits, strict=True)]
    found = Regimes(asked, keys, lr, length, beside, pretraining, answers)

    def line(key: Any, label: str, part: tuple[pd.DataFrame, Regime]) -> Setting:
        rows, regime = part
        fixed = {each: fixed_rates(rows, lr, length, each, workload) for each in [metric, *beside]}
        base = {each: base_means(rows, length, each, workload) for each in [metric, *beside]}
        return Setting(key, label, regime, fixed, base)

    lines = [(values, (rows, one)) for (values, rows), (_, one) in zip(parts, answers, strict=True)]
    shown = laid_out(lines, keys[:1], keys[1:], line, workload)
    figure, said = rates_figure(shown, lr, length, workload, asked.level)
    rates = (
        f"Best {plain(lr)} for {plain(metric)} against {plain(length)} (as O Fig. 34), with {asked.percent} intervals."
    )
    drawings = [Drawing(f"{asked.name}_rates", f"{rates} {said}".strip(), figure)]
    for each in [metric, *beside]:
        caption = (
            f"{each} at the {plain(lr)} that is best for {plain(metric)}, against {plain(length)} "
            f"(as O Fig. 6), with {asked.percent} intervals between draws."
        )
        figure, said = at_best_lr_figure(shown, each, length, workload)
        drawings.append(Drawing(f"{asked.name}_{each}", f"{caption} {said}".strip(), figure))
    at_best = [(values, one.at_best_lr.table.assign(metric=metric)) for values, one in answers]
    at_best += [(values, at.table.assign(metric=other)) for values, one in answers for other, at in one.beside.items()]
    headline, detail = of_one(found, answers[0][1]) if len(answers) == 1 else of_several(found)
    return Section(
        title=f"Regime: how the best {plain(lr)} moves with {plain(length)}",
        headline=headline,
        detail=detail,
        paragraphs=[*cases_and_losses(found), *paragraphs(found)],
        drawings=drawings,
        shown=[shown_row(found, values, one) for values, one in answers],
        tables={
            f"{asked.name}_slopes": pd.DataFrame([numbers(found, values, one) for values, one in answers]),
            f"{asked.name}_rates": joined(((values, one.optimum.table) for values, one in answers), keys),
            f"{asked.name}_tuned": joined(at_best, keys),
        },
        undecided=open_words(found),
    )


def one_regime(
    rows: pd.DataFrame, *, lr: str, length: str, metric: str, level: float, turn: str, beside: dict[str, str]
) -> Regime:
    """The regime of one setting."""
    exact = is_exact(rows, metric)
    return fit_regime(rows, lr, length, metric, "seed", level, turn=turn, exact=exact, beside=beside)


def fixed_rates(rows: pd.DataFrame, lr: str, length: str, metric: str, workload: Workload) -> list[tuple[float, Any]]:
    """The metric over the length at up to MOST_RATES fixed rates."""
    rates = spread(sorted(map(float, rows[lr].unique())), MOST_RATES)
    curves = [(rate, cell_means(rows[rows[lr] == rate], length, metric, workload)) for rate in rates]
    return [(rate, means) for rate, means in curves if len(means.x)]


def numbers(found: Regimes, values: tuple[Any, ...], one: Regime) -> dict[str, Any]:
    """One setting as a row of the table."""
    change = one.at_best_lr.over_length
    return {
        **dict(zip(found.keys, values, strict=True)),
        "verdict": one.verdict,
        "paper_case": found.case(one),
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


def shown_row(found: Regimes, values: tuple[Any, ...], one: Regime) -> dict[str, str]:
    """One setting as a row of formatted text."""
    change = one.at_best_lr.over_length
    return {
        **{plain(key): number(value) for key, value in zip(found.keys, values, strict=True)},
        "regime by the slope": verdict_word(one.verdict),
        **({"case by the losses (O §3.4.2)": verdict_word(found.case(one))} if found.pretraining else {}),
        "slope [interval]": slope_words(one),
        "lengths (located + bounds)": f"{one.located} + {one.bounded}",
        f"{plain(found.asked.metric)}, tuned": change_word(change),
        f"turning at {plain(found.length)}": interval(change.estimate, change.low, change.high),
        **{f"{plain(name)}, tuned": change_word(other.over_length) for name, other in one.beside.items()},
    }

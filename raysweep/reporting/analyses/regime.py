"""The regime analysis: how the best rate changes with the pretraining length, and how a metric at this rate changes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from raysweep.analyses.kinds.regime import RegimeLine, fixed_rates, numbers, one_regime
from raysweep.analyses.places import joined
from raysweep.analyses.question import Question
from raysweep.analyses.rows import all_keys, better_extremum, groups, with_choice
from raysweep.analyses.series import Where, base_means, base_metric, laid_out
from raysweep.fits.at_best_lr import change_word
from raysweep.fits.processes import mapped
from raysweep.fits.regime import Regime
from raysweep.numbers import interval, number
from raysweep.report.figures.regime import at_best_lr_figure, rates_figure
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
from raysweep.space.analyses import metrics_of

if TYPE_CHECKING:
    import pandas as pd


def regime_section(asked: Question) -> Section:
    """Fits, figures and tables of one `regime` entry."""
    import pandas as pd

    lr, length, metric, workload = asked.options["lr"], asked.options["length"], asked.metric, asked.workload
    beside = [other for other in metrics_of(asked.options) if other != metric]
    # A loss that the base model has too is the pretraining loss: fine-tuning changes it.
    pretraining = next((other for other in beside if base_metric(other, workload)), "")
    keys = [key for key in all_keys(asked.rows, workload, lr, [length, *asked.by], asked.design) if key != length]
    parts = list(groups(with_choice(asked.rows, lr, keys), keys))
    turns = {each: better_extremum(each, workload) for each in [metric, *beside]}
    how = partial(one_regime, lr=lr, length=length, metric=metric, level=asked.level, turns=turns)
    fits = mapped(how, [rows for _, rows in parts])
    answers = [(values, fit) for (values, _), fit in zip(parts, fits, strict=True)]
    found = Regimes(asked, keys, lr, length, beside, pretraining, answers)

    def line(where: Where, part: tuple[pd.DataFrame, Regime]) -> RegimeLine:
        rows, regime = part
        fixed = {each: fixed_rates(rows, lr, length, each, workload) for each in [metric, *beside]}
        base = {each: base_means(rows, length, each, workload) for each in [metric, *beside]}
        return RegimeLine(where, regime, fixed, base)

    lines = [(values, (rows, one)) for (values, rows), (_, one) in zip(parts, answers, strict=True)]
    shown = laid_out(lines, keys[:1], keys[1:], line)
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
            f"{asked.name}_slopes": pd.DataFrame([numbers(keys, values, one, pretraining) for values, one in answers]),
            f"{asked.name}_rates": joined(((values, one.optimum.table) for values, one in answers), keys),
            f"{asked.name}_tuned": joined(at_best, keys),
        },
        undecided=open_words(found),
    )


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

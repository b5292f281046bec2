"""The regime analysis: how the best rate moves with pretraining length, and what tuning it gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.regime import Regime, fit_regime
from raysweep.reporting.analyses.regime_words import headline, numbers, paragraphs, shown_row
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.design import NOTHING_DECLARED, Design
from raysweep.reporting.figures.regime import Setting, rates_figure, tuned_figure
from raysweep.reporting.figures.series import base_means, base_metric
from raysweep.reporting.figures.style import picked
from raysweep.reporting.selection import all_keys, better_turn, cell_means, groups, is_exact, with_choice
from raysweep.reporting.words import plain, settings
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd


def regime_section(
    frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str, design: Design = NOTHING_DECLARED
) -> Section:
    """Fits, figures and tables of one `regime` entry."""
    import pandas as pd

    lr, length, metric = options["lr"], options["length"], options["metric"]
    level = float(options.get("level", 0.95))
    beside = [other for other in metrics_of(options) if other != metric]
    # what is left of a loss that the base model has, too, is what fine-tuning does to pretraining
    pretraining = next((other for other in beside if base_metric(other, workload)), "")
    keys = [key for key in all_keys(frame, workload, lr, [length, *options.get("by", [])], design) if key != length]
    frame = with_choice(frame, lr, keys)
    answers: list[tuple[tuple[Any, ...], Regime]] = []
    parts: dict[tuple[Any, ...], list[Setting]] = {}
    for values, rows in groups(frame, keys):
        exact = is_exact(rows, metric)
        regime = fit_regime(
            rows,
            lr,
            length,
            metric,
            "seed",
            level,
            turn=better_turn(metric, workload),
            exact=exact,
            beside={other: better_turn(other, workload) for other in beside},
        )
        answers.append((values, regime))
        fixed = {each: fixed_rates(rows, lr, length, each, workload) for each in [metric, *beside]}
        base = {each: base_means(rows, length, each, workload) for each in [metric, *beside]}
        label = settings(keys[:1], values[:1], workload)
        parts.setdefault(tuple(values[1:]), []).append(Setting(values[0] if values else "", label, regime, fixed, base))
    whole = pd.DataFrame(
        [{**dict(zip(keys, values, strict=True)), **numbers(one, pretraining)} for values, one in answers]
    )

    shown = [
        (settings(keys[1:], rest, workload), [lines[k] for k in picked(len(lines), 8)]) for rest, lines in parts.items()
    ]
    shown = [shown[k] for k in picked(len(shown), 9)]
    drawings = [
        Drawing(
            f"{name}_rates",
            f"Best {plain(lr)} for {plain(metric)} against {plain(length)} (as O Fig. 34), with {100 * level:g} % "
            "intervals; dashed: power law, fitted where every length has an optimum. Triangles: the optimum lies "
            "beyond the rate shown.",
            rates_figure(shown, lr, length, workload, level),
        )
    ]
    for each in [metric, *beside]:
        drawings.append(
            Drawing(
                f"{name}_{each}",
                f"{plain(each).capitalize()} at the {plain(lr)} that is best for {plain(metric)}, against "
                f"{plain(length)} (as O Fig. 6), with {100 * level:g} % intervals between draws"
                + ("; dashed: the base model." if base_metric(each, workload) else "."),
                tuned_figure(shown, each, length, workload),
            )
        )
    tuned = pd.concat(
        [one.at_best_lr.table.assign(metric=metric, **dict(zip(keys, values, strict=True))) for values, one in answers]
        + [
            at.table.assign(metric=other, **dict(zip(keys, values, strict=True)))
            for values, one in answers
            for other, at in one.beside.items()
        ],
        ignore_index=True,
    )
    rates = pd.concat(
        [one.optimum.table.assign(**dict(zip(keys, values, strict=True))) for values, one in answers], ignore_index=True
    )
    return Section(
        title=f"Regime: how the best {plain(lr)} moves with {plain(length)}",
        headline=headline(answers, keys, lr, length, metric, beside, pretraining, workload),
        paragraphs=paragraphs(answers, keys, lr, length, metric, pretraining, level, workload),
        drawings=drawings,
        shown=[shown_row(values, one, keys, length, metric, pretraining) for values, one in answers],
        tables={f"{name}_slopes": whole, f"{name}_rates": rates, f"{name}_tuned": tuned},
    )


def fixed_rates(rows: pd.DataFrame, lr: str, length: str, metric: str, workload: Workload) -> list[tuple[float, Any]]:
    """The metric over length at up to seven of the rates."""
    every = np.sort(rows[lr].unique().astype(float))
    out = []
    for k in picked(len(every), 7):
        means = cell_means(rows[rows[lr] == every[k]], length, metric, workload)
        if len(means.x):
            out.append((float(every[k]), means))
    return out

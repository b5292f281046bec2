"""The optimum analysis: the rate at which a metric is best."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from raysweep.analyses.closed_form import add_theory, extrema
from raysweep.analyses.kinds.optimum import knows_no_rate
from raysweep.analyses.question import Question
from raysweep.analyses.rows import better_extremum, groups, is_exact, is_number, with_choice
from raysweep.analyses.series import marked_panels
from raysweep.fits.optimum import fit_optimum, in_log
from raysweep.fits.processes import mapped
from raysweep.numbers import number
from raysweep.phrases import counted
from raysweep.report.figures.lines import points_in_words
from raysweep.report.names import first_capital, plain
from raysweep.reporting.analyses.closed_form import summary
from raysweep.reporting.analyses.explored_places import explored_places
from raysweep.reporting.analyses.fitted_places import Places
from raysweep.reporting.analyses.movement import movement
from raysweep.reporting.analyses.place_advice import advice_cell, halving
from raysweep.reporting.analyses.place_lines import line_drawing
from raysweep.reporting.analyses.place_widths import still_open, sure
from raysweep.reporting.analyses.section import Drawing, DrawnLater, Section
from raysweep.reporting.analyses.series import curves_drawing
from raysweep.space.analyses import opened

if TYPE_CHECKING:
    import pandas as pd


def optimum_section(asked: Question) -> Section:
    """Fits, figures and table of one `optimum` entry."""
    x, metric, level, workload = asked.x, asked.metric, asked.level, asked.workload
    turn = better_extremum(metric, workload)
    keys = asked.keys(x)
    frame = with_choice(asked.rows, x, keys)
    wanted = workload.logarithmic(x)
    log = in_log(frame[x].to_numpy(float)) if wanted is None else wanted
    exact = is_exact(frame, metric)
    at = asked.read_at("optimum")
    fit = fit_optimum(frame, x, metric, keys or None, "seed", at, turn=turn, exact=exact, logarithmic=log)
    parts = list(groups(frame, keys))
    blind = knows_no_rate(parts[0][1], x, metric, workload)
    how = partial(extrema, x=x, metric=metric, workload=workload, turn=turn)
    expected = [np.empty(0)] * len(parts) if blind else mapped(how, [rows for _, rows in parts])
    whole = add_theory(fit.table, expected, level)
    what = f"best {plain(x)} for {metric}"
    places = Places(asked, whole, keys, what, "setting", "optimum", f"the best {plain(x)} for {metric} is {{place}}")
    beside = summary(whole, level)

    along = next((key for key in keys if is_number(frame, key) and frame[key].nunique() > 1), None)

    def drawings() -> list[Drawing]:
        line_caption = f"The {plain(x)} at which {plain(metric)} is best, against {plain(along or '')}."
        panels = marked_panels(parts, keys, whole, asked)
        caption = f"{metric} against {plain(x)}: {points_in_words(panels)}."
        if blind:  # level lines would say nothing of the rate
            panels = [replace(panel, lines=[line.without_theory() for line in panel.lines]) for panel in panels]
        line = line_drawing(places, along, f"with the best {plain(metric)}", line_caption)
        curves = curves_drawing(asked, panels, caption, placed="optimum")
        return [*curves, *line] if places.few else [*line, *curves]

    headline, detail = places.said(places.against_theory(), lambda row: "", lengths_of_regimes(asked))
    return Section(
        title=f"Optimum: the best {plain(x)} for {plain(metric)}",
        headline=headline,
        detail=detail,
        paragraphs=[
            *movement(whole, keys, f"best {plain(x)}", workload),
            *places.methods(),
            *asked.reading("optimum"),
            *([f"{first_capital(beside)}."] if beside else []),
            *divergence(whole),
            *places.not_located(),
            *halving(places),
        ],
        drawings=DrawnLater(drawings),
        fits=[fit],
        shown=[
            {
                **places.row(row, f"best {plain(x)}", z=False),
                "diverged from": number(row["diverged_from"], 3) if np.isfinite(row["diverged_from"]) else "–",
                "draws": str(row["draws"]),
                "half the interval takes": advice_cell(row),
            }
            for row in whole.to_dict("records")
        ],
        tables={f"{asked.name}_optima": whole},
        explored=[partial(explored_places, places, frame, along)],
        sure=sure(places),
        undecided=still_open(places),
    )


def lengths_of_regimes(asked: Question) -> list[str]:
    """The lengths along which the sweep's regime analyses follow the same best rate."""
    entries = [opened(entry) for entry in asked.design.analyses()]
    return [
        str(options["length"])
        for kind, options in entries
        if kind == "regime" and options["lr"] == asked.x and options.get("metric") == asked.metric
    ]


def divergence(whole: pd.DataFrame) -> list[str]:
    """A paragraph on the settings in which training diverged at large rates; an empty list if there are none."""
    bounded = whole[np.isfinite(whole["diverged_from"])]
    if not len(bounded):
        return []
    return [
        f"Most draws diverged from some rate on in {counted(len(bounded), 'setting')} (the lowest: "
        f"{number(bounded['diverged_from'].min(), 3)}): no row from there on enters a fit."
    ]

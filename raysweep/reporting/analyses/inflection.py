"""The inflection analysis: where a metric has its extremum along an axis."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from raysweep.analyses.closed_form import add_theory
from raysweep.analyses.kinds.inflection import one_turn, runs_along
from raysweep.analyses.places import in_front, joined
from raysweep.analyses.question import Question
from raysweep.analyses.rows import better_extremum, groups, is_number
from raysweep.analyses.series import marked_panels
from raysweep.fits.processes import mapped
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

if TYPE_CHECKING:
    pass


def inflection_section(asked: Question) -> Section:
    """Fits, figures and table of one `inflection` entry."""
    x, metric, level, workload = asked.x, asked.metric, asked.level, asked.workload
    turn = better_extremum(metric, workload)
    keys = asked.keys(x)
    parts = list(groups(asked.rows, keys))
    how = partial(one_turn, x=x, metric=metric, level=asked.read_at("optimum"), turn=turn, workload=workload)
    found = mapped(how, [rows for _, rows in parts])
    fits = [fit for fit, _ in found]
    tables = [
        (values, add_theory(fit.table, [expected], level))
        for (values, _), (fit, expected) in zip(parts, found, strict=True)
    ]
    whole = in_front(joined(tables, keys), keys)
    word = "maximum" if turn == "max" else "minimum"
    what = f"turning point of {metric} in {plain(x)}"
    at = f"{metric} is {'highest' if turn == 'max' else 'lowest'} at {plain(x)} {{place}}"
    places = Places(asked, whole, keys, what, "setting", "optimum", at, meaning=asked.words.get("turns", ""))
    beside = summary(whole, level)

    along = next((key for key in keys if is_number(asked.rows, key) and runs_along(whole, keys, key)), None)

    def drawings() -> list[Drawing]:
        line_caption = f"The {word} of {metric} in {plain(x)} against {plain(along or '')}."
        panels = marked_panels(parts, keys, whole, asked)
        caption = f"{metric} against {plain(x)}: {points_in_words(panels)}."
        line = line_drawing(places, along, f"at the {word} of {metric}", line_caption)
        curves = curves_drawing(asked, panels, caption, placed=word)
        return [*curves, *line] if places.few else [*line, *curves]

    headline, detail = places.said(places.against_theory(), places.beside_theory)
    return Section(
        title=f"Turning point: where {metric} turns in {plain(x)}",
        headline=headline,
        detail=detail,
        paragraphs=[
            *movement(whole, keys, word, workload),
            *places.methods(),
            *asked.reading("optimum"),
            *([f"{first_capital(beside)}. Curves that share draws are not as many looks at it."] if beside else []),
            *places.not_located(),
            *halving(places),
        ],
        drawings=DrawnLater(drawings),
        fits=fits,
        shown=[
            {
                **places.row(row, f"{word} in {plain(x)}"),
                "draws": str(row["draws"]),
                "half the interval takes": advice_cell(row),
            }
            for row in whole.to_dict("records")
        ],
        tables={f"{asked.name}_turns": whole},
        explored=[partial(explored_places, places, asked.rows, along)],
        sure=sure(places),
        undecided=still_open(places),
    )

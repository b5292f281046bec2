"""Every word a report says of a finding: forms by kind and outcome. Nothing reads these words."""

from __future__ import annotations

from collections.abc import Mapping

from raysweep.analyses.counts import Way
from raysweep.analyses.finding import Nothing, Outcome

OUTCOMES: Mapping[Outcome, str] = {
    Outcome.LOCATED: "found",
    Outcome.BEYOND_LOW: "below the smallest tried",
    Outcome.BEYOND_HIGH: "above the largest tried",
    Outcome.BOUND_LOW: "only an upper bound",
    Outcome.BOUND_HIGH: "only a lower bound",
    Outcome.OK_LOW: "below the rows that are ok",
    Outcome.OK_HIGH: "above the rows that are ok",
    **dict.fromkeys((Outcome.IMPROVES, Outcome.EDGE_HIGH), "at the largest tried"),
    **dict.fromkeys((Outcome.DEGRADES, Outcome.EDGE_LOW), "at the smallest tried"),
    Outcome.POSITIVE: "positive everywhere",
    Outcome.NEGATIVE: "negative everywhere",
    Outcome.TOUCHES: "meets zero without crossing",
    Outcome.NO_EFFECT: "zero effect",
    Outcome.SLOWLY_DECREASING: "falls slowly",
    Outcome.QUICKLY_DECREASING: "falls quickly",
    Outcome.UNDECIDED: "undecided",
    Outcome.UNCLEAR: "not clear",
    Outcome.ALIKE: "not told from the best",
}
"""The status of a setting in a table and in short; other outcomes are words already."""

OF_KIND: Mapping[str, Mapping[Outcome, str]] = {
    "engines": {
        Outcome.NO_EFFECT: "equal",
        Outcome.CONSTANT: "constant difference",
        Outcome.INCREASING: "vanishing difference",
        Outcome.DECREASING: "growing difference",
        Outcome.MEASURED: "one difference",
    },
    "r_squared": {Outcome.BEST: "clearly best"},
}
"""The same where a kind has words of its own."""

SIDES: Mapping[Outcome, str] = {
    Outcome.POSITIVE: "{positive} everywhere",
    Outcome.NEGATIVE: "{negative} everywhere",
    Outcome.HIGHER: "{positive}",
    Outcome.LOWER: "{negative}",
}
"""The same where the sides of a metric mean something."""

EFFECTS = {"inflection": "turn", "trend": "trend", "law": "power", "power_law": "power"}
"""What is not clear, by kind."""

BOUNDS: Mapping[Outcome, tuple[str, str]] = {
    Outcome.BOUND_LOW: ("below", ""),
    Outcome.BOUND_HIGH: ("above", ""),
    Outcome.BEYOND_LOW: ("below", "smallest"),
    Outcome.BEYOND_HIGH: ("beyond", "largest"),
}
"""Where a place lies of which only a bound is known, and which of the values tried this is."""
EDGES, REST = "only bounds", "others in {count}"
"""Of a best value at an end; of what a sentence leaves out."""
SOMEWHERE, PERHAPS, IF_ANY = "somewhere", "perhaps", ", if any,"
"""Before the bound of a place; before and after that of a zero, of which there may be none."""

ALIKE: Mapping[Outcome, Outcome] = {Outcome.EDGE_LOW: Outcome.DEGRADES, Outcome.EDGE_HIGH: Outcome.IMPROVES}
ALIKE_PLACES = {Outcome.BEYOND_LOW: Outcome.DEGRADES, Outcome.BEYOND_HIGH: Outcome.IMPROVES}
BEST_PLACES = ("inflection", "optimum")
"""Outcomes that are said as others: of all kinds, and of the kinds that seek the best value."""

CLAUSES: Mapping[str, Mapping[Outcome, str]] = {
    "boundary": {
        Outcome.LOCATED: "{metric} changes sign{often} at {at}",
        Outcome.POSITIVE: "{metric} is positive everywhere",
        Outcome.NEGATIVE: "{metric} is negative everywhere",
        Outcome.TOUCHES: "{metric} meets zero without crossing",
        Outcome.NO_EFFECT: "{metric} is zero everywhere",
    },
    "predicted_boundary": {
        Outcome.AGREES: "{meets} predicts {x} as measured",
        Outcome.HIGHER: "{meets} predicts too high {x}",
        Outcome.LOWER: "{meets} predicts too low {x}",
    },
    "inflection": {
        Outcome.LOCATED: "{metric} is {extreme} at {at}{fall}",
        Outcome.IMPROVES: "{metric} is best at the largest {x}",
        Outcome.DEGRADES: "{metric} is best at the smallest {x}",
        Outcome.NO_EFFECT: "{metric} is the same at every {x}",
        Outcome.UNCLEAR: "{metric} has no clear turn",
    },
    "optimum": {
        Outcome.LOCATED: "the best {x}{for_metric} {is_place}",
        Outcome.IMPROVES: "the best {x}{for_metric} is the largest tried",
        Outcome.DEGRADES: "the best {x}{for_metric} is the smallest tried",
        Outcome.NO_EFFECT: "{metric} is the same at every {x}",
    },
    "agreement": {Outcome.AGREES: "yes, on average{apart}", Outcome.DIFFERS: "no, not on average{apart}"},
    "relation": {
        Outcome.RISES: "{metric} rises{weakly} with {x}, rank correlation {place}",
        Outcome.FALLS: "{metric} falls{weakly} with {x}, rank correlation {place}",
        Outcome.TURNS: "not monotonically: {metric} {ways} with {x}, rank correlation {place}",
        Outcome.UNCLEAR: "{x} is not shown to predict {metric}, rank correlation {place}",
        Outcome.MEASURED: "{metric} and {x} have rank correlation {place}",
    },
    "r_squared": {
        Outcome.BEST: "{predictor} clearly explains {metric} best (R² {place})",
        Outcome.UNCLEAR: "none of {predictors} predictors clearly explains {metric} best",
        Outcome.MEASURED: "{predictor} explains {metric} with R² {place}",
    },
    "engines": {
        Outcome.NO_EFFECT: "{metric} equals {reference} up to rounding",
        Outcome.CONSTANT: "{metric} differs from {reference} by the same at every {x}",
        Outcome.INCREASING: "{metric} approaches {reference} as {x} → 0 (order {place})",
        Outcome.DECREASING: "{metric} departs from {reference} as {x} → 0 (order {place})",
        Outcome.MEASURED: "{metric} differs from {reference} at a single {x}",
    },
    "trend": {
        Outcome.RISES: "{metric} rises with {x}{throughout}{slope}",
        Outcome.FALLS: "{metric} falls with {x}{throughout}{slope}",
        Outcome.UNCLEAR: "{metric} has no clear trend with {x}",
        Outcome.NO_EFFECT: "{metric} does not change with {x}",
    },
    "best": {
        Outcome.BEST: "the best {metric} is {place}",
        Outcome.ALIKE: "{count} may be as good",
        Outcome.WORSE: "{count} {are} worse",
    },
    "search": dict.fromkeys((Outcome.BEST, Outcome.MEASURED), "the best {metric} is {place}"),
    "curves": {
        Outcome.MEASURED: "{metric} {is_place}",
        Outcome.HIGHER: "{metric} is higher than {beside}",
        Outcome.LOWER: "{metric} is lower than {beside}",
        Outcome.NO_EFFECT: "{metric} equals {beside}",
    },
    "comparison": {
        Outcome.HIGHER: "{metric} is higher {than} by {place}",
        Outcome.LOWER: "{metric} is lower {than}, difference {place}",
        Outcome.UNCLEAR: "{metric} is not shown to differ, difference {place}",
        Outcome.NO_EFFECT: "{metric} is the same in every draw",
    },
    "power_law": {
        Outcome.RISES: "{metric} grows with {x} to the power of {place}",
        Outcome.FALLS: "{metric} falls with {x} to the power of {place}",
        Outcome.NO_EFFECT: "{metric} does not change with {x}",
        Outcome.UNCLEAR: "whether {metric} grows or falls with {x} is not clear (exponent {place})",
    },
    "shift": {
        Outcome.HIGHER: "the best {x} is higher by a factor of {place}",
        Outcome.LOWER: "the best {x} is lower by a factor of {place}",
        Outcome.UNCLEAR: "no shift of the best {x} is shown (factor {place})",
    },
    "regime": {
        Outcome.CONSTANT: "the best {x} hardly changes with {length}{slope}",
        Outcome.INCREASING: "the best {x} rises with {length}{slope}",
        Outcome.SLOWLY_DECREASING: "the best {x} falls slowly with {length}{slope}",
        Outcome.QUICKLY_DECREASING: "the best {x} falls quickly with {length}{slope}",
        Outcome.DECREASING: "the best {x} falls with {length}, how fast is open{slope}",
    },
    "learning_curves": {Outcome.MEASURED: "at the end {metric} {is_place}"},
    "landscape": {Outcome.MEASURED: "on average the rise of {metric} above its middle {is_place}"},
}
"""What a setting says, by kind and outcome. {x}, {metric}: names; {place}: the estimate, or between what it lies;
{at}: the same with the name of the axis."""

MEANT: Mapping[str, Mapping[Outcome, str]] = {
    "boundary": {
        Outcome.LOCATED: "{of}{below} below {at}, {above} above",
        Outcome.POSITIVE: "{of}{positive} everywhere",
        Outcome.NEGATIVE: "{of}{negative} everywhere",
    },
    "inflection": {Outcome.LOCATED: "{located}: {metric} is {extreme} at {at}"},
    "trend": {
        Outcome.RISES: "{rises}{throughout}{slope}",
        Outcome.FALLS: "{falls}{throughout}{slope}",
        Outcome.UNCLEAR: "no clear trend",
    },
    "best": {Outcome.BEST: "{best}: the best {metric} is {place}"},
    "curves": {
        Outcome.HIGHER: "{of}{positive}",
        Outcome.LOWER: "{of}{negative}",
        Outcome.UNCLEAR: "{of}no clear difference{means}",
        Outcome.NO_EFFECT: "{of}zero effect",
    },
}
"""The same where the space or the workload says what the sides mean (`Finding.meanings`)."""

OTHERWISE: Mapping[Outcome, str] = {
    Outcome.UNDECIDED: "not yet known",
    Outcome.BEYOND_LOW: "{it}, if any, lies below the smallest {x} tried",
    Outcome.BEYOND_HIGH: "{it}, if any, lies above the largest {x} tried",
    Outcome.BOUND_LOW: "{it}{if_any} is at most {place}",
    Outcome.BOUND_HIGH: "{it}{if_any} is at least {place}",
    Outcome.OK_LOW: "{it} lies below the rows that are ok",
    Outcome.OK_HIGH: "{it} lies above the rows that are ok",
    Outcome.NO_EFFECT: "{it} makes no difference",
    Outcome.UNCLEAR: "no clear {effect} of {metric}",
    Outcome.MEASURED: "{metric} {is_place}",
}
"""What a setting says where its kind has no clause of its own."""

FURTHER = (*BOUNDS, Outcome.NO_EFFECT, Outcome.UNCLEAR, Outcome.UNDECIDED, Outcome.IMPROVES, Outcome.DEGRADES)
"""The outcomes that are said in short after what most settings say."""

POWERS = {Outcome.RISES: "rises as {}", Outcome.FALLS: "falls as {}", Outcome.UNCLEAR: "goes as {}"}
"""What the best value does along each axis of a law over several."""

WAYS: Mapping[Way, str] = {
    Way.RISES: "rises",
    Way.FALLS: "falls",
    Way.LOWEST: "falls, then rises",
    Way.HIGHEST: "rises, then falls",
    Way.UNCLEAR: "shows no clear change",
}
"""What means do along an axis."""

ON_THE_WHOLE, NOT_MEASURED, LEADER = " on the whole", "{of}no finite variance", "{} has the highest R²{}"
"""Of a curve that goes back; of a mean that means nothing; of a predictor in every setting."""

SUBJECTS: Mapping[str, str] = {
    "boundary": "the zero of {metric}",
    "inflection": "the turning point of {metric}",
    "optimum": "the best {x} for {metric}",
    "comparison": "the difference of {metric}",
}
"""What {it} is where such a clause comes first, by kind."""

LEADING = 0.1
"""An axis with this share of the variance is named in a sentence."""

NOUNS = {"agreement": "metric", "curves": "cell", "comparison": "sweep"}
"""What a setting is, by kind."""

POINTS: Mapping[str, str] = {
    "comparison": "mean difference",
    "engines": "median over rows",
    "law": "fitted exponent",
    "power_law": "geometric mean over draws",
    "r_squared": "R² of the mean correlation over draws",
    "regime": "mean over draws (at the best rate where none is named)",
}
"""What the points of curves show, by kind, if not means over draws."""

QUANTITIES: Mapping[str, str] = {
    "comparison": "difference in {metric}",
    "engines": "|difference to {reference}|",
    "law": "exponent of the best {metric}",
    "r_squared": "R² of {metric}",
}
"""What curves show, by kind, if not {metric}."""

MEDIANS = (
    "median (draws have no variance)",
    "Open markers: medians, because draws have no variance, with the interval of a sign test.",
)
OPEN_POINTS: Mapping[str, tuple[str, str]] = {
    "regime": (
        "at the best rate of the grid",
        "Open markers: the optimum lies beyond the rates, so the best of them is taken.",
    )
}
"""What open points of curves are in a legend and a caption, by kind, if not `MEDIANS`."""

LAWS: Mapping[str, tuple[str, str]] = {
    "law": ("fitted law, prediction band", "Dashed: the fitted law, with the prediction band of a new setting."),
    "regime": ("power law fitted", "Dashed: power law, where its slope decides the regime (as in O Fig. 34)."),
}
"""What a line through places is in a legend and a caption, by kind, if not the closed form."""

ERR_ALIKE = "Points share their seeds, so they err alike."
"""What a reader must know of points that lie to one side of theory."""

MOVED = " Points are moved along the law to what stands above their panel."
"""What the points of a law over several axes are."""

LOG_LOG, DODGED = ("engines", "power_law"), ("engines", "r_squared", "regime")
"""The kinds whose curves are drawn with both axes logarithmic, and those whose lines would cover each other."""

PER_METRIC = ("comparison", "curves", "engines", "landscape", "learning_curves")
"""The kinds whose answer is about one metric at a time."""

SIGNS = {"<=": "≤", ">=": "≥"}

SOURCES = ("intervals come from the scatter about fitted curves", "intervals come from the given errors")
"""Where intervals of single runs come from: without and with given errors."""

_SHAPES = "Intervals hold for one setting at a time, and allow for the shape of the curve between its points."

METHODS: Mapping[str, str] = {
    "boundary": "Intervals come from a posterior of the mean curve and of the noise between draws. They hold for one "
    "setting at a time; the CSV has simultaneous ones. Without variance between draws the zero is that of the median.",
    "inflection": _SHAPES,
    "optimum": f"{_SHAPES} Rows from a value on at which most draws diverged are left out.",
    "joint_optimum": "All settings are fitted as one surface, its noise pooled. The best value of an axis is the one "
    "with the other axis at its best. The CSV has the pair of least expected distance from the best value, and what is "
    "not told from the best.",
    "predicted_boundary": "Predicted is where the least-squares power law meets the level, with Fieller's interval "
    "over draws; measured is the zero. They differ where their intervals have nothing in common.",
    "agreement": "Differences to the closed form, in standard deviations (SD) over seeds, are averaged over the cells "
    "of each seed, and Student's t over draws tests their mean (Bonferroni over metrics).",
    "relation": "Spearman's rank correlation over cells is found in each draw, with Student's t over draws; with cells "
    "as the sample it is that of means, with an interval for other cells.",
    "r_squared": "R² over units is found in each draw; its interval is for other units (a jackknife, Fisher's scale). "
    "A predictor is clearly the best if the difference to each other one, on the same units, is above 0.",
    "engines": "Rows of equal seed and parameters are paired. Order: the slope of log |difference| (Student's t).",
    "trend": "Student's t over the least-squares slopes of draws, corrected for all settings (Holm). Throughout: every "
    "step between neighbouring values is shown to go the same way.",
    "best": "Cells are compared by the differences of equal draws, at 95 % for all pairs at once. The best of many "
    "means is too good; new seeds at this cell show how much.",
    "known_turns": "A curve turns if it clearly rises to a stretch and clearly falls from it to its end, beyond what "
    "errors do to a level curve (p, adjusted over all curves by Holm). The place is the best of the points.",
    "one_surface": "All slices are fitted as one surface, with each run's known error or noise pooled over slices. "
    "Intervals hold for one setting at a time. Where all cells share one seed, they are about its curve; more seeds "
    "show the mean. Rows from a value on at which most draws diverged are left out.",
    "single_runs": "Estimates are what new runs would give on average, since the best of many is too good: known "
    "errors, or noise pooled over all slices, say how far to believe a run.",
    "run_errors": "Intervals come from the errors of runs, known ones or noise pooled over all slices: each run errs "
    "on its own. They hold for one setting at a time; tests are corrected for all of them (Holm).",
    "search": "Configurations are compared by the differences of equal draws, at 95 % for all pairs at once. The best "
    "of many is too good; new seeds show how much. Shares of variance: functional ANOVA of a random forest (Optuna).",
    "curves": "Means have Student's t intervals over draws. Cells are higher or lower after Holm's correction.",
    "comparison": "Draws of one seed and equal parameters are paired, and averaged over cells in each draw.",
    "power_law": "Each draw has a least-squares line on log scales; the interval is Student's t over their slopes. "
    "That the metric grows or falls is corrected for all settings (Holm). The bend is how much the exponent grows "
    "from the first value to the last, by a parabola.",
    "shift": "The best value is fitted in both settings at each value of the axis that is averaged over, and the log "
    "of their ratio is averaged. Each draw is left out in turn, of both settings at once (jackknife, Student's t).",
    "regime": "The slope is that of a least-squares line of log best rate over log length; bounds count as bounds. "
    "Its interval must lie within ±0.1 (constant), above 0, between -0.5 and 0 (slowly), or below -0.5 (quickly). "
    "These bounds are this project's own; O §3.4.2 tells its cases apart by the losses at the best rate.",
    "law": "All settings are fitted as one surface. The law is drawn from the posteriors of best values; settings "
    "scatter around it, and forecasts are of a new one.",
    "learning_curves": "Means are over the ok draws, where all of them logged; bands are Student's t at each point.",
    "landscape": "The figure shows one draw: others have other directions. Numbers are means over draws of how much "
    "higher the values are on average over the grid than in the middle, with Student's t interval.",
}
"""How the numbers of a kind are made, in at most three sentences."""

ESTIMATES: Mapping[str, str] = {
    "boundary": "sign change",
    "inflection": "turning point",
    "optimum": "best value",
    "joint_optimum": "best value",
    "predicted_boundary": "measured",
    "agreement": "mean difference (SD over seeds)",
    "relation": "rank correlation",
    "r_squared": "highest R²",
    "engines": "order",
    "trend": "slope",
    "best": "mean",
    "curves": "mean",
    "comparison": "mean difference",
    "power_law": "exponent",
    "shift": "factor",
    "regime": "slope",
    "law": "exponent",
    "learning_curves": "last mean",
    "landscape": "above the middle",
}
"""What the column of estimates is called, by kind."""

PER_DECADE, DIFFERENCE, SPREAD = " per factor of 10", "difference", "spread of interpolations"
"""Of a slope over a logarithmic axis; of one from a value to the next; of exact values, what an interval is."""
IN_X = ("boundary", "inflection", "optimum", "predicted_boundary")
"""The kinds whose estimates are values of x; those of others are values of the metric, or have no unit."""

NOTHINGS: Mapping[Nothing, str] = {
    Nothing.NO_ROW_OK: "no row is ok, so nothing can be analysed",
    Nothing.NOT_FINITE: "{about} is finite in no row",
    Nothing.TOO_LARGE: "every value of {about} is not finite, or too large to be squared",
    Nothing.MOST_LOST: "in every cell most draws diverged or failed",
    Nothing.AXIS_TOO_LARGE: "{about} has values that are too large to be analysed",
    Nothing.AXIS_NOT_POSITIVE: "{about} has values that are not finite and positive, so no best one is sought",
    Nothing.AXIS_NOT_FINITE: "{about} has values that are not finite, so no best one is sought",
    Nothing.NO_CURVE: "no two cells differ in {about} alone, so there is no curve; ask for a grid over it",
    Nothing.NOTHING_LOGGED: "{about} logged nothing of this",
    Nothing.NO_FUNCTION: "{about}",
    Nothing.FAILED: "{about}",
    Nothing.NO_CLOSED_FORM: "no closed form stands beside two usable draws{of_about}",
    Nothing.NO_PAIR: "no row that is ok pairs with {about}",
    Nothing.ONE_SETTING: "one setting alone has nothing to compare with",
    Nothing.NO_SEED_SHARED: "the sweeps have no seed in common, so draws cannot be paired",
    Nothing.NO_CELL_SHARED: "the sweeps have no cell in common",
}
"""Why there is nothing to say; {about}: as in `Nothing`."""

FACTS: Mapping[str, str] = {
    "several": "Settings with more than one zero: {count}. Here is the clearest; the CSV says how many.",
    "infinite": "{x} is infinite in {count} rows: these rank beyond all others.",
    "without_value": "Left out: {count} ok rows without a value of both.",
    "thinned": "Left out: {count} pairs at values of {x} where fewer than half of the draws are ok.",
    "silent": "Settings in which nothing was logged: {count}.",
    "pooled": "Rows of different {names} are pooled; to keep them apart, name these under `by`.",
    "apart": "The reference has no row at the {names} of the others, so pairs differ in that too.",
    "until": "Rows that differ only in {names} share one curve, shown as far as the longest.",
    "one_draw": "Each configuration has one draw, so none is told from the best; more seeds of these would decide.",
    "missing": "Left out, because no closed form stands beside two usable draws: {names}.",
}
"""What a reader must know of facts that are a count or names, unless there are none."""

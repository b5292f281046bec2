"""The trend analysis: whether a metric rises or falls along an axis, and whether it does so throughout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import finite_values, groups
from raysweep.analyses.series import grid_theory, series_panels
from raysweep.fits.draws import log_axis
from raysweep.fits.result import EXACT
from raysweep.fits.statistics import holm
from raysweep.fits.trend import FALLS, RISES, SAME, UNCLEAR, UNTESTED, fit_trend, trend_verdict
from raysweep.numbers import interval, number
from raysweep.phrases import counted, some_of
from raysweep.report.figures.lines import points_in_words
from raysweep.report.names import plain
from raysweep.report.statuses import THEORY
from raysweep.reporting.analyses.section import Section
from raysweep.reporting.analyses.series import curves_drawing

if TYPE_CHECKING:
    import pandas as pd

COURSE = ("p_against", "p_along", "p_throughout")
SUPPOSED = {  # the null hypothesis of each p-value, in plain words
    "p_holm": "there is no trend",
    "p_against_holm": "it never turns back",
    "p_throughout_holm": "some step does not go its way",
}


def trend_section(asked: Question) -> Section:
    """Tests, figure and table of one `trend` entry."""
    import pandas as pd

    x, metric, level, workload = asked.x, asked.metric, asked.level, asked.workload
    keys = asked.keys(x)
    parts = list(groups(asked.rows, keys))
    finite = finite_values(asked.rows, x)
    log = log_axis(finite[finite > 0], workload.logarithmic(x))  # the same for all slices
    fits = [vars(fit_trend(rows, x, metric, "seed", level, logarithmic=log)) for _, rows in parts]
    whole = pd.DataFrame(
        [{**dict(zip(keys, values, strict=True)), **fit} for (values, _), fit in zip(parts, fits, strict=True)]
    )
    whole = judged(whole, level)
    whole["closed_form"] = [theory_words(rows, x, metric) for _, rows in parts]
    panels = series_panels(parts, keys, x, metric, workload)
    caption = f"{metric} against {plain(x)}: {points_in_words(panels)}."
    known = bool((whole["closed_form"] != "").any())
    rows = whole.to_dict("records")
    headline, detail = of_one(rows[0], asked) if len(rows) == 1 else of_several(whole, asked)
    return Section(
        title=f"Trend: does {metric} rise with {plain(x)}?",
        headline=headline,
        detail=detail,
        paragraphs=[how_tested(whole, x, level)],
        drawings=curves_drawing(asked, panels, caption),
        shown=[shown_row(row, keys, known) for row in rows],
        tables={f"{asked.name}_trends": whole},
    )


def judged(whole: pd.DataFrame, level: float) -> pd.DataFrame:
    """Adjust the p-values of the table of trends for all settings at once, and add the conclusions from them.

    The conclusions are the columns `status`, `turns_back`, `throughout` and `changes`.
    """
    for each in ("p_value", *COURSE):
        whole["p_holm" if each == "p_value" else f"{each}_holm"] = holm(whole[each].to_numpy(float))
    whole["status"] = [
        trend_verdict(row["slope"], row["p_holm"], level, row["note"]) for row in whole.to_dict("records")
    ]
    clear = {each: (whole[f"{each}_holm"] <= 1 - level).to_numpy() for each in COURSE}
    trend = whole["status"].isin([RISES, FALLS]).to_numpy()
    # Without a clear slope, changes in both directions are tested. So each test may err only half as often.
    either = {each: (2 * whole[f"{each}_holm"] <= 1 - level).to_numpy() for each in ("p_along", "p_against")}
    whole["turns_back"] = np.where(trend, clear["p_against"], either["p_against"] & either["p_along"])
    whole["throughout"] = clear["p_throughout"] & trend & ~whole["turns_back"]
    whole["changes"] = [
        changes(slope, along, against)
        for slope, along, against in zip(whole["slope"], either["p_along"], either["p_against"], strict=True)
    ]
    return whole


def of_one(row: Mapping[str, Any], asked: Question) -> tuple[str, str]:
    """(headline, detail) of a single setting."""
    x, metric = asked.x, asked.metric
    if row["status"] == UNTESTED:
        return f"no trend of {metric} over {plain(x)} can be tested ({row['note']})", ""
    if row["status"] == SAME:
        return f"{metric} does not change with {plain(x)}", "every draw has one value everywhere"
    said = "shows no clear trend" if row["status"] == UNCLEAR else row["status"]
    course, slope = course_words(row), slope_words(row, asked.percent)
    if row["turns_back"]:
        detail = f"{changes_words(row, x)}; least-squares slope over all {slope}"
        finding = f"{metric} {said} with {plain(x)}{course}"
        return (asked.words[said], f"{finding}; {detail}") if said in asked.words else (finding, detail)
    overall = "" if row["status"] == UNCLEAR else " overall"
    finding = f"{metric} {said}{course or overall} with {plain(x)}"
    if said in asked.words:
        return asked.words[said], f"{finding}: least-squares slope {slope}"
    return finding, f"least-squares slope {slope}"


def of_several(whole: pd.DataFrame, asked: Question) -> tuple[str, str]:
    """(in how many settings the metric rises, falls or shows neither; more on how, and what theory does), in words."""
    verbs = {UNCLEAR: "shows no clear trend", SAME: "does not change", UNTESTED: "cannot be tested"}
    counts = {
        verbs.get(str(status), str(status)): int(count) for status, count in whole["status"].value_counts().items()
    }
    (verb, most), *rest = counts.items()
    courses = {
        word: Counter(course_words(row).strip(" ,") for row in whole[whole["status"] == word].to_dict("records"))
        for word in (RISES, FALLS)
    }
    own = courses.get(verb, Counter())
    throughout = own["throughout"] == len(whole)
    (course, tried) = (" throughout", ", at the values tried,") if throughout else ("", "")
    back = {way: count for way, count in own.items() if way.endswith("in between")}  # it turns back in so many
    among = some_of(most, len(whole), "setting")
    finding = f"{asked.metric} {verb}{' overall' if back else course} with {plain(asked.x)}{tried}"
    if verb in asked.words:
        finding = asked.words[verb] + (f"{course}{tried}" if throughout else "")
        rest = [(asked.words.get(way, way.removeprefix("shows ")), count) for way, count in rest]
    headline = f"{finding} in {among}"
    headline += "".join(f", {way} in {count}" for way, count in [*back.items(), *rest])
    told = {(verb, way) for way in (*back, *(["throughout"] if throughout else []))}
    more = [
        f"{word} {way} in {count}"
        for word, ways in courses.items()
        for way, count in sorted(ways.items())
        if way and (word, way) not in told
    ]
    unclear, untested = (whole[whole["status"] == status] for status in (UNCLEAR, UNTESTED))
    more += [
        f"no clear trend, but {one}, in {count}" for one, count in unclear["changes"].value_counts().items() if one
    ]
    more += [untested["note"].iloc[0]] if len(untested) else []
    theory = ", ".join(f"{words} in {count}" for words, count in whole["closed_form"].value_counts().items() if words)
    more += [f"{THEORY} at the same values: {theory}"] if theory else []
    exact = all(is_exact(row) for row in whole.to_dict("records"))
    how = "exact: draws do not differ in it" if exact else f"tested with p < {1 - asked.level:.2g} (Holm)"
    by = [f"measured by {asked.metric} over {plain(asked.x)}"] if verb in asked.words else []
    return headline, "; ".join([*more, ", ".join([*by, how])])


def theory_words(rows: pd.DataFrame, x: str, metric: str) -> str:
    """How the closed form changes at the same x, in words; empty without a closed form."""
    _, theory = grid_theory(rows, x, metric)
    if len(theory) < 2 or not np.ptp(theory) > 0:
        return ""
    steps = np.diff(theory) / np.ptp(theory)
    rises, falls = bool((steps > 1e-6).any()), bool((steps < -1e-6).any())
    if not (rises and falls):
        return "rises throughout" if rises else "falls throughout"
    return "rises, falls in between" if theory[-1] > theory[0] else "falls, rises in between"


def course_words(row: Mapping[str, Any]) -> str:
    """Text to append to a trend: whether it holds throughout or has an exception; empty if neither was shown."""
    if row["throughout"]:
        return " throughout"
    if row["status"] == UNCLEAR:
        return f", but {row['changes']}" if row["changes"] else ""
    if not row["turns_back"]:
        return ""
    return f", with a clear {'fall' if row['status'] == RISES else 'rise'} in between"


def changes(slope: float, along: bool, against: bool) -> str:
    """Which changes between two values of x were shown, independent of the overall slope.

    along: whether a change in the direction of the slope was shown.
    against: whether a change in the opposite direction was shown.
    """
    rise, fall = (along, against) if slope > 0 else (against, along)
    return " and ".join(words for words, shown in (("a clear rise", rise), ("a clear fall", fall)) if shown)


def changes_words(row: Mapping[str, Any], x: str) -> str:
    """The largest rise and the largest fall of a curve that has both, in the order of x, in words."""
    words = ("falls", "rises") if row["slope"] < 0 else ("rises", "falls")
    parts = sorted(
        (
            row[f"{name}_from"],
            f"{word} by {number(row[name], 3)} from {number(row[f'{name}_from'])} to {number(row[f'{name}_to'])}",
        )
        for name, word in zip(("move", "back"), words, strict=True)
    )
    return f"over {plain(x)} it {parts[0][1]} and {parts[1][1]}"


def is_exact(row: Mapping[str, Any]) -> bool:
    """Whether draws differ at most by a constant, so that the trend has no uncertainty."""
    return str(row["method"]) == EXACT


def slope_words(row: Mapping[str, Any], percent: str) -> str:
    """The slope in words, with its interval and p-value unless it is exact."""
    if is_exact(row):
        return f"{number(row['slope'], 6)} {per(row)}, exactly: draws do not differ in it"
    known = interval(row["slope"], row["low"], row["high"])
    return f"{known} {per(row)} ({percent}, p = {number(row['p_value'], 2)})"


def per(row: Mapping[str, Any]) -> str:
    """The unit of a slope."""
    return "per factor of ten" if row["logarithmic"] else "per unit"


def how_tested(whole: pd.DataFrame, x: str, level: float) -> str:
    """How the trend was tested, in words."""
    methods = "; ".join(
        f"{word} (in {count})" for word, count in whole["method"].value_counts().items() if word != "none"
    )
    several = f" after Holm's correction for {counted(len(whole), 'setting')}" if len(whole) > 1 else ""
    return (
        f"A trend is a least-squares slope over {'log ' if whole['logarithmic'].any() else ''}{plain(x)} that differs "
        f'from 0 with p < {1 - level:.2g}{several}. "Throughout" is said only where every single step between '
        f"neighbouring values was shown to go the same way: in a one-sided Student's t test over draws the least clear "
        f'step has p < {1 - level:.2g}{" (same correction)" if several else ""}. "In between" is said only where a '
        "change the other way, between any two values, is as clear. Where neither is said, the values do not tell "
        "whether the trend holds throughout. Where no trend is clear, a rise and a fall are looked for with half that "
        f"probability each.{f' Method: {methods}.' if methods else ''}"
    )


def shown_row(row: Mapping[str, Any], keys: list[str], known: bool) -> dict[str, str]:
    """One setting as a row of formatted text. known: whether any setting has a closed form."""
    out = {plain(str(key)): number(row[key]) for key in keys}
    out["trend"] = row["status"] + course_words(row)
    if row["turns_back"] and row["status"] != UNCLEAR:
        out["trend"] += f" by {number(row['back'], 3)} from {number(row['back_from'])} to {number(row['back_to'])}"
    out[f"slope {per(row)} [interval]"] = interval(row["slope"], row["low"], row["high"])
    for column, words in SUPPOSED.items():
        out[f"p if {words}"] = "–" if is_exact(row) else number(row[column], 2)
    if known:
        out[THEORY] = row["closed_form"] or "–"
    out["draws"] = str(row["draws"])
    return out

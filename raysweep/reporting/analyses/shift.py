"""The shift analysis: by what factor does the best value of an axis move between settings, all else equal?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.question import Question
from raysweep.analyses.rows import better_extremum, groups
from raysweep.fits.shift import fit_shift
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.figures.drawing import in_lines
from raysweep.report.figures.shift import shift_figure
from raysweep.report.names import called, plain, settings
from raysweep.reporting.analyses.section import Drawing, Section

if TYPE_CHECKING:
    import pandas as pd

NAME = 60  # letters in a line of the label of the factors
SAID = 5  # at most this many settings are in the headline


def shift_section(asked: Question) -> Section:
    """Fits, figure and table of one `shift` entry."""
    import pandas as pd

    x, over, metric, workload = asked.x, str(asked.options["over"]), asked.metric, asked.workload
    keys = [key for key in asked.keys(x, over) if key != over]
    parts = list(groups(asked.rows, keys))
    title = f"Shift: the best {plain(x)} for {plain(metric)} in each setting beside the first"
    if len(parts) < 2:
        return Section(title, f"no best {plain(x)} for {plain(metric)} is compared, because there is only one setting")
    order = [tuple(asked.design.values(key)[0] if asked.design.values(key) else None for key in keys)]
    first = next((k for k, (values, _) in enumerate(parts) if tuple(values) in order), 0)
    base, base_rows = parts.pop(first)
    turn = better_extremum(metric, workload)
    lines: list[dict[str, Any]] = []
    for values, rows in parts:
        differing = [k for k, (one, other) in enumerate(zip(base, values, strict=True)) if one != other]
        label = settings([keys[k] for k in differing], [values[k] for k in differing], workload)
        found = fit_shift(base_rows, rows, x, metric, over, "seed", asked.level, turn=turn)
        lines.append({**dict(zip(keys, values, strict=True)), "setting": label, **vars(found)})
    whole = pd.DataFrame(lines)
    told = whole[np.isfinite(whole["factor"])]
    beside = settings(keys, base, workload)
    caption = (
        f"The best {plain(x)} for {plain(metric)}, divided by that of {beside}: geometric mean over {plain(over)}, "
        f"with its {asked.percent} interval."
    )
    factor, low, high = (told[name].to_numpy(float) for name in ("factor", "low", "high"))
    drawings = []
    if len(told):
        name = f"best {called(x, workload)} ÷ that of {beside}"
        figure, said = shift_figure(told["setting"].tolist(), factor, low, high, in_lines(name, NAME))
        drawings = [Drawing(asked.name, f"{caption} {said}".strip(), figure)]
    said, detail = headline(whole, beside, asked)
    return Section(
        title=title,
        headline=said,
        detail=detail,
        paragraphs=[how(asked, over)],
        drawings=drawings,
        shown=[shown_row(row, asked) for row in lines],
        tables={f"{asked.name}_factors": whole},
        undecided=""
        if len(told)
        else f"by what factor the best {plain(x)} moves (deciding it takes settings that have one)",
    )


def headline(whole: pd.DataFrame, beside: str, asked: Question) -> tuple[str, str]:
    """(the settings in which the best value moves and by what factor, all factors with their intervals), in words."""
    what, others = f"best {plain(asked.x)}", counted(len(whole), "other setting")
    every = f"any of {others}" if len(whole) > 1 else "the other setting"
    base = f"all beside that with {beside}, for {plain(asked.metric)}"
    if not np.isfinite(whole["factor"]).any():
        none = f"none of {others}" if len(whole) > 1 else "no other setting"
        return f"not decided: by what factor the {what} moves, as in {none} it is located beside the first", base
    rows = whole.sort_values("low", key=lambda low: ~moved(whole), kind="stable").to_dict("records")
    clear = [row for row in rows if row["low"] > 1 or row["high"] < 1]
    factors = " and ".join(f"by a factor {number(row['factor'], 2)} with {row['setting']}" for row in clear[:SAID])
    more = f" and {len(clear) - SAID} more" if len(clear) > SAID else ""
    text = f"the {what} is not shown to move in {every}"
    if clear:
        lower = sum(row["high"] < 1 for row in clear)
        moves = "is lower" if lower == len(clear) else "moves" if lower else "is higher"
        text = f"the {what} {moves} in {len(clear)} of {others}" if len(whole) > 1 else f"the {what} {moves}"
        text = f"{text}: {factors}{more}"
    intervals = [
        f"{interval(row['factor'], row['low'], row['high'])} with {row['setting']}"
        if np.isfinite(row["low"])
        else f"not known with {row['setting']}"
        for row in rows
    ]
    return text, f"factors {', '.join(intervals)} ({asked.percent}); {base}"


def moved(whole: pd.DataFrame) -> pd.Series:
    """Whether the interval of each setting's factor leaves out 1."""
    return (whole["low"] > 1) | (whole["high"] < 1)


def how(asked: Question, over: str) -> str:
    """How the numbers were computed, in words."""
    return (
        f"At each {plain(over)} the best {plain(asked.x)} is fitted in both settings, and the logarithm of their ratio "
        f"is averaged over every {plain(over)} at which both are located. Each draw is left out in turn, of both "
        "settings and all values at once (jackknife, Student's t), so what a draw does to both cancels. Intervals are "
        f"{asked.percent} for each setting on its own; one that holds 1 shows no shift."
    )


def shown_row(row: Mapping[str, Any], asked: Question) -> dict[str, str]:
    """One setting as a row of formatted text."""
    known = np.isfinite(row["low"])
    return {
        "setting": row["setting"],
        f"factor [{asked.percent}]": interval(row["factor"], row["low"], row["high"]) if known else "–",
        "shown": ("–" if not known else "no" if row["low"] <= 1 <= row["high"] else "yes"),
        "values averaged": str(row["slices"]),
        "left out": str(row["left_out"]),
        "draws": number(row["draws"]),
    }

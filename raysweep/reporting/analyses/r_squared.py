"""The r_squared analysis: how much of a metric do others explain, over units such as pairs of tasks?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.kinds.r_squared import PANELS, line, of_group
from raysweep.analyses.question import Question
from raysweep.analyses.rows import all_keys, groups, spread
from raysweep.analyses.series import Panel
from raysweep.numbers import interval, number
from raysweep.phrases import counted, some_of
from raysweep.report.figures.r_squared import r_squared_figure
from raysweep.report.names import plain
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.analyses.where import where

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
ALIKE = 0.005  # R² that differ less are alike as shown


def r_squared_section(asked: Question) -> Section:
    """Figure and table of one `r_squared` entry."""
    import pandas as pd

    x, metric, unit = asked.x, asked.metric, str(asked.options["unit"])
    predictors = list(dict.fromkeys(asked.options["predictors"]))
    good = asked.rows[asked.rows["status"] == "ok"]
    keys = [key for key in all_keys(good, asked.workload, x, [*asked.by, unit], asked.design) if key != unit]
    found = [
        {**dict(zip([*keys, x], values, strict=True)), **row}
        for values, rows in groups(good, [*keys, x])
        for row in of_group(rows, metric, predictors, unit, asked.level)
    ]
    table = pd.DataFrame(found)
    parts = list(groups(table, keys))
    panels = [
        Panel(dict(zip(keys, values, strict=True)), [line(name, rows, x) for name in predictors])
        for values, rows in spread(parts, PANELS)
    ]
    units = counted(int(table["units"].max()), plain(unit))
    caption = (
        f"R² of {metric} by a line in each predictor over {units}: mean over draws, with its {asked.percent} interval "
        f"over the values of {plain(unit)}."
    )
    drawings = []
    if table["r_squared"].notna().any():
        marks = f"mean over draws, {asked.percent} interval over {units}"
        figure, told = r_squared_figure(panels, x, metric, asked.workload, marks)
        drawings = [Drawing(asked.name, f"{caption} {told}".strip(), figure)]
    said, detail = headline(table, predictors, units, asked)
    return Section(
        f"R²: what explains {metric}, {plain(unit)} by {plain(unit)}?",
        said,
        paragraphs(table, predictors, unit, asked),
        drawings,
        [shown_row(row, [*keys, x], asked) for row in table.to_dict("records")],
        {f"{asked.name}_values": table},
        detail=detail,
        sure=sure(table, units, asked),
        undecided=still_open(table, len(predictors), asked),
    )


def sure(table: pd.DataFrame, units: str, asked: Question) -> str:
    """How wide the intervals of the predictor that explains most are, in words; empty without any.

    units: what they are over, with its number.
    """
    known = table.dropna(subset=["r_squared", "low", "high"])
    if not len(known):
        return ""
    best, _ = leader(table)
    own = known[known["predictor"] == best]
    half = (own["high"] - own["low"]) / 2
    ends = " to ".join(dict.fromkeys(number(float(end), 2) for end in (half.min(), half.max())))
    return f"R² of {best} known to ± {ends} ({asked.percent} over {units})"


def still_open(table: pd.DataFrame, predictors: int, asked: Question) -> str:
    """In how many settings it is open which predictor is best, and what deciding it would take; empty if in none."""
    every = len(table) // predictors
    unclear = every - int(table["best"].sum())
    if predictors < 2 or not unclear:
        return ""
    among = f" in {unclear} of {counted(every, 'setting')}" if every > 1 else ""
    what = f"which of {counted(predictors, 'predictor')} explains {asked.metric} best"
    return f"{what}{among} (deciding it takes more values of {plain(asked.options['unit'])})"


def headline(table: pd.DataFrame, predictors: list[str], units: str, asked: Question) -> tuple[str, str]:
    """(the predictor that explains most, the range of R² of each over the settings), in words. units: what R² is over,
    with its number."""
    keys = [name for name in table.columns if name in asked.workload.by_name]
    along = moves_most(table, [key for key in keys if table[key].dtype.kind in "if"])
    found = table[table["r_squared"].notna()]
    said = [f"{name} {span(found[found['predictor'] == name], along)}" for name in predictors]
    every = counted(len(table) // len(predictors), "setting")
    unit = plain(asked.options["unit"])
    if found["predictor"].nunique() < 2:
        return f"R² of {asked.metric} over {unit}, in {every}: {', '.join(said)}", ""
    best, leading = leader(table)
    own, setting = table["predictor"] == best, settings_of(table)
    leads, clearly = int((own & leading).sum()), int((own & table["best"]).sum())
    count = f"in {some_of(leads, len(table) // len(predictors), 'setting')}"
    tied = bool((leading.groupby(setting).sum()[setting[own & leading]] > 1).any())
    said.sort(key=lambda text: not text.startswith(f"{best} "))
    which = where(table[own], table.loc[own, "best"].to_numpy(bool), keys, asked.workload)
    best_there = f"best{' or as well as any' if tied else ''} {count}"
    words = (
        f"{best} explains {asked.metric} {best_there}, clearly in {clearly} "
        f"({', '.join(filter(None, (which, asked.percent)))})"
        if clearly
        else f"no predictor clearly explains {asked.metric} best: {best} does it {best_there}, clearly in none "
        f"({asked.percent})"
    )
    beside = f" (in brackets its {plain(along)})" if along else ""
    return words, f"R² over {units}{beside}: {', '.join(said)}"


def settings_of(table: pd.DataFrame) -> pd.Series:
    """The number of each row's setting: there is one row per predictor in each."""
    return table.groupby("predictor").cumcount()


def leader(table: pd.DataFrame) -> tuple[str, pd.Series]:
    """(the predictor that has the highest R² in most settings, and of several such ones the highest mean; which rows
    have the highest R² of their setting, or one as high as shown)."""
    leading = table["r_squared"] > table.groupby(settings_of(table))["r_squared"].transform("max") - ALIKE
    led = leading.groupby(table["predictor"]).sum()
    mean = table.groupby("predictor")["r_squared"].mean()
    return max(mean.dropna().index, key=lambda name: (led[name], mean[name])), leading


def moves_most(table: pd.DataFrame, names: list[str]) -> str:
    """The parameter with which the R² of all predictors vary most, going by their means; empty if there is none."""

    def varies(name: str) -> float:
        means = table.groupby(["predictor", name])["r_squared"].mean()
        return float(means.groupby("predictor").var().sum())

    varied = [name for name in names if table[name].nunique() > 1]
    return max(varied, key=varies, default="")


def span(own: pd.DataFrame, along: str) -> str:
    """The lowest and the highest R² of one predictor in words, with the value of `along` at which it is so."""
    if not len(own):
        return "in no setting"
    ends = [own.loc[place] for place in (own["r_squared"].idxmin(), own["r_squared"].idxmax())]
    said = [f"{row['r_squared']:.2f}{f' ({number(row[along])})' if along else ''}" for row in ends]
    return " to ".join(dict.fromkeys(said))


def paragraphs(table: pd.DataFrame, predictors: list[str], unit: str, asked: Question) -> list[str]:
    """How the numbers were computed, which predictors are better than the first, and what was left out."""
    text = [
        "R² is the squared correlation over units, found in each draw; shown is its mean over draws. Its interval is "
        f"for other values of {plain(unit)} drawn like these: a jackknife over them on Fisher's scale with Student's "
        "t, whole draws kept together, 0 being its lower end where the sign of the correlation is open. ± is the "
        f"standard deviation over draws. The difference to {predictors[0]} has a jackknife of its own on the same "
        "units; neither is corrected for the number of comparisons. Clearly the best is a predictor whose interval "
        "lies above those of all others."
    ]
    for name in predictors[1:]:
        own = table[table["predictor"] == name]
        above, below = int((own["more_low"] > 0).sum()), int((own["more_high"] < 0).sum())
        text.append(
            f"{name} explains clearly more than {predictors[0]} in {above} and clearly less in {below} of "
            f"{counted(len(own), 'setting')}."
        )
    falling = table[table["correlation"] < 0]
    if len(falling):
        named = ", ".join(f"{name} ({count})" for name, count in falling["predictor"].value_counts().items())
        text.append(f"The metric falls where the predictor rises in {counted(len(falling), 'line')}: {named}.")
    notes = table["note"][table["note"] != ""].value_counts()
    if len(notes):
        text.append(f"{'; '.join(f'{note} (in {count})' for note, count in notes.items())}.")
    return text


def shown_row(row: Row, keys: list[str], asked: Question) -> dict[str, str]:
    """One predictor in one setting as a row of formatted text."""
    known = np.isfinite(row["low"])
    estimate = interval(row["r_squared"], row["low"], row["high"]) if known else number(row["r_squared"], 3)
    more = "–"
    if row["more_low"] < row["more_high"]:
        more = interval(row["more"], row["more_low"], row["more_high"])
    return {
        **{plain(key): number(row[key]) for key in keys},
        "predictor": row["predictor"],
        f"R² [{asked.percent}]": estimate,
        "± over draws": number(row["over_draws"], 2),
        "correlation": f"{row['correlation']:+.2f}" if np.isfinite(row["correlation"]) else "–",
        "more than the first": more,
        "units": str(row["units"]),
        "draws": str(row["draws"]),
    }

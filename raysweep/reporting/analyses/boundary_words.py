"""What a boundary analysis says: its line, its paragraphs, its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.comparison import Joint
from raysweep.fits.result import Status
from raysweep.fits.statistics import t_quantile
from raysweep.reporting.analyses.against_theory import excluded, summary
from raysweep.reporting.analyses.place_words import beside_theory, moving, not_located, others_words, unlocated_words
from raysweep.reporting.words import counted, interval, line_label, number, plain, settings, unit_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

FOLDED = 3  # as many slices in a row without an answer, for one reason, share a line


def quantile_words(frame: pd.DataFrame, level: float) -> str:
    """Student's t of a full cell, in words."""
    draws = int(frame["seed"].nunique())
    return f"{t_quantile(level, draws - 1):.2f} for {draws} draws" if draws > 1 else "unknown for a single draw"


def headline(
    whole: pd.DataFrame,
    lead: list[str],
    x: str,
    metric: str,
    lines: Mapping[str, float],
    workload: Workload,
    level: float,
) -> str:
    """What was found, how sure, theory beside it: one line. `lead` are the columns that tell slices apart."""
    unit = unit_of(x, workload)
    found = whole[whole["status"] == Status.LOCATED]
    what = f"zero of {metric} in {plain(x)}"
    if len(whole) == 1:
        row = whole.iloc[0]
        if row["status"] == Status.LOCATED:
            beside = beside_theory(row, unit)
            for name, value in lines.items():
                outside = not row["low"] <= value <= row["high"]
                beside += f"; {line_label(name, value, x, workload)} {'excluded' if outside else 'not excluded'}"
            return f"{what}: {interval(row['estimate'], row['low'], row['high'])}{unit} ({100 * level:g} %){beside}"
        return f"{what}: {unlocated_words(row, unit)}"
    text = f"{what}: located in {len(found)} of {counted(len(whole), 'slice')}"
    if len(found):
        text += f", {number(found['estimate'].min(), 3)}{unit} to {number(found['estimate'].max(), 3)}{unit}"
    else:
        text += others_words(whole)
    text += moving(whole, lead)
    if against := verdicts(whole, x, lines, workload):
        return f"{text}; {against}" + example(found, lead, workload, unit)
    if len(found):
        half = ((found["high"] - found["low"]) / 2).median()
        text += f" (± {number(half, 2)}{unit})"
    return text + (others_words(whole) if len(found) else "")


def example(found: pd.DataFrame, lead: list[str], workload: Workload, unit: str) -> str:
    """The located slice farthest from the closed form if that is excluded, else the one in the middle; the zero beside
    the closed form's. Empty without one."""
    known = found[found["theory"].notna()]
    if not len(known):
        return ""
    outside = known[(known["theory"] < known["low"]) | (known["theory"] > known["high"])]
    row = outside.loc[outside["z"].abs().idxmax()] if outside["z"].notna().any() else known.iloc[(len(known) - 1) // 2]
    where = settings(lead, (row[name] for name in lead), workload)
    return (
        f" ({where}: {interval(row['estimate'], row['low'], row['high'])}{unit}, "
        f"theory {number(row['theory'], 4)}{unit})"
    )


def verdicts(whole: pd.DataFrame, x: str, lines: Mapping[str, float], workload: Workload) -> str:
    """In how many slices the interval leaves out each reference line and the closed form; empty without either."""
    counts = [
        (line_label(name, value, x, workload), excluded(whole, np.full(len(whole), value)))
        for name, value in lines.items()
    ]
    if whole["theory"].notna().any():
        counts.append(("closed form", excluded(whole, whole["theory"].to_numpy(float))))
    said = [f"{name} excluded in {out} of {among}" for name, (out, among) in counts if among]
    return ", ".join(said)


def paragraphs(
    whole: pd.DataFrame,
    x: str,
    lines: Mapping[str, float],
    together: Joint | None,
    workload: Workload,
    level: float,
    notes: Sequence[str],
) -> list[str]:
    """How the fit was made, how it stands to the closed form, and what happened to the slices without an answer."""
    text = []
    beside = summary(whole, level)
    if beside:
        text.append(beside[0].upper() + beside[1:] + ".")
    if together is not None:
        text.append(
            "Slices share draws, so their z are not as many looks at the closed form. All located slices together, "
            f"with the draw as the unit: z = {together.z:+.2f} ({together.draws} draws), the fitted zeros lie "
            f"{together.mean:+.2g} ± {together.error:.2g} of one draw's scatter from the closed form's. "
            + bias_words(together)
        )
    for name, value in lines.items():
        text.append(line_sentence(whole, name, value, x, workload, level))
    scales = ", ".join(f"{word} in {int(count)}" for word, count in whole["scale"].value_counts().items())
    text.append(
        f"The draw is the unit: intervals invert Student's t-test on the mean curve over draws, so they hold "
        f"although the points of one draw move together. They are pointwise {100 * level:g} % intervals, widened by "
        f"the spread between interpolations; the CSV has Bonferroni bands for all slices at once. Scale of the values: "
        f"{scales} of {counted(len(whole), 'slice')} (sign: zero of the median, where draws have no variance"
        + ("; no z then)." if whole["z"].notna().any() else ").")
    )
    text += not_located(whole)
    if whole["z"].notna().any():
        text.append(
            "z is the distance to the closed form in units of the slice's own error; |z| is beyond "
            "1.96 exactly where a 95 % interval misses it."
        )
    return text + [note[0].upper() + note[1:] + "." for note in notes]


def bias_words(together: Joint) -> str:
    """Whether the closed form's own error shows."""
    if abs(together.z) > 1.96:
        return "That is a bias, small or not, that the scatter between draws does not explain."
    return "No bias shows."


def line_sentence(whole: pd.DataFrame, name: str, value: float, x: str, workload: Workload, level: float) -> str:
    """How far the slices are from a named reference line."""
    out, among = excluded(whole, np.full(len(whole), value))
    label = line_label(name, value, x, workload)
    if not among:
        return f"{label}: no slice can say."
    text = f"{label}: outside the {100 * level:g} % interval in {out} of {counted(among, 'slice')}"
    score = whole[f"z {name}"].to_numpy(float)
    score = score[np.isfinite(score)]
    if len(score):
        far = score[np.argmax(np.abs(score))]
        text += f"; distance in units of the slice's own error: median |z| {np.median(np.abs(score)):.2g}, "
        text += f"farthest {far:+.2g}"
    if whole["theory"].notna().any():
        kept, asked = excluded(whole, whole["theory"].to_numpy(float))
        text += f". The closed form: outside in {kept} of {asked}"
    return text + "."


def folded(rows: Sequence[Mapping[str, Any]], lead: Sequence[str]) -> list[list[Mapping[str, Any]]]:
    """Rows in the order of the table; three or more in a row that say nothing, for one reason, together."""
    runs: list[list[Mapping[str, Any]]] = []

    def silent(row: Mapping[str, Any]) -> Any:
        return (row["note"], *(row[key] for key in lead[:-1])) if row["status"] == Status.UNDETERMINED else None

    for row in rows:
        if runs and silent(row) is not None and silent(row) == silent(runs[-1][-1]):
            runs[-1].append(row)
        else:
            runs.append([row])
    return [part for run in runs for part in ([run] if len(run) >= FOLDED else [[row] for row in run])]


def shown_row(
    run: Sequence[Mapping[str, Any]], lead: list[str], x: str, lines: Mapping[str, float], with_theory: bool
) -> dict[str, str]:
    """One slice, or a run of them that say nothing, as ready text."""
    row, last = run[0], run[-1]
    out = {plain(key): number(row[key]) for key in lead}
    out["status"] = row["status"].replace("_", " ")
    if len(run) > 1:
        out[plain(lead[-1])] = f"{number(row[lead[-1]])} … {number(last[lead[-1]])}"
        out["status"] += f" in {len(run)} slices" + (f" ({row['note']})" if row["note"] else "")
    out[f"zero in {plain(x)} [interval]"] = interval(row["estimate"], row["low"], row["high"])
    if with_theory:
        out["closed form"] = number(row["theory"], 5) if len(run) == 1 else "–"
        out["z"] = "–" if not np.isfinite(row["z"]) else f"{row['z']:+.2f}"
    for name in lines:
        score = row[f"z {name}"]
        out[f"z to {name}"] = f"{score:+.2f}" if np.isfinite(score) else "beyond" if row[f"excluded {name}"] else "–"
    out["draws"] = str(row["draws"])
    return out

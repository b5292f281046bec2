"""The boundary analysis: where a metric changes sign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.reporting.against_theory import add_theory, summary
from raysweep.reporting.boundary import fit_boundary
from raysweep.reporting.figures_lines import Series, curves_figure
from raysweep.reporting.figures_places import places_figure
from raysweep.reporting.figures_surface import surface_figure
from raysweep.reporting.result import LOCATED
from raysweep.reporting.section import Drawing, Section
from raysweep.reporting.section_curves import one_series
from raysweep.reporting.selection import all_keys, groups, heavy_rows, is_exact
from raysweep.reporting.style import picked
from raysweep.reporting.theory_lines import smooth, zero_line
from raysweep.reporting.words import counted, interval, number, plain, settings, unit_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

SIGN_DRAWS = 6


def boundary_section(frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str) -> Section:
    """Fit, figures and tables of one `boundary` entry."""
    import pandas as pd

    x, y, metric, level = options["x"], options.get("y"), options["metric"], float(options.get("level", 0.95))
    keys = [key for key in all_keys(frame, workload, x, [*([y] if y else []), *options.get("by", [])]) if key != y]
    pieces, parts = [], []
    notes: list[str] = []
    for values, rows in groups(frame, keys):
        fit = fit_boundary(
            rows,
            x,
            y,
            metric,
            "seed",
            level,
            scale=slice_scale(rows, x, y, metric, workload),
            exact=is_exact(rows, metric),
        )
        notes += [note for note in fit.notes if note not in notes]
        slices = fit.table[y].to_numpy() if y else np.zeros(1)
        # Where the sign scale was used the zero is the median's, which the closed form of the mean says nothing of.
        table = add_theory(fit.table, zero_line(rows, x, y, metric, workload, slices), level)
        table.loc[table["scale"] == "sign", "z"] = np.nan
        at = smooth(rows, y, workload) if y else np.zeros(1)
        parts.append((values, rows, table, at, zero_line(rows, x, y, metric, workload, at)))
        pieces.append(table.assign(**dict(zip(keys, values, strict=True))))
    whole = pd.concat(pieces, ignore_index=True)
    lead = [*keys, *([y] if y else [])]
    whole = whole[[*lead, *[c for c in whole.columns if c not in lead]]]

    drawings = []
    fitted_line = f"Zero of {metric} in {plain(x)}"
    if y and is_number(frame, y) and frame[y].nunique() > 1 and frame[x].nunique() > 1:
        panels = [
            (settings(keys, values, workload), rows, table, at, roots) for values, rows, table, at, roots in parts
        ]
        drawings.append(
            Drawing(
                f"{name}_surface",
                f"{metric} (mean over draws) over {plain(x)} and {plain(y)}: blue where it "
                f"is positive. "
                f"Points: fitted zero of each slice with its {100 * level:g} % interval (pointwise: for one "
                f"slice, not for "
                "all at once). Orange: the closed form's zero, found on the formula, not on the grid.",
                surface_figure(panels, x, y, metric, workload, level),
            )
        )
    along = y if y and is_number(frame, y) else next((key for key in keys if is_number(frame, key)), None)
    if along and (y != along or len(parts) > 1):
        drawings.append(
            Drawing(
                f"{name}_line",
                f"{fitted_line} against {plain(along)}, with {100 * level:g} % intervals (pointwise) and the "
                f"closed form.",
                line_figure(frame, whole, lead, along, x, metric, workload, level),
            )
        )
    figure, shown_slices = slices_figure(parts, keys, x, y, metric, workload)
    drawings.append(
        Drawing(
            f"{name}_slices",
            f"{metric} against {plain(x)}: mean over draws ± one standard error (between "
            f"draws; multiply by "
            f"Student's t, {quantile_words(frame, level)}, for a {100 * level:g} % interval) over the closed "
            f"form{shown_slices}.",
            figure,
        )
    )

    shown = [shown_row(row, lead, x, workload) for row in whole.to_dict("records")]
    return Section(
        title=f"Boundary: where {metric} changes sign",
        headline=headline(whole, x, metric, lead, workload, level),
        paragraphs=paragraphs(whole, level, notes),
        drawings=drawings,
        shown=shown,
        tables={f"{name}_zeros": whole},
    )


def is_number(frame: pd.DataFrame, name: str) -> bool:
    """Whether a column holds numbers and not words."""
    return frame[name].dtype.kind in "if"


def slice_scale(rows: pd.DataFrame, x: str, y: str | None, metric: str, workload: Workload) -> Any:
    """What the workload knows of its draws: the sign scale for slices with a cell whose draws have no variance, the
    mean for all others (a far draw alone must not turn the question into one about the median). None: the fit
    chooses."""
    if workload.heavy_tailed is None or rows["seed"].nunique() < SIGN_DRAWS:
        return None
    heavy = heavy_rows(rows, metric, workload)
    if y is None:
        return "sign" if heavy.any() else "linear"
    return {label: "sign" if heavy[(rows[y] == label).to_numpy()].any() else "linear" for label in rows[y].unique()}


def line_figure(
    frame: pd.DataFrame,
    whole: pd.DataFrame,
    lead: list[str],
    along: str,
    x: str,
    metric: str,
    workload: Workload,
    level: float,
) -> Any:
    """The zero against one axis, a line for every combination of the others."""
    others = [key for key in lead if key != along]
    lines = []
    combinations = list(groups(whole, others))
    for index in picked(len(combinations), 8):
        values, table = combinations[index]
        rows = frame
        for key, value in zip(others, values, strict=True):
            rows = rows[rows[key] == value]
        at = smooth(rows, along, workload)
        roots = zero_line(rows, x, along, metric, workload, at)
        expected = np.array([root[0] if len(root) == 1 else np.nan for root in roots])
        key = values[0] if len(values) == 1 else settings(others, values, workload)
        lines.append((key, settings(others, values, workload), table, at, expected))
    return places_figure(lines, x, along, workload, level, f"zero of {metric}")


def slices_figure(
    parts: list[tuple[Any, pd.DataFrame, pd.DataFrame, Any, Any]],
    keys: list[str],
    x: str,
    y: str | None,
    metric: str,
    workload: Workload,
) -> tuple[Any, str]:
    """Up to six slices in each of up to six panels."""
    panels = []
    left_out = len(parts) > 6
    for index in picked(len(parts), 6):
        values, rows, *_ = parts[index]
        slices = list(groups(rows, [y] if y else []))
        left_out |= len(slices) > 6
        series: list[Series] = []
        for k in picked(len(slices), 6):
            label, part = slices[k]
            one = one_series(
                part, x, metric, workload, label[0] if label else "", settings([y] if y else [], label, workload)
            )
            if one is not None:
                series.append(one)
        panels.append((settings(keys, values, workload), series))
    return curves_figure(panels, x, metric, workload), " (a selection of slices, spread evenly)" if left_out else ""


def quantile_words(frame: pd.DataFrame, level: float) -> str:
    """Student's t of a full cell, in words."""
    from raysweep.reporting.signs import t_quantile

    draws = int(frame["seed"].nunique())
    return f"{t_quantile(level, draws - 1):.2f} for {draws} draws" if draws > 1 else "unknown for a single draw"


def headline(whole: pd.DataFrame, x: str, metric: str, lead: list[str], workload: Workload, level: float) -> str:
    """What was found, how sure, theory beside it: one line."""
    unit = unit_of(x, workload)
    found = whole[whole["status"] == LOCATED]
    what = f"zero of {metric} in {plain(x)}"
    if len(whole) == 1:
        row = whole.iloc[0]
        if row["status"] == LOCATED:
            beside = (
                f"; closed form {number(row['theory'], 5)}{unit} (z = {row['z']:+.2g})"
                if np.isfinite(row["theory"])
                else ""
            )
            return f"{what}: {interval(row['estimate'], row['low'], row['high'])}{unit} ({100 * level:g} %){beside}"
        known = interval(row["estimate"], row["low"], row["high"])
        return (
            f"{what}: {row['status']}"
            + (f", {known}{unit}" if known != "–" else "")
            + (f" ({row['note']})" if row["note"] else "")
        )
    text = f"{what}: located in {len(found)} of {counted(len(whole), 'slice')}"
    if len(found):
        text += f", from {number(found['estimate'].min())}{unit} to {number(found['estimate'].max())}{unit}"
        half = ((found["high"] - found["low"]) / 2).median()
        text += f" (median half-width {number(half, 2)}{unit}, {100 * level:g} % pointwise)"
    other = whole[whole["status"] != LOCATED]
    if len(other):
        text += "; " + ", ".join(
            f"{word.replace('_', ' ')} in {count}" for word, count in other["status"].value_counts().items()
        )
        common = other["note"].value_counts()
        if common.iloc[0] > len(other) / 2 and common.index[0]:
            text += f" ({'mostly ' if common.iloc[0] < len(other) else ''}{common.index[0]})"
    beside = summary(whole, level)
    return text + (f"; {beside}" if beside else "")


def paragraphs(whole: pd.DataFrame, level: float, notes: list[str]) -> list[str]:
    """How the fit was made, and what happened to the slices without an answer."""
    scales = ", ".join(f"{word} in {int(count)}" for word, count in whole["scale"].value_counts().items())
    text = [
        f"The draw is the unit: intervals invert Student's t-test on the mean curve over draws, so they hold "
        f"although the points of one draw "
        f"move together. They are pointwise {100 * level:g} % intervals, widened by the spread between "
        f"interpolations; the CSV has Bonferroni "
        f"bands for all slices at once. Scale of the values: {scales} of {counted(len(whole), 'slice')} (sign: "
        f"zero of the median, where draws have no variance; no z then)."
    ]
    other = whole[whole["status"] != LOCATED]
    if len(other):
        reasons = other.groupby(["status", "note"], sort=False).size()
        text.append(
            "Not located: "
            + "; ".join(
                f"{status.replace('_', ' ')} in {count}" + (f" ({note})" if note else "")
                for (status, note), count in reasons.items()
            )
            + "."
        )
    if whole["z"].notna().any():
        text.append(
            "z is the distance to the closed form in units of the slice's own error; |z| is beyond "
            "1.96 exactly where a 95 % interval misses it. Slices that share draws are not independent of each other."
        )
    return text + [note[0].upper() + note[1:] + "." for note in notes]


def shown_row(row: Mapping[str, Any], lead: list[str], x: str, workload: Workload) -> dict[str, str]:
    """One slice as ready text."""
    out = {plain(key): number(row[key]) for key in lead}
    out["status"] = row["status"].replace("_", " ")
    out[f"zero in {plain(x)} [interval]"] = interval(row["estimate"], row["low"], row["high"])
    out["closed form"] = number(row["theory"], 5)
    out["z"] = "–" if not np.isfinite(row["z"]) else f"{row['z']:+.2f}"
    out["draws"] = str(row["draws"])
    return out

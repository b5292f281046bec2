"""The boundary analysis: where a metric changes sign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.fits.boundary import SIGN_DRAWS, fit_boundary
from raysweep.fits.comparison import joint
from raysweep.fits.crossing import lagrange
from raysweep.fits.draws import usable
from raysweep.fits.result import Status
from raysweep.reporting.analyses.against_theory import add_lines, add_theory
from raysweep.reporting.analyses.boundary_words import folded, headline, paragraphs, quantile_words, shown_row
from raysweep.reporting.analyses.movement import movement
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.analyses.theory_lines import smooth, zero_line
from raysweep.reporting.design import NOTHING_DECLARED, Design
from raysweep.reporting.figures.lines import Series, curves_figure
from raysweep.reporting.figures.places import places_figure
from raysweep.reporting.figures.series import one_series
from raysweep.reporting.figures.style import picked
from raysweep.reporting.figures.surface import surface_figure
from raysweep.reporting.selection import all_keys, groups, heavy_rows, is_exact, is_number
from raysweep.reporting.words import plain, settings
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

MOST_MAPS = 9


def boundary_section(
    frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str, design: Design = NOTHING_DECLARED
) -> Section:
    """Fit, figures and tables of one `boundary` entry."""
    import pandas as pd

    x, y, metric, level = options["x"], options.get("y"), options["metric"], float(options.get("level", 0.95))
    lines = {str(key): float(value) for key, value in (options.get("lines") or {}).items()}
    keys = [
        key for key in all_keys(frame, workload, x, [*([y] if y else []), *options.get("by", [])], design) if key != y
    ]
    pieces, parts = [], []
    notes: list[str] = []
    moved: list[pd.DataFrame] = []
    for values, rows in groups(frame, keys):
        fit = fit_boundary(
            rows,
            x,
            y,
            metric,
            "seed",
            level,
            scale=slice_scale(rows, y, metric, workload),
            exact=is_exact(rows, metric),
            logarithmic=workload.logarithmic(x),
        )
        notes += [note for note in fit.notes if note not in notes]
        slices = fit.table[y].to_numpy() if y else np.zeros(1)
        # Where the sign scale was used the zero is the median's, which the closed form of the mean says nothing of.
        table = add_theory(fit.table, zero_line(rows, x, y, metric, workload, slices), level)
        table.loc[table["scale"] == "sign", "z"] = np.nan
        at = smooth(rows, y, workload) if y else np.zeros(1)
        table = add_lines(table, lines, level)
        moved.append(displacements(rows, table, x, y, metric))
        parts.append((values, rows, table, at, zero_line(rows, x, y, metric, workload, at)))
        pieces.append(table.assign(**dict(zip(keys, values, strict=True))))
    whole = pd.concat(pieces, ignore_index=True)
    lead = [*keys, *([y] if y else [])]
    whole = whole[[*lead, *[c for c in whole.columns if c not in lead]]]

    drawings = []
    known = any(len(root) for *_, roots in parts for root in roots)
    fitted_line = f"Zero of {metric} in {plain(x)}"
    if y and is_number(frame, y) and frame[y].nunique() > 1 and frame[x].nunique() > 1:
        shown = [parts[k] for k in picked(len(parts), MOST_MAPS)]
        panels = [
            (settings(keys, values, workload), rows, table, at, roots) for values, rows, table, at, roots in shown
        ]
        drawings.append(
            Drawing(
                f"{name}_surface",
                f"{metric} (mean over draws) over {plain(x)} and {plain(y)}: blue where it "
                f"is positive. "
                f"Points: fitted zero of each slice with its {100 * level:g} % interval (pointwise: for one "
                f"slice, not for "
                "all at once)."
                + (" Orange: the closed form's zero, found on the formula, not on the grid." if known else "")
                + (f" {len(shown)} of {len(parts)} maps, spread evenly." if len(shown) < len(parts) else ""),
                surface_figure(panels, x, y, metric, workload, level, lines),
            )
        )
    along = y if y and is_number(frame, y) else next((key for key in keys if is_number(frame, key)), None)
    if along and (y != along or len(parts) > 1):
        drawings.insert(
            0 if len(parts) > 1 or lines else len(drawings),  # several lines in one picture tell more than as many maps
            Drawing(
                f"{name}_line",
                f"{fitted_line} against {plain(along)}, with {100 * level:g} % intervals (pointwise)"
                + (" and the closed form" if known else "")
                + (f"; dashed: {', '.join(lines)}." if lines else "."),
                line_figure(frame, whole, lead, along, x, metric, workload, level, lines),
            ),
        )
    figure, selection, with_theory = slices_figure(parts, keys, x, y, metric, workload)
    drawings.append(
        Drawing(
            f"{name}_slices",
            f"{metric} against {plain(x)}: mean over draws ± one standard error (between "
            f"draws; multiply by "
            f"Student's t, {quantile_words(frame, level)}, for a {100 * level:g} % interval)"
            f"{' over the closed form' if with_theory else ''}{selection}.",
            figure,
        )
    )

    with_places = bool(whole["theory"].notna().any())
    together = joint(pd.concat(moved, axis=1).to_numpy(float)) if moved else None
    return Section(
        title=f"Boundary: where {metric} changes sign",
        headline=headline(whole, lead, x, metric, lines, workload, level),
        paragraphs=movement(whole, lead, "zero") + paragraphs(whole, x, lines, together, workload, level, notes),
        drawings=drawings,
        shown=[shown_row(run, lead, x, lines, with_places) for run in folded(whole.to_dict("records"), lead)],
        tables={f"{name}_zeros": whole},
    )


def displacements(rows: pd.DataFrame, table: pd.DataFrame, x: str, y: str | None, metric: str) -> pd.DataFrame:
    """How far each draw's zero lies from the closed form's, to first order (value there over the mean's slope).

    One column per located slice of the mean that has a closed form, one row per draw.
    """
    import pandas as pd

    good, _ = usable(rows, metric, [x, "seed"])
    columns = []
    for row in table.to_dict("records"):
        if row["status"] != Status.LOCATED or row["scale"] == "sign" or not np.isfinite(row["theory"]):
            continue
        part = good[good[y] == row[y]] if y else good
        wide = part.pivot_table(index="seed", columns=x, values=metric, aggfunc="mean").dropna()
        at = wide.columns.to_numpy(float)
        if len(at) < 2 or len(wide) < 2:
            continue
        first = int(np.clip(np.searchsorted(at, row["theory"]) - 2, 0, max(len(at) - 4, 0)))
        near, step = slice(first, first + 4), 0.01 * float(np.diff(at[first : first + 4]).min())
        weights = lagrange(at[near], row["theory"] + step * np.array([-1.0, 0.0, 1.0]))
        values = wide.to_numpy(float)[:, near] @ weights.T
        slope = float((values[:, 2] - values[:, 0]).mean()) / (2 * step)
        columns.append(pd.Series(-values[:, 1] / slope if slope else np.nan, index=wide.index))
    return pd.concat(columns, axis=1) if columns else pd.DataFrame(index=sorted(good["seed"].unique()))


def slice_scale(rows: pd.DataFrame, y: str | None, metric: str, workload: Workload) -> Any:
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
    reference: Mapping[str, float],
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
    return places_figure(lines, x, along, workload, level, f"zero of {metric}", lines=reference)


def slices_figure(
    parts: list[tuple[Any, pd.DataFrame, pd.DataFrame, Any, Any]],
    keys: list[str],
    x: str,
    y: str | None,
    metric: str,
    workload: Workload,
) -> tuple[Any, str, bool]:
    """Up to six slices in each of up to six panels, words if that is a selection, whether a closed form is there."""
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
        if series:
            panels.append((settings(keys, values, workload), series))
    selection = " (a selection of slices, spread evenly)" if left_out else ""
    with_theory = any(len(one.theory) for _, series in panels for one in series)
    return curves_figure(panels, x, metric, workload), selection, with_theory

"""The agreement analysis: experiment against closed form, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.reporting.section import Drawing, Section
from raysweep.reporting.section_curves import means_table, metrics_of
from raysweep.reporting.selection import heavy_rows, parameters_of
from raysweep.reporting.style import QUALITATIVE, THEORY
from raysweep.reporting.words import axis_label, counted, number, plain
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def agreement_section(frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str) -> Section:
    """Figures and tables of one `agreement` entry; by default every metric that has a closed form."""
    wanted = metrics_of(options) or [m.name for m in workload.metrics if f"{m.name}_theory" in frame.columns]
    keys = [key for key in parameters_of(frame, workload) if frame[key].nunique(dropna=False) > 1] or parameters_of(
        frame, workload
    )[:1]
    drawings, tables, shown, lines = [], {}, [], []
    for metric in wanted:
        heavy = heavy_rows(frame, metric, workload)
        if f"{metric}_theory" not in frame.columns:
            lines.append(f"{plain(metric)} has no closed form")
            continue
        table = means_table(frame[~heavy], keys, metric, workload)
        table = table[np.isfinite(table["theory"].astype(float)) & (table["draws"] > 1)] if len(table) else table
        if not len(table):
            lines.append(f"{plain(metric)}: no cell with two usable draws and a finite closed form")
            continue
        table = scored(table)
        tables[f"{name}_{metric}"] = table
        z = table["z"][np.isfinite(table["z"])]
        inside = table["inside_95"].mean()
        difference = (table["mean"] - table["theory"]).abs()
        heavy_cells = frame[heavy].groupby(keys, dropna=False).ngroups if heavy.any() else 0
        shown.append(
            {
                "metric": plain(metric),
                "cells": f"{len(table):,}",
                "inside their 95 % interval": f"{100 * inside:.1f} %",
                "median |z|": number(z.abs().median(), 2) if len(z) else "exact",
                "mean z": number(z.mean(), 2) if len(z) else "–",
                "median |difference|": number(difference.median(), 2),
                "largest": number(difference.max(), 2),
                "left out (no variance)": str(heavy_cells),
            }
        )
        lines.append(
            f"{plain(metric)}: {100 * inside:.0f} % of {counted(len(table), 'cell')} hold the closed form in "
            f"their 95 % interval"
        )
        if len(z):
            drawings.append(
                Drawing(
                    f"{name}_{metric}",
                    f"{plain(metric).capitalize()}: mean over draws ± one standard error of every cell against "
                    f"the closed form "
                    "(left), and the distances in standard errors with what Student's t expects (right).",
                    agreement_figure(table, metric, workload),
                )
            )
    text = [
        "z = (mean - closed form) / standard error between draws. Cells that share draws are not independent: "
        "one unlucky draw moves many of them. "
        "Cells whose draws have no variance are left out, as are single draws."
    ]
    return Section(
        "Experiment against closed form", "; ".join(lines) or "nothing to compare", text, drawings, shown, tables
    )


def scored(table: pd.DataFrame) -> pd.DataFrame:
    """The table with z and whether Student's 95 % interval holds the closed form (to rounding where draws agree
    exactly)."""
    from scipy.special import stdtrit

    difference = table["mean"] - table["theory"]
    rounding = 1e-9 * np.maximum(table["theory"].abs(), 1e-3)
    real = table["standard_error"] > 1e-3 * rounding
    z = np.where(real, difference / table["standard_error"].where(real, 1.0), np.nan)
    limit = stdtrit(table["draws"].to_numpy(float) - 1, 0.975)
    inside = np.where(real, np.abs(np.nan_to_num(z)) <= limit, difference.abs() <= rounding)
    return table.assign(z=z, inside_95=inside.astype(bool))


def agreement_figure(table: pd.DataFrame, metric: str, workload: Workload) -> Figure:
    """The diagonal, and the histogram of z."""
    from matplotlib.figure import Figure
    from scipy.stats import t as student

    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    theory, mean = table["theory"].to_numpy(float), table["mean"].to_numpy(float)
    left.errorbar(
        theory,
        mean,
        yerr=table["standard_error"].fillna(0),
        fmt="o",
        markersize=3,
        elinewidth=0.8,
        color=QUALITATIVE[0],
        alpha=0.65,
        label="cells",
        rasterized=len(table) > 2000,
    )
    both = np.concatenate([theory, mean])
    sizes = np.abs(both[both != 0])
    if len(sizes) and sizes.max() > 50 * np.median(sizes):
        left.set_xscale("asinh", linear_width=float(np.median(sizes)))
        left.set_yscale("asinh", linear_width=float(np.median(sizes)))
    left.axline(
        (float(both.min()), float(both.min())),
        (float(both.max()) + 1e-12, float(both.max()) + 1e-12),
        color=THEORY,
        linewidth=1.3,
        label="equal",
        zorder=3,
    )
    left.set_xlabel("closed form")
    left.set_ylabel("mean over draws ± standard error")
    left.set_title(axis_label(metric, workload))
    left.legend(loc="upper left")
    z = table["z"][np.isfinite(table["z"])].to_numpy()
    reach = float(min(max(4.0, np.max(np.abs(z)) * 1.05), 12.0))
    right.hist(
        np.clip(z, -reach, reach),
        bins=np.linspace(-reach, reach, 41),
        density=True,
        color=QUALITATIVE[4],
        edgecolor="white",
        linewidth=0.4,
        label=counted(len(z), "cell"),
    )
    at = np.linspace(-reach, reach, 300)
    draws = int(table["draws"].median())
    right.plot(at, student.pdf(at, draws - 1), color=THEORY, label=f"Student's t, {draws} draws")
    right.set_xlabel("z = (mean - closed form) / standard error")
    right.set_ylabel("density")
    right.set_ylim(0, right.get_ylim()[1] * 1.3)  # room for the legend above the data
    right.legend(loc="upper right", ncols=2)
    return figure

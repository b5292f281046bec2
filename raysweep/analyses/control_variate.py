"""A reference engine as the control variate of the engines that are compared with it (multilevel Monte Carlo).

E(engine) = E(reference) + E(engine - reference). On the same draws the difference varies less than the engine's own
values, if the two are near; the first part is a closed form, or comes from draws of the reference that cost less.
"""

from __future__ import annotations

import numpy as np

from raysweep.analyses.rows import heavy_rows
from raysweep.lazy import pd
from raysweep.numbers import NOTHING
from raysweep.workloads.declaration import Workload

COLUMNS = ("draws", "mean", "standard_error", "mean_by_reference", "error_by_reference", "times_less_variance")


def by_reference(
    pairs: pd.DataFrame, reference_rows: pd.DataFrame, keys: list[str], workload: Workload, closed_form: bool
) -> pd.DataFrame:
    """One line per engine, cell and metric: the mean over draws, and the mean with the reference as control variate.

    pairs: one line per draw, with engine, seed, metric, value and difference (to the reference); all its other columns
        are parameters.
    known: the rows of the reference.
    keys: the parameters in which pairs agree.
    closed_form: whether the closed form (NAME_theory) is the reference's expectation.

    The coefficient is 1, so that nothing is estimated that would bias the mean. Where the closed form is not finite or
    none, the expectation is the mean over the draws of the reference that the engine has not: they are independent of
    the differences. Cells without either, with one draw, or whose draws have no variance are left out.
    """
    cell = [name for name in pairs.columns if name not in ("engine", "seed", "metric", "value", "difference", "size")]
    of_reference = dict(iter(reference_rows.groupby(keys, dropna=False))) if keys else {(): reference_rows}
    lines = []
    for (engine, *at, metric), part in pairs.groupby(["engine", *cell, "metric"], dropna=False):
        values = dict(zip(cell, at, strict=True))
        rows = of_reference[tuple(values[key] for key in keys)]
        if len(part) < 2 or heavy_rows(rows, metric, workload).any():
            continue
        theory = f"{metric}_theory"
        centre, error = float(rows[theory].iloc[0]) if closed_form and theory in rows.columns else np.nan, 0.0
        if not np.isfinite(centre):
            more = rows[~rows["seed"].isin(part["seed"])].groupby("seed")[metric].mean()
            centre, error = float(more.mean()), float(more.sem())
        if not np.isfinite(error):
            continue
        mean, alone = float(part["value"].mean()), float(part["value"].var() / len(part))
        combined = centre + float(part["difference"].mean())
        spread = float(part["difference"].std())
        variance = (spread**2 if spread > NOTHING * abs(combined) else 0.0) / len(part) + error**2
        times = alone / variance if variance else np.inf if alone else np.nan
        line = (len(part), mean, np.sqrt(alone), combined, np.sqrt(variance), times)
        lines.append({"engine": engine, **values, "metric": metric, **dict(zip(COLUMNS, line, strict=True))})
    return pd.DataFrame(lines, columns=["engine", *cell, "metric", *COLUMNS])

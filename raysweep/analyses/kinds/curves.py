"""The analysis `curves`: means over an axis, against the closed form, another metric, constants or 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Needed, Outcome
from raysweep.analyses.outcomes import takes
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import MEANS, bounds_of, heavy_rows, interval, means_table, signs_of
from raysweep.analyses.series import curves_plot
from raysweep.fits.comparison import HIGHER, LOWER, ROUNDING, UNCLEAR, per_cell
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space import checks
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

TESTED = ("difference", "error", "low_simultaneous", "high_simultaneous", "p_value", "p_holm")
"""Columns of `per_cell`, whose names no axis may have."""
OUTCOMES = {HIGHER: Outcome.HIGHER, LOWER: Outcome.LOWER, UNCLEAR: Outcome.UNCLEAR}


def run(question: Question) -> Finding:
    """One setting per metric and cell: its mean, and whether it is higher or lower than what it is held against.

    It is held against another metric (`beside`), each of some constants (`lines`), or 0 if its signs mean something;
    else nothing is decided. A mean of draws without a variance is not given. of_sides: whether the entry asks for more
    than how the metric changes.
    """
    beside = str(question.options.get("beside") or "")
    words = {} if beside or question.lines else question.words
    x, metrics, workload, frame = question.x, metrics_of(question.options), question.workload, question.rows
    name, keys = question.name, question.keys(x)
    of_sides = bool(beside or question.lines or question.options.get("question"))
    cell = [*keys, x]
    tables = {f"{name}_{metric}": means_table(frame, cell, metric, workload) for metric in metrics}
    rows, meanings = list[dict[str, Any]](), dict[str, str]()
    for metric in metrics:
        signs = (words["positive"], words["negative"]) if words else signs_of(metric, workload)
        against: dict[str, str | float] = {beside: beside} if beside else dict(question.lines)
        if not against and all(signs):
            against = {"": 0.0}
            meanings = dict(zip(("positive", "negative"), signs, strict=True)) if len(metrics) == 1 else {}
        means = with_intervals(tables[f"{name}_{metric}"], bounds_of(metric, workload))
        sides = {label: tested(frame, cell, metric, other, workload) for label, other in against.items()}
        held = {label: cells for label, cells in sides.items() if cells is not None}
        for label, cells in held.items() or [("", None)]:
            table = means if cells is None else means.merge(cells, on=cell, how="left")
            rows += [{"metric": metric, "against": label, **setting(row, cell)} for row in table.to_dict("records")]
    first = [key for key in ("metric", "against") if len({row[key] for row in rows}) > 1]
    rows = [{key: row[key] for key in row if key in first or key not in ("metric", "against")} for row in rows]
    if beside:
        tables[f"{name}_{beside}"] = means_table(frame, cell, beside, workload)
    return question.finding(
        "curves",
        rows,
        [*first, *cell],
        metric=metrics[0] if len(metrics) == 1 else "",
        meanings=question.words or meanings,
        facts={"beside": beside, "constants": list(question.lines), "of_sides": of_sides},
        tables=tables,
        plots=lambda: [
            plot
            for metric in metrics
            for plot in curves_plot(question, metric, x, keys, f"{name}_{metric}", beside, constants=question.lines)
        ],
    )


def with_intervals(table: pd.DataFrame, bounds: tuple[float, float]) -> pd.DataFrame:
    """A table of means with intervals; without where draws have no variance. bounds: of the metric."""
    finite = table.assign(mean=table["mean"].where(~table["no_variance"].astype(bool)))
    low, high = interval(finite, bounds)
    return table.assign(estimate=finite["mean"].to_numpy(float), low=low, high=high)


def tested(
    rows: pd.DataFrame, keys: list[str], metric: str, other: str | float, workload: Workload
) -> pd.DataFrame | None:
    """One row per cell: the keys, `beside` (the mean of the other metric, or the number), `status` (of `per_cell`) and
    `_same` (no draw differs by more than rounding; Holm's correction is for the others). Cells with one draw are left
    out; None if none is left."""
    names = [metric, *([other] if isinstance(other, str) else [])]
    good = rows[(rows["status"] == "ok") & np.isfinite(rows[names].astype(float)).all(axis=1)]
    for name in names:
        good = good[~heavy_rows(good, name, workload)]
    good = good.drop_duplicates([*keys, "seed"])
    value, beside = good[metric].astype(float), good[other].astype(float) if isinstance(other, str) else other
    # A metric whose sign means something is a difference, so its rounding errors are those of larger values.
    size = np.maximum(value.abs(), np.abs(beside)) if other != 0 else value.abs().max()
    good = good[[*keys, "seed"]].assign(beside=beside, difference=value - beside, _size=size)
    good = good[good.groupby(keys, dropna=False)["seed"].transform("count") > 1]
    if not len(good):
        return None
    good = good.assign(_same=good["difference"].abs() <= ROUNDING * good["_size"])
    cells = good.groupby(keys, dropna=False).agg(beside=("beside", "mean"), _same=("_same", "all")).reset_index()
    differ = good[~good.groupby(keys, dropna=False)["_same"].transform("all")]
    if not len(differ):
        return cells.assign(status=UNCLEAR)
    cells = cells.merge(per_cell(differ, keys)[[*keys, "status"]], on=keys, how="left")
    return cells.assign(status=cells["status"].fillna(UNCLEAR))


def setting(given: Mapping[str, Any], cell: list[str]) -> dict[str, Any]:
    """The row of one cell with its outcome. given: its means and, if it was tested, its `status` (see `tested`)."""
    names = (*cell, "estimate", "low", "high", "theory", "draws", "beside")
    row = {name: given[name] for name in names if name in given}
    if given.get("status") not in OUTCOMES:
        return {**row, "outcome": Outcome.MEASURED}
    outcome = Outcome.NO_EFFECT if given["_same"] else OUTCOMES[given["status"]]
    decides = takes(Needed.MORE_DRAWS, given["draws"]) if outcome == Outcome.UNCLEAR else {}
    return {**row, "outcome": outcome, **decides}


ANALYSIS = Analysis(
    kind="curves",
    question="How does {metric} change with {x}?",
    run=run,
    required={"x": allowed.curves_x},
    optional={
        "metric": checks.metric,
        "metrics": allowed.metrics,
        "beside": checks.metric,
        "lines": allowed.lines,
        "by": allowed.axes,
        "words": allowed.words("positive", "negative"),
    },
    columns=(*MEANS, "against", "beside", *TESTED),
    means_only=True,
)

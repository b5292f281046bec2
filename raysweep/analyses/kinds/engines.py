"""The analysis `engines`: how does each engine differ from a reference on the same draws?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from raysweep.analyses.finding import Finding, Nothing, Outcome
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import Where, groups, heavy_rows, parameters_of, varying
from raysweep.analyses.series import CurvesPlot, laid_out, plain_series
from raysweep.errors import InputError
from raysweep.fits.statistics import LEVEL, t_quantile
from raysweep.lazy import pd
from raysweep.numbers import NOTHING
from raysweep.space import analysis_options as allowed
from raysweep.space import checks
from raysweep.space.analyses import metrics_of
from raysweep.space.checks import Context
from raysweep.workloads.declaration import Workload

EQUAL = 1e-9  # smaller differences, relative to the metric, come from rounding and stopping rules, not from the step
FLAT = 0.1  # if the power of x is closer to 0 than this, the difference is constant and does not come from the step
BY_REFERENCE = ("draws", "mean", "standard_error", "mean_by_reference", "error_by_reference", "times_less_variance")

ENGINE = partial(checks.text, expected="the name of an engine")


def run(question: Question) -> Finding:
    """How the difference of each engine, group and metric depends on x: equal, constant, or a power of x (estimate).
    Without the option `metrics`, of all metrics that have a closed form, or else of all."""
    options, workload, engines, name = question.options, question.workload, question.workload.engines, question.name
    assert engines is not None  # the check of the space has made sure
    x, reference = options.get("x", workload.searched("optimum")), options.get("reference", engines.reference)
    used, frame = (*question.by, x, engines.parameter), question.rows
    by = [*question.by, *(key for key in question.design.between() if key not in used and frame[key].nunique() > 1)]
    named = [metric.name for metric in workload.metrics]
    metrics = metrics_of(options) or [key for key in named if f"{key}_theory" in frame] or named
    frame = frame[frame["status"] == "ok"].rename(columns={engines.parameter: "engine"})
    is_reference = frame["engine"] == reference
    reference_rows, others = frame[is_reference], frame[~is_reference]
    parameters = [key for key in parameters_of(frame, workload) if key not in ("engine", x)]
    # Pairs agree in them, but for one of which the reference and the others have no common value (a number of steps).
    shared = [key for key in parameters if not set(reference_rows[key]).isdisjoint(others[key])]
    same = varying(shared, frame)
    pairs = paired(reference_rows, others, same, [*by, "engine", x], metrics)
    if not len(pairs):
        return question.nothing("engines", Nothing.NO_PAIR, reference, x=x)
    pairs, thin = thinned(pairs.assign(size=pairs["difference"].abs()), x, by)
    keys = ["engine", *by, "metric"]
    sizes = pairs.groupby(["engine", *by, x, "metric"], sort=True)["size"]
    quartiles = {"quarter": lambda d: d.quantile(0.25), "three_quarters": lambda d: d.quantile(0.75)}
    table = sizes.agg(median="median", **quartiles, largest="max", rows="count").reset_index()
    rows = [{**at, **setting(part, x, float(frame[at["metric"]].abs().median()))} for at, part in groups(pairs, keys)]
    control = by_reference(pairs, reference_rows, same, workload, reference in engines.from_zero)
    varied = varying([key for key in parameters if key in pairs], pairs)
    start = engines.start  # the size of the initialization, where the reference may be the limit of 0
    begins = {start: sorted(frame[start].unique().tolist())} if start in frame and (frame[start] > 0).any() else {}
    return question.finding(
        "engines",
        rows,
        keys,
        metric=metrics[0] if len(metrics) == 1 else "",
        x=x,
        facts={
            "reference": reference,
            "pairs": len(pairs),
            "thinned": thin,
            "pooled": [key for key in varied if key not in by],  # in what rows of one median differ
            "apart": [key for key in parameters if key not in shared],  # in what pairs differ besides the engine
            "start": begins,
        },
        tables={f"{name}_differences": table, **({f"{name}_means": control} if len(control) else {})},
        plots=lambda: plots(question, table, rows, x, ["engine", *by], metrics[0]),
    )


def plots(
    question: Question, table: pd.DataFrame, rows: Sequence[Where], x: str, keys: list[str], metric: str
) -> list[CurvesPlot]:
    """The size of the differences over x, with a panel for each metric; those that are rounding are left out.
    table: the quartiles over rows. rows: of the finding."""
    equal = [[row[key] for key in (*keys, "metric")] for row in rows if row["outcome"] == Outcome.NO_EFFECT]
    shown = [
        (where, part[part["median"] > 0])
        for where, part in groups(table, [*keys, "metric"])
        if list(where.values()) not in equal and (part["median"] > 0).any()
    ]
    line = partial(plain_series, columns=(x, "median", "quarter", "three_quarters"))
    panels = laid_out(shown, keys, ["metric"], line)
    return [CurvesPlot(question.name, panels, x, metric, len(shown))] if panels else []


def paired(
    reference_rows: pd.DataFrame, others: pd.DataFrame, same: list[str], kept: list[str], metrics: list[str]
) -> pd.DataFrame:
    """One row per (row, metric), with the difference to the reference at the same seed and values of `same`."""
    keys = ["seed", *same]
    columns = list(dict.fromkeys([*keys, *kept]))
    pieces = []
    for metric in metrics:
        right = reference_rows.groupby(keys, as_index=False)[metric].mean().rename(columns={metric: "reference"})
        both = others[list(dict.fromkeys([*columns, metric]))].merge(right, on=keys, how="inner")
        both = both.assign(metric=metric, value=both[metric], difference=both[metric] - both["reference"])
        pieces.append(both.dropna(subset=["difference"])[[*columns, "metric", "value", "difference"]])
    return pd.concat(pieces, ignore_index=True)


def thinned(pairs: pd.DataFrame, x: str, by: list[str]) -> tuple[pd.DataFrame, int]:
    """(the pairs without the x at which more than half of the draws are missing, how many pairs were dropped): medians
    there would be over other draws than elsewhere. Draws are counted per engine, group and metric."""
    keys = ["engine", *by, "metric"]
    here = pairs.groupby([*keys, x])["seed"].transform("nunique")
    most = here.groupby([pairs[key] for key in keys]).transform("max")
    kept = 2 * here >= most
    return pairs[kept], int((~kept).sum())


def setting(part: pd.DataFrame, x: str, scale: float) -> dict[str, Any]:
    """How the differences in `part` (columns x, seed, size) depend on x; smallest and size are the median difference at
    the smallest x and the largest median. scale: the size of the metric itself."""
    medians = part.groupby(x)["size"].median()
    medians = medians[(medians.index > 0) & np.isfinite(medians.index.to_numpy(float))]
    smallest = float(medians.iloc[0]) if len(medians) else float(part["size"].median())
    size = float(medians.max()) if len(medians) else smallest
    row = {"smallest": smallest, "size": size, "largest": float(part["size"].max()), "pairs": len(part)}
    if size <= EQUAL * max(scale, 1e-300):
        return {**row, "outcome": Outcome.NO_EFFECT}
    orders = [log_slope(draw.groupby(x)["size"].median()) for _, draw in part.groupby("seed")]
    finite = np.array(orders)[np.isfinite(orders)]
    if not len(finite):
        return {**row, "outcome": Outcome.MEASURED}
    order, row["draws"] = float(finite.mean()), len(finite)
    error = float(finite.std(ddof=1) / np.sqrt(len(finite))) if len(finite) > 1 else np.nan
    half = t_quantile(LEVEL, len(finite) - 1) * error
    outcome = Outcome.CONSTANT if abs(order) < FLAT else Outcome.INCREASING if order > 0 else Outcome.DECREASING
    return {**row, "outcome": outcome, "estimate": order, "low": order - half, "high": order + half}


def log_slope(sizes: pd.Series) -> float:
    """The least-squares slope of log sizes over log x, their index; NaN with fewer than two finite ones above 0."""
    sizes = sizes[(sizes > 0) & (sizes.index > 0) & np.isfinite(sizes.index.to_numpy(float))]
    return float(np.polyfit(np.log(sizes.index.to_numpy(float)), np.log(sizes), 1)[0]) if len(sizes) > 1 else np.nan


def by_reference(
    pairs: pd.DataFrame, reference_rows: pd.DataFrame, keys: list[str], workload: Workload, closed_form: bool
) -> pd.DataFrame:
    """One line per engine, cell and metric: the mean over draws, and the mean with the reference as control variate:
    E(engine) = E(reference) + E(engine - reference), with the coefficient 1, which biases nothing.

    keys: the parameters in which pairs agree. closed_form: whether NAME_theory is the reference's expectation; else,
    and where it is not finite, that is the mean over the draws of the reference that the engine has not: they are
    independent of the differences. Cells without either, with one draw, or without variance are left out.
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
        lines.append({"engine": engine, **values, "metric": metric, **dict(zip(BY_REFERENCE, line, strict=True))})
    return pd.DataFrame(lines, columns=["engine", *cell, "metric", *BY_REFERENCE])


def check(options: Mapping[str, Any], path: str, context: Context) -> None:
    """Raise InputError if the workload has no engines, or if they or x are not among the axes."""
    engines = context.workload.engines
    if engines is None:
        raise InputError(path, f"{context.workload.name} has no engines to compare")
    if engines.parameter not in context.axes:
        raise InputError(path, f"expected {engines.parameter} among the axes, to compare engines")
    if not (options.get("x") or context.workload.searched("optimum")):
        raise InputError(f"{path}.x", "missing; expected one of the axes")


ANALYSIS = Analysis(
    kind="engines",
    question="How do engines differ from the reference?",
    run=run,
    optional={"metrics": allowed.metrics, "reference": ENGINE, "x": allowed.number_axis, "by": allowed.axes},
    columns=(
        *(*BY_REFERENCE, "difference", "engine", "largest", "median", "metric", "quarter", "reference"),
        *("rows", "size", "three_quarters", "value"),
    ),
    check=check,
)

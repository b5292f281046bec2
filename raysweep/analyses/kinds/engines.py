"""The analysis `engines`: how does each engine differ from a reference on the same draws?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from raysweep.analyses import control_variate
from raysweep.analyses.finding import Finding, Outcome
from raysweep.analyses.nothing import Nothing, nothing
from raysweep.analyses.question import Analysis, Question
from raysweep.analyses.rows import Where, groups, parameters_of, plain_means, varying
from raysweep.analyses.series import CurvesPlot, Series, by_panel, laid_out
from raysweep.errors import InputError
from raysweep.fits.statistics import LEVEL, t_quantile
from raysweep.lazy import pd
from raysweep.space import analysis_options as allowed
from raysweep.space import checks
from raysweep.space.analyses import metrics_of
from raysweep.space.checks import Context
from raysweep.workloads.declaration import Workload

EQUAL = 1e-9  # smaller differences, relative to the metric, come from rounding and stopping rules, not from the step
FLAT = 0.1  # if the power of x is closer to 0 than this, the difference is constant and does not come from the step


@dataclass(frozen=True, eq=False)
class Matched:
    """The rows of several engines, to be compared with a reference engine.

    rows: the ok rows, with the engine in the column `engine`.
    x: the axis of the step size.
    by: the parameters that separate groups of rows.
    """

    rows: pd.DataFrame
    workload: Workload
    reference: str
    x: str
    by: list[str]
    metrics: list[str]

    def others(self, frame: pd.DataFrame) -> list[str]:
        """All parameters in the frame except the engine and x."""
        return [name for name in parameters_of(frame, self.workload) if name not in ("engine", self.x)]

    def keys(self) -> list[str]:
        """The parameters in which a row and the reference's row of the same draw agree."""
        return [name for name in varying(self.others(self.rows), self.rows) if self.shared(name)]

    def shared(self, name: str) -> bool:
        """Whether the reference and the other engines have some value of this parameter in common."""
        of_reference = self.rows["engine"] == self.reference
        return not set(self.rows.loc[of_reference, name]).isdisjoint(self.rows.loc[~of_reference, name])


def run(question: Question) -> Finding:
    """How the difference of each engine, group and metric depends on x: equal, constant, or a power of x.

    estimate: the power. Without the option `metrics`, all metrics that have a closed form, or else all.
    """
    matched = matched_by(question)
    x, reference, name, keys = matched.x, matched.reference, question.name, ["engine", *matched.by, "metric"]
    pairs = paired(matched)
    if not len(pairs):
        return nothing(question, "engines", Nothing.NO_PAIR, reference, x=x)
    pairs, thin = thinned(pairs.assign(size=pairs["difference"].abs()), x, matched.by)
    sizes = pairs.groupby(["engine", *matched.by, x, "metric"], sort=True)["size"]
    quartiles = {"quarter": lambda d: d.quantile(0.25), "three_quarters": lambda d: d.quantile(0.75)}
    table = sizes.agg(median="median", **quartiles, largest="max", rows="count").reset_index()
    rows = [
        {**at, **setting(part, x, float(matched.rows[at["metric"]].abs().median()))} for at, part in groups(pairs, keys)
    ]
    reference_rows = matched.rows[matched.rows["engine"] == reference]
    engines = matched.workload.engines
    from_zero = engines is not None and reference in engines.from_zero
    control = control_variate.by_reference(pairs, reference_rows, matched.keys(), matched.workload, from_zero)
    return question.finding(
        "engines",
        rows,
        keys,
        metric=matched.metrics[0] if len(matched.metrics) == 1 else "",
        x=x,
        facts={"reference": reference, "pairs": len(pairs), "thinned": thin, **unlike(matched, pairs)},
        tables={f"{name}_differences": table, **({f"{name}_means": control} if len(control) else {})},
        plots=lambda: plots(question, table, rows, matched),
    )


def plots(question: Question, table: pd.DataFrame, rows: Sequence[Where], matched: Matched) -> list[CurvesPlot]:
    """The size of the differences over x, with a panel for each metric; those that are rounding are left out.

    table: the quartiles over rows. rows: of the finding.
    """
    x, keys = matched.x, ["engine", *matched.by]
    equal = [[row[key] for key in (*keys, "metric")] for row in rows if row["outcome"] == Outcome.NO_EFFECT]
    shown = [
        (where, part[part["median"] > 0])
        for where, part in by_panel(table, ["metric", *keys])
        if [where[key] for key in (*keys, "metric")] not in equal and (part["median"] > 0).any()
    ]

    def line(where: Where, part: pd.DataFrame) -> Series:
        return Series(where, plain_means(*part[[x, "median", "quarter", "three_quarters"]].to_numpy(float).T))

    panels = laid_out(shown, keys, ["metric"], line)
    return [CurvesPlot(question.name, panels, x, matched.metrics[0], len(shown))] if panels else []


def matched_by(question: Question) -> Matched:
    """Select the rows, the reference and the axis to compare, from the entry or else from the workload's defaults."""
    options, workload, engines = question.options, question.workload, question.workload.engines
    assert engines is not None  # the check of the space has made sure
    x = options.get("x", workload.searched("optimum"))
    used = (*question.by, x, engines.parameter)
    between = [key for key in question.design.between() if key not in used and question.rows[key].nunique() > 1]
    named = [metric.name for metric in workload.metrics]
    metrics = metrics_of(options) or [key for key in named if f"{key}_theory" in question.rows] or named
    rows = question.rows[question.rows["status"] == "ok"].rename(columns={engines.parameter: "engine"})
    reference = options.get("reference", engines.reference)
    return Matched(rows, workload, reference, x, [*question.by, *between], metrics)


def paired(matched: Matched) -> pd.DataFrame:
    """One row per (row, metric), with the difference to the reference at the same seed and the same parameters.

    A parameter for which the reference has no value in common with the other engines (for example a number of steps)
    need not be the same.
    """
    rows = matched.rows
    is_reference = rows["engine"] == matched.reference
    reference_rows, others = rows[is_reference], rows[~is_reference]
    keys = ["seed", *matched.keys()]
    columns = list(dict.fromkeys([*keys, *matched.by, "engine", matched.x]))
    pieces = []
    for metric in matched.metrics:
        right = reference_rows.groupby(keys, as_index=False)[metric].mean().rename(columns={metric: "reference"})
        both = others[list(dict.fromkeys([*columns, metric]))].merge(right, on=keys, how="inner")
        both = both.assign(metric=metric, value=both[metric], difference=both[metric] - both["reference"])
        pieces.append(both.dropna(subset=["difference"])[[*columns, "metric", "value", "difference"]])
    return pd.concat(pieces, ignore_index=True) if pieces else pd.DataFrame()


def thinned(pairs: pd.DataFrame, x: str, by: list[str]) -> tuple[pd.DataFrame, int]:
    """(the pairs without the x at which more than half of the draws are missing, how many pairs were dropped).

    Draws are counted per engine, group and metric. At such x the median would be over other draws than elsewhere, and
    this would distort the curve.
    """
    keys = ["engine", *by, "metric"]
    here = pairs.groupby([*keys, x])["seed"].transform("nunique")
    most = here.groupby([pairs[key] for key in keys]).transform("max")
    kept = 2 * here >= most
    return pairs[kept], int((~kept).sum())


def setting(part: pd.DataFrame, x: str, scale: float) -> dict[str, Any]:
    """How the differences in `part` (columns x, seed, size) depend on x. scale: the size of the metric itself.

    smallest, size: the median difference at the smallest x, and the largest median.
    """
    medians = part.groupby(x)["size"].median()
    medians = medians[(medians.index > 0) & np.isfinite(medians.index.to_numpy(float))]
    smallest = float(medians.iloc[0]) if len(medians) else float(part["size"].median())
    size = float(medians.max()) if len(medians) else smallest
    row = {"smallest": smallest, "size": size, "largest": float(part["size"].max()), "pairs": len(part)}
    if size <= EQUAL * max(scale, 1e-300):
        return {**row, "outcome": Outcome.NO_EFFECT}
    orders = []
    for _, draw in part.groupby("seed"):
        sizes = draw.groupby(x)["size"].median()
        at, values = sizes.index.to_numpy(float), sizes.to_numpy(float)
        use = (values > 0) & (at > 0) & np.isfinite(at)
        orders.append(log_slope(at[use], values[use]))
    finite = np.array(orders)[np.isfinite(orders)]
    if not len(finite):
        return {**row, "outcome": Outcome.MEASURED}
    order, row["draws"] = float(finite.mean()), len(finite)
    error = float(finite.std(ddof=1) / np.sqrt(len(finite))) if len(finite) > 1 else np.nan
    half = t_quantile(LEVEL, len(finite) - 1) * error if len(finite) > 1 else np.nan
    outcome = Outcome.CONSTANT if abs(order) < FLAT else Outcome.INCREASING if order > 0 else Outcome.DECREASING
    return {**row, "outcome": outcome, "estimate": order, "low": order - half, "high": order + half}


def log_slope(x: np.ndarray, y: np.ndarray) -> float:
    """The least-squares slope of log y over log x; NaN with fewer than two different x."""
    if len(np.unique(x)) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def unlike(matched: Matched, pairs: pd.DataFrame) -> dict[str, Any]:
    """In what rows of one median differ (pooled), in what pairs differ besides the engine (apart), and at which sizes
    of the initialization training starts (start), if not at 0: the reference may be the limit of 0."""
    engines, rows = matched.workload.engines, matched.rows
    start = engines.start if engines else ""
    sizes = sorted(rows[start].unique().tolist()) if start in rows and (rows[start] > 0).any() else []
    return {
        "pooled": [key for key in varying(matched.others(pairs), pairs) if key not in matched.by],
        "apart": [key for key in matched.others(rows) if not matched.shared(key)],
        "start": {start: sizes} if sizes else {},
    }


def check(options: Mapping[str, Any], path: str, context: Context) -> None:
    """Raise InputError if the workload has no engines, or if they or x are not among the axes."""
    engines = context.workload.engines
    if engines is None:
        raise InputError(path, f"{context.workload.name} has no engines to compare")
    if engines.parameter not in context.axes:
        raise InputError(path, f"expected {engines.parameter} among the axes, to compare engines")
    if not (options.get("x") or context.workload.searched("optimum")):
        raise InputError(f"{path}.x", "missing; expected one of the axes")


def engine(value: Any, path: str, context: Context) -> Any:
    return checks.text(value, path, context, expected="the name of an engine")


ANALYSIS = Analysis(
    kind="engines",
    question="How do engines differ from the reference?",
    run=run,
    optional={"metrics": allowed.metrics, "reference": engine, "x": allowed.number_axis, "by": allowed.axes},
    columns=(
        *(*control_variate.COLUMNS, "difference", "engine", "largest", "median", "metric", "quarter", "reference"),
        *("rows", "size", "three_quarters", "value"),
    ),
    check=check,
)

"""The engines analysis: every engine against a reference on the same draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.reporting.design import NOTHING_DECLARED, Design
from raysweep.reporting.figures.engines import engines_figure
from raysweep.reporting.selection import parameters_of
from raysweep.reporting.words import counted, number, plain, settings, with_error
from raysweep.space.analyses import metrics_of
from raysweep.workloads.declaration import Workload

if TYPE_CHECKING:
    import pandas as pd

EQUAL = 1e-9  # differences below this share of the metric are rounding and stopping rules, and follow no step
FLAT = 0.1  # a difference whose power of x is smaller does not come from the step


@dataclass(frozen=True)
class Trend:
    """How one engine's difference to the reference runs over x.

    kind: equal (to rounding), constant, order (falls as a power of x), or single (no draw has it at two x). order ±
    error: the power, found in each draw, its mean over draws and standard error. smallest: the median difference at the
    smallest x; size: the largest median.
    """

    engine: str
    group: tuple[Any, ...]
    metric: str
    kind: str
    order: float
    error: float
    smallest: float
    size: float


def engines_section(
    frame: pd.DataFrame, options: Mapping[str, Any], workload: Workload, name: str, design: Design = NOTHING_DECLARED
) -> Section:
    """Figures and tables of one `engines` entry; by default every metric with a closed form, or else
    every metric."""
    assert workload.engines is not None  # checked with the space
    frame = frame.rename(columns={workload.engines.parameter: "engine"})
    reference, by = options.get("reference", workload.engines.reference), list(options.get("by") or [])
    x = options.get("x", workload.searched("optimum"))
    used = (*by, x, workload.engines.parameter)
    by += [name for name in design.between() if name not in used and frame[name].nunique() > 1]
    named = [m.name for m in workload.metrics]
    metrics = metrics_of(options) or [name for name in named if f"{name}_theory" in frame.columns] or named
    good = frame[frame["status"] == "ok"]
    pairs = paired(good, reference, x, metrics, by, workload)
    if not len(pairs):
        return Section("Engines on the same draws", f"no ok rows to pair with engine {reference}")
    pairs, thin = thinned(pairs.assign(size=pairs["difference"].abs()), x, by)
    table = (
        pairs.groupby(["engine", *by, x, "metric"], sort=True)["size"]
        .agg(
            median="median",
            quarter=lambda d: d.quantile(0.25),
            three_quarters=lambda d: d.quantile(0.75),
            largest="max",
            rows="count",
        )
        .reset_index()
    )
    trends = []
    for (engine, *group, metric), part in pairs.groupby(["engine", *by, "metric"], sort=True):
        trends.append(trend(part, x, engine, tuple(group), metric, float(good[metric].abs().median())))
    mixed = [
        key
        for key in parameters_of(pairs, workload)
        if key not in ("engine", x, *by) and pairs[key].nunique(dropna=False) > 1
    ]
    return Section(
        f"Engines against {reference} on the same draws",
        headline(trends, reference, x, start_of(good, workload) if reference in workload.engines.from_zero else ""),
        paragraphs(good, trends, (len(pairs), thin), x, reference, mixed, workload)
        + unmatched(good, reference, x, workload),
        [
            Drawing(
                name,
                f"|difference to engine {reference}| on the same draws against {plain(x)}: median over rows, bars from "
                f"the lower to the upper quartile. The grey line has slope 1. Engines equal to rounding are not drawn.",
                engines_figure(table, trends, by, x, reference, metrics, workload),
            )
        ],
        [shown_row(one, by, x, workload, pairs) for one in trends],
        {f"{name}_differences": table},
    )


def paired(
    good: pd.DataFrame, reference: str, x: str, metrics: list[str], by: list[str], workload: Workload
) -> pd.DataFrame:
    """One row per (row, metric) with its difference to the reference on the same seed and parameters.

    Parameters of which the reference knows no value in common with the others (a budget of steps, say) are not matched.
    """
    import pandas as pd

    is_reference = good["engine"] == reference
    known, others = good[is_reference], good[~is_reference]
    keys = ["seed"]
    for key in parameters_of(good, workload):
        if key not in ("engine", x) and good[key].nunique(dropna=False) > 1 and set(known[key]) & set(others[key]):
            keys.append(key)
    pieces = []
    for metric in metrics:
        right = known.groupby(keys, as_index=False)[metric].mean().rename(columns={metric: "reference"})
        columns = list(dict.fromkeys([*keys, *by, "engine", x, metric]))
        both = others[columns].merge(right, on=keys, how="inner")
        both = both.assign(metric=metric, difference=both[metric] - both["reference"]).dropna(subset=["difference"])
        pieces.append(both[list(dict.fromkeys([*keys, *by, "engine", x, "metric", "difference"]))])
    return pd.concat(pieces, ignore_index=True) if pieces else pd.DataFrame()


def unmatched(good: pd.DataFrame, reference: str, x: str, workload: Workload) -> list[str]:
    """A paragraph on the parameters in which the reference has no value in common with the others; none, no
    paragraph."""
    known, others = good[good["engine"] == reference], good[good["engine"] != reference]
    names = [
        plain(key)
        for key in parameters_of(good, workload)
        if key not in ("engine", x) and not set(known[key]) & set(others[key])
    ]
    said = f"{reference} has no row at the others' values of {', '.join(names)}: pairs differ in that too."
    return [said] if names else []


def start_of(good: pd.DataFrame, workload: Workload) -> str:
    """The parameter for the size of the initialization; empty where there is none, or it is 0 in every row."""
    start = workload.engines.start if workload.engines else ""
    return start if start in good.columns and bool((good[start] > 0).any()) else ""


def trend(part: pd.DataFrame, x: str, engine: str, group: tuple[Any, ...], metric: str, scale: float) -> Trend:
    """The trend of the differences in `part` (columns x, seed, size)."""
    medians = part.groupby(x)["size"].median()
    medians = medians[(medians.index > 0) & np.isfinite(medians.index.to_numpy(float))]
    smallest = float(medians.iloc[0]) if len(medians) else float(part["size"].median())
    size = float(medians.max()) if len(medians) else smallest
    if size <= EQUAL * max(scale, 1e-300):
        return Trend(engine, group, metric, "equal", np.nan, np.nan, smallest, size)
    orders = []
    for _, draw in part.groupby("seed"):
        own = draw.groupby(x)["size"].median()
        own = own[(own > 0) & (own.index > 0) & np.isfinite(own.index.to_numpy(float))]
        orders.append(log_slope(own.index.to_numpy(float), own.to_numpy(float)))
    known = np.array(orders)[np.isfinite(orders)]
    if not len(known):
        return Trend(engine, group, metric, "single", np.nan, np.nan, smallest, size)
    order = float(known.mean())
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else np.nan
    return Trend(engine, group, metric, "constant" if abs(order) < FLAT else "order", order, error, smallest, size)


def thinned(pairs: pd.DataFrame, x: str, by: list[str]) -> tuple[pd.DataFrame, int]:
    """The pairs without those x where more than half of the draws are missing (of one engine, group and metric), and
    how many were dropped: medians over different draws would bend the curve."""
    groups = ["engine", *by, "metric"]
    here = pairs.groupby([*groups, x])["seed"].transform("nunique")
    most = here.groupby([pairs[key] for key in groups]).transform("max")
    kept = 2 * here >= most
    return pairs[kept], int((~kept).sum())


def log_slope(x: np.ndarray, y: np.ndarray) -> float:
    """Least-squares slope of log y over log x; NaN for fewer than two different x."""
    if len(np.unique(x)) < 2:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def headline(trends: list[Trend], reference: str, x: str, start: str) -> str:
    """How every engine comes to the reference, in one line. start: the parameter for the size of the initialization,
    where engines differ by it."""
    said = []
    for metric in dict.fromkeys(one.metric for one in trends):
        of_metric = [one for one in trends if one.metric == metric]
        words: dict[str, list[str]] = {}
        for engine in dict.fromkeys(one.engine for one in of_metric):
            mine = [one for one in of_metric if one.engine == engine]
            orders = sorted({f"{one.order:.2f}" for one in mine if one.kind == "order"})
            largest = f"{max(one.size for one in mine):.1g}"
            if orders:
                span = orders[0] if len(orders) == 1 else f"{orders[0]} to {orders[-1]}"
                text = f"of order {span} as {plain(x)} → 0"
            elif all(one.kind == "equal" for one in mine):
                text = f"equal to {largest}"
            elif all(one.kind in ("constant", "equal") for one in mine):
                text = f"a constant {largest} off" + (f" (start at {start})" if start else "")
            else:
                text = f"within {largest}"
            words.setdefault(text, []).append(engine)
        said.append(f"{metric}: " + ", ".join(f"{' and '.join(names)} {text}" for text, names in words.items()))
    return f"difference to {reference}, " + "; ".join(said)


def paragraphs(
    good: pd.DataFrame,
    trends: list[Trend],
    counts: tuple[int, int],
    x: str,
    reference: str,
    mixed: list[str],
    workload: Workload,
) -> list[str]:
    """What was compared, and what a constant difference is."""
    text = [
        f"{counted(counts[0], 'pair')}: rows of one seed and equal parameters, so the difference carries no "
        f"noise between draws. Only rows that are ok enter. The order is the slope of log |difference| over log "
        f"{plain(x)} in each draw, mean over draws ± one standard error."
    ]
    if counts[1]:
        text[0] += f" {counted(counts[1], 'pair')} at a {plain(x)} where fewer than half of the draws are ok left out."
    constant = [one for one in trends if one.kind == "constant"]
    if constant:
        listed = ", ".join(dict.fromkeys(f"{one.metric} of {one.engine}" for one in constant))
        reason = f"the engines differ in something else than {plain(x)}"
        if start := start_of(good, workload):
            scales = ", ".join(number(value) for value in sorted(good[start].unique()))
            reason += (
                f": training starts at {start} {scales}, while {reference} is the limit of {start} → 0"
                if workload.engines and reference in workload.engines.from_zero
                else f" (they start at {start} {scales})"
            )
        text.append(f"The same at every {plain(x)}, so no error of the step: {listed}. There {reason}.")
    if mixed:
        text.append(
            f"Rows of different {', '.join(map(plain, mixed))} are pooled in each median; name them under `by` to keep "
            f"them apart."
        )
    return text


def shown_row(one: Trend, by: list[str], x: str, workload: Workload, pairs: pd.DataFrame) -> dict[str, str]:
    """One line of the figure as ready text."""
    mine = (pairs["engine"] == one.engine) & (pairs["metric"] == one.metric)
    for key, value in zip(by, one.group, strict=True):
        mine &= pairs[key] == value
    words = {"equal": "equal to rounding", "constant": "constant", "single": "–"}
    order = words.get(one.kind) or with_error(one.order, one.error)
    group = {"of": settings(by, one.group, workload)} if by else {}
    return {
        "engine": one.engine,
        **group,
        "metric": one.metric,
        f"order in {plain(x)}": order,
        f"smallest {plain(x)}": number(pairs.loc[mine, x].min()),
        "median |difference| there": number(one.smallest, 2),
        "largest |difference|": number(pairs.loc[mine, "size"].max(), 2),
        "pairs": f"{int(mine.sum()):,}",
    }

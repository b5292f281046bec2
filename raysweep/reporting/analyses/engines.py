"""The engines analysis: compares each engine with a reference on the same draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.kinds.engines import EQUAL, FLAT, Matched, log_slope, paired, run, thinned
from raysweep.analyses.question import Question
from raysweep.numbers import number, with_error
from raysweep.phrases import counted
from raysweep.report.figures import engines as engines
from raysweep.report.figures.draw import draw
from raysweep.report.names import plain, settings
from raysweep.reporting.analyses import control_variate
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.space.analyses import metrics_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Difference:
    """How the difference between one engine and the reference depends on x.

    kind: equal (up to rounding), constant, order (a power of x), or single (no draw has a difference at two x).
    order, error: the power of x, estimated in each draw: its mean over draws and its standard error.
    smallest: the median difference at the smallest x.
    size: the largest median difference.
    """

    engine: str
    group: tuple[Any, ...]
    metric: str
    kind: str
    order: float
    error: float
    smallest: float
    size: float


@dataclass(frozen=True, eq=False)
class Started(Matched):
    """The same with how training starts.

    start: the parameter for the size of the initialization; empty if there is none or if it is 0 in every row.
    reference_from_zero: whether the reference is the limit for an initialization of size 0.
    """

    start: str
    reference_from_zero: bool


def engines_section(asked: Question) -> Section:
    """Figures and tables of one `engines` entry.

    By default it has all metrics with a closed form; if there are none, all metrics.
    """
    matched = matched_by(asked)
    reference, x, by = matched.reference, matched.x, matched.by
    pairs = paired(matched)
    if not len(pairs):
        return Section("Engines on the same draws", f"no ok rows to pair with engine {reference}")
    pairs, thin = thinned(pairs.assign(size=pairs["difference"].abs()), x, by)
    sizes = pairs.groupby(["engine", *by, x, "metric"], sort=True)["size"]
    quartiles = {"quarter": lambda d: d.quantile(0.25), "three_quarters": lambda d: d.quantile(0.75)}
    table = sizes.agg(median="median", **quartiles, largest="max", rows="count").reset_index()
    differences = [
        difference_of(part, x, engine, tuple(group), metric, float(matched.rows[metric].abs().median()))
        for (engine, *group, metric), part in pairs.groupby(["engine", *by, "metric"], sort=True)
    ]
    known = matched.rows[matched.rows["engine"] == reference]
    control = control_variate.by_reference(pairs, known, matched.keys(), asked.workload, matched.reference_from_zero)
    finding = run(asked)
    (plot,) = finding.plots()
    figure, caption = draw(plot, finding, asked.workload)
    first, *others = metric_words(differences, matched)
    return Section(
        f"Engines against {reference} on the same draws",
        f"difference to {reference}, {first}",
        [
            *paragraphs(matched, differences, pairs, thin),
            *([control_variate.sentence(control, reference)] if len(control) else []),
        ],
        [Drawing(asked.name, caption, figure)],
        [shown_row(one, matched, pairs) for one in differences],
        {f"{asked.name}_differences": table, **({f"{asked.name}_means": control} if len(control) else {})},
        detail="; ".join(others),
    )


def matched_by(asked: Question) -> Started:
    """Select the rows, the reference and the axis to compare, from the entry or else from the workload's defaults."""
    options, workload, engines = asked.options, asked.workload, asked.workload.engines
    assert engines is not None  # the check of the space has made sure
    reference = options.get("reference", engines.reference)
    x, by = options.get("x", workload.searched("optimum")), asked.by
    used = (*by, x, engines.parameter)
    by += [name for name in asked.design.between() if name not in used and asked.rows[name].nunique() > 1]
    named = [metric.name for metric in workload.metrics]
    metrics = metrics_of(options) or [name for name in named if f"{name}_theory" in asked.rows.columns] or named
    rows = asked.rows[asked.rows["status"] == "ok"].rename(columns={engines.parameter: "engine"})
    start = engines.start if engines.start in rows.columns and bool((rows[engines.start] > 0).any()) else ""
    return Started(rows, workload, reference, x, by, metrics, start, reference in engines.from_zero)


def difference_of(
    part: pd.DataFrame, x: str, engine: str, group: tuple[Any, ...], metric: str, scale: float
) -> Difference:
    """Estimate how the differences in `part` (columns x, seed, size) depend on x."""
    medians = part.groupby(x)["size"].median()
    medians = medians[(medians.index > 0) & np.isfinite(medians.index.to_numpy(float))]
    smallest = float(medians.iloc[0]) if len(medians) else float(part["size"].median())
    size = float(medians.max()) if len(medians) else smallest
    if size <= EQUAL * max(scale, 1e-300):
        return Difference(engine, group, metric, "equal", np.nan, np.nan, smallest, size)
    orders = []
    for _, each in part.groupby("seed"):
        own = each.groupby(x)["size"].median()
        own = own[(own > 0) & (own.index > 0) & np.isfinite(own.index.to_numpy(float))]
        orders.append(log_slope(own.index.to_numpy(float), own.to_numpy(float)))
    known = np.array(orders)[np.isfinite(orders)]
    if not len(known):
        return Difference(engine, group, metric, "single", np.nan, np.nan, smallest, size)
    order = float(known.mean())
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else np.nan
    return Difference(engine, group, metric, "constant" if abs(order) < FLAT else "order", order, error, smallest, size)


def metric_words(differences: Sequence[Difference], matched: Started) -> list[str]:
    """One text per metric: how each engine compares with the reference."""
    start = f" (start at {matched.start})" if matched.start and matched.reference_from_zero else ""
    said = []
    for metric in dict.fromkeys(one.metric for one in differences):
        of_metric = [one for one in differences if one.metric == metric]
        words: dict[str, list[str]] = {}
        for engine in dict.fromkeys(one.engine for one in of_metric):
            mine = [one for one in of_metric if one.engine == engine]
            orders = sorted({f"{one.order:.2f}" for one in mine if one.kind == "order"})
            kinds, largest = {one.kind for one in mine}, f"{max(one.size for one in mine):.1g}"
            if orders:
                span = orders[0] if len(orders) == 1 else f"{orders[0]} to {orders[-1]}"
                text = f"of order {span} as {plain(matched.x)} → 0"
            elif kinds == {"equal"}:
                text = f"equal to {largest}"
            elif kinds <= {"constant", "equal"}:
                text = f"a constant {largest} off{start}"
            else:
                text = f"within {largest}"
            words.setdefault(text, []).append(engine)
        said.append(f"{metric}: " + ", ".join(f"{' and '.join(names)} {text}" for text, names in words.items()))
    return said


def paragraphs(matched: Started, differences: Sequence[Difference], pairs: pd.DataFrame, thin: int) -> list[str]:
    """The paragraphs on what was compared and what a constant difference means. thin: how many pairs were left out."""
    x, reference, start = plain(matched.x), matched.reference, matched.start
    how = (
        f"{counted(len(pairs), 'pair')}: rows of one seed and equal parameters, so the difference carries no noise "
        f"between draws. Only rows that are ok enter. The order is the slope of log |difference| over log {x} in each "
        "draw, mean over draws ± one standard error."
    )
    if thin:
        how += f" {counted(thin, 'pair')} at a {x} where fewer than half of the draws are ok left out."
    text = [how]
    constant = ", ".join(
        dict.fromkeys(f"{one.metric} of {one.engine}" for one in differences if one.kind == "constant")
    )
    if constant:
        reason = f"the engines differ in something else than {x}"
        if start:
            scales = ", ".join(number(value) for value in sorted(matched.rows[start].unique()))
            reason += (
                f": training starts at {start} {scales}, while {reference} is the limit of {start} → 0"
                if matched.reference_from_zero
                else f" (they start at {start} {scales})"
            )
        text.append(f"The same at every {x}, so no error of the step: {constant}. There {reason}.")
    varying = (name for name in matched.others(pairs) if pairs[name].nunique(dropna=False) > 1)
    if mixed := ", ".join(plain(name) for name in varying if name not in matched.by):
        text.append(f"Rows of different {mixed} are pooled in each median; name them under `by` to keep them apart.")
    if apart := ", ".join(plain(name) for name in matched.others(matched.rows) if not matched.shared(name)):
        text.append(f"{reference} has no row at the others' values of {apart}: pairs differ in that too.")
    return text


def shown_row(one: Difference, matched: Started, pairs: pd.DataFrame) -> dict[str, str]:
    """One line of the figure as a row of formatted text."""
    mine = (pairs["engine"] == one.engine) & (pairs["metric"] == one.metric)
    for key, value in zip(matched.by, one.group, strict=True):
        mine &= pairs[key] == value
    words = {"equal": "equal to rounding", "constant": "constant", "single": "–"}
    return {
        "engine": one.engine,
        **({"of": settings(matched.by, one.group, matched.workload)} if matched.by else {}),
        "metric": one.metric,
        f"order in {plain(matched.x)}": words.get(one.kind) or with_error(one.order, one.error),
        f"smallest {plain(matched.x)}": number(pairs.loc[mine, matched.x].min()),
        "median |difference| there": number(one.smallest, 2),
        "largest |difference|": number(pairs.loc[mine, "size"].max(), 2),
        "pairs": f"{int(mine.sum()):,}",
    }

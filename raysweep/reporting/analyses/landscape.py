"""The landscape analysis: values that a stage logged on a grid, such as the loss on a plane through a net's weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raysweep.analyses.kinds.landscape import SETTINGS, Surfaces, above, middle, of_draws, shared_seed, surfaces_of
from raysweep.analyses.question import Question
from raysweep.analyses.rows import groups, spread
from raysweep.errors import unknown
from raysweep.fits.statistics import mean_band
from raysweep.numbers import interval, number
from raysweep.phrases import counted
from raysweep.report.figures.landscape import landscape_figure
from raysweep.report.names import plain, settings
from raysweep.reporting.analyses.section import Drawing, Section
from raysweep.space.analyses import metrics_of

if TYPE_CHECKING:
    pass


def landscape_section(asked: Question) -> Section:
    """Figure and table of one `landscape` entry. InputError if the stage logged other metrics than those asked for."""
    import pandas as pd

    stage = asked.options.get("stage", asked.workload.chain.names[0])
    metrics, x, y = metrics_of(asked.options), asked.x, str(asked.options["y"])
    title = f"Landscape: {' and '.join(metrics)} over {plain(x)} and {plain(y)}"
    every = asked.curves() if asked.curves else asked.rows.iloc[:0].assign(stage="")
    points = every[every["stage"] == stage]
    logged = [name for name in points.columns if points[name].notna().any()]
    if points.empty or not any(name in logged for name in (x, y, *metrics)):
        return Section(title, f"{stage} logged no landscape in these rows")
    for name, key in [(x, "x"), (y, "y"), *((metric, "metrics") for metric in metrics)]:
        if name not in logged:
            raise unknown(f"analysis.landscape.{key}", f"metric that {stage} logged", name, logged)
    place = asked.workload.chain.names.index(stage)
    keys = [name for name in asked.keys("") if name in asked.workload.chain.known[place]]
    good = asked.rows[asked.rows["status"] == "ok"]
    identity = ["sweep", "cell", "seed"]
    table = points[[*identity, x, y, *metrics]].merge(good[[*identity, *keys]], on=identity)
    found = [
        surfaces_of(dict(zip(keys, values, strict=True)), rows, metric, x, y)
        for values, rows in groups(table, keys)
        for metric in metrics
    ]
    found = [one for one in found if one.draws]
    if not found:
        return Section(title, f"no row with a landscape of {stage} is ok")
    seed = shared_seed(found)
    shown = spread(list(dict.fromkeys(values_of(one) for one in found)), SETTINGS)
    surfaces = [one for one in found if values_of(one) in shown and seed in one.draws]
    caption = (
        f"{' and '.join(metrics)} of {stage} in draw {seed}, on one scale: + is the middle of the plane, × the lowest "
        "point on the grid."
    )
    figure, told = landscape_figure(surfaces, metrics, x, y, seed, asked.workload)
    lines = [line(one, keys, asked) for one in found]
    best, worst = (pick(found, key=lambda one: float(np.mean(above(one)))) for pick in (min, max))
    told_of, detail = headline(best, worst, varying(found, keys), asked)
    return Section(
        title,
        told_of,
        [
            f"The figure shows a single draw, {seed}: other draws have other directions. The table has the means over "
            f"all ok draws of what the values are in the middle, and of how much higher they are on average over the "
            f"grid; {asked.percent} intervals are Student's t over draws."
        ],
        [Drawing(asked.name, f"{caption} {told}".strip(), figure)],
        lines,
        {f"{asked.name}_values": pd.concat([of_draws(one, x, y) for one in found], ignore_index=True)},
        detail=detail,
    )


def with_interval(values: np.ndarray, level: float) -> str:
    """The mean over draws with Student's interval."""
    if len(values) < 2:
        return f"{number(values.mean())} (a single draw)"
    mean, low, high = (float(each[0]) for each in mean_band(values[:, None], level))
    return interval(mean, low, high)


def headline(best: Surfaces, worst: Surfaces, keys: dict[str, int], asked: Question) -> tuple[str, str]:
    """(where a metric rises least and most above its middle, by how much more in the draws of both), in words."""
    low, high = (with_interval(above(one), asked.level) for one in (best, worst))
    if best is worst:
        return f"{best.metric} is on average {low} above its middle", ""
    first, second = said(best, keys, asked), said(worst, keys, asked)
    if best.metric != worst.metric:
        text = f"{best.metric} rises least, with {first}, and {worst.metric} most, with {second}"
        return text, f"{low} and {high} above the middle on average"
    values = dict(zip(worst.draws, above(worst), strict=True))
    pairs = [values[seed] - value for seed, value in zip(best.draws, above(best), strict=True) if seed in values]
    text = f"{low} against {high} above the middle on average"
    if len(pairs) < 2:
        return f"{best.metric} rises least with {first}, most with {second}", text
    mean, least, most = (float(each[0]) for each in mean_band(np.array(pairs)[:, None], asked.level))
    verdict = "less with {} than with {}" if least > 0 else "not clearly less with {} than with {}"
    difference = f"difference {interval(mean, least, most)} ({asked.percent}, same draws)"
    return f"{best.metric} rises {verdict.format(first, second)}", f"{text}, {difference}"


def said(one: Surfaces, keys: dict[str, int], asked: Question) -> str:
    """A setting in words. keys: with their places among its values."""
    return settings(keys, [values_of(one)[place] for place in keys.values()], asked.workload) or "the one setting"


def varying(found: list[Surfaces], keys: list[str]) -> dict[str, int]:
    """The keys that tell the settings apart, with their places among the values of a setting."""
    return {key: place for place, key in enumerate(keys) if len({values_of(one)[place] for one in found}) > 1}


def line(one: Surfaces, keys: list[str], asked: Question) -> dict[str, str]:
    """One metric in one setting as a row of formatted text."""
    return {
        **{plain(key): number(value) for key, value in zip(keys, values_of(one), strict=True)},
        "metric": one.metric,
        f"in the middle [{asked.percent}]": with_interval(middle(one), asked.level),
        f"above it on average [{asked.percent}]": with_interval(above(one), asked.level),
        "grid": f"{len(one.x)} x {len(one.y)}",
        "draws": counted(len(one.draws), "draw"),
    }


def values_of(one: Surfaces) -> tuple[Any, ...]:
    """The values of the keys of a setting."""
    return tuple(one.where.values())
